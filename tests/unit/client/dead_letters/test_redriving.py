"""A redrive that was interrupted, and topics that are not what they were when the next one begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs
from headstream.client.dead_letters.erasing import ERASURE_REASON
from headstream.client.dead_letters.redriving import Redrive, RedriveCounts
from headstream.errors import LimitError, StorageError

TOPIC, DEAD = "shop/orders", "shop/dead"
COUNT = 3


@pytest.fixture
def log() -> Iterator[hs.Client]:
    """Three letters, of partition 3."""
    with hs.connect("memory://") as log:
        fill(log)
        yield log


def fill(log: hs.Client) -> None:
    log.create_topic(TOPIC, partitions=3)
    for number in range(COUNT):
        log.send(TOPIC, b"%d" % number, partition=3)
    with log.consumer(TOPIC, group="g", on_error=hs.Retry(2), dead_letter=DEAD, timeout_ms=0) as consumer:
        for message in consumer.poll(COUNT):
            consumer.reject(message, reason="unwanted")


def interrupt(log: hs.Client, monkeypatch: pytest.MonkeyPatch, *, is_sent: bool) -> None:
    """Begin a redrive, and fail at its first letter: before its copy is sent, or after it."""
    append: Any = Redrive._append

    def fail(redrive: Redrive, *arguments: Any) -> None:
        if is_sent:
            append(redrive, *arguments)
        raise StorageError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Redrive, "_append", fail)
        with pytest.raises(StorageError):
            Redrive(log, DEAD).run()


def copies(log: hs.Client) -> list[bytes | None]:
    parts = log.topic(TOPIC).partitions
    return [each.payload for part in parts for each in log.poll(TOPIC, part.number) if "hs.redrive" in each.headers]


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_letter_whose_topic_was_deleted_in_between_is_a_letter_again(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    interrupt(log, monkeypatch, is_sent=is_sent)
    assert len(log.poll(DEAD)) == COUNT - 1
    log.delete_topic(TOPIC)
    assert Redrive(log, DEAD).run() == RedriveCounts(matched=COUNT, foreign=COUNT)
    assert len(log.poll(DEAD)) == COUNT
    log.create_topic(TOPIC)
    assert Redrive(log, DEAD).run() == RedriveCounts(matched=COUNT, redriven=COUNT)
    assert copies(log) == [b"0", b"1", b"2"]
    assert log.poll(DEAD) == []


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_letter_whose_partition_is_gone_is_sent_to_the_topic_as_it_is_now(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    interrupt(log, monkeypatch, is_sent=is_sent)
    log.delete_partitions(TOPIC, 2)
    counts = Redrive(log, DEAD).run()
    assert counts.redriven + counts.resumed == COUNT
    assert sorted(copies(log), key=str) == [b"0", b"1", b"2"]
    assert log.poll(DEAD) == []


def test_a_copy_in_a_purged_topic_is_found_when_the_redrive_is_interrupted_again(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(log, monkeypatch, is_sent=False)
    log.purge_topic(TOPIC)
    interrupt(log, monkeypatch, is_sent=True)
    counts = Redrive(log, DEAD).run()
    assert counts.redriven + counts.resumed == COUNT
    assert sorted(copies(log), key=str) == [b"0", b"1", b"2"]


def test_a_letter_that_its_topic_refuses_stays_a_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    with hs.connect("memory://") as log:
        log.create_topic(TOPIC, limits="wide")
        log.send(TOPIC, None, key=b"k")
        log.send(TOPIC, b"1", key=b"k")
        with log.consumer(TOPIC, group="g", on_error=hs.Retry(2), dead_letter=DEAD, timeout_ms=0) as consumer:
            for message in consumer.poll(2):
                consumer.reject(message, reason="unwanted")
        log.delete_topic(TOPIC)
        log.create_topic(TOPIC)  # limits=iggy: no null payloads
        for _ in range(2):
            with pytest.raises(LimitError):
                Redrive(log, DEAD).run()
            assert len(log.poll(DEAD)) == 2
        assert Redrive(log, DEAD, "hs.origin.offset = 1").run().redriven == 1
        assert copies(log) == [b"1"]


def test_an_erased_letter_is_not_waited_for(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(log, monkeypatch, is_sent=False)
    log.set_state(DEAD, 1, 0, "marked_for_deletion", reason="erase 1")
    assert Redrive(log, DEAD).run() == RedriveCounts(matched=COUNT - 1, redriven=COUNT - 1)
    assert copies(log) == [b"1", b"2"]


def test_a_letter_that_is_marked_while_its_topic_refuses_it_stays_marked(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(redrive: Redrive, letter: hs.ReceivedMessage, *place: Any) -> None:
        log.set_state(DEAD, letter.partition, letter.offset, "marked_for_deletion", reason=ERASURE_REASON)
        raise LimitError("too large")

    monkeypatch.setattr(Redrive, "_append", refuse)
    with pytest.raises(LimitError):
        Redrive(log, DEAD).run()
    assert [(change.offset, change.reason) for change in log.states(DEAD)] == [(0, ERASURE_REASON)]
    assert log.remove_marked(DEAD, 1, reason=ERASURE_REASON).removed_count == 1
    assert [each.payload for each in log.poll(DEAD)] == [b"1", b"2"]


def test_a_letter_that_is_erased_while_redrives_are_resumed_is_passed_over(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(log, monkeypatch, is_sent=False)
    states = hs.Client.states

    def erase_then(self: hs.Client, *arguments: Any) -> Any:
        found = states(self, *arguments)
        if found:
            log.set_state(DEAD, 1, 0, "marked_for_deletion", reason=ERASURE_REASON)
            log.remove_marked(DEAD, 1, reason=ERASURE_REASON)
        return found

    monkeypatch.setattr(hs.Client, "states", erase_then)
    assert Redrive(log, DEAD, "hs.origin.offset = 2").run() == RedriveCounts(matched=1, redriven=1)
    assert copies(log) == [b"2"]
