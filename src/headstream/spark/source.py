"""The `headstream` data source: what Spark asks for, handed on to options, planning and reader.

    stream STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, state STRING, id STRING,
    checksum BIGINT, key BINARY, headers VARIANT, headers_repeated BOOLEAN, payload BINARY

It does not take filters over (pushFilters): Spark 4.2 keeps a reader with its DataFrame, so that a filter taken over for
one use of it is still there in the next. Bound a read by its options instead.
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

from headstream.codec.batch.results import HeaderType, WantedHeader
from headstream.errors import InvalidOptionError
from headstream.spark.bounds import resolve
from headstream.spark.options import HeaderShape, RowShape, SourceOptions, parse_options
from headstream.spark.planning import open_view, plan_partitions, read_partition
from headstream.spark.sink import HeadstreamStreamWriter, HeadstreamWriter
from headstream.spark.stream_reader import HeadstreamStreamReader

__all__ = ["HeadstreamDataSource", "HeadstreamReader", "spark_schema"]

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
    """Return the columns as Spark has them.

    Args:
        shape: What a row is made of.
    """
    fields = [StructField(name, _HEADERS[shape.headers] if name == "headers" else _TYPES[name]) for name in shape.columns]
    return StructType(fields + [StructField(column.name, _type_of(column)) for column in shape.header_columns])


def _type_of(column: WantedHeader) -> DataType:
    return DecimalType(column.digits, 0) if column.type == "decimal" else _HEADER_TYPES[column.type]


class HeadstreamDataSource(DataSource):
    """`format("headstream")`.

    Args:
        options: As given to the reader; see headstream.spark.options.

    Raises, once it is said whether to read or to write:
        InvalidOptionError: one of them is unknown, missing or wrong.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._given = dict(options)  # to read or to write: which of the two is not known yet

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "headstream"

    def schema(self) -> StructType:
        """Return the columns, which the options `columns`, `headers` and `headerColumns` decide."""
        return spark_schema(parse_options(self._given).shape)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        options = self._check_schema(schema)
        options.check_batch()
        return HeadstreamReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads a stream."""
        options = self._check_schema(schema)
        options.check_stream()
        return HeadstreamStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a DataFrame."""
        return HeadstreamWriter(self._given, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return what writes a stream."""
        return HeadstreamStreamWriter(self._given, schema, overwrite)

    def _check_schema(self, schema: StructType) -> SourceOptions:
        options = parse_options(self._given)
        if schema != spark_schema(options.shape):
            raise InvalidOptionError(
                "the headstream source has columns of its own, and schema() asks for others",
                advice="Leave schema() out, and select what you need",
            )
        return options


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
        view = open_view(options)
        try:
            start = resolve(options.starting, view.available, view.find_time)
            end = resolve(options.ending, view.available, view.find_time)
            for place, offset in end.items():
                if offset < start[place] and options.ending.at != "latest":
                    raise InvalidOptionError(
                        f"{options.ending.option} ends {place} at {offset}, before it begins at {start[place]}",
                        advice="What is read goes from startingOffsets to before endingOffsets",
                    )
            tasks = plan_partitions(options, view, start, end)
        finally:
            view.close()
        # Spark makes one task of none, so an empty read has one task that reads nothing.
        return tasks or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        return read_partition(partition)
