"""Descriptions of streams, topics and partitions for clients: settings and sizes.

As in Iggy's server, a size is the sum of headers, payload and 45 bytes per stored message, plus 24 bytes per thousand messages of
a partition.

Counting opens the partition's files, so counts are cached until this process, the log's only writer, appends to the partition or
removes segments. A request for an unchanged topic opens no files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from headstream.broker.cached_value import CachedValue
from headstream.core.wire.commands.streams import Stream, StreamDetails
from headstream.core.wire.commands.topics import NEVER, Compression, PartitionInfo, Topic, TopicDetails
from headstream.errors import OffsetOutOfRangeError, PartitionNotFoundError
from headstream.log.catalog.catalog import topics_of
from headstream.log.catalog.records import Snapshot, StreamRecord, TopicRecord
from headstream.log.log import Log

_MESSAGES_A_BATCH: Final = 1000
_BATCH_BYTES: Final = 24


class Totals(NamedTuple):
    """Counts over all partitions of a log."""

    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    size_bytes: int
    groups_count: int


class TopicCounts(NamedTuple):
    """The counts of a topic.

    Args:
        changes: The state of the topic's partitions at the time of counting; see Log.changes().
        created_us: Creation times of the partitions, which distinguish them from deleted partitions with the same numbers.
    """

    partitions: tuple[PartitionInfo, ...]
    messages_count: int
    size_bytes: int
    segments_count: int
    changes: dict[int, tuple[int, ...]]
    created_us: tuple[int, ...]


class CountsCache:
    """Caches the counts of a log's partitions; thread-safe. This process must be the log's writer."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kept: dict[int, TopicCounts] = {}
        self._totals = CachedValue[Totals]()

    def partitions(self, topic: TopicRecord) -> tuple[PartitionInfo, ...]:
        """Return the current partitions of a topic; partitions that are being purged or deleted are reported as empty."""
        return self.topic(topic).partitions

    def topic(self, topic: TopicRecord) -> TopicCounts:
        """Return the current counts of a topic; recount the partitions that this process has changed since the last call."""
        changes = self._log.changes(topic)  # first: changes during the count are counted again
        kept = self._kept.get(topic.number)
        if kept is not None and kept.created_us != topic.partitions_created_us:
            kept = None
        if kept is not None and kept.changes == changes:
            return kept
        partitions = tuple(
            kept.partitions[number - 1]
            if kept is not None and kept.changes.get(number) == changes.get(number)
            else self._partition(topic, number)
            for number in range(1, topic.partitions + 1)
        )
        made = self._kept[topic.number] = TopicCounts(
            partitions,
            sum(partition.messages_count for partition in partitions),
            sum(partition.size_bytes for partition in partitions),
            sum(partition.segments_count for partition in partitions),
            changes,
            topic.partitions_created_us,
        )
        return made

    def totals(self, snapshot: Snapshot) -> Totals:
        """Return the totals of a log; one thread counts while other threads wait for the result."""
        return self._totals.get(lambda: self._count(snapshot))

    def _count(self, snapshot: Snapshot) -> Totals:
        topics = list(topics_of(snapshot))
        counted = [self.topic(topic) for topic in topics]
        if len(self._kept) > 2 * len(topics):
            self._forget_deleted(topics)
        return Totals(
            streams_count=len(snapshot),
            topics_count=len(topics),
            partitions_count=sum(topic.partitions for topic in topics),
            segments_count=sum(each.segments_count for each in counted),
            messages_count=sum(each.messages_count for each in counted),
            size_bytes=sum(each.size_bytes for each in counted),
            groups_count=sum(len(topic.groups) for topic in topics),
        )

    def _forget_deleted(self, topics: Iterable[TopicRecord]) -> None:
        numbers = {topic.number for topic in topics}
        for number in [number for number in tuple(self._kept) if number not in numbers]:
            self._kept.pop(number, None)

    def _partition(self, topic: TopicRecord, number: int) -> PartitionInfo:
        try:
            return self._count_partition(topic, number)
        except (PartitionNotFoundError, OffsetOutOfRangeError):
            return PartitionInfo(number, topic.partitions_created_us[number - 1], 1, 0, 0, 0)

    def _count_partition(self, topic: TopicRecord, number: int) -> PartitionInfo:
        created_us = topic.partitions_created_us[number - 1]
        with self._log.reading(topic, number) as follower:
            follower.refresh()
            count, end = follower.messages_count(), follower.end_offset
            size_bytes = follower.size_bytes() + _BATCH_BYTES * (count // _MESSAGES_A_BATCH)
            return PartitionInfo(number, created_us, max(len(follower.segment_offsets), 1), max(end - 1, 0), size_bytes, count)


def detail_topic(counts: CountsCache, topic: TopicRecord) -> TopicDetails:
    """Return a topic with its partitions."""
    counted = counts.topic(topic)
    return TopicDetails(
        topic.id,
        topic.created_us,
        topic.partitions,
        NEVER if topic.options.retention_us is None else topic.options.retention_us,
        Compression(topic.labels.compression),
        NEVER if topic.options.retention_bytes is None else topic.options.retention_bytes,
        topic.labels.replication,
        counted.size_bytes,
        counted.messages_count,
        topic.name.topic,
        counted.partitions,
    )


def describe_topic(counts: CountsCache, topic: TopicRecord) -> Topic:
    """Return a topic without its partitions."""
    return Topic.of(detail_topic(counts, topic))


def detail_stream(counts: CountsCache, stream: StreamRecord) -> StreamDetails:
    """Return a stream with its topics."""
    topics = tuple(describe_topic(counts, topic) for topic in stream.topics.values())
    size_bytes, messages = sum(topic.size_bytes for topic in topics), sum(topic.messages_count for topic in topics)
    return StreamDetails(stream.id, stream.created_us, len(topics), size_bytes, messages, stream.name, topics)


def describe_stream(counts: CountsCache, stream: StreamRecord) -> Stream:
    """Return a stream without its topics."""
    return Stream.of(detail_stream(counts, stream))
