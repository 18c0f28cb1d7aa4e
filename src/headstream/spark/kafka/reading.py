"""Reading: Spark's Kafka source, and our columns made of its columns.

    ours                       Kafka's
    stream, topic              the name up to its first dot, and after it; no stream where there is no dot
    partition, offset          the same; partitions from 0
    timestamp                  the same, milliseconds; to the microsecond where the header hs.appended tells it
    state, id, checksum        the headers hs.state, hs.id, hs.checksum; else `available`, null, the CRC-32 of the value
    key, payload               key, value
    headers, headers_repeated, header columns     the others, by their kinds (codec/kafka/kinds.py)

All but the last line are Spark's own expressions; the last is one Arrow function over the header array, and each record's
place for what it has to say, which is not called where none of its columns is used. States are filtered after reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headstream.model.message import MessageState, state_name
from headstream.model.reserved import APPENDED_HEADER, CHECKSUM_HEADER, ID_HEADER, STATE_HEADER
from headstream.spark.arrow_functions import arrow_function
from headstream.spark.kafka.header_rows import HeaderDecoder
from headstream.spark.kafka.options import parse_read_options
from headstream.spark.kafka.topics import MARKER
from headstream.spark.options import RowShape
from headstream.spark.source import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["read_kafka"]

_HEADER_COLUMNS: Final = ("headers", "headers_repeated")
_DECODED: Final = "_hs_decoded"


def read_kafka(spark: SparkSession, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
    """Return a frame over Kafka with the columns that `format("headstream")` has.

    Args:
        spark: The session.
        options: Those of `format("headstream")`; see headstream.spark.kafka.options.
        streaming: Whether it is a stream.

    Raises:
        InvalidOptionError, InvalidUrlError: the options cannot be used; named by the text.
    """
    from pyspark.sql import functions as sf

    parsed = parse_read_options(options, streaming=streaming)
    shape = parsed.shape
    wanted = [name for name in shape.columns if name not in _HEADER_COLUMNS]
    decoded = RowShape(
        tuple(name for name in shape.columns if name in _HEADER_COLUMNS),
        shape.headers,
        shape.header_columns,
        shape.fail_on_mismatch,
    )
    needs_own = parsed.states is not None or bool({"state", "id", "checksum", "timestamp"} & set(wanted))
    has_decoded = bool(decoded.columns or decoded.header_columns)
    reader = (spark.readStream if streaming else spark.read).format("kafka").options(**parsed.source)
    reader = reader.option(MARKER, "true")
    frame = reader.option("includeHeaders", str(needs_own or has_decoded).lower()).load()
    columns = {name: sf.col(name) for name in frame.columns}
    if parsed.states is not None:
        frame = frame.where(_is_in(parsed.states))
    if has_decoded:
        frame = frame.withColumn(_DECODED, _decode(decoded, columns))
    selected = []
    for field in spark_schema(shape):
        made = _column(field.name).cast(field.dataType) if field.name in wanted else sf.col(_DECODED)[field.name]
        selected.append(made.alias(field.name))
    return frame.select(*selected)


def _column(name: str) -> Column:
    from pyspark.sql import functions as sf

    topic = sf.col("topic")
    dot = sf.instr(topic, ".")
    divided = (dot > 1) & (dot < sf.length(topic))
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
    """Return the text of the first header of this name, or null."""
    from pyspark.sql import functions as sf

    return sf.get(sf.col("headers"), _place(name) - 1)["value"].cast("string")


def _place(name: str) -> Column:
    """Return the place of the first header of this name, from 1; 0 where there is none.

    It is of expressions that Spark compiles; a lambda, which it interprets, takes longer than the rest of a row.
    """
    from pyspark.sql import functions as sf

    return sf.coalesce(sf.array_position(sf.col("headers")["key"], name).cast("int"), sf.lit(0))


def _state() -> Column:
    from pyspark.sql import functions as sf

    return sf.coalesce(_own(STATE_HEADER), sf.lit("available"))


def _is_in(states: frozenset[int]) -> Column:
    """Return whether a record has one of these states; records without hs.state, the usual ones, are settled by that alone."""
    wanted = _state().isin([state_name(code) for code in sorted(states)])
    return (_place(STATE_HEADER) == 0) | wanted if MessageState.AVAILABLE in states else wanted


def _decode(shape: RowShape, columns: Mapping[str, Column]) -> Column:
    decoder = HeaderDecoder(shape)

    def decode(headers: pa.Array, topics: pa.Array, partitions: pa.Array, offsets: pa.Array) -> pa.Array:
        return decoder.decode(headers, (topics, partitions, offsets))

    function = arrow_function(decode, spark_schema(shape))
    return function(*(columns[name] for name in ("headers", "topic", "partition", "offset")))
