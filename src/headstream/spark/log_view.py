"""LogView: what the driver knows of an embedded log: which partitions there are, and which offsets they hold now.

It takes no lock and writes nothing, and sees what the log's writer, in whatever process, has committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from headstream.errors import CorruptLogError, NotALogError, PartitionNotFoundError, StreamNotFoundError, TopicNotFoundError
from headstream.log.catalog import Catalog, Snapshot, TopicRecord
from headstream.log.files import OsFiles
from headstream.log.marker import read_marker
from headstream.model.identifiers import TopicName
from headstream.segments.follower import PartitionFollower
from headstream.segments.layout import CATALOG_NAME, topic_directory
from headstream.spark.offsets import Available, OffsetRange, Offsets, Place
from headstream.spark.subscription import Subscription

__all__ = ["LogView"]

_MAX_OPEN: Final = 128
"""Partitions whose files stay open between two looks; with more of them, files are opened anew."""


class LogView:
    """Some topics of a log, as of the last refresh.

    Args:
        directory: The log's directory.
        subscription: Which topics and partitions.

    Raises:
        NotALogError: there is no log in the directory.
        NotFoundError: a topic or a partition that was named does not exist.
        LogError: the log cannot be read.
    """

    def __init__(self, directory: str, subscription: Subscription) -> None:
        self._directory = directory
        self._subscription = subscription
        self._catalog: Catalog | None = None
        self._followers: dict[str, PartitionFollower] = {}
        self._records: dict[str, TopicRecord] = {}
        self.identity = ""
        self.available: dict[Place, Available] = {}
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    @property
    def offsets(self) -> Offsets:
        """Where each partition ends, as of the last refresh."""
        topics = {name: record.identity for name, record in self._records.items()}
        for place in self.available:
            record = self._records[place.topic]
            if (created := record.generation(place.partition)) != record.generation(1):
                topics[str(place)] = str(created)  # added later: it may have been deleted and added again
        return Offsets({place: holds.end_offset for place, holds in self.available.items()}, self.identity, topics)

    def partition_directory(self, place: Place) -> str:
        """Return where a partition's segments are."""
        record = self._records[place.topic]
        return f"{topic_directory(self._directory, record.stream_number, record.number)}/{place.partition}"

    def find_time(self, place: Place, timestamp_us: int) -> int:
        """Return the first offset of a partition of this time or later, where it ends if there is none."""
        with self._follow(place) as follower:
            return follower.offset_of(timestamp_us)

    def size_between(self, place: Place, from_offset: int, until_offset: int) -> int:
        """Return about how many stored bytes a range of a partition has; 0 where a damaged index cannot say."""
        with self._follow(place) as follower:
            try:
                return follower.size_between(from_offset, until_offset)
            except CorruptLogError:  # an estimate for planning: whoever reads there reports the damage
                return 0

    def size_of(self, part: OffsetRange) -> int:
        """Return about how many stored bytes a range has."""
        return self.size_between(part.place, part.from_offset, part.until_offset)

    def offset_after(self, place: Place, from_offset: int, size_bytes: int) -> int:
        """Return where the last send ends that is within so many bytes; the first one's end where none is.

        Where a damaged index cannot say, it is where the partition ends.
        """
        with self._follow(place) as follower:
            try:
                return follower.offset_after(from_offset, size_bytes)
            except CorruptLogError:
                return follower.end_offset

    def refresh(self) -> None:
        """Take in what was appended, created and deleted since; raises as the constructor does."""
        marker = read_marker(self._directory, OsFiles())
        if marker is None:
            raise NotALogError(
                "there is no log here",
                where=self._directory,
                advice="Look at the URL, or create the topic first; a log is made at its first write",
            )
        if marker.identity != self.identity:
            self.close()
            self.identity = marker.identity
        self._records = {str(record.name): record for record in self._find_all()}
        available = {}
        for name, record in self._records.items():
            for number in self._partitions(record):
                place = Place(name, number)
                with self._follow(place, refreshed=True) as follower:
                    available[place] = Available(follower.first_offset, follower.end_offset)
        self.available = available

    def _find_all(self) -> list[TopicRecord]:
        if self._catalog is None:
            self._catalog = Catalog(f"{self._directory}/{CATALOG_NAME}", is_writer=False)
        streams = self._catalog.snapshot()
        if self._subscription.topics is not None:
            return [self._find(streams, topic) for topic in self._subscription.topics]
        records = [record for stream in streams.values() for record in stream.topics.values()]
        return [record for record in records if self._subscription.has_topic(str(record.name))]

    def _find(self, streams: Snapshot, topic: TopicName) -> TopicRecord:
        stream = streams.get(topic.stream)
        if stream is None:
            raise StreamNotFoundError(f"there is no stream {topic.stream!r}", where=self._directory, advice=_advise(streams))
        record = stream.topics.get(topic.topic)
        if record is None:
            names = [f"{topic.stream}/{name}" for name in stream.topics]
            raise TopicNotFoundError(f"there is no topic {str(topic)!r}", where=self._directory, advice=_advise(names))
        return record

    def _partitions(self, record: TopicRecord) -> Iterable[int]:
        there = range(1, record.partitions + 1)
        if self._subscription.partitions is None:
            return there
        wanted = sorted(self._subscription.partitions[str(record.name)])
        if wanted[-1] > record.partitions:
            raise PartitionNotFoundError(
                f"assign names partition {wanted[-1]} of {record.name}, which has {record.partitions}", where=self._directory
            )
        return wanted

    @contextmanager
    def _follow(self, place: Place, *, refreshed: bool = False) -> Iterator[PartitionFollower]:
        """Give what follows a partition; it stays open for the next time while there are not too many."""
        directory = self.partition_directory(place)
        follower = self._followers.get(directory)
        try:
            if follower is None:
                follower = PartitionFollower(directory)
                if len(self._followers) < _MAX_OPEN:
                    self._followers[directory] = follower
            elif refreshed:
                follower.refresh()
            yield follower
        except PartitionNotFoundError as error:
            self._followers.pop(directory, None)
            error.where = f"{place}; {error.where}"
            raise
        finally:
            if follower is not None and directory not in self._followers:
                follower.close()

    def close(self) -> None:
        """Let go of all files; the next refresh opens them again."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None


def _advise(names: Iterable[str]) -> str:
    known = sorted(names)
    return f"Create it first, or use what is there: {', '.join(known[:10])}" if known else "Create it first"
