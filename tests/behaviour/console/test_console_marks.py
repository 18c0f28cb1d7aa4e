"""Marked messages, legal holds, pauses of groups, and segments that a filter skips, in the browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import headstream as hs
from tests.behaviour.console.conftest import find_violations, go
from tests.support.server.http_servers import Http, serving
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOPIC = "shop/parcels"
GRACE_US = 3 * 24 * 3_600_000_000
COUNT = 80


@pytest.fixture(scope="module")
def http(browser: Browser) -> Iterator[Http]:
    with serving(segment_bytes=4096) as served:
        yield served


@pytest.fixture
def log(http: Http) -> Iterator[hs.Client]:
    """A topic of several small segments."""
    client = hs.Client(http.dispatcher.broker)
    client.create_topic(TOPIC, deletion_grace_us=GRACE_US, summary_headers="number")
    with client.producer(TOPIC, linger_ms=0, batch_count=10) as producer:
        for number in range(COUNT):
            producer.send(b"x" * 200, headers={"number": number})
    yield client
    if client.topic(TOPIC).legal_hold:
        client.update_topic(TOPIC, legal_hold=False)
    client.delete_topic(TOPIC)


def test_a_message_is_marked_only_by_name_and_restored_while_it_is_there(page: Page, log: hs.Client, axe: str) -> None:
    go(page, f"#/messages/{TOPIC}?partition=1&offset=3")
    page.get_by_role("button", name="Set state").click()
    dialog = page.locator("dialog")
    dialog.locator("select").select_option("marked_for_deletion")
    dialog.get_by_text("removed from the disk within 3 d").wait_for()
    act = dialog.get_by_role("button", name="Set state")
    assert act.is_disabled()
    dialog.get_by_label("Reason").fill("wrong import")
    dialog.locator("input").last.fill(TOPIC)
    assert find_violations(page, axe) == []
    act.click()
    page.get_by_text("wrong import").wait_for()
    page.get_by_text("until then, it can be restored").wait_for()
    assert find_violations(page, axe) == []
    assert [one.offset for one in log.states(TOPIC, 1)] == [3]
    page.get_by_role("button", name="Restore").click()
    page.get_by_text("wrong import").wait_for(state="detached")
    assert log.states(TOPIC, 1) == []


def test_a_legal_hold_is_shown_and_takes_what_it_refuses_away(page: Page, log: hs.Client, axe: str) -> None:
    log.update_topic(TOPIC, legal_hold=True)
    go(page, "#/topics")
    page.get_by_role("row", name=TOPIC).get_by_text("legal hold").wait_for()
    go(page, f"#/topics/{TOPIC}")
    page.get_by_text("remove nothing from this topic").wait_for()
    assert page.get_by_role("button", name="Purge").count() == page.get_by_role("button", name="Delete").count() == 0
    assert find_violations(page, axe) == []
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Legal hold").uncheck()
    change = page.locator("dialog").get_by_role("button", name="Change")
    assert change.is_disabled()  # lifting a hold lets messages be removed: it asks for the name
    page.locator("dialog input").last.fill(TOPIC)
    change.click()
    page.get_by_role("button", name="Purge").wait_for()
    assert not log.topic(TOPIC).legal_hold


def test_options_that_remove_messages_ask_for_the_name_and_others_do_not(page: Page, log: hs.Client) -> None:
    go(page, f"#/topics/{TOPIC}")
    page.get_by_role("button", name="Options").click()
    dialog, change = page.locator("dialog"), page.locator("dialog").get_by_role("button", name="Change")
    dialog.get_by_label("Summarized headers").fill("number, source")
    assert change.is_enabled()
    dialog.get_by_label("Remove marked messages").fill("1")
    assert change.is_disabled()
    dialog.get_by_label("To confirm").fill(TOPIC)
    change.click()
    page.locator(".tile", has_text="Summaries").get_by_text("number, source").wait_for()
    topic = log.topic(TOPIC)
    assert (topic.summary_headers, topic.deletion_grace_us) == ("number,source", 3_600_000_000)


def test_a_search_by_filter_says_how_far_it_came_and_what_it_skipped(page: Page, log: hs.Client) -> None:
    def skipped() -> int:
        segments = log.explain_filter("number = 75", TOPIC).segments
        return 0 if segments is None else segments.skipped_count

    wait_until(lambda: skipped() >= 2)
    go(page, f"#/messages/{TOPIC}?partition=1")
    page.get_by_label("Search for").select_option("where")
    page.get_by_label("Search payloads, keys and headers").fill("number = 75")
    page.get_by_role("button", name="Search").click()
    status = page.locator(".status")
    status.get_by_text("1 match in").wait_for()
    status.get_by_text("the whole partition").wait_for()
    assert f"{skipped()} of the topic" in status.inner_text()
    assert "skipped because of their summaries" in status.inner_text()


def test_a_paused_group_says_why_and_for_how_long_and_is_resumed(page: Page, log: hs.Client, axe: str) -> None:
    careful = hs.Retry(5, delay="0s", max_delay="0s", pause="1h", pause_share=0.5, pause_attempts=4)
    with log.consumer(TOPIC, group="billing", on_error=careful, dead_letter="shop/parcels.dead", timeout_ms=0) as consumer:
        for message in consumer.poll(6):
            consumer.retry(message, reason=ValueError("the database is down"))
        go(page, f"#/groups/{TOPIC}/billing")
        page.get_by_text("Paused for another").wait_for()
        page.get_by_text("4 of the last 4 attempts failed").wait_for()
        assert find_violations(page, axe) == []
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("alert").wait_for()  # it has a member
    page.get_by_text("Consumers then continue immediately").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Paused for another").wait_for(state="detached")
    assert log.group_deliveries(TOPIC, "billing").pause.until_us == 0
