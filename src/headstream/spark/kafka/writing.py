"""Writing: converts rows with Headstream's columns for Spark's Kafka sink, which guarantees at-least-once delivery.

    column       type                                       becomes
    payload      BINARY, STRING                             the value, or null
    key          BINARY, STRING                             the key
    topic        STRING                                     the topic, stream/topic or a Kafka name; null: the option `topic`
    partition    INT                                        the partition, from 0
    headers      BINARY                                     headers as read with headers=binary
                 ARRAY<STRUCT<key, kind, value>>            headers as read with headers=array
                 ARRAY<STRUCT<key STRING, value BINARY>>    Kafka's headers, unchanged
                 MAP<STRING, ...>                           headers as in the sink of a log
    id           STRING                                     the header hs.id
    timestamp    TIMESTAMP                                  the header hs.timestamp: Kafka sets the record's own timestamp
    columns in the option headerColumns                     headers after all others, with kinds as in the sink of a log
                                                            (headstream.spark.sink.columns); no header if null

The kernels of a log's sink encode the headers, so both sinks produce the same headers from the same rows. If `headers` and a
header column have the same key, both are written; the column's header is written last, so consumers use it.
The columns stream, offset, state, checksum and headers_repeated are ignored, so rows that were read can be written. Any other
column is rejected with an error that names the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from headstream.core.codec.batch.from_columns.blocks import BlockBuilder
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.model.header_values import HeaderKind
from headstream.core.model.reserved import APPENDED_HEADER, CHECKSUM_HEADER, ID_HEADER, STATE_HEADER, TIMESTAMP_HEADER
from headstream.errors import InvalidOptionError
from headstream.spark.kafka.header_rows import decode_blocks, encode_blocks
from headstream.spark.kafka.options import KafkaWriteOptions, parse_write_options
from headstream.spark.sink.columns import HeaderSource, HeadersShape, header_source, headers_shape
from headstream.spark.sink.header_blocks import add_column, add_headers, whole
from headstream.spark.workers.arrow_functions import arrow_function

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_PASSED_OVER: Final = frozenset({"stream", "offset", "state", "checksum", "headers_repeated"})
_KNOWN: Final = frozenset({"payload", "key", "topic", "partition", "headers", "id", "timestamp"})
_KAFKA_HEADERS: Final = "array<struct<key:string,value:binary>>"
_CARRIED: Final = (ID_HEADER, STATE_HEADER, APPENDED_HEADER, CHECKSUM_HEADER)


def prepare_rows(frame: DataFrame, options: Mapping[str, str]) -> tuple[DataFrame, Mapping[str, str]]:
    """Return rows with Headstream's columns converted for Spark's Kafka sink, and the options of that sink."""
    from pyspark.sql import functions as sf

    parsed = parse_write_options(options)
    types = {field.name.lower(): field.dataType for field in frame.schema}
    _check_columns(types, parsed)
    columns = [_bytes("payload", types).alias("value"), _topic(types, parsed).alias("topic")]
    if "key" in types:
        columns.append(_bytes("key", types).alias("key"))
    if "partition" in types:
        columns.append(sf.col("partition").cast("int").alias("partition"))
    headers = _headers(types, parsed)
    if headers is not None:
        columns.append(headers.alias("headers"))
    included = {"includeHeaders": "true"} if headers is not None else {}
    return frame.select(*columns), {**parsed.sink, **included}


def _check_columns(types: Mapping[str, DataType], parsed: KafkaWriteOptions) -> None:
    wanted = {name.lower() for name, _ in parsed.header_columns}
    if "payload" not in types:
        raise InvalidOptionError("the rows have no column payload", advice="Name a column payload: SELECT value AS payload")
    if "topic" not in types and parsed.topic is None:
        raise InvalidOptionError("the rows have no target topic: there is neither a column topic nor the option topic")
    for name in types:
        if name not in _KNOWN | _PASSED_OVER | wanted:
            raise InvalidOptionError(
                f"the headstream format has no column {name!r}", advice="Add the column to the option headerColumns, or omit it"
            )


def _bytes(name: str, types: Mapping[str, DataType]) -> Column:
    from pyspark.sql import functions as sf

    kind = types[name].simpleString()
    if kind not in ("binary", "string"):
        raise InvalidOptionError(f"the column {name} is {kind}; BINARY or STRING is required")
    return sf.col(name).cast("binary")


def _topic(types: Mapping[str, DataType], parsed: KafkaWriteOptions) -> Column:
    from pyspark.sql import functions as sf

    if "topic" not in types:
        return sf.lit(parsed.topic)
    name = sf.col("topic")
    if "stream" in types:  # rows of the source have the two parts of the name
        name = sf.when(
            sf.col("stream").isNotNull() & ~sf.contains(name, sf.lit("/")), sf.concat_ws(".", "stream", name)
        ).otherwise(name)
    renamed = sf.regexp_replace(name, "^([^/.]+)/", "$1.")
    return renamed if parsed.topic is None else sf.coalesce(renamed, sf.lit(parsed.topic))


def _headers(types: Mapping[str, DataType], parsed: KafkaWriteOptions) -> Column | None:
    """Return Kafka's headers of each row, or None if there are none."""
    from pyspark.sql import functions as sf

    lower = {name: name for name in types}
    sources = [header_source(name, kind, dict(types), lower) for name, kind in parsed.header_columns]
    is_kafkas = "headers" in types and types["headers"].simpleString() == _KAFKA_HEADERS
    shape = headers_shape("headers", types["headers"]) if "headers" in types else "none"
    parts = []
    if is_kafkas and not sources and "timestamp" not in types:
        parts.append(sf.col("headers"))
    elif sources or {"headers", "timestamp"} & set(types):
        parts.append(_encoded(types, sources, "kafka" if is_kafkas else shape))
        if is_kafkas:  # Headstream's fields that have no column in Kafka
            names = [name for name in _CARRIED if name != ID_HEADER or "id" not in types]
            parts.append(sf.filter("headers", lambda header: header["key"].isin(names)))
    if "id" in types:
        text = sf.col("id").cast("string")
        named = sf.struct(sf.lit(ID_HEADER).alias("key"), text.cast("binary").alias("value"))
        parts.append(sf.when(text.isNotNull(), sf.array(named)))
    if not parts:
        return None
    return sf.concat(*(sf.coalesce(part, sf.array().cast(_KAFKA_HEADERS)) for part in parts))


