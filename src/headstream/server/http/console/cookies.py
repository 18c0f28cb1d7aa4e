"""The console's login: a cookie that scripts cannot read contains the access token.

    login with the header                  -> Set-Cookie: HttpOnly, SameSite=Strict; the body contains no token
    request with the header and the cookie -> the token
    request without the header             -> no token, even if it has cookies

A page of another origin cannot send the header unless CORS allows it, and browsers report cross-origin requests in
`sec-fetch-site`. All ports of a host share cookies, so the cookie's name contains the port.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

from headstream.core.codec.json_text import decode_json
from headstream.server.http.replies import Reply, json_reply

CONSOLE_HEADER: Final = "x-headstream-console"
"""Header that the console sends with every request."""

_SAME_SITES: Final = frozenset({"", "same-origin", "none"})


class ConsoleCookie:
    """The cookie of one server.

    Args:
        is_secure: Whether the cookie is sent only over TLS.
    """

    def __init__(self, port: int, *, is_secure: bool) -> None:
        self._name = f"headstream_console_{port}"
        self._attributes = "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")

    @staticmethod
    def is_from_console(headers: Mapping[str, str]) -> bool:
        """Return whether a request comes from the console's page."""
        return CONSOLE_HEADER in headers and headers.get("sec-fetch-site", "") in _SAME_SITES

    def read(self, headers: Mapping[str, str]) -> str | None:
        """Return the token of a request, or None; header names must be in lower case."""
        if not self.is_from_console(headers):
            return None
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._name)
        except CookieError:
            return None
        return None if found is None else found.value or None

    def issue(self, token: str, lifetime_s: int) -> dict[str, str]:
        """Return the headers that set a cookie with a token for `lifetime_s` seconds."""
        return {"Set-Cookie": f"{self._name}={token}; Max-Age={lifetime_s}; {self._attributes}", "Cache-Control": "no-store"}

    def remove(self) -> dict[str, str]:
        """Return the headers that remove the cookie."""
        return {"Set-Cookie": f"{self._name}=; Max-Age=0; {self._attributes}"}

    def move_token(self, reply: Reply, lifetime_s: int) -> Reply:
        """Return a login's reply with the token moved from the body to a cookie that is valid for `lifetime_s` seconds."""
        document = decode_json(reply.body)
        token = document["access_token"].pop("token")
        return json_reply(document)._replace(headers=self.issue(token, lifetime_s))
