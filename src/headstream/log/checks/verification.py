"""Checks an entire log: marker, catalog, directories, every index entry, every send, every payload.

The check takes no lock and writes nothing, so it can run during writes and reads; repair.py makes changes. Findings are yielded
during the check; an undamaged log yields no finding with is_damage.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from headstream.core.model.polling import OffsetOwner
from headstream.errors import CorruptLogError, InvalidInputError, NotALogError, PartitionNotFoundError, StorageError
from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.records import Snapshot, TopicRecord
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.directory.marker import Marker, read_marker
from headstream.log.partition.offsets import OffsetStore
from headstream.log.partition.recovery import MISSING_ADVICE
from headstream.log.segments.files import BufferPool, ReadFiles
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import (
    CATALOG_NAME,
    MARKER_NAME,
    OFFSETS_NAME,
    STREAMS_NAME,
    log_offsets,
    log_suffix,
    segment_path,
    topic_directory,
)
from headstream.log.system.files import Files
from headstream.log.system.findings import QUARANTINE_MARK, FindingKind, LogFinding

_UNREADABLE: Final = (CorruptLogError, InvalidInputError, ValueError, KeyError)
"""Errors that reading a catalog raises if SQLite finds no fault but names or numbers are invalid."""
_REMOVE: Final = "Remove the directory when you no longer need it"


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A partition of the catalog and its directory."""

    topic: str
    number: int
    directory: str


