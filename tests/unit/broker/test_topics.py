"""Streams and topics: made, listed, refused and deleted."""

from __future__ import annotations

import pytest

from headstream.broker.broker import Broker
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import (
    AlreadyExistsError,
    InvalidOptionError,
    OffsetOutOfRangeError,
    StreamNotFoundError,
    TopicNotFoundError,
)
from headstream.log.segments.files import ReadFile
from headstream.log.segments.segment import Segment


def test_create_topic_makes_its_stream_too(broker: Broker) -> None:
    topic = broker.topics.create(NewTopic(TopicName("shop", "orders"), 3, Limits.WIDE))
    assert (topic.full_name, topic.id, topic.created_us, topic.limits, topic.messages_count) == ("shop/orders", 1, 7, "wide", 0)
    assert [partition.number for partition in topic.partitions] == [1, 2, 3]
    assert broker.streams.get("shop").topics == ("orders",)
    assert broker.topics.get(TopicName("shop", "orders")) == topic


def test_create_topic_refuses_a_name_that_is_taken_unless_told_otherwise(broker: Broker) -> None:
    name = TopicName("shop", "orders")
    first = broker.topics.create(NewTopic(name, 3, Limits.IGGY))
    with pytest.raises(AlreadyExistsError, match="the topic 'shop/orders' already exists"):
        broker.topics.create(NewTopic(name, 3, Limits.IGGY))
    assert broker.topics.create(NewTopic(name, 5, Limits.WIDE), if_not_exists=True) == first
    with pytest.raises(AlreadyExistsError, match="the stream 'shop' already exists"):
        broker.streams.create("shop")


@pytest.mark.parametrize("partitions", [0, -1, 1001])
def test_create_topic_refuses_a_number_of_partitions_out_of_range(broker: Broker, partitions: int) -> None:
    with pytest.raises(InvalidOptionError, match=f"1 to 1000 partitions, not {partitions}"):
        broker.topics.create(NewTopic(TopicName("shop", "orders"), partitions, Limits.IGGY))
    assert broker.topics.list() == []


def test_lists_are_in_the_order_of_ids(broker: Broker) -> None:
    for stream, topic in (("b", "z"), ("a", "x"), ("b", "y")):
        broker.topics.create(NewTopic(TopicName(stream, topic), 1, Limits.IGGY))
    assert [stream.name for stream in broker.streams.list()] == ["b", "a"]
    assert [topic.full_name for topic in broker.topics.list()] == ["b/z", "b/y", "a/x"]
    assert [topic.full_name for topic in broker.topics.list("b")] == ["b/z", "b/y"]
    assert broker.streams.get("b").topics == ("y", "z")


def test_names_that_are_not_there_are_refused_with_those_that_are_close(broker: Broker) -> None:
    name = TopicName("shop", "ordres")
    with pytest.raises(TopicNotFoundError, match=r"There is no log at this URL\. Check the URL"):
        broker.topics.get(name)
    broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY))
    with pytest.raises(TopicNotFoundError, match=r"no topic 'shop/ordres' .*Did you mean 'shop/orders'\?"):
        broker.topics.get(name)
    with pytest.raises(TopicNotFoundError, match="Create the topic first"):
        broker.topics.delete(TopicName("nowhere", "near"))
    with pytest.raises(StreamNotFoundError, match=r"no stream 'shpo' .*Did you mean 'shop'\?"):
        broker.streams.get("shpo")
    with pytest.raises(StreamNotFoundError):
        broker.topics.list("shpo")
    with pytest.raises(StreamNotFoundError):
        broker.streams.delete("shpo")


def test_list_reads_a_partition_again_when_a_segment_was_removed_after_its_listing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY))

    broker.messages.send(TopicName("shop", "orders"), 1, encode_sent([Message(payload=b"1")]))

    def lose_a_segment(segment: Segment, path: str) -> ReadFile:
        monkeypatch.undo()
        raise OffsetOutOfRangeError("a segment is missing")

    monkeypatch.setattr(Segment, "_open", lose_a_segment)
    assert [(topic.name, topic.messages_count) for topic in broker.topics.list()] == [("orders", 1)]
