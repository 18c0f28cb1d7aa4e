"""Micro-batches whose partitions all end at the same log time, so that all messages logged before that time have been read.

So rows that depend on messages logged earlier (Replicate's full loads) need not wait for partitions that lag behind. The query's
offsets contain the time and the topics' identities, so a repeated batch uses the same time:

    {"cdc/data": {"1": 123, "2": 118}, "identity": {"log": "3b1f...", "cdc/data": "1/4", "read until": "1690000000000000"}}

The time is taken from the newest message before the ends of the partitions are read, so messages appended later are not older. If
the messages exceed a micro-batch's limits, the time is the latest time up to which all partitions fit. If all of the first
messages have the same time and exceed the limits, the batch ends at the limits.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headstream.errors import CorruptLogError
from headstream.spark.connection.spark_versions import ReadLimit
from headstream.spark.source.limits import BatchLimits, count_pending
from headstream.spark.source.log_view import LogView
from headstream.spark.source.offsets import SourceOffsets, TopicPartition
from headstream.spark.source.options import SourceOptions, parse_options
from headstream.spark.source.stream_reader import HeadstreamStreamReader

_READ_UNTIL: Final = "read until"
_FULL: Final = 0.95
"""The share of a micro-batch's limits at which the search for a later time stops, because each attempt reads every partition."""
_OVERFULL: Final = 1.05
"""The share up to which a micro-batch takes all messages: merging a small remainder costs as much as merging a large batch."""
_FULL_ENOUGH: Final = 0.75
"""The share above which the search ends after _MORE_TRIES further attempts, since many messages can have the same time."""
_MORE_TRIES: Final = 6
Convert: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def make_aligned_source(name: str, schema: str, convert: Convert) -> type[DataSource]:
    """Return a data source to register; AlignedStreamReader plans its streams, and its tasks convert the messages.

    A separate conversion would pass the columns from one Python worker through Spark's rows to another, which costs more than
    reading and decoding the messages. The conversion function is in the class, because options are visible in query plans.

    Args:
        name: Name of the format, which has the options of `headstream`.
        schema: The converted columns, as Spark's DDL.
        convert: Called in each task with the rows that `headstream` would return.
    """
    # Packed: processes that only plan a stream do not import the conversion's modules.
    packed = cloudpickle.dumps(convert)  # type: ignore[no-untyped-call]

    class Reader(AlignedStreamReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            unpacked: Convert = pickle.loads(packed)
            return unpacked(super().read(partition))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return schema

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            options = parse_options(dict(self.options))
            options.check_stream()
            return Reader(options)

    return Source


class AlignedStreamReader(HeadstreamStreamReader):
    """Plans the micro-batches of a stream so that all partitions are read up to one log time."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._newest_us: int | None = None
        self._target_us: int | None = None
        self._begun_us = 0
        self._until_us: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the current ends of the partitions; the query stops after reading up to these ends."""
        self._target_us = _newest_time(self._refresh())
        super().prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch, with the log time up to which it reads every message."""
        begin = SourceOffsets.decode(start)
        self._begun_us, self._until_us = int(begin.topics.get(_READ_UNTIL, "0")), None
        view = self._refresh()
        # Before super() reads the ends again, and only after new messages: this reads each partition's newest message.
        self._newest_us = _newest_time(view) if count_pending(begin.positions, view.offsets.positions) else None
        end = SourceOffsets.decode(super().latestOffset(start, limit))
        if dict(end.positions) == dict(begin.positions):
            return start
        until_us = max(self._begun_us, self._until_us or 0)
        return replace(end, topics={**end.topics, _READ_UNTIL: str(until_us)}).encode()

    def _admit(
        self, view: LogView, known: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limits: BatchLimits
    ) -> dict[TopicPartition, int]:
        if self._newest_us is None:  # messages since the previous check are for the next micro-batch
            return {place: min(end, known[place]) for place, end in latest.items()}
        newest_us = self._newest_us if self._target_us is None else min(self._newest_us, self._target_us)

        def ends_at(until_us: int) -> dict[TopicPartition, int]:
            found = {place: min(end, view.find_time(place, until_us)) for place, end in latest.items()}
            return {place: max(end, min(known[place], latest[place])) for place, end in found.items()}

        def fullness(end: Mapping[TopicPartition, int]) -> float:
            count = sum(count_pending(known, end).values())
            shares = [count / limits.max_offsets] if limits.max_offsets is not None else []
            if limits.max_bytes is not None:
                shares.append(sum(view.size_between(place, known[place], end[place]) for place in end) / limits.max_bytes)
            return max(shares, default=0.0)

        try:
            self._until_us, end = find_end(self._begun_us, newest_us + 1, ends_at, fullness)
        except CorruptLogError:  # the task that reads the segment reports the damage
            return super()._admit(view, known, latest, limits)
        if count_pending(known, end):
            return end
        return super()._admit(view, known, ends_at(newest_us + 1), limits)


def find_end(
    low_us: int,
    high_us: int,
    ends_at: Callable[[int], dict[TopicPartition, int]],
    fullness: Callable[[Mapping[TopicPartition, int]], float],
) -> tuple[int, dict[TopicPartition, int]]:
    """Return the latest time found up to which all partitions fit into a micro-batch, and the partitions' ends at that time.

    Args:
        low_us: A time before which every message has been read.
        high_us: The latest allowed time, above `low_us` if there is anything to read.
        ends_at: Returns the end of each partition for a time.
        fullness: Returns the share of the limits that given ends use. Ends fit up to a share of 1; at `high_us`, up to 1.05.
    """
    end = ends_at(high_us)
    if fullness(end) <= _OVERFULL:
        return high_us, end
    best_us, best = low_us, ends_at(low_us)
    best_share, tries = 0.0, _MORE_TRIES
    while high_us - best_us > 1 and tries:
        middle_us = (best_us + high_us) // 2
        end = ends_at(middle_us)
        share = fullness(end)
        if share > 1:
            high_us = middle_us
        else:
            best_us, best, best_share = middle_us, end, share
        if best_share >= _FULL:
            break
        if best_share >= _FULL_ENOUGH:
            tries -= 1
    return best_us, best


def planned_until(checkpoint: Path, batch_id: int) -> int | None:
    """Return the log time up to which a micro-batch reads everything; None if its offsets contain no time."""
    try:
        lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
        value = json.loads(lines[-1])["identity"][_READ_UNTIL]
    except (OSError, ValueError, LookupError, TypeError):  # planned by an older Headstream, or by another source
        return None
    return int(value)


def _newest_time(view: LogView) -> int | None:
    times = (view.last_time(place) for place in view.available)
    return max((time_us for time_us in times if time_us is not None), default=None)
