"""Hosts: requests that name another server, and requests of pages of other origins, are refused before anything else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headstream.errors import InvalidInputError
from headstream.server.config.http_settings import CorsSettings, HttpSettings
from headstream.server.http.hosts import Hosts
from tests.support.server.http_servers import Answer, Http, serving

LOGIN = {"username": "iggy", "password": "iggy"}
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def configured() -> Iterator[Http]:
    """A server that a proxy makes known as shop.example, and whose API pages of PAGE may use."""
    cors = CorsSettings(allowed_origins=(PAGE,), allowed_headers=("authorization", "content-type"))
    with serving(HttpSettings(allowed_hosts=("shop.example",), cors=cors)) as served:
        yield served


def raw(http: Http, head: str) -> int:
    """Send a head as it stands, and return the status."""
    with socket.create_connection((http.host, http.port), timeout=30) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n")
        return int(connection.recv(4096).split(b" ", 2)[1])


def log_in(http: Http, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.call("POST", "/users/login", LOGIN, token=None, headers=named)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:3000", "127.8.8.8:1", "[::1]", "[::1]:3000", "[::ffff:127.0.0.1]:80", "192.0.2.7:3000",
        "[fe80::1%eth0]:3000", "localhost", "localhost:3000", "LocalHost:3000", "localhost.", "localhost.:3000",
        "shop.localhost:3000",
    ],
)  # fmt: skip
def test_a_loopback_server_answers_when_the_host_is_an_address_or_localhost(http: Http, host: str) -> None:
    assert log_in(http, Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:3000", "EVIL.example.", "localhost.evil.example", "evillocalhost", "127.0.0.1.evil.example",
        "127.0.0.1@evil.example", "evil.example@127.0.0.1", "evil.example/127.0.0.1", "evil.example#localhost", "[::1", "[evil]",
        "::1", "localhost:port", "localhost:3000:3000", "localhost, evil.example", "evil", "127.1", "0x7f.1", "",
        "[fe80::1%]", "[fe80::1%a]evil]", ".", ".localhost.evil",
    ],
)  # fmt: skip
def test_a_loopback_server_refuses_to_log_in_when_the_host_is_another_name(http: Http, host: str) -> None:
    answer = log_in(http, Host=host, X_Forwarded_Host="localhost", Forwarded="host=localhost", Origin=f"http://{host}")
    assert (answer.status, b"token" in answer.body) == (403, False)
    assert b"headstream.allowed_hosts (--allowed-host)" in answer.body


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/openapi.json", "/console/", "/console/session", "/streams", "/nowhere", "/users/login"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE"])
def test_every_route_refuses_another_host_when_a_token_is_given_too(http: Http, method: str, path: str) -> None:
    assert http.call(method, path, headers={"Host": "evil.example"}).status == 403


def test_health_is_told_when_the_check_of_a_balancer_names_another_host(http: Http) -> None:
    answer = http.call("GET", "/health", token=None, headers={"Host": "shop.internal"})
    assert (answer.status, answer.json) == (200, {"status": "ready"})


def test_a_request_without_one_host_is_refused_unless_it_is_of_http_1_0(http: Http) -> None:
    assert raw(http, "GET /ping HTTP/1.0") == 200
    assert raw(http, "GET /ping HTTP/1.0\r\nHost: evil.example") == 403
    assert raw(http, "GET /ping HTTP/1.1") == 400
    assert raw(http, "GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: evil.example") == 400
    assert raw(http, "GET /ping HTTP/1.0\r\nOrigin: http://evil.example") == 403


def test_allowed_hosts_are_answered_when_a_proxy_passes_the_host_on_or_changes_it(configured: Http) -> None:
    assert log_in(configured, Host="shop.example").status == 200
    assert log_in(configured, Host="Shop.Example:8443", Origin="https://shop.example:8443").status == 200
    assert log_in(configured, Origin="https://shop.example").status == 200  # the proxy has replaced Host by the server's address
    assert log_in(configured, Host="a.shop.example").status == 403
    assert log_in(configured, Origin="https://a.shop.example").status == 403


@pytest.mark.parametrize(
    ("listener", "host", "is_own"),
    [
        ("0.0.0.0", "192.0.2.7:3000", True),
        ("0.0.0.0", "headstream:3000", True),
        ("::", "[2001:db8::7]:3000", True),
        ("0.0.0.0", "localhost:3000", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("0.0.0.0", "evil.example:3000", False),
        ("0.0.0.0", "evil.example", False),
        ("Shop.Example", "shop.example:3000", True),
        ("shop.example", "evil.example", False),
        ("localhost", "headstream:3000", False),
        ("127.0.0.2", "headstream:3000", False),
        ("::1", "headstream:3000", False),
    ],
)
def test_hosts_knows_the_names_of_its_listener(listener: str, host: str, is_own: bool) -> None:
    assert Hosts(listener)._has_name(host) is is_own
    assert Hosts(listener, ["*"])._has_name(host)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "file://",
        "chrome-extension://abc",
        "evil",
    ],
)
def test_a_login_is_refused_when_a_page_of_another_origin_sends_it(http: Http, origin: str) -> None:
    answer = log_in(http, Origin=origin.format(port=http.port))
    assert (answer.status, "Access-Control-Allow-Origin" in answer.headers) == (403, False)
    assert b"http.cors.allowed_origins" in answer.body


def test_wrong_logins_of_a_page_of_another_origin_lock_nobody_out(http: Http) -> None:
    for _ in range(20):
        wrong = http.call(
            "POST", "/users/login", {**LOGIN, "password": "guess"}, token=None, headers={"Origin": "http://evil.example"}
        )
        assert wrong.status == 403
    assert log_in(http).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None])
def test_a_login_is_refused_when_its_content_type_needs_no_preflight(http: Http, kind: str | None) -> None:
    head = "" if kind is None else f"\r\nContent-Type: {kind}"
    body = '{"username":"iggy","password":"iggy"}'
    head = f"POST /users/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}{head}\r\n\r\n{body}"
    assert raw(http, head) == 415


def test_requests_of_the_own_page_are_answered_and_parts_of_other_pages_are_refused(http: Http) -> None:
    own = f"http://{http.host}:{http.port}"
    assert log_in(http, Origin=own, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200
    for site in ("cross-site", "same-site"):
        part = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert http.call("GET", "/metrics", token=None, headers=part).status == 403
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert http.call("GET", "/console/", token=None, headers=link).status == 200


def test_pages_of_an_allowed_origin_are_answered_and_others_are_not(configured: Http) -> None:
    allowed = log_in(configured, Origin=PAGE, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")
    assert (allowed.status, allowed.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    preflight = configured.call("OPTIONS", "/streams", token=None, headers=asked)
    assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
    assert preflight.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
    for origin in (
        "https://evil.example",
        "https://page.example.evil",
        "http://page.example",
        "https://page.example:444",
        "null",
    ):
        assert log_in(configured, Origin=origin).status == 403
        refused = configured.call("OPTIONS", "/streams", token=None, headers={**asked, "Origin": origin})
        assert (refused.status, "Access-Control-Allow-Origin" in refused.headers) == (403, False)


def test_any_origin_is_answered_when_the_settings_say_so_but_no_other_host() -> None:
    with serving(HttpSettings(cors=CorsSettings(allowed_origins=("*",)))) as served:
        assert log_in(served, Origin="https://evil.example").headers["Access-Control-Allow-Origin"] == "*"
        assert log_in(served, Origin="https://evil.example", Host="evil.example").status == 403


@pytest.mark.parametrize(
    "origin", ["null", "https://page.example/", "page.example", "https://Page.example", "https://*.example", "https://"]
)
def test_an_origin_that_no_site_has_alone_is_refused_when_it_is_configured(origin: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a valid origin"):
        CorsSettings(allowed_origins=(origin,))


@pytest.mark.parametrize("name", ["http://shop.example", "shop.example:80", "shop.example/", "*.example", "zürich.example", ""])
def test_an_allowed_host_that_is_no_name_is_refused_when_it_is_configured(name: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a host name"):
        HttpSettings(allowed_hosts=(name,))
