"""SharedReading: what nobody received is neither settled nor an attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs
from headstream.broker.deliveries.leases import Leases
from headstream.errors import OutcomeUnknownError

OPTIONS: dict[str, Any] = {"group": "g", "timeout_ms": 0, "mode": "shared"}


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        for payload in (b"a", b"b", b"c"):
            log.send("shop/orders", payload)
        yield log


def test_messages_that_were_put_back_are_delivered_next_and_no_commit_settles_them(log: hs.Client) -> None:
    with log.consumer("shop/orders", **OPTIONS) as consumer:
        messages = consumer.poll(2)
        consumer.put_back(messages)
        consumer.commit()
        assert [(message.payload, message.attempt) for message in consumer] == [(b"a", 1), (b"b", 1), (b"c", 1)]


def test_messages_that_were_put_back_go_to_another_worker_after_close(log: hs.Client) -> None:
    with log.consumer("shop/orders", **OPTIONS) as consumer:
        consumer.put_back([next(consumer)])
    with log.consumer("shop/orders", **OPTIONS) as consumer:
        assert [(message.payload, message.attempt) for message in consumer] == [(b"a", 1), (b"b", 1), (b"c", 1)]


def test_messages_of_a_poll_are_returned_although_the_failure_of_a_later_one_could_not_be_recorded(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(payload: bytes) -> bytes:
        if payload == b"b":
            raise ValueError("not b")
        return payload

    settle = Leases.settle_leases

    def fail(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Leases, "settle_leases", settle)
        raise OutcomeUnknownError("the connection to the server broke")

    retry = hs.Retry(attempts=None, delay="5m")
    with log.consumer("shop/orders", decode=decode, on_error=retry, **OPTIONS) as consumer:
        monkeypatch.setattr(Leases, "settle_leases", fail)
        assert [message.payload for message in consumer.poll(3)] == [b"a"]
        assert [message.payload for message in consumer.poll(3)] == [b"c"]
        consumer.commit()


def test_a_deferred_message_that_cannot_be_decoded_takes_no_other_message_with_it(log: hs.Client) -> None:
    broken: list[bytes] = []

    def decode(payload: bytes) -> bytes:
        if payload in broken:
            raise ValueError(f"not {payload!r}")
        return payload

    retry = hs.Retry(attempts=None, delay="5m")
    with log.consumer("shop/orders", decode=decode, on_error=retry, **OPTIONS) as consumer:
        consumer.defer(consumer.poll(1)[0])
        broken.append(b"a")
        assert consumer.fetch()  # the next message is leased and in no one's hands
        with pytest.raises(hs.InvalidInputError, match="cannot be decoded"):
            consumer.fetch_deferred(1, 0)
        consumer.commit()
        assert [message.payload for message in consumer] == [b"b", b"c"]
