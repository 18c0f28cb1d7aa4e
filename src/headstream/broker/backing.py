"""Backing: the log, clock and randomness that all parts of the broker share, and lookup by name."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headstream.core.model.identifiers import TopicName
from headstream.errors import OffsetOutOfRangeError, PartitionNotFoundError, StorageError, StreamNotFoundError, TopicNotFoundError
from headstream.log.catalog.catalog import topics_of
from headstream.log.catalog.records import StreamRecord, TopicRecord
from headstream.log.log import Log


@dataclass(frozen=True, slots=True)
class Backing:
    """The shared dependencies of a broker's parts.

    Args:
        clock_us: Returns the time, microseconds since 1970 UTC.
        monotonic: Returns monotonic time, seconds, for waits.
    """

    log: Log
    clock_us: Callable[[], int]
    entropy: Callable[[int], bytes]
    monotonic: Callable[[], float]

    def writable_log(self) -> Log:
        """Return the log, created if missing, with this process as writer; LogLockedError if another process is the writer."""
        if not self.log.is_writer:
            self.log.start_writing(str(uuid.UUID(bytes=self.entropy(16), version=4)), self.clock_us())
            self.log.upkeep.start(self.clock_us)
        return self.log

    def stream(self, name: str) -> StreamRecord:
        """Return a stream; StreamNotFoundError if the name is unknown."""
        snapshot = self.log.snapshot()
        try:
            return snapshot[name]
        except KeyError:
            advice = self._advice(name, snapshot, "the stream")
            raise StreamNotFoundError(f"there is no stream {name!r}", where=self.log.root, advice=advice) from None

    def find_stream(self, named: str | int) -> StreamRecord | None:
        """Return a stream by name or id; None if it does not exist."""
        snapshot = self.log.snapshot()
        if isinstance(named, str):
            return snapshot.get(named)
        return next((record for record in snapshot.values() if record.id == named), None)

    def topic(self, name: TopicName) -> TopicRecord:
        """Return a topic; TopicNotFoundError if the name is unknown."""
        snapshot = self.log.snapshot()
        try:
            return snapshot[name.stream].topics[name.topic]
        except KeyError:
            names = [str(topic.name) for topic in topics_of(snapshot)]
            advice = self._advice(str(name), names, "the topic")
            raise TopicNotFoundError(f"there is no topic {str(name)!r}", where=self.log.root, advice=advice) from None

    def partition(self, name: TopicName, number: int) -> TopicRecord:
        """Return the topic of a partition; PartitionNotFoundError if the number is out of range."""
        topic = self.topic(name)
        if not 1 <= number <= topic.partitions:
            raise PartitionNotFoundError(
                f"topic {str(name)!r} has no partition {number}", advice=f"Use a partition from 1 to {topic.partitions}"
            )
        return topic

    @contextmanager
    def naming_deletions(self, record: TopicRecord) -> Iterator[None]:
        """Convert errors of missing files: TopicNotFoundError if the topic is deleted, OffsetOutOfRangeError if it is purged."""
        try:
            yield
        except (StorageError, PartitionNotFoundError):
            if self.topic(record.name).number != record.number:
                what = f"the topic {str(record.name)!r} was purged during the operation"
                raise OffsetOutOfRangeError(what, advice="Nothing was recorded; the messages no longer exist") from None
            raise

    def _advice(self, wanted: str, names: Iterable[str], noun: str) -> str:
        close = difflib.get_close_matches(wanted, names, n=3)
        if close:
            return f"Did you mean {' or '.join(repr(name) for name in close)}? Otherwise create {noun} first"
        if self.log.identity is None:
            return f"There is no log at this URL. Check the URL, or create {noun}, which also creates the log"
        return f"Create {noun} first"


def check_generation(record: TopicRecord, partition: int, generation: int | None, *, since: str, advice: str) -> None:
    """Raise OffsetOutOfRangeError if a partition was purged or recreated.

    Args:
        generation: The partition's generation when its messages were read; None if unknown.
        since: Event that preceded the purge or re-creation, for the error message.
    """
    if generation not in (None, record.generation(partition)):
        what = f"partition {partition} of {str(record.name)!r} was purged or recreated after {since}"
        raise OffsetOutOfRangeError(what, advice=advice)
