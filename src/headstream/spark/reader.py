"""What runs on executors: ranges of offsets -> segment bytes -> Arrow, without a Python object a message.

    Follower -> chunks of about 4 MiB -> slices of 10,000 messages -> Assembler (columns.py) -> RecordBatch

A follower is PartitionFollower where the log is in a directory, and ServerFollower (server_reader.py) where it is behind
a server. This imports the codec and the segments, and nothing of the log's writer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from headstream.codec.batch.results import Columns
from headstream.codec.batch.scan import scan, take
from headstream.errors import CorruptSendError, DecodeError, HeaderError, HeadstreamError, LogError, OffsetOutOfRangeError
from headstream.segments.files import OsReadFiles
from headstream.segments.follower import PartitionFollower
from headstream.segments.layout import MARKER_NAME
from headstream.spark.columns import Assembler
from headstream.spark.offsets import OffsetRange
from headstream.spark.options import RowShape

_LOGGER: Final = logging.getLogger("headstream.spark")

__all__ = ["BATCH_ROWS", "DirectoryLog", "Follower", "ReadPart", "ReadTask", "ReadableLog", "read_task"]

BATCH_ROWS: Final = 10_000
"""Rows of an Arrow batch: with 1,000 a batch's own cost shows, with 100,000 nothing is gained."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """One range and which partition it was planned for.

    Args:
        range: What to read.
        incarnation: Tells the partition from another one of its name: its directory, or its generation at a server.
    """

    range: OffsetRange
    incarnation: str


class Follower(Protocol):
    """Reads one partition, as PartitionFollower does."""

    @property
    def first_offset(self) -> int:
        """The oldest offset that is there, as of the last refresh."""

    def refresh(self) -> None:
        """Look what is there now."""

    def read(self, from_offset: int, until_offset: int) -> Iterator[memoryview]:
        """Return the stored messages of a range, in order, in chunks of whole messages."""

    def next_readable(self, offset: int) -> int:
        """Return where to read on behind damage."""


class ReadableLog(Protocol):
    """A log as tasks know it; it travels to them."""

    def check(self, first: OffsetRange) -> None:
        """Check that it is the log that a read was planned for.

        Args:
            first: What is to be read first, for the error.

        Raises:
            LogError: it is another one, or none.
        """

    def follow(self, part: ReadPart) -> AbstractContextManager[Follower]:
        """Return what reads a partition."""


@dataclass(frozen=True, slots=True)
class DirectoryLog:
    """A log in a directory that every executor sees; see ReadableLog.

    Args:
        directory: The log's directory.
        identity: The identity the log had when the read was planned.
    """

    directory: str
    identity: str

    def check(self, first: OffsetRange) -> None:
        """Check that it is the log that the read was planned for."""
        path = f"{self.directory}/{MARKER_NAME}"
        if _read_identity(path) != self.identity:
            raise LogError(
                "the log that this read was planned for is not here (any more)",
                where=f"{path}; {first}",
                advice="Every executor has to see the log's directory at the same path. Where the log was made anew, "
                "start with a new checkpointLocation",
            )

    def follow(self, part: ReadPart) -> PartitionFollower:
        """Return what reads a partition."""
        return PartitionFollower(part.incarnation)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What one Spark task reads; it travels to an executor.

    Args:
        log: The log.
        parts: What to read, in order.
        shape: What a row is made of.
        states: The states to deliver, or None for all.
        fail_on_data_loss: Whether messages that are gone by now are an error.
    """

    log: ReadableLog
    parts: tuple[ReadPart, ...]
    shape: RowShape
    states: frozenset[int] | None
    fail_on_data_loss: bool


def read_task(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Return the messages of a task, in order, in batches of at most BATCH_ROWS.

    Args:
        task: What to read.

    Raises:
        LogError: the log was deleted and made again, or messages are gone or damaged (CorruptSendError), which with
            failOnDataLoss=false is a warning of the logger headstream.spark instead.
        HeaderError: a header does not fit the column it has, and this is an error.
        DecodeError: a message cannot be read. Each error names topic, partition and offset.
    """
    task.log.check(task.parts[0].range)
    for part in task.parts:
        yield from _PartReader(task, part).read()


def _read_identity(path: str) -> object:
    """Return the identity of the log whose marker is at a path, or None where there is none that can be read."""
    file = OsReadFiles().open_read(path)
    if file is None:
        return None
    try:
        content = memoryview(bytearray(file.size_bytes()))
        return json.loads(bytes(content[: file.read_into(content, 0)])).get("identity")
    except (ValueError, AttributeError):
        return None  # another's file
    finally:
        file.close()


class _PartReader:
    """Reads one range; knows how far it has come, for errors."""

    def __init__(self, task: ReadTask, part: ReadPart) -> None:
        self._task = task
        self._part = part
        self._offset = part.range.from_offset
        self._passed_over = 0
        self._assembler = Assembler(part.range.place, task.shape, BATCH_ROWS)

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
                        self._pass_over(follower.first_offset, error)
                    except CorruptSendError as error:
                        if self._task.fail_on_data_loss:
                            raise
                        self._pass_over(follower.next_readable(error.until_offset), error)
        except HeaderError as error:  # it knows its offset itself
            error.where = f"{self._part.range.place}, {error.where}"
            raise
        except HeadstreamError as error:
            at = f"{self._part.range.place}, offset {self._offset}"
            error.where = f"{at}; {error.where}" if error.where else at
            raise

    def _pass_over(self, offset: int, error: HeadstreamError) -> None:
        """Go on behind messages that are not there (any more), and say so."""
        offset = min(offset, self._part.range.until_offset)
        self._passed_over += offset - self._offset
        _LOGGER.warning(
            "%s: offsets %d to %d are passed over, as failOnDataLoss=false says, %d in this range so far: %s",
            self._part.range.place,
            self._offset,
            offset - 1,
            self._passed_over,
            error,
        )
        self._offset = offset

    def _read_from(self, follower: Follower) -> Iterator[pa.RecordBatch]:
        for chunk in follower.read(self._offset, self._part.range.until_offset):
            rest = chunk
            while rest:
                batch, columns, size = self._assemble(rest)
                batch = self._select(batch, columns)
                # Offsets can have gaps, so that the last one says where this has come to, not how many there were.
                self._offset = int.from_bytes(columns.offset[-8:], "little") + 1
                if batch.num_rows:
                    yield batch
                rest = rest[size:]
        self._offset = self._part.range.until_offset

    def _assemble(self, stored: memoryview) -> tuple[pa.RecordBatch, Columns, int]:
        """Return the rows of the next messages, the columns they are of, and how many bytes they took."""
        try:
            size, _ = take(stored, 0, BATCH_ROWS, len(stored))
            return *self._assembler.assemble(stored[:size]), size
        except DecodeError as error:
            whole = scan(stored[: error.at])
            if whole.count:
                self._offset = whole.last_offset + 1
            raise

    def _select(self, batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
        wanted = self._task.states
        if wanted is None or sum(columns.state.count(code) for code in wanted) == columns.count:
            return batch
        return batch.filter(pa.array([code in wanted for code in columns.state], pa.bool_()))
