"""A redrive of dead letters, killed at every file operation: each message goes back once, and no letter is lost."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.broker.broker import Broker
from headstream.client.dead_letters.redriving import Redrive
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.log.administration import create_topic
from tests.campaigns.faulty_files import Killed
from tests.campaigns.lease_model import PageFiles
from tests.campaigns.log_histories import KillableLog

TOPIC, DEAD = "shop/orders", "shop/dead"
MEMORY = "/dev/shm"
COUNT = 3


class _Direct:
    """A producer that appends in the calling thread: in the thread of a real one the kill would end only that thread."""

    def __init__(self, client: hs.Client, topic: str) -> None:
        self._client = client
        self._name = TopicName.parse(topic)

    def send(self, payload: bytes | None, *, key: bytes | None, headers: hs.Headers, id: int, partition: int) -> _Direct:
        sent = encode_sent([hs.Message(payload=payload, headers=headers, key=key, id=id)])
        self._client.transport.messages.send(self._name, partition, sent)
        return self

    def result(self) -> None:
        """Return: it is appended."""


class _Place:
    """A log with three letters, whose process is killed and begins again."""

    def __init__(self, root: str, seed: int) -> None:
        self.files = PageFiles(seed)
        self._root = root
        self._open()
        create_topic(self.log, NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE, Fsync.ALWAYS), 1)
        create_topic(self.log, NewTopic(TopicName("shop", "dead"), 1, Limits.WIDE, Fsync.ALWAYS), 2)
        for number in range(COUNT):
            self.client.send(TOPIC, b"%d" % number, key=b"k")
        retry = hs.Retry(2, delay="0s", max_delay="0s")
        with self.client.consumer(TOPIC, group="g", partitions=[1], on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
            for message in consumer.poll(COUNT):
                consumer.reject(message, reason="unwanted")

    def _open(self) -> None:
        self.log = KillableLog(self._root, self.files, 1 << 20)
        self.log.start_writing("00000000-0000-4000-8000-000000000001", 1, briefly=True)
        self.client = hs.Client(Broker(self.log))
        make: Any = lambda topic, **options: _Direct(self.client, topic)  # noqa: E731
        self.client.forwarding_producer = make  # type: ignore[method-assign]

    def restart(self) -> None:
        self.log.crash()
        self.files.revive()
        self._open()

    def copies(self) -> list[tuple[bytes | None, str]]:
        found = self.client.poll(TOPIC, start=COUNT, count=100)
        return [(message.payload, str(message.headers["hs.redrive"])) for message in found]


def survive(*killed_in: int) -> bool:
    """Kill the redrive after so many operations, and again, begin anew, and return whether it was killed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as root:
        place, was_killed = _Place(root, killed_in[0]), False
        try:
            for operations in killed_in:
                place.files.killed_in = operations
                try:
                    Redrive(place.client, DEAD).run()
                except Killed:
                    was_killed = True
                    place.restart()
            place.files.killed_in = None
            Redrive(place.client, DEAD).run()
            assert place.copies() == [(b"%d" % number, f"{DEAD}/1/{number}") for number in range(COUNT)]
            assert [change.reason for change in place.client.states(DEAD, 1)] == ["redriven"] * COUNT
            assert Redrive(place.client, DEAD).run().matched == 0
            return was_killed
        finally:
            place.log.crash()


def survive_all(begin: int, step: int) -> None:
    killed_in = begin
    while survive(killed_in):
        killed_in += step
    assert killed_in > 30  # the operations of the whole way


@pytest.mark.parametrize("begin", [1, 3, 5])
def test_a_message_goes_back_once_when_its_redrive_is_killed_at_an_operation(begin: int) -> None:
    survive_all(begin, 7)


@pytest.mark.soak
def test_a_message_goes_back_once_when_its_redrive_is_killed_at_any_operation() -> None:
    survive_all(1, 1)


def test_a_redrive_that_is_killed_twice_sends_each_message_once() -> None:
    for first in range(2, 40, 6):
        survive(first, 1 + first // 2)
