"""Unit tests of headstream.client.client."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.client import client
from tests.unit.client.producer.test_producer import Gated, gated

__all__ = ["gated"]  # fixtures


def test_closing_the_log_flushes_its_producers() -> None:
    with hs.connect("memory://test_closing") as other, hs.connect("memory://test_closing") as log:
        log.create_topic("shop/orders")
        producer = log.producer("shop/orders", linger_ms=60_000)
        producer.send(b"x")
        log.close()
        assert other.topic("shop/orders").messages_count == 1
        with pytest.raises(hs.ClosedError):
            producer.send(b"y")


def test_closing_the_log_closes_all_and_raises_what_could_not_be_stored(gated: Gated) -> None:
    gated.gate.error = hs.StorageError("no room")
    producers = [gated.log.producer("shop/orders", linger_ms=60_000) for _ in range(2)]
    for producer in producers:
        producer.send(b"lost")
    with pytest.raises(hs.StorageError, match="no room"):
        gated.log.close()
    for producer in producers:
        with pytest.raises(hs.ClosedError, match="the producer is closed"):
            producer.send(b"more")
    with pytest.raises(hs.ClosedError, match="the log is closed"):
        gated.log.topics()


@pytest.mark.parametrize("name", ["consumer", "producer"])
def test_a_consumer_or_producer_that_is_made_while_another_thread_closes_the_log_is_closed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched = {"consumer": "make_consumer", "producer": "Producer"}[name]
    make = getattr(client, patched)
    made: list[Any] = []

    def make_and_close(*arguments: Any) -> Any:
        made.append(make(*arguments))
        log.close()
        return made[0]

    with hs.connect("memory://test_making") as other, hs.connect("memory://test_making") as log:
        log.create_topic("shop/orders")
        monkeypatch.setattr(client, patched, make_and_close)
        with pytest.raises(hs.ClosedError, match="the log is closed"):
            log.consumer("shop/orders", group="g") if name == "consumer" else log.producer("shop/orders")
        with pytest.raises(hs.ClosedError):
            made[0].poll() if name == "consumer" else made[0].send(b"x")
        assert not any(group.members for group in other.groups("shop/orders"))
