"""Backup: copies a log without a lock, even while another process writes to it.

    offsets                  consumer offsets, before the ends are read, so that no offset is beyond an end
    ends, staged, catalog    repeated until no staged commit began or ended between ends and catalog, and the staged files of
                             each pending commit are in the copy
    partition by partition   up to the partition's end, oldest segment first: index, then .log, which has at least the indexed
                             bytes; in a compacted topic, up to the current end
    states                   the current states, to be written to the copied messages again
    marker                   last: without the marker, the copy is not a log

The copy therefore contains the messages of every commit that is done in the catalog and no messages of later commits; opening the
copy completes a pending commit. Compacted topics are an exception: a message appended after the end can be the only message of
its key, so the copy includes all messages appended before the last old segment was copied.

A partition that loses a segment during the copy (retention, compaction) is copied again. If a topic or partition is deleted or
purged, the entire log is copied again. The copy is opened once as a writer, which repairs the newest segments' ends as after a
killed process. Files are copied, never linked, because states are changed in place.

The copy gets a new identity unless the caller passes an identity: later appends to the log and to the copy have the same offsets,
so a client that stores offsets of the log (such as a Spark checkpoint) must not continue in the copy.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, Final

from headstream.core.model.message import MessageState, StateChange
from headstream.errors import InvalidOptionError, NotALogError, OffsetOutOfRangeError, PartitionNotFoundError, StorageError
from headstream.log.catalog.catalog import Catalog, topics_of
from headstream.log.catalog.commit_records import pending_commits
from headstream.log.catalog.connection import connect
from headstream.log.catalog.records import TopicRecord
from headstream.log.catalog.state_records import find_states, put_states
from headstream.log.directory.marker import read_marker, write_marker
from headstream.log.log import Log
from headstream.log.partition.segment_removal import open_index
from headstream.log.partition.size_limits import DEFAULT_SEGMENT_BYTES
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import (
    CATALOG_NAME,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    OFFSETS_NAME,
    PRODUCERS_NAME,
    STAGED_NAME,
    START_SUFFIX,
    base_offsets,
    log_suffix,
    segment_path,
    start_offsets,
    topic_directory,
)
from headstream.log.staged.staging import Manifest, epoch_directory
from headstream.log.system.files import Files

_ATTEMPTS: Final = 50
_WITHOUT_END: Final = (1 << 63) - 1
_COPY_BYTES: Final = 1 << 20

_COMMITS: Final = "SELECT writer, epoch, state, places FROM commits ORDER BY writer"

_Ends = dict[tuple[int, int], int]
_Partitions = dict[int, tuple[int, ...]]
_States = dict[tuple[int, int, int], StateChange]


class _ChangedError(Exception):
    """A file was removed while it was being copied."""


class Backup:
    """A copy of one log, in a directory that is missing or empty."""

    def __init__(self, root: str, target: str, files: Files) -> None:
        self._root = root
        self._target = target
        self._files = files
        self._buffer = memoryview(bytearray(_COPY_BYTES))
        marker = read_marker(root, files)
        if marker is None:
            raise NotALogError("the directory contains no log to copy", where=root, advice="Specify a log directory")
        self._marker = marker
        if files.list_names(target):
            raise InvalidOptionError("the target directory must be empty", where=target, advice="Specify an empty directory")
        if f"{target}/".startswith(f"{root}/"):
            raise InvalidOptionError("the target must be outside the log", where=target, advice="Specify another directory")

    def run(self, identity: str | None) -> int:
        """Create the copy; return the number of message bytes in the copy.

        Args:
            identity: The copy's UUID; None keeps the identity of the log.

        Raises:
            StorageError: the operating system reported an error, or topics are removed faster than they can be copied.
            CorruptLogError: the catalog or the head of an index is damaged.
        """
        for _ in range(_ATTEMPTS):
            self._files.make_directory(self._target)
            try:
                size_bytes = self._copy()
            except _ChangedError:
                self._files.remove_directory(self._target)
            else:
                break
        else:
            raise self._too_fast(self._root)
        write_marker(self._target, self._files, replace(self._marker, identity=identity or self._marker.identity))
        self._repair()
        return size_bytes

    def _too_fast(self, where: str) -> StorageError:
        return StorageError(
            "topics are removed faster than they can be copied",
            where=where,
            advice="Retry when fewer topics are being deleted or purged",
        )

    def _copy(self) -> int:
        ends = self._copy_catalog()
        before = self._states()
        catalog = Catalog(f"{self._target}/{CATALOG_NAME}", is_writer=True)
        try:
            topics = list(topics_of(catalog.snapshot()))
            size_bytes = sum(
                self._copy_partition(topic, number, self._end_of(topic, ends.get((topic.number, number), 0)))
                for topic in topics
                for number in range(1, topic.partitions + 1)
            )
            self._note_states(catalog, topics, before)
        finally:
            catalog.close()
        copied = {topic.number: topic.partitions_created_us for topic in topics}
        if not _are_the_same(copied, self._partitions(f"{self._root}/{CATALOG_NAME}")):
            raise _ChangedError  # a partition was deleted or recreated: offsets and messages would not match
        return size_bytes

    # -- catalog, staged commits, states --------------------------------------------------------------------

    def _copy_catalog(self) -> _Ends:
        for _ in range(_ATTEMPTS):
            commits, ends, partitions = self._read_ends()
            self._files.remove_directory(f"{self._target}/{STAGED_NAME}")
            self._copy_staged()
            path = f"{self._target}/{CATALOG_NAME}"
            for suffix in ("", "-wal", "-shm"):
                self._files.remove(path + suffix)
            try:
                source_path = f"{self._root}/{CATALOG_NAME}"
                with closing(connect(source_path, is_writer=False)) as source, closing(connect(path, is_writer=True)) as copy:
                    source.backup(copy)
            except sqlite3.Error as error:
                raise StorageError(
                    f"the catalog cannot be copied: {error}", where=path, advice="Check the log with headstream verify"
                ) from error
            if self._is_all_staged(path, commits) and _are_the_same(self._partitions(path), partitions):
                return ends
        raise self._too_fast(f"{self._root}/{STAGED_NAME}")

    def _copy_staged(self) -> None:
        staged = f"/{STAGED_NAME}"
        for writer in self._files.list_names(self._root + staged) or []:
            for epoch in self._files.list_names(f"{self._root}{staged}/{writer}") or []:
                self._copy_directory(f"{staged}/{writer}/{epoch}")

    @staticmethod
    def _partitions(path: str) -> _Partitions:
        """Return the partitions of a catalog with their generations."""
        catalog = Catalog(path, is_writer=False)
        try:
            topics = list(topics_of(catalog.snapshot()))
            return {topic.number: topic.partitions_created_us for topic in topics}
        finally:
            catalog.close()

    def _read_ends(self) -> tuple[list[Any], _Ends, _Partitions]:
        """Copy the consumer offsets; return the staged commits, the ends of partitions, and the partitions."""
        catalog = Catalog(f"{self._root}/{CATALOG_NAME}", is_writer=False)
        try:
            topics = list(topics_of(catalog.snapshot()))
            partitions = {topic.number: topic.partitions_created_us for topic in topics}
            for topic in topics:
                self._copy_directory(f"{topic_directory('', topic.stream_number, topic.number)}/{OFFSETS_NAME}")
            commits = catalog.select(_COMMITS, since=5)
        finally:
            catalog.close()
        ends: _Ends = {}
        for topic in topics:
            directory = topic_directory(self._root, topic.stream_number, topic.number)
            for number in range(1, topic.partitions + 1):
                with suppress(PartitionNotFoundError), PartitionFollower(f"{directory}/{number}", self._files) as follower:
                    ends[topic.number, number] = follower.end_offset
        return commits, ends, partitions

    def _is_all_staged(self, path: str, commits: list[Any]) -> bool:
        """Return whether the copied catalog has these commits and the copy has all staged files of the pending commits."""
        catalog = Catalog(path, is_writer=True)
        try:
            if catalog.select(_COMMITS, since=5) != commits:
                return False
            for record in pending_commits(catalog):
                manifest = Manifest.decode(record.manifest, path)
                directory = epoch_directory(self._target, manifest.writer, manifest.epoch)
                for part in manifest.parts:
                    file = self._files.open_read(f"{directory}/{part.name}")
                    if file is None:
                        return False
                    size_bytes = file.size_bytes()
                    file.close()
                    if size_bytes < sum(chunk.size_bytes for chunk in part.chunks):
                        return False
            return True
        finally:
            catalog.close()

    def _states(self) -> _States:
        """Return all messages whose current state is not `available`."""
        catalog = Catalog(f"{self._root}/{CATALOG_NAME}", is_writer=False)
        try:
            return {
                (topic.number, number, change.offset): change
                for topic in topics_of(catalog.snapshot())
                for number in range(1, topic.partitions + 1)
                for change in find_states(catalog, topic.number, number)
            }
        finally:
            catalog.close()

    def _note_states(self, catalog: Catalog, topics: list[TopicRecord], before: _States) -> None:
        """Record the states as pending, so that opening the copy writes them: a state byte can be older or newer than its row."""
        now = self._states()
        for key, change in before.items():
            if key not in now:
                now[key] = replace(change, state=MessageState.AVAILABLE.value)
        numbers = {topic.number: topic.partitions for topic in topics}
        with catalog.transaction(()):
            for (topic, number, _), change in now.items():
                if number <= numbers.get(topic, 0):
                    put_states(catalog, topic, number, [change])

    # -- files ----------------------------------------------------------------------------------------------

    def _copy_directory(self, relative: str) -> None:
        """Copy the files in a directory; skip files that are removed meanwhile."""
        self._files.make_directory(self._target + relative)
        for name in self._files.list_names(self._root + relative) or []:
            self._copy_file(f"{self._root}{relative}/{name}", f"{self._target}{relative}/{name}")
        self._files.sync_directory(self._target + relative)

    def _copy_file(self, path: str, target: str) -> int | None:
        """Copy a file up to its current end; return its size, or None if the file is missing."""
        source = self._files.open_read(path)
        if source is None:
            return None
        try:
            size_bytes, position = source.size_bytes(), 0
            copy = self._files.open_write(target)
            try:
                while position < size_bytes:
                    got = source.read_into(self._buffer[: size_bytes - position], position)
                    if got == 0:
                        break
                    copy.write_at(self._buffer[:got], position)
                    position += got
                copy.trim()
                copy.sync()
            finally:
                copy.close()
            return position
        finally:
            source.close()

    @staticmethod
    def _end_of(topic: TopicRecord, end_offset: int) -> int:
        """Return the offset up to which to copy a partition with this end offset."""
        return end_offset if topic.options.compaction_delay_us is None else _WITHOUT_END

    def _copy_partition(self, topic: TopicRecord, number: int, end_offset: int) -> int:
        """Copy a partition's segments up to an offset; return the number of message bytes in the indexes."""
        relative = f"{topic_directory('', topic.stream_number, topic.number)}/{number}"
        directory, target = self._root + relative, self._target + relative
        for _ in range(_ATTEMPTS):
            self._files.make_directory(target)
            try:
                start = self._start_of(directory)
                size_bytes = self._copy_segments(directory, target, max(end_offset, start))
                if self._start_of(directory) != start:
                    raise _ChangedError
                if start:
                    self._files.open_write(segment_path(target, start, START_SUFFIX)).close()
                # After the messages: records of later batches are cleared when the copy is opened.
                self._copy_file(f"{directory}/{PRODUCERS_NAME}", f"{target}/{PRODUCERS_NAME}")
            except (_ChangedError, OffsetOutOfRangeError, PartitionNotFoundError):
                self._files.remove_directory(target)
            else:
                self._files.sync_directory(target)
                return size_bytes
        raise _ChangedError

    def _start_of(self, directory: str) -> int:
        """Return the offset before which the messages of a partition are deleted; 0 if no messages are deleted."""
        return max(start_offsets(self._files.list_names(directory) or []), default=0)

    def _copy_segments(self, directory: str, target: str, end_offset: int) -> int:
        """Copy segments up to an offset, including new segments; return the number of message bytes."""
        sizes: dict[int, int] = {}
        while True:
            names = self._files.list_names(directory)
            if names is None:
                raise _ChangedError
            bases = base_offsets(names)
            # Include a segment that begins at the end: the previous seal names it. Include at least one segment: if all segments
            # before the end were dropped meanwhile, the oldest segment has the next offset.
            wanted = [base for base in bases if base <= end_offset] or ([] if sizes else bases[:1])
            newest = max(sizes, default=-1)
            if sizes and newest not in bases:
                raise _ChangedError  # the newest segment was merged with another segment meanwhile
            if not wanted or wanted[-1] <= newest:
                return sum(sizes.values())
            for base in wanted:
                if base >= newest:  # copy the newest segment again: it was not yet closed
                    sizes[base], until_offset = self._copy_segment(directory, target, base, end_offset)
                    end_offset = max(end_offset, until_offset)

    def _copy_segment(self, directory: str, target: str, base: int, end_offset: int) -> tuple[int, int]:
        """Copy a segment; return its number of message bytes and the offset that the copy must reach.

        A rewritten segment is copied completely, so the next segment, which the seal names, must also be in the copy.
        """
        index_path = segment_path(target, base, INDEX_SUFFIX)
        if self._copy_file(segment_path(directory, base, INDEX_SUFFIX), index_path) is None:
            raise _ChangedError
        index = open_index(target, base, self._files)
        if index is None:
            raise _ChangedError
        suffix = log_suffix(index.generation)
        if self._copy_file(segment_path(directory, base, suffix), segment_path(target, base, suffix)) is None:
            raise _ChangedError
        try:
            if index.last is None or index.is_compacted or index.last.end_offset <= end_offset:
                size_bytes = 0 if index.last is None else index.last.end_position
                return size_bytes, index.seal.until_offset if index.is_compacted and index.seal is not None else 0
            count = index.find_offset_from(end_offset)  # without the seal: later segments are not copied
            size_bytes = index.entry(count - 1).end_position if count else 0
        finally:
            index.close()
        copy = self._files.open_write(index_path)
        try:
            copy.truncate(INDEX_HEADER_BYTES + count * INDEX_ENTRY_BYTES)
            copy.sync()
        finally:
            copy.close()
        return size_bytes, 0

    def _repair(self) -> None:
        """Open the copy as a writer, which completes pending commits and truncates unacknowledged data."""
        log = Log(self._target, self._files, is_memory=False, segment_bytes=DEFAULT_SEGMENT_BYTES)
        try:
            log.start_writing(self._marker.identity, self._marker.created_us, briefly=True)
            for topic in topics_of(log.snapshot()):
                for number in range(1, topic.partitions + 1):
                    log.partition(topic, number)
        finally:
            log.close()


def _are_the_same(before: _Partitions, after: _Partitions) -> bool:
    """Return whether no partition was deleted or recreated, in topics that exist both `before` and `after`."""
    return all(after.get(number, made)[: len(made)] == made for number, made in before.items())
