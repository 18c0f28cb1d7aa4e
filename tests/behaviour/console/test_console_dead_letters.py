"""Dead letters in the browser: by reason, one looked into, and many sent back or discarded after a dry run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import headstream as hs
from tests.behaviour.console.conftest import PATIENCE_MS, find_violations, go, log_in
from tests.support.server.http_servers import Http

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TOPIC, DEAD = "mail/orders", "mail/orders.dead"
COUNT = 120
GLOBAL_RIGHTS = (
    *("manage_servers", "read_servers", "manage_users", "read_users", "manage_streams", "read_streams"),
    *("manage_topics", "read_topics", "poll_messages", "send_messages"),
)
INJECTED = "<img src=x onerror='window.hacked=1'> it's bad"


@pytest.fixture
def letters(http: Http) -> Iterator[hs.Client]:
    """A topic whose messages were given up: each third was rejected with markup as its reason, the others failed."""
    log = hs.Client(http.dispatcher.broker)
    log.create_topic(TOPIC)
    for number in range(COUNT):
        log.send(TOPIC, b'{"order": %d}' % number, key=b"k%d" % number, headers={"attempt": hs.uint8(1)})
    retry = hs.Retry(1, delay="0s", max_delay="0s")
    with log.consumer(TOPIC, group="billing", on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
        for number, message in enumerate(consumer.poll(COUNT)):
            if number % 3:
                consumer.retry(message, reason=ValueError("no such product"))
            else:
                consumer.reject(message, reason=INJECTED)
    yield log
    log.delete_topic(TOPIC)
    log.delete_topic(DEAD)


def open_letters(page: Page) -> None:
    go(page, "#/letters")
    page.get_by_role("link", name=DEAD).click()
    tile(page, "Letters").get_by_text(str(COUNT), exact=True).wait_for()


def tile(page: Page, name: str) -> Locator:
    return page.locator(".tile", has=page.locator("dt", has_text=name)).first


def test_letters_are_grouped_by_reason_and_shown_by_a_click(page: Page, letters: hs.Client) -> None:
    open_letters(page)
    reasons = page.get_by_role("region", name="Reasons").locator("tbody tr")
    assert reasons.count() == 2
    assert "ValueError: no such product" in reasons.nth(0).inner_text()
    assert re.search(r"\b80\b", reasons.nth(0).inner_text())
    assert INJECTED in reasons.nth(1).inner_text()  # as text
    page.get_by_role("link", name=INJECTED).click()
    rows = page.get_by_role("region", name="Letters").locator("tbody tr")
    page.get_by_role("button", name="Dead letter at offset 3 of partition 1", exact=True).wait_for()
    page.get_by_role("button", name="Dead letter at offset 1 of partition 1", exact=True).wait_for(state="detached")
    assert rows.count() == COUNT // 3
    assert page.locator("main img").count() == 0


def test_a_letter_tells_where_it_comes_from_and_why(page: Page, letters: hs.Client) -> None:
    open_letters(page)
    page.get_by_role("button", name="Dead letter at offset 4 of partition 1", exact=True).click()
    detail = page.get_by_label("Message at offset 4")
    detail.wait_for()
    text = detail.locator(".origin").inner_text()
    assert "mail/orders/1/4" in text
    assert "billing after 1 attempt" in text
    assert text.count("ValueError: no such product") == 2  # the first error and the last one
    assert '"order": 4' in detail.locator(".json, pre").first.inner_text().replace("order: 4", '"order": 4')
    detail.get_by_role("link", name="mail/orders/1/4").click()
    page.get_by_role("heading", name="Messages").wait_for()
    page.get_by_label("Message at offset 4").wait_for()


def test_letters_of_a_reason_are_sent_back_after_a_dry_run_with_progress(page: Page, letters: hs.Client) -> None:
    open_letters(page)
    row = page.get_by_role("region", name="Reasons").locator("tbody tr", has_text="no such product")
    row.get_by_role("button", name="Redrive").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_text("80 dead letters", exact=True).wait_for()
    assert letters.topic(TOPIC).partitions[0].end_offset == COUNT  # a dry run sends nothing
    dialog.get_by_role("button", name="Redrive", exact=True).click()
    dialog.get_by_text("Done: 80 dead letters sent back").wait_for()
    dialog.get_by_role("button", name="Close").click()
    tile(page, "Letters").get_by_text("40", exact=True).wait_for()
    copies = letters.poll(TOPIC, 1, start=COUNT, count=200)
    assert sorted(int(str(one.headers["hs.redrive"]).rsplit("/", 1)[1]) for one in copies) == [n for n in range(COUNT) if n % 3]


def test_letters_are_discarded_only_by_the_topics_name_and_one_alone(page: Page, letters: hs.Client) -> None:
    open_letters(page)
    page.get_by_role("button", name="Dead letter at offset 0 of partition 1", exact=True).click()
    page.get_by_role("button", name="Discard this dead letter").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_text("1 dead letter", exact=True).wait_for()
    discard = dialog.get_by_role("button", name="Discard", exact=True)
    assert discard.is_disabled()
    dialog.locator("input").fill("mail/orders")
    assert discard.is_disabled()
    dialog.locator("input").fill(DEAD)
    discard.click()
    dialog.get_by_text("Done: 1 dead letter discarded").wait_for()
    dialog.get_by_role("button", name="Close").click()
    tile(page, "Letters").get_by_text(str(COUNT - 1), exact=True).wait_for()
    assert [(one.offset, one.reason, one.by) for one in letters.states(DEAD, 1)] == [(0, "discarded", "iggy")]


def test_a_redrive_is_stopped_and_says_how_far_it_came(page: Page, letters: hs.Client) -> None:
    open_letters(page)
    page.get_by_role("button", name="Redrive all").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_text(f"{COUNT} dead letters", exact=True).wait_for()
    dialog.get_by_label("Dead letters per second").fill("1")
    dialog.get_by_role("button", name="Redrive", exact=True).click()
    dialog.get_by_text(re.compile(r"^[1-9]\d* dead letters? sent back of")).wait_for()
    dialog.get_by_role("button", name="Stop").click()
    dialog.get_by_text("Stopped:").wait_for()
    found = re.search(r"(\d+) dead letters? sent back", dialog.inner_text())
    assert found is not None
    sent = letters.topic(TOPIC).partitions[0].end_offset - COUNT
    assert 1 <= sent == int(found[1]) < COUNT
    dialog.get_by_role("button", name="Close").click()
    tile(page, "Letters").get_by_text(str(COUNT - sent), exact=True).wait_for()


def test_a_wrong_filter_is_told(page: Page, letters: hs.Client) -> None:
    go(page, f"#/letters/{DEAD}")
    field = page.get_by_label("Filter dead letters")
    field.fill("hs.attempts =")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("alert").get_by_text("the filter is invalid").wait_for()


def test_letters_have_no_buttons_for_a_user_who_may_only_read(own_page: Page, http: Http, letters: hs.Client) -> None:
    names = ("read_streams", "read_topics", "poll_messages")
    every = dict.fromkeys(GLOBAL_RIGHTS, False)
    rights = {"global": {**every, **dict.fromkeys(names, True)}, "streams": None}
    user = {"username": "onlooker", "password": "secret", "status": "active", "permissions": rights}
    assert http.call("POST", "/users", user).status == 200
    own_page.get_by_role("button", name="Log out").click()
    log_in(own_page, "onlooker", "secret")
    own_page.get_by_role("heading", name="Overview").wait_for()
    open_letters(own_page)
    own_page.get_by_role("button", name="Dead letter at offset 4 of partition 1", exact=True).click()
    own_page.get_by_label("Message at offset 4").wait_for()
    for name in ("Redrive", "Discard", "Set state"):
        assert own_page.get_by_role("button", name=name).count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_and_its_dialogs_have_no_serious_accessibility_violations(
    page: Page, letters: hs.Client, axe: str, theme: str
) -> None:
    if theme == "dark":
        page.get_by_role("button", name="Dark colours").click()
    go(page, "#/letters")
    page.get_by_role("link", name=DEAD).wait_for()
    found = [find_violations(page, axe)]
    open_letters(page)
    page.get_by_role("button", name="Dead letter at offset 4 of partition 1", exact=True).click()
    page.get_by_label("Message at offset 4").wait_for()
    found.append(find_violations(page, axe))
    page.get_by_role("button", name="Discard all").click()
    page.locator("dialog[open]").get_by_text(f"{COUNT} dead letters", exact=True).wait_for(timeout=PATIENCE_MS)
    found.append(find_violations(page, axe))
    assert found == [[], [], []]
