"""LogView: the driver's view of a log, with its partitions and their current offsets.

directory_view.py    view of a log in a directory: takes no lock and sees all commits of the log's writer
server_view.py       view of a log behind a server
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from headstream.errors import PartitionNotFoundError, TopicNotFoundError
from headstream.spark.source.offsets import Available, OffsetRange, SourceOffsets, TopicPartition
from headstream.spark.source.reader import ReadableLog
from headstream.spark.source.subscription import Subscription


class SeenTopic(NamedTuple):
    """A topic at a refresh.

    Args:
        identity: Identifies the topic among topics with the same name, across purges and deletions.
        generations: Identifies each partition among partitions with the same number.
    """

    name: str
    identity: str
    generations: tuple[int, ...]


class LogView(ABC):
    """The subscribed topics of a log, at the last refresh; `where` is the log's name in errors."""

    def __init__(self, subscription: Subscription, where: str) -> None:
        self.subscription = subscription
        self.where = where
        self.identity = ""
        self.topics: dict[str, SeenTopic] = {}
        self.available: dict[TopicPartition, Available] = {}

    @property
    def offsets(self) -> SourceOffsets:
        """The end of each partition at the last refresh."""
        topics = {topic.name: topic.identity for topic in self.topics.values()}
        for partition in self.available:
            generations = self.topics[partition.topic].generations
            if (created := generations[partition.number - 1]) != generations[0]:
                topics[str(partition)] = str(created)  # added later: the partition can have been deleted and recreated
        return SourceOffsets({partition: holds.end_offset for partition, holds in self.available.items()}, self.identity, topics)

    def partitions(self, topic: SeenTopic) -> Iterable[TopicPartition]:
        """Return the subscribed partitions of a topic; PartitionNotFoundError if a named partition is missing."""
        numbers: Iterable[int] = range(1, len(topic.generations) + 1)
        if self.subscription.partitions is not None:
            numbers = sorted(self.subscription.partitions[topic.name])
            if numbers[-1] > len(topic.generations):
                raise PartitionNotFoundError(
                    f"assign names partition {numbers[-1]} of {topic.name}, which has {len(topic.generations)}", where=self.where
                )
        return [TopicPartition(topic.name, number) for number in numbers]

    def size_of(self, part: OffsetRange) -> int:
        """Return the approximate number of stored bytes of a range."""
        return self.size_between(part.topic_partition, part.from_offset, part.until_offset)

    @property
    @abstractmethod
    def log(self) -> ReadableLog:
        """The log for the tasks of a read."""

    @abstractmethod
    def incarnation(self, partition: TopicPartition) -> str:
        """Return a partition's identity for tasks; see ReadPart."""

    @abstractmethod
    def find_time(self, partition: TopicPartition, timestamp_us: int) -> int:
        """Return the first offset of a partition at or after this time, or the partition's end."""

    @abstractmethod
    def last_time(self, partition: TopicPartition) -> int | None:
        """Return the append time of a partition's newest message, microseconds since 1970 UTC; None if the partition is empty."""

    @abstractmethod
    def size_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        """Return the approximate number of stored bytes of a partition's range; 0 if the index is damaged."""

    @abstractmethod
    def offset_after(self, partition: TopicPartition, from_offset: int, size_bytes: int) -> int:
        """Return the end of the last send that fits into a number of bytes, or the end of the first send if none fits.

        If the index is damaged, return the partition's end.
        """

    @abstractmethod
    def refresh(self) -> None:
        """Refresh after appends, creations and deletions; NotFoundError: a named topic or partition does not exist."""

    @abstractmethod
    def close(self) -> None:
        """Close open files; the next refresh reopens them."""


def topic_not_found(name: object, where: str, known: Iterable[str]) -> TopicNotFoundError:
    """Return the error of a missing topic."""
    return TopicNotFoundError(f"there is no topic {str(name)!r}", where=where, advice=advise(known))


def advise(names: Iterable[str]) -> str:
    """Return the advice to create a topic or stream, or to use an existing name."""
    known = sorted(names)
    return f"Create the topic first, or use an existing topic: {', '.join(known[:10])}" if known else "Create a topic first"
