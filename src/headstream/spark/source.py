"""The `headstream` data source: what Spark asks for, handed on to options, offsets and reader.

    stream STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, state STRING, id STRING,
    checksum BIGINT, key BINARY, headers VARIANT, headers_repeated BOOLEAN, payload BINARY

It does not take filters over (pushFilters): Spark 4.2 keeps a reader with its DataFrame, so that a filter taken over for
one use of it is still there in the next. Bound a read by its options instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from headstream.errors import InvalidOptionError
from headstream.spark.log_view import LogView
from headstream.spark.offsets import OffsetRange, Offsets, Place, admit, plan_ranges, plan_tasks, resolve
from headstream.spark.options import HeaderShape, SourceOptions, parse_options
from headstream.spark.reader import ReadPart, ReadTask, read_task

__all__ = ["HeadstreamDataSource", "HeadstreamReader", "HeadstreamStreamReader", "spark_schema"]

_TYPES: Final[dict[str, DataType]] = {
    "stream": StringType(), "topic": StringType(), "partition": IntegerType(), "offset": LongType(),
    "timestamp": TimestampType(), "state": StringType(), "id": StringType(), "checksum": LongType(), "key": BinaryType(),
    "headers_repeated": BooleanType(), "payload": BinaryType(),
}  # fmt: skip
_STREAM_PROCESS: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_HEADER_TYPES: Final[dict[HeaderShape, DataType]] = {"variant": VariantType(), "binary": BinaryType()}


def spark_schema(names: tuple[str, ...], headers: HeaderShape) -> StructType:
    """Return columns as Spark has them.

    Args:
        names: Which columns, in this order.
        headers: The shape of the header columns.
    """
    return StructType([StructField(name, _HEADER_TYPES[headers] if name == "headers" else _TYPES[name]) for name in names])


class HeadstreamDataSource(DataSource):
    """`format("headstream")`.

    Args:
        options: As given to the reader; see headstream.spark.options.

    Raises:
        InvalidOptionError: one of them is unknown, missing or wrong.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "headstream"

    def schema(self) -> StructType:
        """Return the columns, which the options `columns` and `headers` decide."""
        return spark_schema(self._parsed.columns, self._parsed.headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        self._check_schema(schema)
        self._parsed.check_batch()
        return HeadstreamReader(self._parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads a stream."""
        self._check_schema(schema)
        self._parsed.check_stream()
        return HeadstreamStreamReader(self._parsed)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise InvalidOptionError(
                "the headstream source has columns of its own, and schema() asks for others",
                advice="Leave schema() out, and select what you need",
            )


class HeadstreamReader(DataSourceReader):
    """Reads a batch.

    Args:
        options: What to read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads of what is there now."""
        options = self._options
        view = LogView(options.directory, options.topics)
        try:
            start = resolve(options.starting, view.available, "startingOffsets")
            end = resolve(options.ending, view.available, "endingOffsets")
            for place, offset in end.items():
                if offset < start[place] and not isinstance(options.ending, str):
                    raise InvalidOptionError(
                        f"endingOffsets ends {place} at {offset}, before it begins at {start[place]}",
                        advice="Offsets are half-open: from startingOffsets to before endingOffsets",
                    )
            tasks = _plan(options, view, start, end)
        finally:
            view.close()
        # Spark makes one task of none, so an empty read has one task that reads nothing.
        return tasks or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        return _read(partition)


class HeadstreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream, and reads them.

    Args:
        options: What to read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view: LogView | None = None
        self._target: Mapping[Place, int] | None = None
        _end_quietly()

    def __getstate__(self) -> dict[str, Any]:
        # Travels to the executors with read(); what it has open stays.
        return self.__dict__ | {"_view": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins."""
        view = self._refresh()
        positions = resolve(self._options.starting, view.available, "startingOffsets")
        return Offsets(positions, view.offsets.log, view.offsets.topics).encode()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what is there now: the query ends when that is read."""
        self._target = self._refresh().offsets.positions

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that maxOffsetsPerTrigger sets."""
        limit = self._options.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends.

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
        positions = admit(known, latest, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return Offsets(positions, now.log, now.topics).encode()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where the log ends, for the query's progress."""
        return self._refresh().offsets.encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return what each task of a micro-batch reads."""
        view = self._refresh()
        begin, until = Offsets.decode(start), Offsets.decode(end)
        begin.check_same_log(view.offsets)
        until.check_same_log(view.offsets)
        return _plan(self._options, view, begin.positions, until.positions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        return _read(partition)

    def stop(self) -> None:
        """Let go of the log's files."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _refresh(self) -> LogView:
        if self._view is None:
            self._view = LogView(self._options.directory, self._options.topics)
        else:
            self._view.refresh()
        return self._view


def _end_quietly() -> None:
    """Have the process that PySpark plans a stream in end without a traceback when its query is stopped in between."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name != _STREAM_PROCESS:
        return
    say = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(kind, (BrokenPipeError, ConnectionResetError)):
            say(kind, error, traceback)

    sys.excepthook = hook


def _plan(options: SourceOptions, view: LogView, start: Mapping[Place, int], end: Mapping[Place, int]) -> list[InputPartition]:
    ranges = plan_ranges(start, end, view.available, fail_on_data_loss=options.fail_on_data_loss)

    def locate(part: OffsetRange) -> ReadPart:
        return ReadPart(part, view.partition_directory(part.place))

    return [
        InputPartition(
            ReadTask(
                directory=options.directory,
                identity=view.identity,
                parts=tuple(locate(part) for part in task),
                columns=options.columns,
                headers=options.headers,
                states=options.states,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        )
        for task in plan_tasks(ranges, options.min_partitions)
    ]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    task = partition.value
    return iter(()) if task is None else read_task(task)
