"""Streams a log's decoded messages: the task that reads them also decodes them.

A message's columns would otherwise go from a Python worker through Spark's rows to another Python worker, which costs more
than reading and decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headstream.replicate.columns.raw import SOURCE_COLUMNS
from headstream.replicate.decoding.decode import DECODED_SPARK_SCHEMA
from headstream.replicate.inputs.aligned_reader import AlignedStreamReader
from headstream.spark.source.options import parse_options

__all__ = ["FORMAT", "READ_COLUMNS", "Decode", "decoding_source", "to_raw"]

Decode: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Raw messages, the columns of raw.SOURCE_COLUMNS -> batches of decode.DECODED_SCHEMA."""

FORMAT: Final = "headstream-replicate"
READ_COLUMNS: Final = "stream,topic,partition,offset,timestamp,key,headers,payload"
"""The columns read from a log; other columns are not needed."""


def decoding_source(decode: Decode) -> type[DataSource]:
    """Return a data source for one pipeline, to be registered: the options of `headstream`, the columns of DECODED_SCHEMA.

    The class contains the function, because options are visible in query plans.

    Args:
        decode: The function that each task runs on its messages.
    """

    class Reader(AlignedStreamReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return decode(to_raw(batch) for batch in super().read(partition))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return FORMAT

        def schema(self) -> str:
            return DECODED_SPARK_SCHEMA

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            options = parse_options(dict(self.options))
            options.check_stream()
            return Reader(options)

    return Source


def to_raw(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a log, READ_COLUMNS, as raw messages.

    Args:
        batch: With binary headers.
    """
    found: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
    found["topic"] = pc.binary_join_element_wise(found["stream"], found["topic"], "/")
    found["timestamp_us"] = found["timestamp"].cast(pa.int64())
    return pa.RecordBatch.from_arrays([found[name] for name in SOURCE_COLUMNS], names=list(SOURCE_COLUMNS))
