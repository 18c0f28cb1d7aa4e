"""Console: serves the files of the console over HTTP, with a login token that scripts cannot read."""

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
    """Serves the console together with the routes of a server; if the console is disabled, all methods do nothing."""

    def __init__(self, tokens: AccessTokens, *, is_served: bool) -> None:
        self._tokens = tokens
        self._files = ConsoleFiles() if is_served else None
        self._cookie: ConsoleCookie | None = None

    def bind(self, port: int, *, is_secure: bool) -> None:
        """Set the port on which the server listens, and whether the server uses TLS."""
        if self._files is not None:
            self._cookie = ConsoleCookie(port, is_secure=is_secure)

    def find(self, method: str, path: str, accepted: str) -> Reply | None:
        """Return a reply with a file of the console, or None; see ConsoleFiles.find()."""
        return None if self._files is None else self._files.find(method, path, accepted)

    def read_token(self, headers: Mapping[str, str]) -> str | None:
        """Return the access token in the cookie of a request from the console, or None."""
        return None if self._cookie is None else self._cookie.read(headers)

    def with_cookie(self, headers: Mapping[str, str], code: Code, reply: Reply) -> Reply:
        """Return a command's reply; set the cookie after a console login, and remove the cookie after a logout."""
        cookie = self._cookie
        if cookie is None or not cookie.is_from_console(headers) or reply.http_status >= 300:
            return reply
        if code in _LOGINS:
            return cookie.move_token(reply, self._tokens.expiry_s)
        return reply._replace(headers={**reply.headers, **cookie.remove()}) if code == Code.LOGOUT else reply

    def renewed(self, headers: Mapping[str, str], path: str, claims: Claims, reply: Reply) -> Reply:
        """Return the reply to GET /console/session; after half of the token's lifetime, the reply sets a new token."""
        cookie = self._cookie
        if path != _SESSION_PATH or cookie is None or cookie.read(headers) is None or reply.http_status != 200:
            return reply
        if time.time() < (claims.issued_s + claims.expires_s) / 2:
            return reply
        token = self._tokens.issue(claims.user_id, claims.generation).token
        return reply._replace(headers={**reply.headers, **cookie.issue(token, self._tokens.expiry_s)})
