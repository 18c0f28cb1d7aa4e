"""Unit tests of headstream.broker.streams."""

from __future__ import annotations

import pytest

from headstream.broker.broker import Broker
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import InvalidInputError, TopicNotFoundError


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "x" * 256, "a\0"])
def test_create_stream_refuses_a_name_that_cannot_be_one(broker: Broker, name: str) -> None:
    with pytest.raises(InvalidInputError):
        broker.streams.create(name)
    assert broker.streams.list() == []


def test_delete_stream_deletes_its_topics(broker: Broker) -> None:
    broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY))
    broker.topics.create(NewTopic(TopicName("bank", "orders"), 1, Limits.IGGY))
    broker.streams.delete("shop")
    assert [topic.full_name for topic in broker.topics.list()] == ["bank/orders"]
    with pytest.raises(TopicNotFoundError):
        broker.topics.get(TopicName("shop", "orders"))
