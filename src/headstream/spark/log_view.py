"""LogView: what the driver knows of a log: which partitions there are, and which offsets they hold now.

directory_view.py    of a log in a directory: it takes no lock, and sees what the log's writer has committed
server_view.py       of a log behind a server
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from headstream.errors import PartitionNotFoundError, TopicNotFoundError
from headstream.spark.offsets import Available, OffsetRange, Offsets, Place
from headstream.spark.reader import ReadableLog
from headstream.spark.subscription import Subscription

__all__ = ["LogView", "SeenTopic", "topic_not_found"]


class SeenTopic(NamedTuple):
    """A topic as it is now.

    Args:
        name: `stream/topic`.
        identity: Tells it from what had its name before a purge or a deletion.
        generations: Tells the same of each of its partitions.
    """

    name: str
    identity: str
    generations: tuple[int, ...]


class LogView(ABC):
    """Some topics of a log, as of the last refresh.

    Args:
        subscription: Which topics and partitions.
        where: What errors call the log.
    """

    def __init__(self, subscription: Subscription, where: str) -> None:
        self.subscription = subscription
        self.where = where
        self.identity = ""
        self.topics: dict[str, SeenTopic] = {}
        self.available: dict[Place, Available] = {}

    @property
    def offsets(self) -> Offsets:
        """Where each partition ends, as of the last refresh."""
        topics = {topic.name: topic.identity for topic in self.topics.values()}
        for place in self.available:
            generations = self.topics[place.topic].generations
            if (created := generations[place.partition - 1]) != generations[0]:
                topics[str(place)] = str(created)  # added later: it may have been deleted and added again
        return Offsets({place: holds.end_offset for place, holds in self.available.items()}, self.identity, topics)

    def places(self, topic: SeenTopic) -> Iterable[Place]:
        """Return the partitions of a topic that are read; PartitionNotFoundError where one is named that there is not."""
        numbers: Iterable[int] = range(1, len(topic.generations) + 1)
        if self.subscription.partitions is not None:
            numbers = sorted(self.subscription.partitions[topic.name])
            if numbers[-1] > len(topic.generations):
                raise PartitionNotFoundError(
                    f"assign names partition {numbers[-1]} of {topic.name}, which has {len(topic.generations)}", where=self.where
                )
        return [Place(topic.name, number) for number in numbers]

    def size_of(self, part: OffsetRange) -> int:
        """Return about how many stored bytes a range has."""
        return self.size_between(part.place, part.from_offset, part.until_offset)

    @property
    @abstractmethod
    def log(self) -> ReadableLog:
        """What the tasks of a read are told of the log."""

    @abstractmethod
    def incarnation(self, place: Place) -> str:
        """Return what tasks know a partition by; see ReadPart."""

    @abstractmethod
    def find_time(self, place: Place, timestamp_us: int) -> int:
        """Return the first offset of a partition of this time or later, where it ends if there is none."""

    @abstractmethod
    def last_time(self, place: Place) -> int | None:
        """Return when a partition's newest message was appended, microseconds since 1970 UTC; None where there is none."""

    @abstractmethod
    def size_between(self, place: Place, from_offset: int, until_offset: int) -> int:
        """Return about how many stored bytes a range of a partition has; 0 where a damaged index cannot say."""

    @abstractmethod
    def offset_after(self, place: Place, from_offset: int, size_bytes: int) -> int:
        """Return where the last send ends that is within so many bytes; the first one's end where none is.

        Where a damaged index cannot say, it is where the partition ends.
        """

    @abstractmethod
    def refresh(self) -> None:
        """Take in what was appended, created and deleted since.

        Raises:
            NotFoundError: a topic or a partition that was named does not exist.
            LogError: the log cannot be read.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open; the next refresh opens it again."""


def topic_not_found(name: object, where: str, known: Iterable[str]) -> TopicNotFoundError:
    """Return the error of a topic that is not there.

    Args:
        name: Its name.
        where: What errors call the log.
        known: Names of topics that are.
    """
    return TopicNotFoundError(f"there is no topic {str(name)!r}", where=where, advice=advise(known))


def advise(names: Iterable[str]) -> str:
    """Return the advice to create something, or to use what is there."""
    known = sorted(names)
    return f"Create it first, or use what is there: {', '.join(known[:10])}" if known else "Create it first"
