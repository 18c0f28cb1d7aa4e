"""Tasks on executors: offset ranges -> segment bytes -> Arrow, without a Python object per message.

    Follower -> chunks of about 4 MiB -> slices of 10,000 messages -> Assembler (columns.py) -> RecordBatch

DirectoryFollower reads a log in a directory and applies a filter in the task. ServerFollower (server_reader.py) reads a log
behind a server, which applies the filter. This module imports the codec and the segments, but no part of the log's writer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from headstream.core.codec.batch.results import Columns
from headstream.core.codec.batch.stored.scan import scan, take
from headstream.core.filters.filter import Filter, OnFilterError
from headstream.errors import CorruptSendError, DecodeError, HeaderError, HeadstreamError, LogError, OffsetOutOfRangeError
from headstream.log.segments.files import OsReadFiles
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import MARKER_NAME
from headstream.spark.source.columns import Assembler
from headstream.spark.source.matching import Matching, match_chunks
from headstream.spark.source.offsets import OffsetRange
from headstream.spark.source.options import RowShape

_LOGGER: Final = logging.getLogger("headstream.spark")

BATCH_ROWS: Final = 10_000
"""Rows per Arrow batch: 1,000 rows are slower because of the fixed cost of a batch, and 100,000 rows are not faster."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A range and the partition that it was planned for.

    Args:
        incarnation: Identifies the partition among partitions with the same name: its directory, or its generation on a server.
    """

    range: OffsetRange
    incarnation: str


class Follower(Protocol):
    """Reads one partition for a task."""

    @property
    def first_offset(self) -> int:
        """The oldest existing offset at the last refresh."""

    def refresh(self) -> None:
        """Refresh the current offsets."""

    def read_matching(
        self, from_offset: int, until_offset: int, where: Filter | None, states: frozenset[int] | None
    ) -> Iterator[Matching]:
        """Yield the messages of a range that match a filter, in order.

        Args:
            where: The filter; None: all messages match, whatever their state.
            states: Messages in other states do not match; None: all states.

        Raises:
            OffsetOutOfRangeError: messages are missing.
            CorruptSendError: the next messages are damaged.
            HeaderError: the filter cannot be applied to the next message, and the filter's policy is to raise.
        """

    def next_readable(self, offset: int) -> int:
        """Return the next readable offset after damage."""


class ReadableLog(Protocol):
    """A log that tasks read; serialized to the tasks."""

    def check(self, first: OffsetRange) -> None:
        """Check that this is the log that a read was planned for.

        Raises:
            LogError: the location has a different log, or no log.
        """

    def follow(self, part: ReadPart) -> AbstractContextManager[Follower]:
        """Return a follower of a partition."""


@dataclass(frozen=True, slots=True)
class DirectoryLog:
    """A log in a directory that every executor can read; see ReadableLog."""

    directory: str
    identity: str

    def check(self, first: OffsetRange) -> None:
        """Check that this is the log that the read was planned for."""
        path = f"{self.directory}/{MARKER_NAME}"
        if _read_identity(path) != self.identity:
            raise LogError(
                "the log that this read was planned for is missing or was replaced",
                where=f"{path}; {first}",
                advice="Every executor must access the log's directory at the same path. If the log was recreated, "
                "start with a new checkpointLocation",
            )

    def follow(self, part: ReadPart) -> DirectoryFollower:
        """Return a follower of a partition."""
        return DirectoryFollower(part.incarnation)


class DirectoryFollower(PartitionFollower):
    """Reads one partition of a log in a directory; see Follower. Segments that cannot contain a match are skipped."""

    def read_matching(
        self, from_offset: int, until_offset: int, where: Filter | None, states: frozenset[int] | None
    ) -> Iterator[Matching]:
        """Yield the messages of a range that match a filter, in order; see Follower."""
        wanted = None if where is None else where.with_states(states)
        return match_chunks(self.read(from_offset, until_offset, where=wanted), wanted)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The work of one Spark task; serialized to an executor.

    Args:
        fail_on_data_loss: Whether missing messages are an error; otherwise they are skipped with a warning.
    """

    log: ReadableLog
    parts: tuple[ReadPart, ...]
    shape: RowShape
    states: frozenset[int] | None
    where: Filter | None
    fail_on_data_loss: bool


