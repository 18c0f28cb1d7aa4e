"""What the pictures of the console show: a shop's log, its dead letters and its pipeline, the same at each run.

All times come from one fixed clock, ids are chosen, and what differs between runs (memory, plots) is hidden.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import headstream as hs
from headstream.cli.shared.checkpoints import explain_by
from headstream.core.model.identifiers import TopicName
from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.run.report import PipelineReport
from headstream.replicate.run.status import note_status
from headstream.server.http.pipeline_reports import PipelineReports
from tests.behaviour.console.conftest import log_in, refuse_merges_of_tools
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NOW_US = 1_700_000_000_000_000
"""The time of all messages; a page is looked at 8 seconds later."""

LOOKED_AT_US = NOW_US + 8_000_000

VARYING = """
canvas, .legend b { visibility: hidden !important; }
.varying dd { visibility: hidden !important; }
*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important; }
"""

SCENES: tuple[tuple[str, str, str, str], ...] = (
    ("overview-light", "#/", "light", "figure.plot"),
    ("overview-dark", "#/", "dark", "figure.plot"),
    ("topics", "#/topics", "light", "tbody tr"),
    ("messages-light", "#/messages/shop/orders?partition=1&offset=17", "light", ".detail .json"),
    ("messages-dark", "#/messages/shop/orders?partition=1&offset=17", "dark", ".detail .json"),
    ("groups", "#/groups/shop/orders/billing", "light", "tbody tr"),
    ("letters", "#/letters/shop/orders.dead", "light", ".reason"),
    ("pipelines", "#/pipelines", "light", ".pipeline tbody tr"),
)
"""Name, place, colours, and what is there when the page is whole."""


def fill(log: hs.Client) -> None:
    """Append what a shop would: orders with typed headers, clicks, payments, and orders that were given up."""
    for name, partitions, options in (
        ("shop/orders", 3, {"retention_us": 7 * 86_400_000_000, "summary_headers": "tenant"}),
        ("shop/payments", 2, {"legal_hold": True}),
        ("shop/customers", 1, {"compaction_delay_us": 86_400_000_000}),
        ("web/clicks", 4, {"retention_bytes": 1 << 30}),
        ("audit/logins", 1, {}),
    ):
        log.create_topic(name, partitions=partitions, **options)
    customers = ("Łukasz", "Ana", "محمد", "Chloé", "Jürgen", "世界")
    with log.producer("shop/orders") as producer:
        for number in range(240):
            order = {
                "order": 10_000 + number,
                "customer": customers[number % 6],
                "total": f"{(number * 37) % 500}.90",
                "items": [{"sku": f"A-{number % 50:03}", "count": number % 4 + 1}],
                "gift": number % 5 == 0,
            }
            headers = {
                "tenant": ("eu", "us", "jp")[number % 3],
                "attempt": hs.uint8(number % 4 // 3 + 1),
                "total": hs.float64((number * 37) % 500 + 0.9),
                "express": number % 3 == 0,
            }
            payload = json.dumps(order, ensure_ascii=False).encode()
            producer.send(payload, key=b"%d" % (10_000 + number), headers=headers, id=number + 1, partition=number % 3 + 1)
    for name, count, size in (("shop/payments", 120, 300), ("shop/customers", 60, 120), ("web/clicks", 900, 80)):
        with log.producer(name) as producer:
            for number in range(count):
                producer.send(b"x" * size, key=b"%d" % number, id=number + 1)
    _give_up(log)
    seek(log, "shop/orders", "billing", {1: 60, 2: 71, 3: 80})
    seek(log, "shop/orders", "search", {1: 80, 2: 80, 3: 80})
    clicks = {one.number: one.end_offset for one in log.topic("web/clicks").partitions}
    seek(log, "web/clicks", "recommendations", {number: end - 9 * number for number, end in clicks.items()})
    log.set_state("shop/orders", 1, [20], "poisoned", reason="the total is not a number")
    log.set_state("shop/orders", 1, [21], "marked_for_deletion", reason="wrong import")


def seek(log: hs.Client, topic: str, group: str, offsets: dict[int, int]) -> None:
    """Commit the next offset of each partition for a group."""
    log.transport.groups.seek(TopicName.parse(topic), group, offsets)


def _give_up(log: hs.Client) -> None:
    retry = hs.Retry(1, delay="0s", max_delay="0s")
    with log.consumer("shop/orders", group="shipping", on_error=retry, dead_letter="shop/orders.dead", timeout_ms=0) as consumer:
        for number, message in enumerate(consumer.poll(45)):
            if number % 3:
                consumer.retry(message, reason=ValueError("no carrier for this address"))
            else:
                consumer.reject(message, reason="the customer has moved")


@contextmanager
def serving_pictures(tmp_path: Path, patch: pytest.MonkeyPatch) -> Iterator[Http]:
    """Lend a server with all of it, whose clock stands still."""
    fixed = SimpleNamespace(time_ns=lambda: LOOKED_AT_US * 1000, monotonic=time.monotonic)
    for module in ("server.http.overview", "replicate.run.report"):
        patch.setattr(f"headstream.{module}.time", fixed)
    refuse_merges_of_tools(patch)
    work = Work(tmp_path, max_dead_rate=1.0)
    kit, tools = make_table(schema_id="1" * 32), make_table(schema_id="3" * 32, table="tools")
    note = ColumnMetadata("note", len(COLUMNS) + 1, "WSTRING", length=40)
    work.send(metadata_message(kit), *(data_message(kit, make_change(number)) for number in range(30)))
    wider = make_table(*COLUMNS, note, schema_id="2" * 32, table_version=2)
    work.send(metadata_message(wider), metadata_message(tools), data_message(tools, make_change(9)))
    work.send(data_message(make_table(schema_id="4" * 32, table="late"), make_change(1)), b"not a message")
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    report = PipelineReport(lambda: work.config.state_directory)
    reports = PipelineReports({"/data/shop/checkpoint": report.read}, needs_right=True, explain=explain_by([report]))
    with serving(pipelines=reports, clock_us=lambda: NOW_US) as http:
        fill(hs.Client(http.dispatcher.broker))
        yield http
    work.close()


@contextmanager
def open_at_fixed_time(browser: Browser, http: Http, width: int, height: int) -> Iterator[Page]:
    """Lend a page, logged in, that takes it to be 8 seconds after the messages came."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce", timezone_id="UTC", locale="en-GB"
    )
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.clock.set_fixed_time(LOOKED_AT_US / 1e6)
    page.goto(f"http://{http.host}:{http.port}/console/")
    log_in(page)
    page.get_by_role("heading", name="Overview").wait_for()
    yield page
    context.close()
