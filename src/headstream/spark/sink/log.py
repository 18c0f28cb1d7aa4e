"""SinkLog: the log operations that the tasks and the driver of a write use; DirectorySink is a log in a directory.

ServerSink (server_sink.py) is a log behind a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headstream.core.codec.buffer import BytesLike
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits
from headstream.errors import NotALogError, TopicNotFoundError
from headstream.log.catalog.catalog import Catalog
from headstream.log.directory.marker import read_marker
from headstream.log.segments.layout import CATALOG_NAME
from headstream.log.staged.commits import ONCE
from headstream.log.staged.staging import Manifest, StagedPart, StagedWriter, remove_staged, unstage
from headstream.log.staged.submission import commit_staged, is_committed
from headstream.log.system.files import OsFiles
from headstream.spark.sink.packing import Target


class PartWriter(Protocol):
    """Stages the batches of one task; see StagedWriter."""

    def add(self, topic: str, partition: int, sent: BytesLike, count: int) -> None:
        """Stage a batch."""

    def finish(self) -> StagedPart | None:
        """Return the staged part; None if it is empty."""

    def discard(self) -> None:
        """Remove the staged part."""


class SinkLog(Protocol):
    """A log to write to; serialized to the tasks."""

    @property
    def where(self) -> str:
        """The log's name in errors and its URL on the command line, without credentials."""

    def read_identity(self) -> str:
        """Return the log's identity; NotALogError if there is no log."""

    def find(self, name: TopicName) -> Target:
        """Return the current state of a topic; TopicNotFoundError if the topic does not exist."""

    def begin_part(self, writer: str, epoch: int, name: str) -> PartWriter:
        """Return a writer for a task's staged part; `name` is unique among the attempts of a task."""

    def commit(self, manifest: Manifest, timeout_s: float) -> None:
        """Append the staged batches, atomically; repeated calls do nothing."""

    def abort(self, writer: str, epoch: int, parts: Sequence[StagedPart]) -> bool:
        """Remove the staged batches and return True; return False if they have been submitted, which cannot be undone."""


def topic_missing(name: TopicName, where: str) -> TopicNotFoundError:
    """Return the error of a missing topic."""
    return TopicNotFoundError(
        f"there is no topic {str(name)!r}", where=where, advice=f"Run: headstream topic create {name} --url {where}"
    )


@dataclass(frozen=True, slots=True)
class DirectorySink:
    """A log in a directory that all executors can access; see SinkLog."""

    directory: str

    @property
    def where(self) -> str:
        """The log's URL."""
        return f"file://{self.directory}"

    def read_identity(self) -> str:
        """Return the log's identity."""
        marker = read_marker(self.directory, OsFiles())
        if marker is None:
            raise NotALogError(
                "the directory contains no log",
                where=self.directory,
                advice=f"Run: headstream topic create shop/orders --url {self.where}",
            )
        return marker.identity

    def find(self, name: TopicName) -> Target:
        """Return the current state of a topic."""
        catalog = Catalog(f"{self.directory}/{CATALOG_NAME}", is_writer=False)
        try:
            stream = catalog.snapshot().get(name.stream)
        finally:
            catalog.close()
        topic = None if stream is None else stream.topics.get(name.topic)
        if topic is None:
            raise topic_missing(name, self.where)
        needs_key = topic.options.compaction_delay_us is not None
        return Target(str(name), topic.partitions, topic.limits is Limits.WIDE, needs_key)

    def begin_part(self, writer: str, epoch: int, name: str) -> PartWriter:
        """Return a writer for a task's staged part, a separate file."""
        return StagedWriter(self.directory, OsFiles(), writer, epoch, name)

    def commit(self, manifest: Manifest, timeout_s: float) -> None:
        """Append the staged batches; see commit_staged()."""
        commit_staged(self.directory, manifest, timeout_s)

    def abort(self, writer: str, epoch: int, parts: Sequence[StagedPart]) -> bool:
        """Remove the staged batches."""
        if is_committed(self.directory, writer, epoch):
            return False  # the log finishes a submitted commit
        unstage(self.directory, OsFiles(), writer, epoch, [part.name for part in parts])
        if writer.startswith(ONCE):  # the writer is never reused: also remove files that late tasks stage
            remove_staged(self.directory, OsFiles(), writer, epoch)
        return True
