"""HeadstreamStreamReader: the micro-batches of a stream: where each ends, and what its tasks read.

What is decided here is decided by bounds.py, limits.py and tasks.py, which are pure; this asks the log and the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headstream.spark.bounds import resolve
from headstream.spark.limits import Limits, admit, admit_bytes, count_waiting, is_held_back
from headstream.spark.log_view import LogView
from headstream.spark.offsets import Offsets, Place
from headstream.spark.options import SourceOptions
from headstream.spark.planning import open_view, plan_partitions, read_partition
from headstream.spark.worker_endings import end_quietly

__all__ = ["HeadstreamStreamReader"]

_NO_LIMITS: Final = Limits()


class HeadstreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream, and reads them.

    Args:
        options: What to read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view: LogView | None = None
        self._target: Mapping[Place, int] | None = None
        self._admitted_us: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Travels to the executors with read(); what it has open stays.
        return self.__dict__ | {"_view": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins."""
        view = self._refresh()
        positions = resolve(self._options.starting, view.available, view.find_time)
        return Offsets(positions, view.offsets.log, view.offsets.topics).encode()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what is there now: the query ends when that is read."""
        self._target = self._refresh().offsets.positions

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one of the limits that options set; Spark has no class for several, latestOffset() knows them all."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends.

        Args:
            start: Where it begins.
            limit: Either that all is to be read, or the limit of getDefaultReadLimit(), which stands for all limits.

        Raises:
            LogError: the log or a topic was deleted and made again.
        """
        view = self._refresh()
        begin, now = Offsets.decode(start), view.offsets
        begin.check_same_log(now)
        latest = now.positions
        if self._target is not None:
            latest = {place: min(latest[place], end) for place, end in self._target.items() if place in latest}
        first = {place: holds.first_offset for place, holds in view.available.items()}
        known = {place: begin.positions.get(place, first[place]) for place in latest}
        limits = _NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._options.limits
        waiting = sum(count_waiting(known, latest).values())
        now_us = time.monotonic_ns() // 1000
        # A query that is to end with what is there does not wait for more.
        if waiting and self._target is None and is_held_back(waiting, limits, self._admitted_us, now_us):
            return start
        if waiting:
            self._admitted_us = now_us
        return Offsets(self._admit(view, known, latest, limits), now.log, now.topics).encode()

    def _admit(self, view: LogView, known: Mapping[Place, int], latest: Mapping[Place, int], limits: Limits) -> dict[Place, int]:
        """Return where a micro-batch ends that begins at some positions, with what is there and some limits."""
        positions = latest if limits.max_bytes is None else admit_bytes(known, latest, limits.max_bytes, view)
        return admit(known, positions, limits.max_offsets)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where the log ends, for the query's progress."""
        return self._refresh().offsets.encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return what each task of a micro-batch reads."""
        view = self._refresh()
        begin, until = Offsets.decode(start), Offsets.decode(end)
        begin.check_same_log(view.offsets)
        until.check_same_log(view.offsets)
        return plan_partitions(self._options, view, begin.positions, until.positions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        return read_partition(partition)

    def stop(self) -> None:
        """Let go of the log."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _refresh(self) -> LogView:
        if self._view is None:
            self._view = open_view(self._options)
        else:
            self._view.refresh()
        return self._view


end_quietly()  # a pipeline's source comes to the processes that make and plan it without the module of the sink
