"""Replicate pipelines in the browser, read from the checkpoint of a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs
from headstream.cli.shared.checkpoints import explain_by
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import NewTopic
from headstream.errors import StorageError
from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.run.report import PipelineReport
from headstream.replicate.run.status import note_status
from headstream.server.http.pipeline_reports import PipelineReports
from tests.behaviour.console.conftest import find_violations, go, log_in, opened_page, refuse_merges_of_tools, send
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table
from tests.support.server.http_servers import Http, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CDC = TopicName.parse("cdc/data")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    """A pipeline with a table of two versions, one that fails, a message without schema and one that is no message."""
    refuse_merges_of_tools(monkeypatch)
    made = Work(tmp_path, max_dead_rate=1.0)
    kit = make_table(schema_id="1" * 32)
    added = ColumnMetadata("note", len(COLUMNS) + 1, "WSTRING", length=40)
    wider = make_table(*COLUMNS, added, schema_id="2" * 32, table_version=2)
    tools = make_table(schema_id="3" * 32, table="tools")
    made.send(metadata_message(kit), *(data_message(kit, make_change(number)) for number in range(3)))
    made.send(metadata_message(wider), metadata_message(tools), data_message(tools, make_change(9)))
    made.send(data_message(make_table(schema_id="4" * 32, table="late"), make_change(1)), b"not a message")
    note_status(made.ledger, "running", made.summary, made.schema_store.directory, made.now_us)
    yield made
    made.close()


@pytest.fixture
def pipelines(work: Work) -> Iterator[Http]:
    def fail() -> dict[str, Any]:
        raise StorageError("there is no such bucket", where="s3://lake/checkpoint")

    report = PipelineReport(lambda: work.config.state_directory)
    readers = {"/data/shop/checkpoint": report.read, "s3://lake/checkpoint": fail}
    with serving(pipelines=PipelineReports(readers, needs_right=True, explain=explain_by([report]))) as http:
        yield http


@pytest.fixture
def page(browser: Browser, pipelines: Http) -> Iterator[Page]:
    with opened_page(browser, pipelines) as opened:
        yield opened


def test_pipelines_show_their_tables_with_units_and_ages(page: Page) -> None:
    page.get_by_role("link", name="Pipelines").click()
    shop = page.get_by_role("region", name="Pipeline /data/shop/checkpoint")
    shop.get_by_text("shop/checkpoint", exact=True).wait_for()
    kit = shop.get_by_role("row").filter(has=page.get_by_role("link", name="shop.kit"))
    assert "version 2" in kit.inner_text()
    tools = shop.get_by_role("row").filter(has=page.get_by_role("link", name="shop.tools"))
    assert "no space left" in tools.inner_text()
    assert "retried" in tools.inner_text()
    assert "1 messages" not in shop.inner_text()
    page.get_by_role("region", name="Pipeline s3://lake/checkpoint").get_by_text("there is no such bucket").wait_for()


def test_a_table_shows_the_versions_of_its_schema_and_what_changed(page: Page) -> None:
    go(page, "#/pipelines/0/shop.kit")
    versions = page.get_by_role("region", name="Versions").locator("tbody tr")
    versions.first.wait_for()
    assert versions.count() == 2
    assert "added note WSTRING(40)" in " ".join(versions.nth(0).inner_text().split())
    assert "first version" in versions.nth(1).inner_text()
    go(page, "#/pipelines/0/shop.tools")
    page.get_by_role("alert").get_by_text("no space left").wait_for()
    go(page, "#/pipelines/0/none")
    page.get_by_text("The pipeline has no such table.").wait_for()


def test_only_who_can_read_the_server_sees_pipelines(page: Page, pipelines: Http) -> None:
    page.get_by_role("link", name="Pipelines").wait_for()
    user = {"username": "reader", "password": "secret", "status": "active", "permissions": None}
    assert pipelines.call("POST", "/users", user).status == 200
    page.get_by_role("button", name="Log out").click()
    log_in(page, "reader", "secret")
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.get_by_role("link", name="Pipelines").count() == 0
    go(page, "#/pipelines")
    page.get_by_text("There is no such page.").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_of_pipelines_have_no_serious_accessibility_violations(page: Page, axe: str, theme: str) -> None:
    if theme == "dark":
        page.get_by_role("button", name="Dark colours").click()
    found = []
    for place, shown in (
        ("#/pipelines", "tbody tr"),
        ("#/pipelines/0/shop.kit", ".differences"),
        ("#/pipelines/0/shop.tools", ".notice"),
    ):
        go(page, place)
        page.locator(shown).first.wait_for()
        found.append(find_violations(page, axe))
    assert found == [[], [], []]


def test_a_server_without_pipelines_tells_how_to_register_one(browser: Browser) -> None:
    with serving() as http, opened_page(browser, http) as page:
        go(page, "#/pipelines")
        page.get_by_text("No pipeline is registered.").wait_for()
        page.get_by_text("headstream server --data /var/lib/shop --pipeline /data/checkpoint").wait_for()


def test_messages_of_replicate_are_decoded_by_the_schemas_that_a_pipeline_knows(page: Page, pipelines: Http, axe: str) -> None:
    pipelines.dispatcher.broker.topics.create(NewTopic(CDC, 1, hs.Limits.WIDE))
    payloads = (data_message(make_table(schema_id=digit * 32), make_change(number)) for digit, number in (("1", 7), ("5", 8)))
    send(pipelines, CDC, 1, *(hs.Message(payload=payload) for payload in payloads))
    go(page, "#/messages/cdc/data?partition=1&offset=0")
    detail = page.get_by_label("Message at offset 0")
    decoded = detail.get_by_role("group", name="Decoded message")
    decoded.get_by_text("shop.kit").wait_for()
    text = decoded.inner_text()
    assert "INSERT" in text
    assert "id: 7" in text.replace("\n", " ").replace("  ", " ")
    assert find_violations(page, axe) == []
    detail.get_by_role("button", name="Hex").click()
    assert detail.locator("pre").inner_text().startswith("000000  61 74 4d 53 47")
    go(page, "#/messages/cdc/data?partition=1&offset=1")
    page.get_by_text("no registered pipeline has received it").wait_for()
