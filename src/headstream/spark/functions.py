"""Column functions for headers and messages in any DataFrame: from the headstream source, Spark's Kafka source, or a table.

    header(col, "attempt", "int")       one header's value                                  SQL: headers_decode(col):attempt::int
    headers_decode(col, shape)          headers in another shape, from Kafka's header array, `array` or `binary`
    headers_encode(col)                 Kafka's header array, from `array` or `binary`
    message_decode(col, dialect)        the messages in a BINARY column                     SQL: message_decode_<dialect>(col)
    payload_checksum(col)               the checksum of a message with this payload         SQL: crc32(col)

Shapes are as in the source's option `headers`: variant, array, map, binary; Kafka's header array is
ARRAY<STRUCT<key STRING, value BINARY>>. register_functions(spark) registers the SQL functions, as do
headstream.spark.session() and register().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from headstream.core.codec.batch.from_columns.blocks import BlockBuilder
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.conversion.dialects import read_messages
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import Message, state_name
from headstream.errors import InvalidOptionError
from headstream.spark.kafka.header_rows import HeaderDecoder, encode_header_blocks, encode_header_lists
from headstream.spark.sink.header_blocks import add_array, varied
from headstream.spark.source.header_columns import parse_header_columns
from headstream.spark.source.options import HeaderShape, RowShape
from headstream.spark.source.source import spark_schema
from headstream.spark.workers.arrow_functions import arrow_function

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_KAFKA_HEADERS: Final = "array<struct<key:string,value:binary>>"
_MESSAGES: Final = (
    "array<struct<offset:bigint,timestamp:timestamp,state:string,id:string,checksum:bigint,key:binary,"
    "headers:array<struct<key:string,kind:string,value:binary>>,payload:binary>>"
)
_READABLE: Final = ("binary", "binary-first", "json", "kip82", "replicate")
"""The dialects of messages in a BINARY column; see codec/conversion."""


def header(col: Column | str, key: str, type: str, shape: Literal["variant", "map", "other"] = "variant") -> Column:
    """Return the last value of a header; null if the header is missing or does not fit the type.

    Args:
        col: Headers in the given `shape`.
        type: Spark type of the returned value, for example `int`.
        shape: The shape of `col`. `variant` and `map` are read by Spark's own expressions; `other` is an array (of the source or
            of Kafka) or binary, and is read by an Arrow function.
    """
    from pyspark.sql import functions as sf

    column = sf.col(col) if isinstance(col, str) else col
    if shape == "map":
        return sf.try_variant_get(column[key], "$", type)
    if shape == "variant":
        escaped = key.replace("\\", "\\\\").replace("'", "\\'")
        return sf.try_variant_get(column, f"$['{escaped}']", type)
    wanted = parse_header_columns(f"`{key.replace('`', '``')}` {type}")
    rows = RowShape((), "none", wanted)
    return arrow_function(_decoding(rows), spark_schema(rows))(column)[wanted[0].name]


def headers_decode(col: Column | str, shape: HeaderShape = "variant") -> Column:
    """Return headers in another shape.

    Args:
        col: Kafka's header array, or headers of the shape `array` or `binary`.
        shape: `variant`, `array`, `map` or `binary`; `variant` and `map` keep only the last value of a repeated key.

    Raises:
        InvalidOptionError: the shape is unknown.
    """
    from pyspark.sql import functions as sf

    if shape not in ("variant", "array", "map", "binary"):
        raise InvalidOptionError(f"the shape must be variant, array, map or binary, not {shape!r}")
    rows = RowShape(("headers",), shape)
    column = sf.col(col) if isinstance(col, str) else col
    return arrow_function(_decoding(rows), spark_schema(rows))(column)["headers"]


def headers_encode(col: Column | str) -> Column:
    """Return Kafka's header array, for Spark's Kafka sink.

    Args:
        col: Headers as the source returns them with headers=array or headers=binary.
    """
    return arrow_function(_encode, _KAFKA_HEADERS)(col)


def message_decode(col: Column | str, dialect: str) -> Column:
    """Return the messages in a BINARY column as an array of structs with the source's columns, for explode().

    Args:
        col: BINARY; the result for null is null.
        dialect: The messages' dialect: `binary` (sent or stored), `binary-first`, `json`, `kip82`, `replicate`.

    Raises:
        InvalidOptionError: the dialect is unknown.
    """
    if dialect not in _READABLE:
        raise InvalidOptionError(f"the dialect must be one of {', '.join(_READABLE)}, not {dialect!r}")
    return arrow_function(_messages_of(dialect), _MESSAGES)(col)


def payload_checksum(col: Column | str) -> Column:
    """Return the CRC-32 of a payload, the checksum of a message; 0 for a null payload.

    Args:
        col: BINARY.
    """
    from pyspark.sql import functions as sf

    column = sf.col(col) if isinstance(col, str) else col
    return sf.crc32(sf.coalesce(column.cast("binary"), sf.lit(b"")))


def register_functions(spark: SparkSession) -> None:
    """Register the SQL functions headers_decode, headers_encode and message_decode_<dialect> in a session.

    Args:
        spark: A classic session or a Spark Connect session.
    """
    from pyspark.sql import types

    def decode(headers: pa.Array) -> pa.Array:
        return _decoding(RowShape(("headers",), "variant"))(headers).field(0)

    register: Any = spark.udf.register
    register("headers_decode", arrow_function(decode, types.VariantType()))
    register("headers_encode", arrow_function(_encode, _KAFKA_HEADERS))
    for dialect in _READABLE:
        name = f"message_decode_{dialect.replace('-', '_')}"
        register(name, arrow_function(_messages_of(dialect), _MESSAGES))


def _decoding(shape: RowShape) -> Callable[[pa.Array], pa.Array]:
    decoder = HeaderDecoder(shape)

    def decode(headers: pa.Array) -> pa.Array:
        if pa.types.is_list(headers.type) and headers.type.value_type.num_fields == 2:
            return decoder.decode(headers)
        if headers.offset:
            headers = headers.take(pa.array(range(len(headers)), pa.int64()))
        if pa.types.is_list(headers.type):
            builder = BlockBuilder(len(headers))
            add_array(builder, headers)
            return decoder.columns_of(len(headers), VariableColumn(*builder.build()))
        if pa.types.is_binary(headers.type) or pa.types.is_large_binary(headers.type):
            return decoder.columns_of(len(headers), varied(headers))
        raise InvalidOptionError(
            f"this function cannot read headers of type {headers.type}", advice="Pass arrays or binary; see header()"
        )

    return decode


def _encode(headers: pa.Array) -> pa.Array:
    return encode_header_lists(headers) if pa.types.is_list(headers.type) else encode_header_blocks(headers)


def _messages_of(dialect: str) -> Callable[[pa.Array], pa.Array]:
    def decode(data: pa.Array) -> pa.Array:
        rows = [
            None if each is None else [_row(message) for message in read_messages(each, dialect=dialect)]
            for each in data.to_pylist()
        ]
        return pa.array(rows, type=_ARROW_MESSAGES)

    return decode


def _row(message: Message) -> dict[str, object]:
    headers = [{"key": key, "kind": value.kind_name, "value": value.data} for key, value in message.headers.items()]
    return {
        "offset": message.offset,
        "timestamp": message.timestamp,
        "state": state_name(message.state),
        "id": format_message_id(message.id) if message.id else None,
        "checksum": message.checksum,
        "key": message.key,
        "headers": headers,
        "payload": message.payload,
    }


_ARROW_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("kind", pa.string()), ("value", pa.binary())]))
_ARROW_MESSAGES: Final = pa.list_(
    pa.struct(
        [
            ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("state", pa.string()), ("id", pa.string()),
            ("checksum", pa.int64()), ("key", pa.binary()), ("headers", _ARROW_HEADERS), ("payload", pa.binary()),
        ]
    )
)  # fmt: skip
