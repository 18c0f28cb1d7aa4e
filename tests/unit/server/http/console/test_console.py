"""The console's files and its login: what is served with which headers, and when a cookie counts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import pytest

from headstream.server.config.config import load_config
from headstream.server.config.http_settings import HttpSettings, TokenSettings
from tests.support.server.http_servers import SECRET, Http, serving

FROM_CONSOLE = {"x-headstream-console": "1"}
LOGIN = {"username": "iggy", "password": "iggy"}


def cookie_of(headers: Mapping[str, str]) -> str:
    return headers["Set-Cookie"].partition(";")[0]


def test_console_is_one_page_whose_scripts_and_styles_are_its_own(http: Http) -> None:
    page = http.call("GET", "/console/", token=None)
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    text = page.body.decode()
    places = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(places) == 3
    for place in places:
        assert place.startswith("./")
        assert http.call("GET", f"/console/{place[2:]}", token=None).status == 200
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\bon\w+=", text)


def test_console_files_allow_nothing_from_elsewhere(http: Http) -> None:
    headers = http.call("GET", "/console/", token=None).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert policy["frame-ancestors"] == "'none'"
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")


def test_console_moves_to_its_folder_and_knows_no_other_file(http: Http) -> None:
    moved = http.call("GET", "/console", token=None)
    assert (moved.status, moved.headers["Location"]) == (308, "console/")
    for path in ("/console/missing.js", "/console/../pages.py", "/console/assets/", "/console/%2e%2e/files.py"):
        assert http.call("GET", path, token=None).status == 401
        assert http.call("GET", path).status == 404


def test_login_of_the_console_puts_the_token_into_a_cookie_only(http: Http) -> None:
    answer = http.call("POST", "/users/login", LOGIN, token=None, headers=FROM_CONSOLE)
    assert answer.status == 200
    assert "token" not in answer.json["access_token"]
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    headers = {**FROM_CONSOLE, "Cookie": cookie_of(answer.headers)}
    assert http.call("GET", "/console/session", token=None, headers=headers).json["user"]["username"] == "iggy"
    assert http.call("GET", "/streams", token=None, headers=headers).status == 200


def test_logout_of_the_console_removes_the_cookie_and_revokes_the_token(http: Http) -> None:
    cookie = cookie_of(http.call("POST", "/users/login", LOGIN, token=None, headers=FROM_CONSOLE).headers)
    headers = {**FROM_CONSOLE, "Cookie": cookie}
    left = http.call("DELETE", "/users/logout", token=None, headers=headers)
    assert left.status == 204
    assert "Max-Age=0" in left.headers["Set-Cookie"]
    assert http.call("GET", "/streams", token=None, headers=headers).status == 401


def test_login_with_a_personal_access_token_sets_the_cookie_too(http: Http) -> None:
    token = http.call("POST", "/personal-access-tokens", {"name": "console", "expiry": 0}).json["token"]
    answer = http.call("POST", "/personal-access-tokens/login", {"token": token}, token=None, headers=FROM_CONSOLE)
    assert (answer.status, "Set-Cookie" in answer.headers) == (200, True)


def test_a_refused_login_sets_no_cookie_and_other_clients_get_their_token(http: Http) -> None:
    wrong = http.call("POST", "/users/login", {**LOGIN, "password": "wrong"}, token=None, headers=FROM_CONSOLE)
    assert (wrong.status >= 400, "Set-Cookie" in wrong.headers) == (True, False)
    other = http.log_in("iggy", "iggy")
    assert other.json["access_token"]["token"]
    assert "Set-Cookie" not in other.headers


def test_session_is_renewed_in_the_second_half_of_a_token_only() -> None:
    with serving(tokens=TokenSettings(secret=SECRET, expiry_s=3600)) as http:
        cookie = cookie_of(http.call("POST", "/users/login", LOGIN, token=None, headers=FROM_CONSOLE).headers)
        headers = {**FROM_CONSOLE, "Cookie": cookie}
        assert "Set-Cookie" not in http.call("GET", "/console/session", token=None, headers=headers).headers
    with serving(tokens=TokenSettings(secret=SECRET, expiry_s=1, clock_skew_s=600)) as http:
        cookie = cookie_of(http.call("POST", "/users/login", LOGIN, token=None, headers=FROM_CONSOLE).headers)
        headers = {**FROM_CONSOLE, "Cookie": cookie}
        give_up_s = time.monotonic() + 120
        renewed = http.call("GET", "/console/session", token=None, headers=headers)
        while "Set-Cookie" not in renewed.headers and time.monotonic() < give_up_s:  # until the token is half a second old
            renewed = http.call("GET", "/console/session", token=None, headers=headers)
        assert cookie_of(renewed.headers) != cookie


def test_a_server_without_the_console_serves_no_page_and_ignores_cookies() -> None:
    with serving(HttpSettings(console=False)) as http:
        assert http.call("GET", "/console/").status == 404
        answer = http.call("POST", "/users/login", LOGIN, token=None, headers=FROM_CONSOLE)
        assert "Set-Cookie" not in answer.headers
        assert answer.json["access_token"]["token"]


@pytest.mark.parametrize(
    ("address", "setting", "expected"),
    [
        ("127.0.0.1:3000", "auto", True),
        ("[::1]:3000", "auto", True),
        ("0.0.0.0:3000", "auto", False),
        ("0.0.0.0:3000", True, True),
        ("127.0.0.1:3000", False, False),
    ],
)
def test_console_is_on_by_default_where_only_this_machine_reaches_it(address: str, setting: object, expected: bool) -> None:
    config = load_config(environ={}, options={"http.address": address, "headstream.console": setting})
    assert config.http.console is expected
