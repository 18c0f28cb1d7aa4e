"""SinkLog: what tasks and the driver of a write ask of a log; DirectorySink where it is in a directory.

ServerSink (server_sink.py) is the same for a log behind a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headstream.codec.buffer import BytesLike
from headstream.errors import NotALogError, TopicNotFoundError
from headstream.log.catalog import Catalog
from headstream.log.commits import ONCE
from headstream.log.files import OsFiles
from headstream.log.marker import read_marker
from headstream.log.staging import Manifest, StagedPart, StagedWriter, remove_staged, unstage
from headstream.log.submission import commit_staged, is_committed
from headstream.model.identifiers import TopicName
from headstream.model.topology import Limits
from headstream.segments.layout import CATALOG_NAME
from headstream.spark.packing import Target

__all__ = ["DirectorySink", "PartWriter", "SinkLog", "topic_missing"]


class PartWriter(Protocol):
    """Stages the batches of one task, as StagedWriter does."""

    def add(self, topic: str, partition: int, sent: BytesLike, count: int) -> None:
        """Stage a batch."""

    def finish(self) -> StagedPart | None:
        """Return what was staged; None where that is nothing."""

    def discard(self) -> None:
        """Remove what was staged."""


class SinkLog(Protocol):
    """A log that is written to; it travels to the tasks."""

    @property
    def where(self) -> str:
        """What errors call it, and what the command line takes as its URL; no credentials."""

    def read_identity(self) -> str:
        """Return what tells the log from every other; NotALogError where there is none."""

    def find(self, name: TopicName) -> Target:
        """Return a topic as it is now; TopicNotFoundError where there is none of that name."""

    def begin_part(self, writer: str, epoch: int, name: str) -> PartWriter:
        """Return what stages the batches of a task.

        Args:
            writer: Who writes.
            epoch: Its number.
            name: Of the part; no other attempt at the same work has the same.
        """

    def commit(self, manifest: Manifest, timeout_s: float) -> None:
        """Append what was staged, whole and once; a second time it does nothing."""

    def abort(self, writer: str, epoch: int, parts: Sequence[StagedPart]) -> bool:
        """Remove what was staged, and return whether that was so: what is committed stays."""


def topic_missing(name: TopicName, where: str) -> TopicNotFoundError:
    """Return the error of a topic that is not there."""
    return TopicNotFoundError(
        f"there is no topic {str(name)!r}",
        where=where,
        advice=f"Create it first: headstream topic create {name} --url {where}",
    )


@dataclass(frozen=True, slots=True)
class DirectorySink:
    """A log in a directory that every executor sees; see SinkLog.

    Args:
        directory: The log's.
    """

    directory: str

    @property
    def where(self) -> str:
        """Its URL."""
        return f"file://{self.directory}"

    def read_identity(self) -> str:
        """Return what tells the log from every other."""
        marker = read_marker(self.directory, OsFiles())
        if marker is None:
            raise NotALogError(
                "there is no log here",
                where=self.directory,
                advice=f"Create the topic first: headstream topic create shop/orders --url {self.where}",
            )
        return marker.identity

    def find(self, name: TopicName) -> Target:
        """Return a topic as it is now."""
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
        """Return what stages the batches of a task: in a file of its own."""
        return StagedWriter(self.directory, OsFiles(), writer, epoch, name)

    def commit(self, manifest: Manifest, timeout_s: float) -> None:
        """Append what was staged; see commit_staged()."""
        commit_staged(self.directory, manifest, timeout_s)

    def abort(self, writer: str, epoch: int, parts: Sequence[StagedPart]) -> bool:
        """Remove what was staged."""
        if is_committed(self.directory, writer, epoch):
            return False  # what is committed is the log's to finish
        unstage(self.directory, OsFiles(), writer, epoch, [part.name for part in parts])
        if writer.startswith(ONCE):  # it never comes back, and its tasks that go on stage for nobody
            remove_staged(self.directory, OsFiles(), writer, epoch)
        return True
