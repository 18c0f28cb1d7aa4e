"""Where a message goes whose way into the dead letter was interrupted or refused, and the dead letter is another one since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import headstream as hs
from headstream.broker.deliveries.dead_letters import DeadLetterCopies
from headstream.errors import InvalidOptionError, LimitError, StorageError

TOPIC, DEAD = "shop/orders", "shop/dead"


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic(TOPIC, limits="wide")
        log.send(TOPIC, b"x", key=b"k")
        log.send(TOPIC, None, key=b"k")
        yield log


def reject(log: hs.Client, offset: int, dead_letter: str | None = DEAD, *, mode: str = "ordered") -> None:
    """Finish the messages before an offset, and reject the one at it."""
    retry = hs.Retry(None if dead_letter is None else 3)
    options: dict[str, Any] = {"group": "g", "on_error": retry, "dead_letter": dead_letter, "timeout_ms": 0, "mode": mode}
    with log.consumer(TOPIC, **options) as consumer:
        for message in consumer:
            if message.offset == offset:
                consumer.reject(message, reason="no")


def letters(log: hs.Client, topic: str = DEAD) -> list[tuple[bytes | None, Any]]:
    found = log.topic(topic).partitions
    return [(each.payload, each.headers["hs.origin.offset"]) for part in found for each in log.poll(topic, part.number)]


def interrupt(log: hs.Client, monkeypatch: pytest.MonkeyPatch, *, is_appended: bool) -> None:
    """Reject message 0, and fail before its copy is appended, or after it."""
    copy = DeadLetterCopies.copy

    def fail(*arguments: Any) -> int:
        if is_appended:
            copy(*arguments)
        raise StorageError("no space left")

    with monkeypatch.context() as patched, suppress(StorageError):
        patched.setattr(DeadLetterCopies, "copy", fail)
        reject(log, 0)
    assert log.offsets(TOPIC, "g") in ({}, {1: 0})


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_a_message_that_does_not_fit_goes_into_the_dead_letter_that_is_named_next(log: hs.Client, mode: str) -> None:
    log.create_topic(DEAD, partitions=2)  # limits=iggy: no null payloads
    with pytest.raises(LimitError):
        reject(log, 1, mode=mode)
    with pytest.raises(LimitError):
        reject(log, 1, mode=mode)
    reject(log, 1, "shop/wide", mode=mode)
    assert letters(log, "shop/wide") == [(None, 1)]
    assert letters(log) == []
    assert log.offsets(TOPIC, "g") == {1: 2}


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_dead_letter_made_anew_with_fewer_partitions_gets_the_message(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch, is_appended: bool
) -> None:
    log.create_topic(DEAD, partitions=7, limits="wide")
    interrupt(log, monkeypatch, is_appended=is_appended)
    assert any(part.messages_count for part in log.topic(DEAD).partitions[1:]) is is_appended
    log.delete_topic(DEAD)
    log.create_topic(DEAD, limits="wide")
    reject(log, 9)
    assert letters(log) == [(b"x", 0)]
    assert log.offsets(TOPIC, "g") == {1: 2}


def test_a_copy_in_a_purged_dead_letter_is_found_when_its_way_is_interrupted_again(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic(DEAD, limits="wide")
    for number in range(5):
        log.send(DEAD, b"other %d" % number)
    interrupt(log, monkeypatch, is_appended=False)
    log.purge_topic(DEAD)
    interrupt(log, monkeypatch, is_appended=True)
    reject(log, 9)
    assert letters(log) == [(b"x", 0)]


def test_without_a_name_the_message_goes_where_it_was_to_go(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create_topic(DEAD, limits="wide")
    interrupt(log, monkeypatch, is_appended=False)
    reject(log, 9, None)
    assert letters(log) == [(b"x", 0)]
    assert log.offsets(TOPIC, "g") == {1: 2}


def test_without_a_name_and_without_that_topic_the_group_waits(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(log, monkeypatch, is_appended=False)
    log.delete_topic(DEAD)
    with pytest.raises(InvalidOptionError, match="message 0 has failed permanently"):
        reject(log, 9, None)
    reject(log, 9)
    assert letters(log) == [(b"x", 0)]
