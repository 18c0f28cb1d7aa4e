"""Google's XML API, which deltalake and obstore use, in front of fake-gcs-server, which has the JSON API, Spark's.

Conditions, generations and objects are the server's; here requests are only written in its other form, or passed on.

    python -m tests.support.replicate.google_api PORT SERVER_PORT SERVER ARGUMENTS...
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

_JSON_API = ("/storage/", "/upload/", "/download/", "/batch/")
_OF_CONNECTION = ("connection", "transfer-encoding", "content-length", "keep-alive")
_PASSED_ON = ("ETag", "X-Goog-Generation", "Last-Modified", "Content-Range", "Content-Type")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    inner_port = 0
    _kept = threading.local()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""

    def parse_request(self) -> bool:
        """Let requests of the JSON API, Spark's, pass as they are."""
        is_valid = super().parse_request()
        if is_valid and self.path.startswith(_JSON_API):
            self.command = "PASS"
        return is_valid

    def do_PASS(self) -> None:
        """Pass on a request of the JSON API, and its answer."""
        method = self.requestline.split()[0]
        content = self._content()
        status, found, body = self._ask(method, self.path, content or None, _of_message(self.headers))
        self._answer(status, _of_message(found), body)

    def _content(self) -> bytes:
        if self.headers["Transfer-Encoding"] != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def do_PUT(self) -> None:
        """Create or overwrite an object, if its generation is the expected one."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        bucket, name = self._object()
        query = {"uploadType": "media", "name": name}
        if (expected := self.headers["x-goog-if-generation-match"]) is not None:
            query["ifGenerationMatch"] = expected
        status, _, body = self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(query)}", content)
        if status != 200:
            self._answer(status, {}, body)
            return
        found = json.loads(body)
        self._answer(200, {"ETag": f'"{found["etag"]}"', "X-Goog-Generation": found["generation"]}, b"")

    def do_GET(self) -> None:
        """Send an object, or list a bucket."""
        parts = urlsplit(self.path)
        if parts.path.count("/") == 1:
            self._list(parts.path[1:], {name: values[0] for name, values in parse_qs(parts.query).items()})
            return
        bucket, name = self._object()
        asked = {"Range": self.headers["Range"]} if self.headers["Range"] else {}
        status, headers, body = self._ask(self.command, f"/{bucket}/{quote(name)}", None, asked)
        self._answer(status, {key: headers[key] for key in _PASSED_ON if headers[key]}, body, headers["Content-Length"])

    def do_HEAD(self) -> None:
        """Send what an object's GET would say of it."""
        self.do_GET()

    def do_DELETE(self) -> None:
        """Delete an object."""
        bucket, name = self._object()
        status, _, body = self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", None)
        self._answer(204 if status == 200 else status, {}, body if status >= 300 else b"")

    def _list(self, bucket: str, asked: dict[str, str]) -> None:
        query = {"prefix": asked.get("prefix", ""), "delimiter": asked.get("delimiter", "")}
        query["maxResults"] = asked.get("max-keys", "1000")
        if after := asked.get("start-after"):
            query["startOffset"] = after
        if token := asked.get("continuation-token"):
            query["pageToken"] = token
        status, _, body = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(query)}", None)
        if status != 200:
            self._answer(status, {}, body)
            return
        found = json.loads(body)
        lines = [
            f"<Contents><Key>{escape(item['name'])}</Key><LastModified>{item['updated']}</LastModified>"
            f"<ETag>{item['etag']}</ETag><Size>{item['size']}</Size><Generation>{item['generation']}</Generation></Contents>"
            for item in found.get("items", [])
            if item["name"] != after
        ]
        lines += [f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>" for prefix in found.get("prefixes", [])]
        token = found.get("nextPageToken", "")
        more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
        text = f"<ListBucketResult>{''.join(lines)}<IsTruncated>{str(bool(token)).lower()}</IsTruncated>{more}</ListBucketResult>"
        self._answer(200, {"Content-Type": "application/xml"}, text.encode())

    def _object(self) -> tuple[str, str]:
        bucket, _, name = urlsplit(self.path).path[1:].partition("/")
        return bucket, unquote(name)

    def _ask(self, method: str, target: str, body: bytes | None, headers: dict[str, str] | None = None) -> tuple[int, Any, bytes]:
        if not hasattr(self._kept, "connection"):
            self._kept.connection = http.client.HTTPConnection("127.0.0.1", self.inner_port)
        connection = self._kept.connection
        connection.request(method, target, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def _answer(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _of_message(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_CONNECTION}


def main() -> None:
    """Serve until killed."""
    port, _Handler.inner_port = int(sys.argv[1]), int(sys.argv[2])
    subprocess.Popen(sys.argv[3:])
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    main()
