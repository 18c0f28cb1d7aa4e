"""ConsoleFiles: the console's files, with headers that forbid content from other origins.

/console          -> /console/
/console/         bundle/index.html, not cached by browsers
/console/assets/  bundle/assets/*, whose names change with their content
"""

from __future__ import annotations

import functools
import gzip
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from headstream.server.http.replies import Reply

CONSOLE_PATH: Final = "/console"

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class ConsoleFiles:
    """Answers requests for the console's files from memory; thread-safe."""

    @functools.cached_property
    def _files(self) -> dict[str, tuple[bytes, bytes]]:
        """Path -> content, plain and gzipped."""
        found = {}
        bundle = resources.files("headstream.server.http.console") / "bundle"
        for folder, prefix in ((bundle, ""), (bundle / "assets", "assets/")):
            for file in folder.iterdir() if folder.is_dir() else ():
                if file.is_file() and PurePosixPath(file.name).suffix in _TYPES:
                    data = file.read_bytes()
                    found[prefix + file.name] = (data, gzip.compress(data, 6, mtime=0))
        return found

    def find(self, method: str, path: str, accepted: str = "") -> Reply | None:
        """Return a reply with a file; None if the path does not belong to the console.

        Args:
            path: Percent-encoded, without the query.
        """
        if method != "GET" or not (path == CONSOLE_PATH or path.startswith(CONSOLE_PATH + "/")):
            return None
        if path == CONSOLE_PATH:
            return Reply(308, headers={"Location": "console/", **_SECURITY})
        name = path.removeprefix(CONSOLE_PATH + "/") or "index.html"
        file = self._files.get(name)
        if file is None:
            return None
        is_gzipped = "gzip" in accepted
        headers = {
            **_SECURITY,
            "Cache-Control": "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache",
            "Vary": "accept-encoding",
        }
        if is_gzipped:
            headers["Content-Encoding"] = "gzip"
        return Reply(200, file[is_gzipped], _TYPES[PurePosixPath(name).suffix], headers)
