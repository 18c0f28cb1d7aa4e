"""Reading: Headstream's columns, computed from the columns of Spark's Kafka source.

    Headstream                 Kafka
    stream, topic              the name before and after its first dot; no stream if there is no dot or the name is a path
    partition, offset          partition, offset; partitions from 0
    timestamp                  timestamp, milliseconds; microseconds if the header hs.appended exists
    state, id, checksum        the headers hs.state, hs.id, hs.checksum; or `available`, null, the CRC-32 of the value
    key, payload               key, value
    headers, headers_repeated, header columns     all other headers, by their kinds (core/codec/kafka/kinds.py)

Spark's own expressions compute the columns of all lines except the last. Two Arrow functions over the header array (and each
record's coordinates, for warnings) compute the last line: one for `headers` and `headers_repeated`, and one for declared header
columns, which gets only the headers that these columns need (raw_headers.py). A function is called only if one of its columns is
used. States are filtered after reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headstream.core.model.message import MessageState, state_name
from headstream.core.model.reserved import APPENDED_HEADER, CHECKSUM_HEADER, ID_HEADER, STATE_HEADER
from headstream.spark.kafka.header_rows import HeaderDecoder
from headstream.spark.kafka.options import parse_read_options
from headstream.spark.kafka.raw_headers import KAFKA_HEADERS, RawHeaders
from headstream.spark.kafka.recreated_topics import MARKER
from headstream.spark.source.options import RowShape
from headstream.spark.source.source import spark_schema
from headstream.spark.workers.arrow_functions import arrow_function, replace_null_lists

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HEADER_COLUMNS: Final = ("headers", "headers_repeated")
_COORDINATES: Final = ("topic", "partition", "offset")
_WHOLE: Final = "_hs_whole"
_DECLARED: Final = "_hs_declared"


def read_kafka(spark: SparkSession, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
    """Return a frame over Kafka with the columns of `format("headstream")`, for the options of that format."""
    from pyspark.sql import functions as sf

    parsed = parse_read_options(options, streaming=streaming)
    shape = parsed.shape
    wanted = [name for name in shape.columns if name not in _HEADER_COLUMNS]
    whole = RowShape(tuple(name for name in shape.columns if name in _HEADER_COLUMNS), shape.headers, (), shape.fail_on_mismatch)
    declared = RowShape((), "none", shape.header_columns, shape.fail_on_mismatch)
    needs_own = parsed.states is not None or bool({"state", "id", "checksum", "timestamp"} & set(wanted))
    has_decoded = bool(whole.columns or declared.header_columns)
    reader = (spark.readStream if streaming else spark.read).format("kafka").options(**parsed.source)
    reader = reader.option(MARKER, "true")
    frame = reader.option("includeHeaders", str(needs_own or has_decoded).lower()).load()
    if parsed.states is not None:
        frame = frame.where(_is_in(parsed.states))
    made = {name: _column(name) for name in wanted}
    if whole.columns:
        coordinates = [sf.col(name) for name in _COORDINATES]
        every = _decode(whole, replace_null_lists(sf.col("headers"), KAFKA_HEADERS), coordinates)
        frame = frame.withColumn(_WHOLE, every)
        made |= {name: sf.col(_WHOLE)[name] for name in whole.columns}
    if declared.header_columns:
        raw = RawHeaders(declared.header_columns, fail_on_mismatch=shape.fail_on_mismatch)
        typed = _decode(declared, raw.decoded_lists(), [raw.coordinate(name) for name in _COORDINATES], raw.raw_values())
        frame = raw.prepare(frame).withColumn(_DECLARED, typed)
        made |= {column.name: sf.col(_DECLARED)[column.name] for column in declared.header_columns}
    return frame.select(*(made[field.name].cast(field.dataType).alias(field.name) for field in spark_schema(shape)))


def _column(name: str) -> Column:
    from pyspark.sql import functions as sf

    topic = sf.col("topic")
    dot = sf.instr(topic, ".")
    is_path = sf.startswith(topic, sf.lit("/"))  # of HPE Data Fabric: /path/to/stream:topic
    divided = (dot > 1) & (dot < sf.length(topic)) & ~is_path
    if name == "stream":
        return sf.when(divided, sf.substring_index(topic, ".", 1))
    if name == "topic":
        return sf.when(divided, topic.substr(dot + 1, sf.length(topic))).otherwise(topic)
    if name == "state":
        return _state()
    if name == "id":
        return _own(ID_HEADER)
    if name == "checksum":
        return sf.coalesce(_own(CHECKSUM_HEADER).try_cast("bigint"), sf.crc32(sf.coalesce(sf.col("value"), sf.lit(b""))))
    if name == "timestamp":
        exact = _own(APPENDED_HEADER).try_cast("bigint")
        same = sf.floor(exact / 1000) == sf.unix_millis(sf.col("timestamp"))
        return sf.when(same, sf.timestamp_micros(exact)).otherwise(sf.col("timestamp"))
    return sf.col("value" if name == "payload" else name)


def _own(name: str) -> Column:
    """Return the value of the first header with this name as a string, or null."""
    from pyspark.sql import functions as sf

    return sf.get(sf.col("headers"), _position(name) - 1)["value"].cast("string")


def _position(name: str) -> Column:
    """Return the position of the first header with this name, from 1; 0 if there is none.

    Spark compiles these expressions; it would interpret a lambda, which would take longer than all other work on a row.
    """
    from pyspark.sql import functions as sf

    return sf.coalesce(sf.array_position(sf.col("headers")["key"], name).cast("int"), sf.lit(0))


def _state() -> Column:
    from pyspark.sql import functions as sf

    return sf.coalesce(_own(STATE_HEADER), sf.lit("available"))


def _is_in(states: frozenset[int]) -> Column:
    """Return whether a record has one of these states. A record without hs.state, the usual case, is available."""
    wanted = _state().isin([state_name(code) for code in sorted(states)])
    return (_position(STATE_HEADER) == 0) | wanted if MessageState.AVAILABLE in states else wanted


def _decode(shape: RowShape, headers: Column, coordinates: Sequence[Column], raw: Sequence[Column] = ()) -> Column:
    decoder = HeaderDecoder(shape)

    def decode(headers: pa.Array, topics: pa.Array, partitions: pa.Array, offsets: pa.Array, *raw: pa.Array) -> pa.Array:
        return decoder.decode(headers, (topics, partitions, offsets), raw)

    return arrow_function(decode, spark_schema(shape))(headers, *coordinates, *raw)
