"""Console: serves the console's page over HTTP: its files, and a login that scripts cannot read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from headstream.core.wire.codes import Code
from headstream.server.http.console.cookies import ConsoleCookie
from headstream.server.http.console.files import ConsoleFiles
from headstream.server.http.replies import Reply
from headstream.server.http.tokens import AccessTokens, Claims

_SESSION_PATH: Final = "/console/session"
_LOGINS: Final = (Code.LOGIN, Code.LOGIN_WITH_TOKEN)


class Console:
    """Serves the console beside the routes of a server; if it is not served, every method does nothing."""

    def __init__(self, tokens: AccessTokens, *, is_served: bool) -> None:
        self._tokens = tokens
        self._files = ConsoleFiles() if is_served else None
        self._cookie: ConsoleCookie | None = None

    def bind(self, port: int, *, is_secure: bool) -> None:
        """Take the port that the server listens on, and whether it uses TLS."""
        if self._files is not None:
            self._cookie = ConsoleCookie(port, is_secure=is_secure)

    def find(self, method: str, path: str, accepted: str) -> Reply | None:
        """Return a file of the console, or None; see ConsoleFiles.find()."""
        return None if self._files is None else self._files.find(method, path, accepted)

    def read_token(self, headers: Mapping[str, str]) -> str | None:
        """Return the access token in the cookie of one of the console's own requests, or None."""
        return None if self._cookie is None else self._cookie.read(headers)

    def with_cookie(self, headers: Mapping[str, str], code: Code, reply: Reply) -> Reply:
        """Return the reply to a command: after a login of the console the cookie has the token, after a logout none."""
        cookie = self._cookie
        if cookie is None or not cookie.is_from_console(headers) or reply.http_status >= 300:
            return reply
        if code in _LOGINS:
            return cookie.move_token(reply, self._tokens.expiry_s)
        return reply._replace(headers={**reply.headers, **cookie.remove()}) if code == Code.LOGOUT else reply

    def renewed(self, headers: Mapping[str, str], path: str, claims: Claims, reply: Reply) -> Reply:
        """Return the reply to GET /console/session; after half of the token's validity, with a new token."""
        cookie = self._cookie
        if path != _SESSION_PATH or cookie is None or cookie.read(headers) is None or reply.http_status != 200:
            return reply
        if time.time() < (claims.issued_s + claims.expires_s) / 2:
            return reply
        token = self._tokens.issue(claims.user_id, claims.generation).token
        return reply._replace(headers={**reply.headers, **cookie.issue(token, self._tokens.expiry_s)})
