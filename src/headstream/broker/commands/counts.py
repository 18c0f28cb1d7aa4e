"""What clients are told of streams, topics and partitions: their settings, and how much is in them.

A size is that of the stored messages, 45 bytes and its headers and payload each, and 24 bytes for each thousand messages
of a partition: so the original counts what it has written in batches, and what asks for sizes expects it.
"""

from __future__ import annotations

from headstream.broker.commands.dispatch import Dispatcher
from headstream.errors import OffsetOutOfRangeError, PartitionNotFoundError
from headstream.log.catalog import StreamRecord, TopicRecord
from headstream.wire.commands.streams import Stream, StreamDetails
from headstream.wire.commands.topics import NEVER, Compression, Partition, Topic, TopicDetails

__all__ = ["describe_partitions", "describe_stream", "describe_topic", "detail_stream", "detail_topic"]

_MESSAGES_A_BATCH = 1000
_BATCH_BYTES = 24


def describe_partitions(server: Dispatcher, topic: TopicRecord) -> tuple[Partition, ...]:
    """Return the partitions of a topic as they are now; one that is purged or deleted at this moment is empty."""
    return tuple(_describe_partition(server, topic, number) for number in range(1, topic.partitions + 1))


def _describe_partition(server: Dispatcher, topic: TopicRecord, number: int) -> Partition:
    created_us = topic.partitions_created_us[number - 1]
    try:
        with server.broker.backing.log.reading(topic, number) as follower:
            follower.refresh()
            count, end = follower.messages_count(), follower.end_offset
            size_bytes = follower.size_bytes() + _BATCH_BYTES * (count // _MESSAGES_A_BATCH)
            return Partition(number, created_us, max(follower.segments_count, 1), max(end - 1, 0), size_bytes, count)
    except (PartitionNotFoundError, OffsetOutOfRangeError):
        return Partition(number, created_us, 1, 0, 0, 0)


def detail_topic(server: Dispatcher, topic: TopicRecord) -> TopicDetails:
    """Return a topic with its partitions."""
    partitions = describe_partitions(server, topic)
    return TopicDetails(
        topic.id,
        topic.created_us,
        topic.partitions,
        NEVER if topic.options.retention_us is None else topic.options.retention_us,
        Compression(topic.labels.compression),
        NEVER if topic.options.retention_bytes is None else topic.options.retention_bytes,
        topic.labels.replication,
        sum(partition.size_bytes for partition in partitions),
        sum(partition.messages_count for partition in partitions),
        topic.name.topic,
        partitions,
    )


def describe_topic(server: Dispatcher, topic: TopicRecord) -> Topic:
    """Return a topic without its partitions."""
    return _without_partitions(detail_topic(server, topic))


def detail_stream(server: Dispatcher, stream: StreamRecord) -> StreamDetails:
    """Return a stream with its topics."""
    topics = tuple(describe_topic(server, topic) for topic in stream.topics.values())
    size_bytes, messages = sum(topic.size_bytes for topic in topics), sum(topic.messages_count for topic in topics)
    return StreamDetails(stream.id, stream.created_us, len(topics), size_bytes, messages, stream.name, topics)


def describe_stream(server: Dispatcher, stream: StreamRecord) -> Stream:
    """Return a stream without its topics."""
    found = detail_stream(server, stream)
    return Stream(found.id, found.created_us, found.topics_count, found.size_bytes, found.messages_count, found.name)


def _without_partitions(topic: TopicDetails) -> Topic:
    return Topic(
        topic.id,
        topic.created_us,
        topic.partitions_count,
        topic.message_expiry,
        topic.compression,
        topic.max_topic_size,
        topic.replication_factor,
        topic.size_bytes,
        topic.messages_count,
        topic.name,
    )