def read_task(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Return the messages of a task, in order, in batches of at most BATCH_ROWS.

    Raises:
        LogError: the log was deleted and recreated, or messages are missing or damaged (CorruptSendError). With
            failOnDataLoss=false, missing or damaged messages cause a warning of the logger headstream.spark instead.
        HeaderError: a header does not fit its column, or the filter cannot be applied to a message, and an option requires this.
        DecodeError: a message cannot be decoded. Every error names topic, partition and offset.
    """
    task.log.check(task.parts[0].range)
    for part in task.parts:
        yield from _PartReader(task, part).read()


def _read_identity(path: str) -> object:
    """Return the identity in the marker at a path; None if there is no marker."""
    file = OsReadFiles().open_read(path)
    if file is None:
        return None
    try:
        content = memoryview(bytearray(file.size_bytes()))
        return json.loads(bytes(content[: file.read_into(content, 0)])).get("identity")
    except (ValueError, AttributeError):
        return None  # a file of another program
    finally:
        file.close()


class _PartReader:
    """Reads one range, and tracks the progress for errors."""

    def __init__(self, task: ReadTask, part: ReadPart) -> None:
        self._task = task
        self._part = part
        self._offset = part.range.from_offset
        self._passed_over = 0
        self._assembler = Assembler(part.range.topic_partition, task.shape, BATCH_ROWS)
        self._warned: set[str] = set()
        self._failed_count = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        try:
            with self._task.log.follow(self._part) as follower:
                while self._offset < self._part.range.until_offset:
                    try:
                        yield from self._read_from(follower)
                    except OffsetOutOfRangeError as error:
                        follower.refresh()
                        if self._task.fail_on_data_loss or self._offset >= follower.first_offset:
                            raise
                        self._skip(follower.first_offset, error)
                    except CorruptSendError as error:
                        if self._task.fail_on_data_loss:
                            raise
                        self._skip(follower.next_readable(error.until_offset), error)
        except HeaderError as error:  # already contains the offset
            error.where = f"{self._part.range.topic_partition}, {error.where}"
            raise
        except HeadstreamError as error:
            at = f"{self._part.range.topic_partition}, offset {self._offset}"
            error.where = f"{at}; {error.where}" if error.where else at
            raise

    def _skip(self, offset: int, error: HeadstreamError) -> None:
        """Skip missing or damaged messages, with a warning."""
        offset = min(offset, self._part.range.until_offset)
        self._passed_over += offset - self._offset
        _LOGGER.warning(
            "%s: skipped offsets %d to %d because of failOnDataLoss=false, %d offsets in this range so far: %s",
            self._part.range.topic_partition,
            self._offset,
            offset - 1,
            self._passed_over,
            error,
        )
        self._offset = offset

    def _read_from(self, follower: Follower) -> Iterator[pa.RecordBatch]:
        task = self._task
        for found in follower.read_matching(self._offset, self._part.range.until_offset, task.where, task.states):
            rest = found.stored
            while rest:
                batch, columns, size = self._assemble(rest)
                self._warn_of_misfits(columns)
                batch = self._select(batch, columns)
                # Offsets can have gaps: progress is the last offset, not the number of rows.
                self._offset = int.from_bytes(columns.offset[-8:], "little") + 1
                if batch.num_rows:
                    yield batch
                rest = rest[size:]
            if found.next_offset is not None:
                self._offset = found.next_offset
            if found.failed_count and task.where is not None:
                self._count_failed(task.where, found.failed_count)
        self._offset = self._part.range.until_offset

    def _count_failed(self, where: Filter, count: int) -> None:
        """Count messages to which the filter cannot be applied; warn of the first messages."""
        if not self._failed_count:
            _LOGGER.warning(
                "%s, before offset %d: some messages are %s because this filter cannot be applied to them: %s",
                self._part.range.topic_partition,
                self._offset,
                "delivered" if where.on_error is OnFilterError.DELIVER else "skipped",
                where.text,
            )
        self._failed_count += count

    def _assemble(self, stored: memoryview) -> tuple[pa.RecordBatch, Columns, int]:
        """Return the rows of the next messages, their columns, and their size in bytes."""
        try:
            size, _ = take(stored, 0, BATCH_ROWS, len(stored))
            return *self._assembler.assemble(stored[:size]), size
        except DecodeError as error:
            whole = scan(stored[: error.at])
            if whole.count:
                self._offset = whole.last_offset + 1
            raise

    def _warn_of_misfits(self, columns: Columns) -> None:
        """Warn, once per declared column and task, that the column is null because the header does not fit."""
        for name, number in self._assembler.misfits.items():
            if name in self._warned:
                continue
            self._warned.add(name)
            declared = next(column for column in self._task.shape.header_columns if column.name == name)
            _LOGGER.warning(
                "%s, offset %d and after: the header %r does not have the type %s declared in headerColumns; its column is null",
                self._part.range.topic_partition,
                int.from_bytes(columns.offset[8 * number : 8 * number + 8], "little"),
                name,
                declared.type.upper(),
            )

    def _select(self, batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
        wanted = self._task.states
        if wanted is None or sum(columns.state.count(code) for code in wanted) == columns.count:
            return batch
        return batch.filter(pa.array([code in wanted for code in columns.state], pa.bool_()))