def _encoded(types: Mapping[str, DataType], sources: Sequence[HeaderSource], shape: HeadersShape | Literal["kafka"]) -> Column:
    """Return the headers of all columns in the sink's order: the column `headers`, headerColumns, timestamp."""
    from pyspark.sql import functions as sf

    columns = [sf.col("headers")] if "headers" in types else []
    columns += [sf.col(_quoted(source.column)) for source in sources]
    wanted = [(source.key.encode(), source.kind) for source in sources]
    if "timestamp" in types:
        columns.append(sf.unix_micros(sf.col("timestamp").cast("timestamp")))
        wanted.append((TIMESTAMP_HEADER.encode(), HeaderKind.INT64))

    def encode(*arrays: pa.Array) -> pa.Array:
        batch = whole(pa.RecordBatch.from_arrays(list(arrays), names=[str(number) for number in range(len(arrays))]))
        builder = BlockBuilder(batch.num_rows)
        given = batch.columns
        if shape == "kafka":
            builder.add_blocks(VariableColumn(*decode_blocks(given.pop(0), strict=True).blocks))
        elif shape != "none":
            add_headers(builder, shape, given.pop(0))
        for (key, kind), values in zip(wanted, given, strict=True):
            add_column(builder, key, kind, values)
        return encode_blocks(batch.num_rows, VariableColumn(*builder.build()))

    return arrow_function(encode, _KAFKA_HEADERS)(*columns)


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
