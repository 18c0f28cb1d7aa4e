"""RetryingReading: what the log could not be told is not taken for done, and what nobody received is no attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs
from headstream.broker.deliveries.deliveries import Deliveries
from headstream.errors import OutcomeUnknownError

OPTIONS: dict[str, Any] = {
    "group": "g",
    "timeout_ms": 0,
    "on_error": hs.Retry(attempts=2, delay="0s"),
    "dead_letter": "shop/dead",
}


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        log.create_topic("shop/dead", limits="wide")
        for payload in (b"a", b"b", b"c"):
            log.send("shop/orders", payload)
        yield log


def lose_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next request that records steps fail."""
    settle = Deliveries.settle_deliveries

    def fail(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Deliveries, "settle_deliveries", settle)
        raise OutcomeUnknownError("the connection to the server broke")

    monkeypatch.setattr(Deliveries, "settle_deliveries", fail)


def test_messages_before_one_that_cannot_be_decoded_are_returned_although_its_failure_could_not_be_recorded(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(payload: bytes) -> bytes:
        if payload == b"b":
            raise ValueError("not b")
        return payload

    with log.consumer("shop/orders", decode=decode, **OPTIONS) as consumer:
        lose_next(monkeypatch)
        assert [message.payload for message in consumer.poll()] == [b"a"]
        assert [message.payload for message in consumer.poll()] == [b"c"]  # b failed twice before
        consumer.commit()
    [letter] = log.poll("shop/dead")
    assert letter.payload == b"b"


def test_a_message_that_was_put_back_is_delivered_next_and_counts_as_no_attempt(log: hs.Client) -> None:
    for _ in range(3):  # more often than a message has attempts
        consumer = log.consumer("shop/orders", **OPTIONS)
        first = next(consumer)
        consumer.put_back([first])
        consumer.close()
    with log.consumer("shop/orders", **OPTIONS) as consumer:
        messages = consumer.poll(2)
        consumer.put_back(messages)
        consumer.commit()
        assert [(message.payload, message.attempt) for message in consumer] == [(b"a", 1), (b"b", 1), (b"c", 1)]
    assert log.poll("shop/dead") == []
