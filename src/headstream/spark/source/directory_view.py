"""DirectoryView: the driver's view of a log in a directory.

The view takes no lock, writes nothing, and sees all commits of the log's writer in any process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headstream.core.model.identifiers import TopicName
from headstream.errors import CorruptLogError, NotALogError, PartitionNotFoundError, StreamNotFoundError
from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.records import Snapshot, TopicRecord
from headstream.log.directory.marker import read_marker
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import CATALOG_NAME, topic_directory
from headstream.log.system.files import OsFiles
from headstream.spark.source.log_view import LogView, SeenTopic, advise, topic_not_found
from headstream.spark.source.offsets import Available, TopicPartition
from headstream.spark.source.reader import DirectoryLog
from headstream.spark.source.subscription import Subscription

_MAX_OPEN: Final = 128
"""Maximum number of partitions whose files stay open between refreshes."""


class DirectoryView(LogView):
    """Some topics of a log in a directory; see LogView."""

    def __init__(self, directory: str, subscription: Subscription) -> None:
        super().__init__(subscription, directory)
        self._directory = directory
        self._catalog: Catalog | None = None
        self._followers: dict[str, PartitionFollower] = {}
        self._records: dict[str, TopicRecord] = {}
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    @property
    def log(self) -> DirectoryLog:
        return DirectoryLog(self._directory, self.identity)

    def incarnation(self, partition: TopicPartition) -> str:
        """Return the directory of a partition's segments."""
        record = self._records[partition.topic]
        return f"{topic_directory(self._directory, record.stream_number, record.number)}/{partition.number}"

    def find_time(self, partition: TopicPartition, timestamp_us: int) -> int:
        with self._follow(partition) as follower:
            return follower.offset_of(timestamp_us)

    def last_time(self, partition: TopicPartition) -> int | None:
        with self._follow(partition) as follower:
            return follower.last_time()

    def size_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        with self._follow(partition) as follower:
            try:
                return follower.size_between(from_offset, until_offset)
            except CorruptLogError:  # only an estimate for planning: reading raises the error
                return 0

    def offset_after(self, partition: TopicPartition, from_offset: int, size_bytes: int) -> int:
        with self._follow(partition) as follower:
            try:
                return follower.offset_after(from_offset, size_bytes)
            except CorruptLogError:
                return follower.end_offset

    def refresh(self) -> None:
        """Refresh after appends, creations and deletions; raises the same errors as the constructor."""
        marker = read_marker(self._directory, OsFiles())
        if marker is None:
            raise NotALogError(
                "the directory contains no log",
                where=self._directory,
                advice="Check the URL, or create a topic, which also creates the log",
            )
        if marker.identity != self.identity:
            self.close()
            self.identity = marker.identity
        while True:
            records = self._find_all()
            try:
                self._take(records)
                return
            except PartitionNotFoundError:
                if self._find_all() == records:
                    raise
                # a topic or a partition was deleted meanwhile

    def _take(self, records: list[TopicRecord]) -> None:
        self._records = {str(record.name): record for record in records}
        self.topics = {name: _seen(record) for name, record in self._records.items()}
        available = {}
        for topic in self.topics.values():
            for partition in self.partitions(topic):
                with self._follow(partition, refreshed=True) as follower:
                    available[partition] = Available(follower.first_offset, follower.end_offset)
        self.available = available

    def _find_all(self) -> list[TopicRecord]:
        if self._catalog is None:
            self._catalog = Catalog(f"{self._directory}/{CATALOG_NAME}", is_writer=False)
        streams = self._catalog.snapshot()
        if self.subscription.topics is not None:
            return [self._find(streams, topic) for topic in self.subscription.topics]
        records = [record for stream in streams.values() for record in stream.topics.values()]
        return [record for record in records if self.subscription.has_topic(str(record.name))]

    def _find(self, streams: Snapshot, topic: TopicName) -> TopicRecord:
        stream = streams.get(topic.stream)
        if stream is None:
            raise StreamNotFoundError(f"there is no stream {topic.stream!r}", where=self._directory, advice=advise(streams))
        record = stream.topics.get(topic.topic)
        if record is None:
            raise topic_not_found(topic, self.where, [f"{topic.stream}/{name}" for name in stream.topics])
        return record

    @contextmanager
    def _follow(self, partition: TopicPartition, *, refreshed: bool = False) -> Iterator[PartitionFollower]:
        """Yield the follower of a partition; up to _MAX_OPEN followers stay open for reuse."""
        directory = self.incarnation(partition)
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
            error.where = f"{partition}; {error.where}"
            raise
        finally:
            if follower is not None and directory not in self._followers:
                follower.close()

    def close(self) -> None:
        """Close all files; the next refresh reopens them."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None


def _seen(record: TopicRecord) -> SeenTopic:
    generations = tuple(record.generation(number) for number in range(1, record.partitions + 1))
    return SeenTopic(str(record.name), record.identity, generations)
