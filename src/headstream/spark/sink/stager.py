"""A write task on an executor: rows -> batches of each partition -> one staged part.

    RecordBatch -> rows of each topic -> Packer -> messages of each partition, buffered -> cut into batches -> PartWriter

Rows with neither partition nor key are distributed to the partitions in round-robin order, batch by batch; each task starts with
a different partition. Staging needs no lock, because a part has no effect until the driver commits it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.core.codec.batch.from_columns.grouping import cut_sent, group_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import MAX_BATCH_BYTES, Limits
from headstream.errors import HeadstreamError, InvalidInputError
from headstream.log.staged.staging import StagedPart
from headstream.spark.sink.bad_rows import BadRowsWriter
from headstream.spark.sink.columns import SinkColumns
from headstream.spark.sink.log import SinkLog
from headstream.spark.sink.packing import BadRow, Packed, Packer, Target

_BATCH_BYTES: Final = 4 << 20
"""Buffered bytes of a partition that make a batch; equal to a reader's chunk size."""
_GATHERED_BYTES: Final = 64 << 20
"""Buffered bytes of all partitions above which all partitions are staged, to bound a task's memory."""
_MAX_IGGY_VALUES: Final = 100_000
_MAX_IGGY_PAYLOADS: Final = 10_000_000
"""Maximum size of the header values and of the payloads in a batch for a topic with limits `iggy`, bytes."""


@dataclass(frozen=True, slots=True)
class StageTask:
    """The work of a task; serialized to the executor."""

    log: SinkLog
    columns: SinkColumns
    topic: TopicName | None
    bad_rows_path: str | None
    writer: str
    epoch: int
    task: int


@dataclass(frozen=True, slots=True)
class Staged:
    """Result of a task: its staged part and bad-row file (None if empty), and its topics' limits by name."""

    part: StagedPart | None
    limits: dict[str, str]
    bad_rows: str | None


class _Topics:
    """The current topics of a log."""

    def __init__(self, log: SinkLog) -> None:
        self._log = log
        self._known: dict[str, Target] = {}

    def find(self, text: str) -> Target:
        """Return the topic with the name `stream/topic`."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._log.find(TopicName.parse(text))
        return known


def stage_rows(task: StageTask, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Stage the rows of a task.

    Raises:
        HeadstreamError: a row was rejected; the message contains the row's number in the task. Nothing remains staged.
    """
    stager = _Stager(task)
    try:
        for batch in batches:
            if batch.num_rows:
                stager.add(batch)
        return stager.finish()
    except BaseException:
        stager.discard()
        raise


class _Buffered:
    """Buffered messages of one partition, until they make a batch."""

    __slots__ = ("parts", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[bytearray | memoryview] = []
        self.size_bytes = 0


class _Stager:
    def __init__(self, task: StageTask) -> None:
        # Each attempt of a task, also in different attempts of a stage, has its own file.
        name = f"{task.task:05}-{os.urandom(8).hex()}"
        self._task = task
        self._topics = _Topics(task.log)
        self._packer = Packer(task.columns)
        self._staged = task.log.begin_part(task.writer, task.epoch, name)
        path = task.bad_rows_path
        self._bad_rows = None if path is None else BadRowsWriter(path, task.writer, task.epoch, name)
        self._gathered: dict[tuple[str, int], _Buffered] = {}
        self._gathered_bytes = 0
        self._turns: dict[str, int] = {}
        self._limits: dict[str, str] = {}
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        for topic, rows in self._by_topic(batch):
            try:
                if topic is None:
                    raise InvalidInputError("the column topic is null", advice="Set each row's topic")
                target = self._topics.find(topic)
            except HeadstreamError as error:
                for row in range(rows.num_rows):
                    self._refuse(rows, BadRow(row, error), topic)
                continue
            for packed in self._packer.pack(rows, target):
                if isinstance(packed, BadRow):
                    self._refuse(rows, packed, topic)
                else:
                    self._buffer(packed, target)
        self._rows += batch.num_rows

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
        columns = self._task.columns
        if self._task.topic is not None or columns.topic is None:
            yield str(self._task.topic), batch
            return
        names = batch[columns.topic]
        if columns.stream is not None:
            names = pc.binary_join_element_wise(batch[columns.stream], names, "/")
        encoded = names.dictionary_encode("encode")
        if len(encoded.dictionary) == 1:
            yield encoded.dictionary[0].as_py(), batch
            return
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            yield name, batch.filter(pc.equal(encoded.indices, number))

    def _refuse(self, rows: pa.RecordBatch, bad: BadRow, topic: str | None) -> None:
        error = bad.reason
        if self._bad_rows is not None:
            self._bad_rows.add(rows.slice(bad.row, 1), topic, error)
            return
        # If a task has rows of several topics, rows are numbered per topic.
        row = f"row {self._rows + bad.row} of task {self._task.task}, topic {topic}"
        error.where = f"{row}; {error.where}" if error.where else row
        raise error

    def _buffer(self, packed: Packed, target: Target) -> None:
        self._limits[target.name] = (Limits.WIDE if target.is_wide else Limits.IGGY).value
        if packed.targets is None:
            self._put(target, self._next_partition(target), packed.sent)
            return
        # Group 0 has the rows for any partition.
        grouped = group_sent(packed.sent, packed.targets, target.partitions + 1)
        begin = 0
        for partition, size_bytes in enumerate(grouped.sizes):
            if size_bytes:
                number = partition or self._next_partition(target)
                self._put(target, number, memoryview(grouped.data)[begin : begin + size_bytes])
            begin += size_bytes

    def _next_partition(self, target: Target) -> int:
        return self._turns.setdefault(target.name, self._task.task % target.partitions + 1)

    def _put(self, target: Target, partition: int, sent: bytearray | memoryview) -> None:
        gathered = self._gathered.setdefault((target.name, partition), _Buffered())
        gathered.parts.append(sent)
        gathered.size_bytes += len(sent)
        self._gathered_bytes += len(sent)
        if gathered.size_bytes >= _BATCH_BYTES:
            self._stage(target, partition)
        if self._gathered_bytes >= _GATHERED_BYTES:
            self._stage_all()

    def _stage(self, target: Target, partition: int) -> None:
        """Cut a partition's buffered messages into batches, and stage them."""
        gathered = self._gathered.pop((target.name, partition))
        self._gathered_bytes -= gathered.size_bytes
        if partition == self._turns.get(target.name):
            self._turns[target.name] = partition % target.partitions + 1
        rest = memoryview(gathered.parts[0] if len(gathered.parts) == 1 else b"".join(gathered.parts))
        limits = (-1, -1) if target.is_wide else (_MAX_IGGY_VALUES, _MAX_IGGY_PAYLOADS)
        most = min(max(gathered.size_bytes, _BATCH_BYTES), 2 * _BATCH_BYTES, MAX_BATCH_BYTES)
        while rest:
            cut = cut_sent(rest, most, *limits)
            self._staged.add(target.name, partition, rest[: cut.end], cut.messages_count)
            rest = rest[cut.end :]

    def _stage_all(self) -> None:
        for name, partition in list(self._gathered):
            self._stage(self._topics.find(name), partition)

    def finish(self) -> Staged:
        self._stage_all()
        part = self._staged.finish()
        return Staged(part, self._limits, None if self._bad_rows is None else self._bad_rows.finish())

    def discard(self) -> None:
        self._staged.discard()
        if self._bad_rows is not None:
            self._bad_rows.discard()