class Verification:
    """The check of one log; NotALogError if the directory contains no log."""

    def __init__(self, root: str, files: Files) -> None:
        self._root = root
        self._files = files
        self._buffers = BufferPool()
        self._marker: Marker | None = None
        self._marker_error: CorruptLogError | None = None
        try:
            self._marker = read_marker(root, files)
        except CorruptLogError as error:
            self._marker_error = error
        if self._marker is None and self._marker_error is None:
            raise NotALogError(
                "there is no log", where=root, advice="Specify the directory that contains headstream.json, or its URL"
            )

    def run(self, on_bytes: Callable[[int], None] = lambda _: None) -> Iterator[LogFinding]:
        """Yield the faults of marker, catalog, topics, partitions and offsets; `on_bytes` is called with the number of newly
        checked bytes."""
        yield from self._check_marker()
        catalog = self._open_catalog()
        if isinstance(catalog, LogFinding):
            yield catalog
            return
        try:
            yield from map(self._catalog_finding, catalog.find_problems())
            partitions = list(self._partitions(catalog.snapshot()))
            for partition in partitions:
                yield from self._check_partition(partition, catalog, on_bytes)
            yield from self._check_offsets(catalog.snapshot())
            yield from self._unknown_directories(catalog.snapshot())
        except _UNREADABLE as error:
            yield self._catalog_finding(f"the catalog's content is invalid: {error}")
        finally:
            catalog.close()

    def partitions(self) -> list[PartitionDirectory]:
        """Return all partitions of the catalog; empty if the catalog cannot be read."""
        catalog = self._open_catalog()
        if isinstance(catalog, LogFinding):
            return []
        try:
            return list(self._partitions(catalog.snapshot()))
        except _UNREADABLE:
            return []
        finally:
            catalog.close()

    def size_bytes(self) -> int:
        """Return the approximate number of message bytes to check."""
        total = 0
        for partition in self.partitions():
            for base, generation in log_offsets(self._files.list_names(partition.directory) or []):
                file = self._files.open_read(segment_path(partition.directory, base, log_suffix(generation)))
                if file is not None:
                    total += file.size_bytes()
                    file.close()
        return total

    # -- marker and catalog -----------------------------------------------------------------------------------

    def _check_marker(self) -> Iterator[LogFinding]:
        path = f"{self._root}/{MARKER_NAME}"
        if self._marker_error is not None:
            yield LogFinding(FindingKind.MARKER, path, str(self._marker_error), "Restore the file from a copy")
        elif self._marker is not None and not _is_uuid(self._marker.identity):
            yield LogFinding(FindingKind.MARKER, path, "the log's identity is not a UUID", "Restore the file from a copy")

    def _open_catalog(self) -> Catalog | LogFinding:
        path = f"{self._root}/{CATALOG_NAME}"
        if not self._files.exists(path):
            return self._catalog_finding("the catalog is missing, so the topics of the directories are unknown")
        try:
            return Catalog(path, is_writer=False)
        except (CorruptLogError, StorageError) as error:
            return self._catalog_finding(str(error))

    def _catalog_finding(self, what: str) -> LogFinding:
        return LogFinding(
            FindingKind.CATALOG, f"{self._root}/{CATALOG_NAME}", what, "Restore the file from a copy; the messages are unaffected"
        )

    # -- directories ------------------------------------------------------------------------------------------

    def _partitions(self, snapshot: Snapshot) -> Iterator[PartitionDirectory]:
        for topic in _topics(snapshot):
            for number in range(1, topic.partitions + 1):
                yield PartitionDirectory(str(topic.name), number, f"{self._topic_directory(topic)}/{number}")

    def _topic_directory(self, topic: TopicRecord) -> str:
        return topic_directory(self._root, topic.stream_number, topic.number)

    def _check_partition(
        self, partition: PartitionDirectory, catalog: Catalog, on_bytes: Callable[[int], None]
    ) -> Iterator[LogFinding]:
        if self._files.list_names(partition.directory) is None:
            if partition in self._partitions(catalog.snapshot()):  # not deleted in the meantime
                yield LogFinding(
                    FindingKind.DIRECTORY_MISSING,
                    partition.directory,
                    "the partition's directory is missing, with all its messages",
                    MISSING_ADVICE,
                    partition.topic,
                    partition.number,
                )
            return
        try:
            for finding in verify_partition(partition.directory, self._files, self._buffers, on_bytes):
                if partition in self._partitions(catalog.snapshot()):  # not deleted in the meantime
                    yield replace(finding, topic=partition.topic, partition=partition.number)
        except StorageError as error:
            what, advice = f"the partition cannot be read: {error}", "Correct the reported error, and run the command again"
            yield LogFinding(FindingKind.UNREADABLE, partition.directory, what, advice, partition.topic, partition.number)

    def _check_offsets(self, snapshot: Snapshot) -> Iterator[LogFinding]:
        for topic in _topics(snapshot):
            directory = f"{self._topic_directory(topic)}/{OFFSETS_NAME}"
            store = OffsetStore(directory, self._files)
            advice = "Move the file out of the log, and seek to the offset at which the consumer must continue"
            for path, is_empty in store.damaged_heads():
                yield self._damaged_head(path, str(topic.name), is_empty=is_empty)
            for consumer in store.consumers():
                for number in range(1, topic.partitions + 1):
                    try:
                        committed = store.committed(consumer, number)
                    except CorruptLogError as error:
                        yield LogFinding(FindingKind.OFFSETS, directory, str(error), advice, str(topic.name), number)
                    else:
                        yield from self._check_committed(topic, number, consumer, committed or 0)

    @staticmethod
    def _damaged_head(path: str, topic: str, *, is_empty: bool) -> LogFinding:
        if is_empty:
            what = "the file of an unfinished first commit, without an offset"
            advice = "No action is required: the consumer's next commit rewrites the file"
        else:
            what = "the header of an offset file is damaged, so its consumer is unknown"
            advice = "No action is required: the consumer's next commit rewrites the file"
        return LogFinding(FindingKind.OFFSETS, path, what, advice, topic, is_damage=not is_empty)

    def _check_committed(self, topic: TopicRecord, number: int, consumer: OffsetOwner, committed: int) -> Iterator[LogFinding]:
        """Yield committed offsets beyond the partition's end, which show that messages that the consumer has read are lost."""
        directory = f"{self._topic_directory(topic)}/{number}"
        with suppress(CorruptLogError, StorageError, PartitionNotFoundError):
            with PartitionFollower(directory, self._files) as follower:
                end = follower.end_offset
            if committed > end:
                what = f"{consumer} has committed offset {committed}, but the partition ends at {end}: the last messages are lost"
                advice = "Restore the newest segment from a copy, or seek to the offset at which the consumer must continue"
                yield LogFinding(
                    FindingKind.OFFSETS, directory, what, advice, str(topic.name), number, from_offset=end, until_offset=committed
                )

    def _unknown_directories(self, snapshot: Snapshot) -> Iterator[LogFinding]:
        known = {self._topic_directory(topic) for topic in _topics(snapshot)}
        streams = f"{self._root}/{STREAMS_NAME}"
        for stream in sorted(_list_directories(self._files, streams)):
            for topic in sorted(_list_directories(self._files, f"{streams}/{stream}")):
                path = f"{streams}/{stream}/{topic}"
                if QUARANTINE_MARK in topic:
                    what = "a topic directory that was renamed because the catalog did not contain the topic"
                    yield LogFinding(FindingKind.FILE_SET_ASIDE, path, what, _REMOVE, is_damage=False)
                elif path not in known:
                    yield LogFinding(
                        FindingKind.DIRECTORY_UNKNOWN,
                        path,
                        "a topic directory that is not in the catalog: left by an interrupted deletion or creation",
                        _REMOVE,
                        is_damage=False,
                    )


def _list_directories(files: ReadFiles, path: str) -> list[str]:
    """Return the names in a directory; empty if the path is missing or not a directory."""
    try:
        return files.list_names(path) or []
    except StorageError:
        return []


def _topics(snapshot: Snapshot) -> Iterator[TopicRecord]:
    for stream in snapshot.values():
        yield from stream.topics.values()


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
