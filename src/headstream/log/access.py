"""LogAccess: the interface of a log for background jobs and staged commits; Log (log.py) implements it."""

from __future__ import annotations

import threading
from typing import Protocol

from headstream.core.model.removals import Removal
from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.records import Snapshot, TopicRecord
from headstream.log.partition.offsets import OffsetStore
from headstream.log.partition.partition import PartitionWriter
from headstream.log.states import MessageStates
from headstream.log.system.files import Files


class LogAccess(Protocol):
    """The interface of a log for background code.

    Attributes:
        root: The log's directory.
        segment_bytes: Size at which a new segment is started, bytes.
        administration: Lock that is held while topics or files change, because other threads list them.
        passing: Lock that is held while segments are rewritten, because each rewrite removes unfinished files of other rewrites.
    """

    root: str
    files: Files
    segment_bytes: int
    administration: threading.RLock
    passing: threading.Lock

    @property
    def identity(self) -> str | None:
        """The UUID that identifies the log; None before the first write."""

    @property
    def states(self) -> MessageStates:
        """The states of messages; call snapshot() first."""

    @property
    def is_closing(self) -> bool:
        """Whether background jobs should stop early."""

    def catalog(self) -> Catalog | None:
        """Return the catalog; None if the log does not exist yet."""

    def snapshot(self) -> Snapshot:
        """Return the current streams and topics."""

    def partition_directory(self, topic: TopicRecord, number: int) -> str:
        """Return the directory of a partition's segments."""

    def partition(self, topic: TopicRecord, number: int) -> PartitionWriter:
        """Return the writer of a partition."""

    def offsets(self, topic: TopicRecord) -> OffsetStore:
        """Return the committed offsets of a topic's consumers."""

    def notify(self, partition: PartitionWriter) -> None:
        """Wake all waiters of a partition."""

    def note_removed(self, topic: TopicRecord, number: int) -> None:
        """Record that segments of a partition were removed or replaced."""

    def count_removal(self, removal: Removal) -> None:
        """Add a removal of marked messages to this process's counts."""
