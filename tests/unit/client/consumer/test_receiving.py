"""Each payload is checked against its checksum, wherever its bytes changed; what is before it is delivered first."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import headstream as hs
from headstream.broker.broker import Broker
from headstream.core.model.polling import Polled
from headstream.log.opening import open_memory


class Noisy:
    """A broker behind a line that flips a bit of one message's payload.

    Args:
        broker: The broker.
        wrong: The payload that arrives otherwise than it was stored.
    """

    def __init__(self, broker: Broker, wrong: bytes) -> None:
        self._broker = broker
        self._wrong = wrong
        self.messages = self

    def poll(self, *arguments: Any, **options: Any) -> Polled:
        polled = self._broker.messages.poll(*arguments, **options)
        chunks = tuple(memoryview(bytes(chunk).replace(self._wrong, self._wrong[:-1] + b"?")) for chunk in polled.chunks)
        return dataclasses.replace(polled, chunks=chunks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker.messages if name in ("append", "wait", "states") else self._broker, name)


@pytest.fixture
def log() -> Any:
    with hs.Client(Noisy(Broker(open_memory()), b"m-5")) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for number in range(10):
                producer.send(b"m-%d" % number, headers={"n": number})
        yield log


def test_a_consumer_gets_what_is_before_and_behind_a_wrong_payload(log: hs.Client) -> None:
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert [next(consumer).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(hs.ChecksumError) as caught:
            next(consumer)
        error = caught.value
        assert "the message at offset 5" in str(error)
        assert "(shop/orders, partition 1)" in str(error)
        assert (error.partition, error.from_offset, error.until_offset) == (1, 5, 6)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert log.offsets("shop/orders", "g") == {1: 5}
        consumer.seek(error.partition, error.until_offset)
        assert [message.offset for message in consumer] == [6, 7, 8, 9]
    assert log.offsets("shop/orders", "g") == {1: 10}


def test_a_poll_raises_only_when_the_wrong_payload_is_the_next(log: hs.Client) -> None:
    assert [message.offset for message in log.poll("shop/orders")] == [0, 1, 2, 3, 4]
    with pytest.raises(hs.ChecksumError, match=r"seek\(1, 6\) continues after the message"):
        log.poll("shop/orders", start=5)
    assert [message.offset for message in log.poll("shop/orders", start=6)] == [6, 7, 8, 9]
