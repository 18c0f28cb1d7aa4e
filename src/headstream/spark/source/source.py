"""The `headstream` data source: delegates Spark's calls to options, planning and reader.

    stream STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, state STRING, id STRING,
    checksum BIGINT, key BINARY, headers VARIANT, headers_repeated BOOLEAN, payload BINARY

The source does not push down filters (pushFilters): Spark 4.2 caches a reader with its DataFrame, so a filter pushed down for one
use would also apply to the next use. Restrict a read by the source's options instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from headstream.core.codec.batch.results import HeaderType, WantedHeader
from headstream.errors import InvalidOptionError
from headstream.spark.connection.spark_versions import HAS_LIMITS
from headstream.spark.source.bounds import resolve
from headstream.spark.source.options import HeaderShape, RowShape, SourceOptions, parse_options
from headstream.spark.source.planning import open_view, plan_partitions, read_partition
from headstream.spark.source.stream_reader import HeadstreamStreamReader, UnlimitedStreamReader

_TYPES: Final[dict[str, DataType]] = {
    "stream": StringType(), "topic": StringType(), "partition": IntegerType(), "offset": LongType(),
    "timestamp": TimestampType(), "state": StringType(), "id": StringType(), "checksum": LongType(), "key": BinaryType(),
    "headers_repeated": BooleanType(), "payload": BinaryType(),
}  # fmt: skip
_HEADER: Final = StructType(
    [StructField("key", StringType(), False), StructField("kind", StringType(), False), StructField("value", BinaryType(), False)]
)
_HEADERS: Final[dict[HeaderShape, DataType]] = {
    "variant": VariantType(),
    "array": ArrayType(_HEADER, containsNull=False),
    "map": MapType(StringType(), VariantType(), valueContainsNull=False),
    "binary": BinaryType(),
}
_HEADER_TYPES: Final[dict[HeaderType, DataType]] = {
    "bool": BooleanType(), "int8": ByteType(), "int16": ShortType(), "int32": IntegerType(), "int64": LongType(),
    "float32": FloatType(), "float64": DoubleType(), "string": StringType(), "binary": BinaryType(),
}  # fmt: skip


def spark_schema(shape: RowShape) -> StructType:
    """Return the columns as a Spark schema."""
    fields = [StructField(name, _HEADERS[shape.headers] if name == "headers" else _TYPES[name]) for name in shape.columns]
    return StructType(fields + [StructField(column.name, _type_of(column)) for column in shape.header_columns])


def _type_of(column: WantedHeader) -> DataType:
    return DecimalType(column.digits, 0) if column.type == "decimal" else _HEADER_TYPES[column.type]


class HeadstreamDataSource(DataSource):
    """`format("headstream")`.

    Args:
        options: The reader's or writer's options; see headstream.spark.source.options.

    Raises, when the reader or writer is created:
        InvalidOptionError: an option is unknown, missing or invalid.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._given = dict(options)  # not yet known whether these are options of a read or a write

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "headstream"

    def schema(self) -> StructType:
        """Return the columns, which depend on the options `columns`, `headers` and `headerColumns`."""
        return spark_schema(parse_options(self._given).shape)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = self._check_schema(schema)
        options.check_batch()
        return HeadstreamReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        options = self._check_schema(schema)
        options.check_stream(has_limits=HAS_LIMITS)
        return HeadstreamStreamReader(options) if HAS_LIMITS else UnlimitedStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        from headstream.spark.sink.sink import HeadstreamWriter  # imports pandas, which processes that read do not need

        return HeadstreamWriter(self._given, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a stream."""
        from headstream.spark.sink.sink import HeadstreamStreamWriter

        return HeadstreamStreamWriter(self._given, schema, overwrite)

    def _check_schema(self, schema: StructType) -> SourceOptions:
        options = parse_options(self._given)
        if schema != spark_schema(options.shape):
            raise InvalidOptionError(
                "the headstream source has fixed columns, which differ from schema()",
                advice="Omit schema(), and select the columns you need",
            )
        return options


class HeadstreamReader(DataSourceReader):
    """Plans and reads a batch query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks' input partitions."""
        options = self._options
        view = open_view(options)
        try:
            start = resolve(options.starting, view.available, view.find_time)
            end = resolve(options.ending, view.available, view.find_time)
            for partition, offset in end.items():
                if offset < start[partition] and options.ending.at != "latest":
                    raise InvalidOptionError(
                        f"{options.ending.option} ends {partition} at offset {offset}, before its start, {start[partition]}",
                        advice="Set startingOffsets before endingOffsets",
                    )
            tasks = plan_partitions(options, view, start, end)
        finally:
            view.close()
        # Spark runs one task for an empty list too: return a task that reads nothing.
        return tasks or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        return read_partition(partition)
