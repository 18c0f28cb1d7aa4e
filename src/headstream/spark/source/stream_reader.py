"""HeadstreamStreamReader: the ends and the tasks of a stream's micro-batches.

bounds.py, limits.py and tasks.py make the decisions without I/O; this module reads the log and the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from headstream.spark.connection.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from headstream.spark.source.bounds import resolve
from headstream.spark.source.limits import BatchLimits, admit, admit_bytes, count_pending, is_held_back
from headstream.spark.source.log_view import LogView
from headstream.spark.source.offsets import SourceOffsets, TopicPartition
from headstream.spark.source.options import SourceOptions
from headstream.spark.source.planning import open_view, plan_partitions, read_partition
from headstream.spark.workers.endings import exit_quietly

_NO_LIMITS: Final = BatchLimits()


class HeadstreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream, and reads them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view: LogView | None = None
        self._target: Mapping[TopicPartition, int] | None = None
        self._admitted_us: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Serialized to the executors with read(), without open files.
        return self.__dict__ | {"_view": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offsets at which a new query begins."""
        view = self._refresh()
        positions = resolve(self._options.starting, view.available, view.find_time)
        return SourceOffsets(positions, view.offsets.log, view.offsets.topics).encode()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the log's current end: the query stops after reading up to this end."""
        self._target = self._refresh().offsets.positions

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one of the limits set by options. Spark has no class for several limits; latestOffset() applies all limits."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch.

        Args:
            limit: Either a request to read everything, or the limit from getDefaultReadLimit(), which represents all limits.

        Raises:
            LogError: the log or a topic was deleted and recreated.
        """
        view = self._refresh()
        begin, now = SourceOffsets.decode(start), view.offsets
        begin.check_same_log(now)
        latest = now.positions
        if self._target is not None:
            latest = {partition: min(latest[partition], end) for partition, end in self._target.items() if partition in latest}
        first = {partition: holds.first_offset for partition, holds in view.available.items()}
        known = {partition: begin.positions.get(partition, first[partition]) for partition in latest}
        limits = _NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._options.limits
        waiting = sum(count_pending(known, latest).values())
        now_us = time.monotonic_ns() // 1000
        # A query with trigger availableNow does not wait for more messages.
        if waiting and self._target is None and is_held_back(waiting, limits, self._admitted_us, now_us):
            return start
        if waiting:
            self._admitted_us = now_us
        return SourceOffsets(self._admit(view, known, latest, limits), now.log, now.topics).encode()

    def _admit(
        self, view: LogView, known: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limits: BatchLimits
    ) -> dict[TopicPartition, int]:
        """Return the end of a micro-batch that starts at the known positions and is within the limits."""
        positions = latest if limits.max_bytes is None else admit_bytes(known, latest, limits.max_bytes, view)
        return admit(known, positions, limits.max_offsets)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the log's end for the query's progress report."""
        return self._refresh().offsets.encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the input partitions of a micro-batch."""
        view = self._refresh()
        begin, until = SourceOffsets.decode(start), SourceOffsets.decode(end)
        begin.check_same_log(view.offsets)
        until.check_same_log(view.offsets)
        return plan_partitions(self._options, view, begin.positions, until.positions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        return read_partition(partition)

    def stop(self) -> None:
        """Close the log."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _refresh(self) -> LogView:
        if self._view is None:
            self._view = open_view(self._options)
        else:
            self._view.refresh()
        return self._view


class UnlimitedStreamReader(HeadstreamStreamReader):
    """Reads a stream in Spark 4.0 and 4.1; each micro-batch ends at the log's end."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the log's end; these Spark versions do not pass the start of the micro-batch."""
        return self.reportLatestOffset()


exit_quietly()  # processes that create and plan a pipeline's source do not import the sink
