"""The way into the dead letter, killed at every file operation, and with power cuts: one copy, and no other message is lost."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headstream as hs
from headstream.broker.broker import Broker
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.log.administration import create_topic
from tests.campaigns import faulty_files
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog

TOPIC, DEAD = "shop/orders", "shop/dead"
_MEMORY = "/dev/shm"
COUNT = 4


_torn = faulty_files._torn


@pytest.fixture(autouse=True)
def sectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a write of 32 bytes reach the disk whole or not at all, as the slot of an offset, which lies in one sector, does."""

    def torn(change: faulty_files._PendingChange, rng: random.Random) -> faulty_files._PendingChange:
        return change if change.data is None or len(change.data) <= 32 else _torn(change, rng)

    monkeypatch.setattr(faulty_files, "_torn", torn)


class _Files(FaultyFiles):
    """Files whose writes within a page are whole when the process is killed, as the system's are."""

    def is_last_operation(self) -> bool:
        return False


class _Place:
    """A log whose process is killed and begins again."""

    def __init__(self, root: str, seed: int) -> None:
        self.files = _Files(seed)
        self._root = root
        self.log = self._open()
        create_topic(self.log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE, Fsync.ALWAYS), 1)
        create_topic(self.log, NewTopic(TopicName("shop", "dead"), 2, Limits.WIDE), 2)
        self.client = hs.Client(Broker(self.log))
        for number in range(COUNT):
            self.client.send(TOPIC, b"%d" % number, key=b"%d" % number)

    def _open(self) -> KillableLog:
        log = KillableLog(self._root, self.files, 1 << 20)
        log.start_writing("00000000-0000-4000-8000-000000000001", 1, briefly=True)
        return log

    def restart(self, *, has_power_failed: bool) -> None:
        self.log.crash()
        if has_power_failed:
            self.files.cut_power()
        self.files.revive()
        self.log = self._open()
        self.client = hs.Client(Broker(self.log))

    def consume(self, order: str, attempts: int) -> list[bytes | None]:
        """Process what is there; message 1 always fails. Return what was done."""
        done: list[bytes | None] = []
        retry = hs.Retry(attempts, delay="0s", max_delay="0s", order=order)
        consumer = self.client.consumer(TOPIC, group="g", partitions=[1], on_error=retry, dead_letter=DEAD, timeout_ms=0)
        for message in consumer:
            if message.payload == b"1":
                consumer.retry(message, reason="always")
            else:
                done.append(message.payload)
        consumer.close()
        return done


@contextmanager
def place_of(seed: int) -> Iterator[_Place]:
    with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as root:
        place = _Place(root, seed)
        try:
            yield place
        finally:
            place.log.crash()


def letters(place: _Place) -> list[tuple[bytes | None, object]]:
    return [(each.payload, each.headers["hs.origin.offset"]) for each in place.client.poll(DEAD, count=100)]


def survive(order: str, attempts: int, killed_in: int, *, has_power_failed: bool) -> bool:
    """Kill the consumer after so many operations, begin again, and return whether it was killed."""
    with place_of(killed_in) as place:
        place.files.killed_in = killed_in
        was_killed, done = False, list[bytes | None]()
        try:
            done += place.consume(order, attempts)
        except Killed:
            was_killed = True
            place.restart(has_power_failed=has_power_failed)
            done += place.consume(order, attempts)
        place.files.killed_in = None
        assert letters(place) == [(b"1", 1)]
        assert place.client.offsets(TOPIC, "g") == {1: COUNT}
        assert {b"2", b"3"} <= {*done} or was_killed
        assert place.consume(order, attempts) == []
        assert letters(place) == [(b"1", 1)]
        return was_killed


def survive_all(order: str, begin: int, step: int, *, has_power_failed: bool) -> None:
    killed_in = begin
    while survive(order, 2, killed_in, has_power_failed=has_power_failed):
        killed_in += step
    assert killed_in > 60  # the operations of the whole way


@pytest.mark.every_combination
@pytest.mark.parametrize("has_power_failed", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize(("begin", "order"), [(1, "partition"), (3, "key"), (5, "skip")])
def test_a_message_has_one_dead_letter_when_the_process_ends_at_an_operation(
    order: str, begin: int, has_power_failed: bool
) -> None:
    survive_all(order, begin, 6, has_power_failed=has_power_failed)


@pytest.mark.soak
@pytest.mark.parametrize("has_power_failed", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("order", ["partition", "key", "skip"])
def test_a_message_has_one_dead_letter_when_the_process_ends_at_any_operation(order: str, has_power_failed: bool) -> None:
    survive_all(order, 1, 1, has_power_failed=has_power_failed)


def test_a_way_into_the_dead_letter_that_is_killed_twice_makes_one_copy() -> None:
    for first in range(40, 100, 12):
        with place_of(first) as place:
            for killed_in in (first, 1 + first // 2):
                place.files.killed_in = killed_in
                try:
                    place.consume("partition", 3)
                except Killed:
                    place.restart(has_power_failed=False)
            place.files.killed_in = None
            place.consume("partition", 3)
            assert letters(place) == [(b"1", 1)]
