"""Unit tests of headstream.client.client."""

from __future__ import annotations

import pytest

import headstream as hs
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
