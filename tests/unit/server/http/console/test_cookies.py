"""Unit tests of headstream.server.http.console.cookies."""

from __future__ import annotations

from headstream.server.http.console.cookies import ConsoleCookie
from tests.support.server.http_servers import Http
from tests.unit.server.http.console.test_console import FROM_CONSOLE, LOGIN, cookie_of


def test_cookie_counts_only_with_the_header_and_not_from_another_site(http: Http) -> None:
    cookie = {"Cookie": cookie_of(http.call("POST", "/users/login", LOGIN, token=None, headers=FROM_CONSOLE).headers)}
    assert http.call("GET", "/streams", token=None, headers=cookie).status == 401
    for site in ("cross-site", "same-site"):
        foreign = {**cookie, **FROM_CONSOLE, "Sec-Fetch-Site": site}
        assert http.call("GET", "/streams", token=None, headers=foreign).status == 403
        assert http.call("GET", "/streams", token=None, headers={**foreign, "Sec-Fetch-Mode": "navigate"}).status == 401
    for site in ("same-origin", "none"):
        assert http.call("GET", "/streams", token=None, headers={**cookie, **FROM_CONSOLE, "Sec-Fetch-Site": site}).status == 200


def test_cookie_is_named_by_the_port_and_secure_over_tls() -> None:
    issued = ConsoleCookie(3000, is_secure=True).issue("abc", 60)["Set-Cookie"]
    assert issued.startswith("headstream_console_3000=abc;")
    assert issued.endswith("; Secure")
    headers = {**FROM_CONSOLE, "cookie": "headstream_console_3001=other; headstream_console_3000=abc"}
    assert ConsoleCookie(3000, is_secure=True).read(headers) == "abc"
    assert ConsoleCookie(3002, is_secure=True).read(headers) is None
