"""What runs on executors: ranges of offsets -> segment bytes -> Arrow, without a Python object a message.

    PartitionFollower -> chunks of about 4 MiB -> slices of 10,000 messages -> Assembler (columns.py) -> RecordBatch

It imports the codec and the segments, and nothing of the log's writer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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

__all__ = ["BATCH_ROWS", "ReadPart", "ReadTask", "read_task"]

BATCH_ROWS: Final = 10_000
"""Rows of an Arrow batch: with 1,000 a batch's own cost shows, with 100,000 nothing is gained."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """One range and where its partition lies.

    Args:
        range: What to read.
        directory: The partition's directory.
    """

    range: OffsetRange
    directory: str


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What one Spark task reads; it travels to an executor.

    Args:
        directory: The log's directory.
        identity: The identity the log had when this was planned.
        parts: What to read, in order.
        shape: What a row is made of.
        states: The states to deliver, or None for all.
        fail_on_data_loss: Whether messages that are gone by now are an error.
    """

    directory: str
    identity: str
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
    _check_identity(task)
    for part in task.parts:
        yield from _PartReader(task, part).read()


def _check_identity(task: ReadTask) -> None:
    path = f"{task.directory}/{MARKER_NAME}"
    file = OsReadFiles().open_read(path)
    identity = None
    if file is not None:
        try:
            content = memoryview(bytearray(file.size_bytes()))
            identity = json.loads(bytes(content[: file.read_into(content, 0)])).get("identity")
        except (ValueError, AttributeError):
            pass  # another's file, or none: said below
        finally:
            file.close()
    if identity != task.identity:
        raise LogError(
            "the log that this read was planned for is not here (any more)",
            where=f"{path}; {task.parts[0].range}",
            advice="Every executor has to see the log's directory at the same path. Where the log was made anew, "
            "start with a new checkpointLocation",
        )


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
            with PartitionFollower(self._part.directory) as follower:
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

    def _read_from(self, follower: PartitionFollower) -> Iterator[pa.RecordBatch]:
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
