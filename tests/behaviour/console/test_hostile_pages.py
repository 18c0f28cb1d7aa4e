"""Pages of other origins in a real browser: what they try against a server of this machine is refused, and its own console works.

The browser resolves the name rebound.test to this machine, as the name of an attacker's page does after DNS rebinding.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from headstream.server.config.http_settings import CorsSettings, HttpSettings
from tests.behaviour.console.conftest import PATIENCE_MS, log_in
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOGIN = """async ([url, kind]) => {
  try {
    const init = {method: 'POST', body: JSON.stringify({username: 'iggy', password: 'iggy'})};
    if (kind) init.headers = {'content-type': kind};
    const answer = await fetch(url + '/users/login', init);
    return [answer.status, (await answer.text()).includes('token')];
  } catch (error) { return String(error); }
}"""
"""What a page does to log in; it says the status and whether it has read a token, or that the browser refused."""

BLIND = """async url => {
  const asked = ['text/plain', 'application/json'].map(kind => fetch(url + '/users/login', {
    method: 'POST', mode: 'no-cors', body: new Blob(['{"username":"iggy","password":"guess"}'], {type: kind})}));
  navigator.sendBeacon(url + '/users/login', '{"username":"iggy","password":"guess"}');
  return (await Promise.allSettled(asked)).map(each => each.value?.type ?? String(each.reason));
}"""
"""What a page sends without a preflight; it can read no answer."""

LOAD = """url => new Promise(resolve => {
  const script = document.createElement('script');
  script.onload = () => resolve('loaded'); script.onerror = () => resolve('refused');
  script.src = url + '/metrics'; document.head.append(script);
})"""

REFUSED = "TypeError: Failed to fetch"


class _Page(BaseHTTPRequestHandler):
    """A page of another origin, and one in a sandbox, whose origin is null."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if self.path == "/sandboxed":
            self.send_header("Content-Security-Policy", "sandbox allow-scripts")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>other</title>")

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """The origin of a page that another server of this machine serves."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def http(browser: Browser) -> Iterator[Http]:
    with serving() as served:
        yield served


def url_of(http: Http, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{http.port}"


def test_a_page_whose_name_was_rebound_to_this_machine_cannot_log_in(page: Page, http: Http) -> None:
    rebound = url_of(http, "rebound.test")
    page.goto(rebound + "/health")  # the one route that such a page reaches: the fetch below is of its own origin
    assert page.evaluate(LOGIN, [rebound, "application/json"]) == [403, False]
    assert page.evaluate(LOGIN, [rebound, "text/plain"]) == [403, False]
    opened = page.goto(rebound + "/console/")
    assert opened is not None
    assert opened.status == 403
    assert "--allowed-host" in page.content()


def test_a_page_of_another_origin_can_neither_log_in_nor_load_nor_guess_passwords(page: Page, http: Http, other: str) -> None:
    for path in ("/", "/sandboxed"):
        page.goto(other + path)
        for kind in ("application/json", "text/plain", ""):
            assert page.evaluate(LOGIN, [url_of(http), kind]) == REFUSED
        assert page.evaluate(LOAD, url_of(http)) == "refused"
        for _ in range(10):
            page.evaluate(BLIND, url_of(http))
    assert http.log_in("iggy", "iggy").status == 200  # no guess has counted


def test_the_console_logs_in_and_its_cookie_serves_no_page_of_another_origin(page: Page, http: Http, other: str) -> None:
    page.goto(url_of(http) + "/console/")
    log_in(page)
    page.get_by_role("heading", name="Overview").wait_for()
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.goto(other)  # of the same site, as ports do not count: the browser sends the cookie, and the server does not take it
    asked = """async url => {
      try { return (await fetch(url + '/streams', {credentials: 'include'})).status } catch (error) { return String(error) }
    }"""
    assert page.evaluate(asked, url_of(http)) == REFUSED
    with_header = asked.replace("'include'", "'include', headers: {'x-headstream-console': '1'}")
    assert page.evaluate(with_header, url_of(http)) == REFUSED
    page.goto(url_of(http) + "/console/")
    page.get_by_role("heading", name="Overview").wait_for()


def test_a_page_of_an_allowed_origin_logs_in_and_uses_its_token(page: Page, other: str) -> None:
    cors = CorsSettings(allowed_origins=(other,), allowed_headers=("authorization", "content-type"))
    with serving(HttpSettings(cors=cors)) as served:
        page.goto(other)
        assert page.evaluate(LOGIN, [url_of(served), "application/json"]) == [200, True]
        ask = "async ([url, token]) => (await fetch(url + '/streams', {headers: {authorization: 'Bearer ' + token}})).status"
        assert page.evaluate(ask, [url_of(served), served.token]) == 200
        page.goto(url_of(served, "rebound.test") + "/health")
        assert page.evaluate(LOGIN, [url_of(served, "rebound.test"), "application/json"]) == [403, False]


def test_the_console_is_served_by_the_name_of_a_proxy_when_it_is_allowed(page: Page) -> None:
    with serving(HttpSettings(allowed_hosts=("proxy.test",))) as served:
        page.goto(url_of(served, "proxy.test") + "/console/")
        log_in(page)
        page.get_by_role("heading", name="Overview").wait_for()
