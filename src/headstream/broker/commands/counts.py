"""What clients are told of streams, topics and partitions: their settings, and how much is in them.

A size is that of the stored messages, 45 bytes and its headers and payload each, and 24 bytes for each thousand messages
of a partition: so the original counts what it has written in batches, and what asks for sizes expects it.

Counting a partition opens its files. So its counts are kept until an append, a new segment or a removed one changes them, and
the totals of a large log for a moment: a client that asks again and again costs what it costs to look them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from headstream.broker.kept_value import KeptValue
from headstream.errors import HeadstreamError, OffsetOutOfRangeError, PartitionNotFoundError
from headstream.log.catalog import Snapshot, StreamRecord, TopicRecord
from headstream.log.log import Log
from headstream.wire.commands.streams import Stream, StreamDetails
from headstream.wire.commands.topics import NEVER, Compression, Partition, Topic, TopicDetails

__all__ = ["Counts", "Totals", "describe_stream", "describe_topic", "detail_stream", "detail_topic"]

_MESSAGES_A_BATCH: Final = 1000
_BATCH_BYTES: Final = 24


class Totals(NamedTuple):
    """Counts over all partitions of a log.

    Args:
        streams_count: How many streams there are.
        topics_count: How many topics.
        partitions_count: How many partitions.
        segments_count: How many segments.
        messages_count: How many messages.
        size_bytes: The size of the messages.
        groups_count: How many consumer groups.
    """

    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    size_bytes: int
    groups_count: int


class _Counted(NamedTuple):
    """The counts of a partition, and the state of its files that they are of."""

    state: tuple[int, ...]
    partition: Partition


class Counts:
    """The counts of a log's partitions; any thread.

    Args:
        log: The log; this process is its writer.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kept: dict[tuple[int, int, int], _Counted] = {}
        self._totals = KeptValue[Totals]()

    def partitions(self, topic: TopicRecord) -> tuple[Partition, ...]:
        """Return the partitions of a topic as they are now; one that is purged or deleted at this moment is empty."""
        return tuple(self._partition(topic, number) for number in range(1, topic.partitions + 1))

    def totals(self, snapshot: Snapshot) -> Totals:
        """Return the totals of a log; one thread counts, others wait for what it finds.

        Args:
            snapshot: The streams and topics.
        """
        return self._totals.get(lambda: self._count(snapshot))

    def _count(self, snapshot: Snapshot) -> Totals:
        topics = [topic for stream in snapshot.values() for topic in stream.topics.values()]
        partitions = segments = messages = size_bytes = 0
        for topic in topics:
            for found in self.partitions(topic):
                partitions += 1
                segments += found.segments_count
                messages += found.messages_count
                size_bytes += found.size_bytes
        if len(self._kept) > 2 * partitions:
            self._forget_deleted(topics)
        groups = sum(len(topic.groups) for topic in topics)
        return Totals(len(snapshot), len(topics), partitions, segments, messages, size_bytes, groups)

    def _forget_deleted(self, topics: Iterable[TopicRecord]) -> None:
        numbers = {topic.number for topic in topics}
        for key in [key for key in tuple(self._kept) if key[0] not in numbers]:
            self._kept.pop(key, None)

    def _partition(self, topic: TopicRecord, number: int) -> Partition:
        key = topic.number, number, topic.generation(number)
        try:
            state = self._state(topic, number)
            kept = self._kept.get(key)
            if kept is None or kept.state != state:
                kept = self._kept[key] = _Counted(state, self._count_partition(topic, number))
            return kept.partition
        except (PartitionNotFoundError, OffsetOutOfRangeError):
            self._kept.pop(key, None)
            return Partition(number, topic.partitions_created_us[number - 1], 1, 0, 0, 0)
        except HeadstreamError:
            self._kept.pop(key, None)
            raise

    def _state(self, topic: TopicRecord, number: int) -> tuple[int, ...]:
        """Return numbers that change with the messages of a partition, without a look into its files.

        The end moves with each append of this process, the log's only writer; the directory changes where retention or
        compaction removes or replaces segments.
        """
        directory = self._log.partition_directory(topic, number)
        changed = self._log.files.changed(directory)
        if changed is None:
            raise PartitionNotFoundError("there is no such partition, or it has been deleted", where=directory)
        end = self._log.writing_end(topic, number)
        return (changed,) if end is None else (changed, end.written, end.end_offset, end.base_offset)

    def _count_partition(self, topic: TopicRecord, number: int) -> Partition:
        created_us = topic.partitions_created_us[number - 1]
        with self._log.reading(topic, number) as follower:
            follower.refresh()
            count, end = follower.messages_count(), follower.end_offset
            size_bytes = follower.size_bytes() + _BATCH_BYTES * (count // _MESSAGES_A_BATCH)
            return Partition(number, created_us, max(follower.segments_count, 1), max(end - 1, 0), size_bytes, count)


def detail_topic(counts: Counts, topic: TopicRecord) -> TopicDetails:
    """Return a topic with its partitions."""
    partitions = counts.partitions(topic)
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


def describe_topic(counts: Counts, topic: TopicRecord) -> Topic:
    """Return a topic without its partitions."""
    return _without_partitions(detail_topic(counts, topic))


def detail_stream(counts: Counts, stream: StreamRecord) -> StreamDetails:
    """Return a stream with its topics."""
    topics = tuple(describe_topic(counts, topic) for topic in stream.topics.values())
    size_bytes, messages = sum(topic.size_bytes for topic in topics), sum(topic.messages_count for topic in topics)
    return StreamDetails(stream.id, stream.created_us, len(topics), size_bytes, messages, stream.name, topics)


def describe_stream(counts: Counts, stream: StreamRecord) -> Stream:
    """Return a stream without its topics."""
    found = detail_stream(counts, stream)
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
