"""Azurite with the parameter `startFrom` of a list of blobs, by which deltalake finds new commits and which Azurite ignores.

python -m tests.support.replicate.azure_api PORT SERVER_PORT SERVER ARGUMENTS...
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import unescape

_ITEM = re.compile(rb"<Blob>.*?</Blob>|<BlobPrefix>.*?</BlobPrefix>", re.DOTALL)
_NAME = re.compile(rb"<Name>(.*?)</Name>", re.DOTALL)
_OF_CONNECTION = ("connection", "transfer-encoding", "content-length", "keep-alive")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    inner_port = 0
    _kept = threading.local()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""

    def _pass_on(self) -> None:
        """Send a request to the server, and its answer back; blobs before `startFrom` are left out of a list."""
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if not hasattr(self._kept, "connection"):
            self._kept.connection = http.client.HTTPConnection("127.0.0.1", self.inner_port)
        connection = self._kept.connection
        for is_last in (False, True):
            connection.request(self.command, self.path, body or None, dict(self.headers.items()))
            try:
                answer = connection.getresponse()
                break
            except ConnectionError:  # the server ends connections that were idle for 5 s
                connection.close()
                if is_last:
                    raise
        content = answer.read()
        first = parse_qs(urlsplit(self.path).query).get("startFrom", [""])[0]
        if first:
            content = _ITEM.sub(lambda found: found[0] if _name_of(found[0]) >= first else b"", content)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _OF_CONNECTION:
                self.send_header(name, value)
        length = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _pass_on  # noqa: N815


def _name_of(item: bytes) -> str:
    found = _NAME.search(item)
    assert found is not None
    return unescape(found[1].decode())


def main() -> None:
    """Serve until killed."""
    port, _Handler.inner_port = int(sys.argv[1]), int(sys.argv[2])
    subprocess.Popen(sys.argv[3:])
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    main()
