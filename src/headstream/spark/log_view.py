"""LogView: what the driver knows of an embedded log: which partitions there are, and which offsets they hold now.

It takes no lock and writes nothing, and sees what the log's writer, in whatever process, has committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headstream.errors import NotALogError, PartitionNotFoundError, StreamNotFoundError, TopicNotFoundError
from headstream.log.catalog import Catalog, TopicRecord
from headstream.log.files import OsFiles
from headstream.log.marker import read_marker
from headstream.model.identifiers import TopicName
from headstream.segments.follower import PartitionFollower
from headstream.segments.layout import CATALOG_NAME, topic_directory
from headstream.spark.offsets import Available, Offsets, Place

__all__ = ["LogView"]

_MAX_OPEN: Final = 128
"""Partitions whose files stay open between two looks; with more of them, files are opened anew."""


class LogView:
    """Some topics of a log, as of the last refresh.

    Args:
        directory: The log's directory.
        topics: Which topics.

    Raises:
        NotALogError: there is no log in the directory.
        NotFoundError: a topic does not exist.
        LogError: the log cannot be read.
    """

    def __init__(self, directory: str, topics: Sequence[TopicName]) -> None:
        self._directory = directory
        self._topics = topics
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
        topics = {name: f"{record.stream_number}/{record.number}" for name, record in self._records.items()}
        return Offsets({place: holds.end_offset for place, holds in self.available.items()}, self.identity, topics)

    def partition_directory(self, place: Place) -> str:
        """Return where a partition's segments are."""
        record = self._records[place.topic]
        return f"{topic_directory(self._directory, record.stream_number, record.number)}/{place.partition}"

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
        self._records = {str(topic): self._find(topic) for topic in self._topics}
        available = {}
        for name, record in self._records.items():
            for number in range(1, record.partitions + 1):
                place = Place(name, number)
                available[place] = self._look(place)
        self.available = available

    def _find(self, topic: TopicName) -> TopicRecord:
        if self._catalog is None:
            self._catalog = Catalog(f"{self._directory}/{CATALOG_NAME}", is_writer=False)
        streams = self._catalog.snapshot()
        stream = streams.get(topic.stream)
        if stream is None:
            raise StreamNotFoundError(f"there is no stream {topic.stream!r}", where=self._directory, advice=_advise(streams))
        record = stream.topics.get(topic.topic)
        if record is None:
            names = [f"{topic.stream}/{name}" for name in stream.topics]
            raise TopicNotFoundError(f"there is no topic {str(topic)!r}", where=self._directory, advice=_advise(names))
        return record

    def _look(self, place: Place) -> Available:
        directory = self.partition_directory(place)
        follower = self._followers.get(directory)
        try:
            if follower is None:
                follower = PartitionFollower(directory)
            else:
                follower.refresh()
        except PartitionNotFoundError as error:
            self._followers.pop(directory, None)
            error.where = f"{place}; {error.where}"
            raise
        if len(self._followers) < _MAX_OPEN:
            self._followers[directory] = follower
        found = Available(follower.first_offset, follower.end_offset)
        if directory not in self._followers:
            follower.close()
        return found

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
