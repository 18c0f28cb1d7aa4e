"""A real browser (Chromium, without a window) on the console of a real server; the tests are skipped where there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import NewTopic
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

UNPACKED = Path(__file__).parents[3] / ".cache" / "chromium" / "chromium"
"""What tools/install_nightly_tools.sh installs."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which(UNPACKED)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP *.test 127.0.0.1",  # names that pages of other origins have
]
PATIENCE_MS = 120_000
VIEWPORT: ViewportSize = {"width": 1300, "height": 820}
ORDERS, STRANGE = TopicName.parse("shop/orders"), TopicName.parse("shop/strange")


def send(http: Http, topic: TopicName, partition: int, *messages: hs.Message) -> None:
    http.dispatcher.broker.messages.send(topic, partition, encode_sent(messages))


def refuse_merges_of_tools(patch: pytest.MonkeyPatch) -> None:
    """Let no change be merged into the table `tools`."""
    original = DeltaLakeEngine.merge

    def merge(self: DeltaLakeEngine, *arguments: Any, **options: Any) -> Any:
        if self.path.name == "tools":
            raise hs.StorageError("no space left", where="the volume of tools")
        return original(self, *arguments, **options)

    patch.setattr(DeltaLakeEngine, "merge", merge)


def _fill(http: Http) -> None:
    broker = http.dispatcher.broker
    for name, partitions in (("shop/orders", 2), ("shop/strange", 1), ("audit/empty", 1), ("audit/old", 1)):
        broker.topics.create(NewTopic(TopicName.parse(name), partitions, hs.Limits.WIDE))
    for number in range(120):
        payload = json.dumps({"order": number, "items": [{"sku": f"A{number}"}], "big": 12345678901234567890}).encode()
        headers = hs.Headers([("attempt", hs.uint8(number % 4)), ("source", hs.string("web")), ("source", hs.string("again"))])
        send(http, ORDERS, 1, hs.Message(payload=payload, headers=headers, key=str(number).encode()))
    injected = "<img src=x onerror='window.hacked=1'>"
    send(
        http,
        STRANGE,
        1,
        hs.Message(
            payload=f"<script>window.hacked=1</script>{injected}".encode(), headers=hs.Headers([(injected, hs.string(injected))])
        ),
        hs.Message(payload=b"javascript:window.hacked=1"),
        hs.Message(payload="user\u202egnp.exe \u200bhidden".encode(), key="\u202ekey".encode()),
        hs.Message(payload="مرحبا بالعالم 👩‍💻".encode()),
        hs.Message(payload=None, key=b"gone"),
        hs.Message(payload=bytes(range(256))),
        hs.Message(payload=b"long " * 20_000),
    )
    broker.messages.set_state(STRANGE, 1, [1], hs.MessageState.POISONED, reason=f"it is bad {injected}", by="ann")
    broker.offsets.commit(ORDERS, OffsetOwner.group("billing"), {1: 20})


@pytest.fixture(scope="package")  # while it runs, no other test of the process can start an event loop
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: install Debian's package chromium, or run tools/install_nightly_tools.sh")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE_MS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def http(browser: Browser) -> Iterator[Http]:
    with serving() as served:
        _fill(served)
        yield served


class Problems(list[str]):
    """What the browser reports as wrong, but for answers that a test provokes."""

    def note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.append(text)


@contextmanager
def _watched_page(browser: Browser, http: Http) -> Iterator[tuple[Page, Problems]]:
    problems = Problems()
    context = browser.new_context(viewport=VIEWPORT, color_scheme="light")
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    opened.on("console", lambda message: problems.note(message.type, message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(f"http://{http.host}:{http.port}/console/")
    log_in(opened)
    opened.get_by_role("heading", name="Overview").wait_for()  # a login that ends later leads away from where a test has gone
    yield opened, problems
    context.close()


@contextmanager
def opened_page(browser: Browser, http: Http) -> Iterator[Page]:
    """Lend a page that is logged in as root; it fails the test if a script fails or the policy refuses something."""
    with _watched_page(browser, http) as (opened, problems):
        yield opened
        assert opened.evaluate("window.hacked") is None
    assert problems == []


@pytest.fixture
def own_page(browser: Browser, http: Http) -> Iterator[Page]:
    """A page that is logged in as root, for tests that end this login."""
    with opened_page(browser, http) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_page(browser: Browser, http: Http) -> Iterator[tuple[Page, Problems]]:
    """The page of all tests of a file: to open a context and log in costs more than most tests."""
    with _watched_page(browser, http) as shared:
        yield shared


@pytest.fixture
def page(shared_page: tuple[Page, Problems], http: Http) -> Iterator[Page]:
    """A page that is logged in as root, loaded anew and without what an earlier test has stored in it."""
    opened, problems = shared_page
    opened.evaluate("localStorage.clear(); sessionStorage.clear()")
    problems.clear()
    opened.set_viewport_size(VIEWPORT)
    opened.goto("about:blank")  # from a place in the console, its address alone loads nothing
    opened.goto(f"http://{http.host}:{http.port}/console/")
    opened.get_by_role("heading", name="Overview").wait_for()
    yield opened
    assert opened.evaluate("window.hacked") is None
    assert problems == []


def log_in(page: Page, username: str = "iggy", password: str = "iggy") -> None:
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password", exact=True).and_(page.locator("input")).fill(password)
    page.get_by_role("button", name="Log in").click()


def go(page: Page, place: str) -> None:
    page.evaluate("to => { location.hash = to }", place)


@pytest.fixture(scope="session")
def axe() -> str:
    script = Path(__file__).parents[3] / "console" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        pytest.skip("needs axe-core: run npm ci in console/")
    return script.read_text(encoding="utf-8")


def find_violations(page: Page, axe: str) -> list[Any]:
    """What axe finds wrong, serious and critical."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (one["id"], one["nodes"][0]["html"], one["nodes"][0].get("failureSummary"))
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
