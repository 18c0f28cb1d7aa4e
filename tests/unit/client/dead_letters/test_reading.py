"""Letters page by page: what a page has, where the next one begins, and a redrive that goes on from page to page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headstream as hs
from headstream.client.consumer.membership import GroupMembership
from headstream.client.dead_letters.reading import ReasonCounts, discard_dead_letters, read_dead_letters
from headstream.client.dead_letters.redriving import Redrive
from headstream.core.model.identifiers import TopicName
from headstream.errors import GroupInUseError

TOPIC, DEAD = "shop/orders", "shop/orders.dead"
COUNT = 12


@pytest.fixture
def log() -> Iterator[hs.Client]:
    """A log with twelve letters of one partition, of which each third was rejected, the others tried once."""
    with hs.connect("memory://") as opened:
        opened.create_topic(TOPIC)
        for number in range(COUNT):
            opened.send(TOPIC, b"%d" % number)
        retry = hs.Retry(1, delay="0s", max_delay="0s")
        with opened.consumer(TOPIC, group="billing", on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
            for number, message in enumerate(consumer.poll(COUNT)):
                if number % 3:
                    consumer.retry(message, reason=ValueError(f"no order {number}"))
                else:
                    consumer.reject(message, reason="unwanted")
        yield opened


def test_pages_follow_each_other_without_gap_or_repeat_and_the_last_one_says_so(log: hs.Client) -> None:
    offsets, start, is_last = list[int](), 0, False
    while not is_last:
        page = read_dead_letters(log, DEAD, 1, start, where="hs.reason_code = 'max_attempts'", count=3)
        offsets += [letter.offset for letter in page.letters]
        assert page.next_offset > start
        start, is_last = page.next_offset, page.is_last
    assert offsets == [number for number in range(COUNT) if number % 3]


def test_a_page_ends_where_it_is_told_although_there_are_more_letters(log: hs.Client) -> None:
    page = read_dead_letters(log, DEAD, 1, 2, 5)
    assert [letter.offset for letter in page.letters] == [2, 3, 4]
    assert (page.next_offset, page.is_last, page.scanned_count) == (5, True, COUNT - 2)
    assert read_dead_letters(log, DEAD, 1, COUNT) == ([], COUNT, True, 0)


def test_reasons_beyond_the_limit_are_counted_together(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.client.dead_letters.reading._MOST_REASONS", 3)
    reasons = ReasonCounts()
    for letter in read_dead_letters(log, DEAD, 1).letters:
        reasons.add(letter)
    found = reasons.to_documents()
    assert sorted((one["reason"] or "", one["is_rest"], one["count"]) for one in found) == [
        ("", True, 6),
        ("ValueError: no order 1", False, 1),
        ("ValueError: no order 2", False, 1),
        ("unwanted", False, 4),
    ]
    assert sum(one["count"] for one in found) == COUNT


def test_a_redrive_goes_on_from_page_to_page_and_sends_each_letter_once(log: hs.Client) -> None:
    redrive, start, is_last, pages = Redrive(log, DEAD, "hs.reason = 'unwanted'"), 0, False, 0
    while not is_last:
        start, is_last = redrive.run_page(1, start, count=3, resumes=not pages)
        pages += 1
    assert (redrive.counts.matched, redrive.counts.redriven, pages) == (4, 4, 2)
    assert [message.payload for message in log.poll(TOPIC, start=COUNT, count=100)] == [b"0", b"3", b"6", b"9"]
    assert {change.reason for change in log.states(DEAD, 1)} == {"redriven"}


def test_a_page_that_takes_too_long_sends_one_letter_and_says_where_to_go_on(log: hs.Client) -> None:
    redrive = Redrive(log, DEAD)
    assert redrive.run_page(1, seconds=0) == (1, False)
    assert redrive.counts.redriven == 1


def test_a_page_is_refused_while_another_redrive_has_the_partition(log: hs.Client) -> None:
    other = GroupMembership(log.transport, TopicName.parse(DEAD), "hs.dlq", 60_000)
    assert list(other.report().partitions) == [1]
    with pytest.raises(GroupInUseError, match="partition 1"):
        Redrive(log, DEAD).run_page(1)
    other.leave()
    Redrive(log, DEAD).run_page(1)


def test_discarded_letters_are_not_listed(log: hs.Client) -> None:
    discard_dead_letters(log, DEAD, {1: [0, 1, 5]})
    left = [letter.offset for letter in read_dead_letters(log, DEAD, 1).letters]
    assert left == [offset for offset in range(COUNT) if offset not in (0, 1, 5)]
