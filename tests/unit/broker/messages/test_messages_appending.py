"""Unit tests of headstream.broker.messages.messages: appending."""

from __future__ import annotations

import pytest

from headstream.broker.broker import Broker
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.polling import PollingStrategy
from headstream.errors import TopicNotFoundError
from tests.support.log.logs import batch
from tests.unit.broker.messages.test_messages import TOPIC, Clock, broker, clock, messages

__all__ = ["broker", "clock"]  # fixtures


def test_send_takes_time_and_ids_from_the_callables(broker: Broker, clock: Clock) -> None:
    assert broker.messages.send(TOPIC, 1, batch(b"a")) == 0
    clock.now_us = 5_000_000
    assert broker.messages.send(TOPIC, 1, batch(b"b")) == 1
    first, second = messages(broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.first(), 10)))
    assert (first.timestamp, second.timestamp) == (1000, 5_000_000)
    assert second.id.to_bytes(16, "little")[:6] == (5000).to_bytes(6, "big")
    assert broker.topics.get(TOPIC).created_us == 1000


def test_send_refuses_a_topic_that_has_been_deleted(broker: Broker) -> None:
    broker.messages.send(TOPIC, 1, batch(b"x"))
    broker.topics.delete(TOPIC)
    with pytest.raises(TopicNotFoundError):
        broker.messages.send(TOPIC, 1, batch(b"x"))
