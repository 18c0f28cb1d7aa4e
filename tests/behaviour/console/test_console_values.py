"""What the console shows of unusual messages and logs: Avro, strange keys, large payloads, many topics, other clocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headstream as hs
from headstream.cli.shared.schemas import open_schemas
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import NewTopic
from headstream.server.http.pipeline_reports import PipelineReports
from tests.behaviour.console.conftest import find_violations, go, log_in, send
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VALUES = TopicName.parse("odd/values")
LARGE_BYTES = 24 << 20
SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]}'
INJECTED = "<img src=x onerror=window.hacked=1>"
NUMBERS = {
    "nan": (hs.float64(float("nan")), "nan"),
    "infinite": (hs.float32(float("-inf")), "-inf"),
    "widest": (hs.uint128(2**128 - 1), str(2**128 - 1)),
    "lowest": (hs.int128(-(2**127)), str(-(2**127))),
}


def _fill(http: Http) -> None:
    broker = http.dispatcher.broker
    broker.topics.create(NewTopic(VALUES, 1, hs.Limits.WIDE))
    for number in range(210):
        broker.topics.create(NewTopic(TopicName("many", f"topic-{number:03}"), 1, hs.Limits.WIDE))
    for name in (INJECTED, "javascript:window.hacked=1", "\u202egnp.exe", "n" * 200, "مرحبا-👩\u200d💻"):
        broker.topics.create(NewTopic(TopicName("odd", name), 1, hs.Limits.WIDE))
    text = INJECTED.encode()
    send(
        http,
        VALUES,
        1,
        hs.Message(payload=b"\0\0\0\0\x07\x54" + bytes([2 * len(text)]) + text),
        hs.Message(payload=b"\0\0\0\0\x08\x54"),
        hs.Message(payload=b"{}", key=b"\xff\xfe\0key", headers=hs.Headers({name: one for name, (one, _) in NUMBERS.items()})),
        hs.Message(payload=b'{"a": NaN}', key=b"one\n  two" + b"k" * 600, headers=hs.Headers({"long": "L" * 9000})),
        hs.Message(payload=bytes(LARGE_BYTES)),
        hs.Message(payload=b"\x54\2x", headers=hs.Headers({"__value_schema_id": hs.raw(b"\0\0\0\0\x07")})),
    )


@pytest.fixture(scope="module")
def http(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    directory: Path = tmp_path_factory.mktemp("schemas")
    (directory / "7.avsc").write_text(SCHEMA)
    decoding = PipelineReports({}, needs_right=True, explain_avro=open_schemas(str(directory), "--schemas"))
    with serving(pipelines=decoding) as served:
        _fill(served)
        yield served


def show(page: Page, offset: int) -> None:
    go(page, f"#/messages/odd/values?partition=1&offset={offset}")
    page.get_by_label(f"Message at offset {offset}").wait_for()


def test_avro_is_decoded_where_its_schema_is_known(page: Page, axe: str) -> None:
    show(page, 0)
    decoded = page.get_by_role("group", name="Decoded message")
    decoded.get_by_text(INJECTED).wait_for()
    assert "Order" in decoded.inner_text()
    assert page.locator("main img").count() == 0
    assert find_violations(page, axe) == []
    show(page, 5)  # its id is in a header
    assert "Order" in page.get_by_role("group", name="Decoded message").inner_text()
    show(page, 1)
    page.get_by_text("the schema 8 is unknown").wait_for()
    page.get_by_role("button", name="Hex").click()
    assert page.locator("pre.hex").inner_text().startswith("000000  00 00 00 00 08 54")


def test_keys_and_headers_of_any_value_are_shown_whole(page: Page) -> None:
    show(page, 2)
    facts = page.locator(".detail .facts")
    assert "ff fe 00 6b 65 79" in facts.inner_text()
    rows = page.locator("table.headers tbody tr")
    shown = {row.split("\t")[0].strip(): row.split("\t")[-1].strip() for row in rows.all_inner_texts()}
    assert shown == {name: text for name, (_, text) in NUMBERS.items()}
    show(page, 3)
    assert "one\n  two" in facts.inner_text()
    assert page.get_by_role("button", name="JSON").count() == 0  # NaN is none
    page.get_by_text("… (8.8 KiB)").wait_for()
    page.get_by_role("button", name="Load whole values").click()
    page.get_by_text("L" * 9000).wait_for()
    assert "k" * 600 in facts.inner_text()


def test_a_large_payload_is_saved_with_progress_and_stopped(page: Page) -> None:
    show(page, 4)
    detail = page.get_by_label("Message at offset 4")
    detail.get_by_text("Save the payload to read all of it.").wait_for()
    with page.expect_download() as saved:
        detail.get_by_role("button", name="Save").click()
    assert saved.value.path().stat().st_size == LARGE_BYTES
    session = page.context.new_cdp_session(page)  # a slow network, which no local server is
    slow = {"offline": False, "latency": 0, "downloadThroughput": 256 << 10, "uploadThroughput": -1}
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", slow)
    detail.get_by_role("button", name="Save").click()
    detail.get_by_text("of 24.0 MiB").last.wait_for()
    detail.get_by_role("button", name="Stop").click()
    detail.get_by_role("progressbar").wait_for(state="detached")
    assert detail.get_by_role("alert").count() == 0
    session.detach()


def test_many_topics_are_shown_in_parts_and_strange_names_as_text(page: Page) -> None:
    go(page, "#/messages")
    page.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 200
    page.get_by_role("button", name="Show 16 more").click()
    page.locator("tbody tr").nth(215).wait_for()
    for name in (INJECTED, "javascript:window.hacked=1", "U+202Egnp.exe"):
        page.get_by_label("Filter topics").fill(name.removeprefix("U+202E"))
        page.get_by_role("link", name=f"odd/{name}").click()
        page.get_by_text("This partition has no messages.").wait_for()
        if name != "U+202Egnp.exe":
            page.go_back()
    page.get_by_role("link", name="odd/U+202Egnp.exe").first.click()
    page.get_by_role("heading", name="odd/U+202Egnp.exe").wait_for()
    page.get_by_role("button", name="Delete").click()
    delete = page.locator("dialog").get_by_role("button", name="Delete")
    page.locator("dialog input").fill("odd/gnp.exe")
    assert delete.is_disabled()
    page.locator("dialog input").fill("odd/U+202Egnp.exe")
    assert delete.is_enabled()
    page.keyboard.press("Escape")
    go(page, "#/letters")
    page.get_by_label("Dead letters of another topic").fill("odd/values")
    page.get_by_role("heading", name="odd/values").wait_for()


COLOURED = """() => [...document.querySelectorAll("figure.plot canvas")].map((canvas) => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const channels = [data[at], data[at + 1], data[at + 2]];
    if (data[at + 3] > 200 && Math.max(...channels) - Math.min(...channels) > 60) found += 1;
  }
  return found;
})"""


@pytest.mark.parametrize("hours", [-5, pytest.param(5, marks=pytest.mark.nightly)])
def test_plots_are_drawn_by_the_servers_clock(browser: Browser, http: Http, hours: int) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(f"const now = Date.now; Date.now = () => now() + {hours} * 3600e3")
    page.goto(f"http://{http.host}:{http.port}/console/")
    log_in(page)
    page.locator(".plot", has_text="Memory").locator("canvas").wait_for()
    for _ in range(60):
        if page.evaluate(COLOURED)[-1] > 20:
            break
        page.wait_for_timeout(500)
    else:
        pytest.fail("the plot of the memory stays empty")
    context.close()
