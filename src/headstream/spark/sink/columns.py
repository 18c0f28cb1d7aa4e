"""Maps the columns of a DataFrame to the parts of a message, without I/O and before any task runs.

payload       BINARY | STRING                the payload; null only if the topic's limits are `wide`
key           BINARY | STRING                the key, or null
topic         STRING                         `stream/topic`, or only the topic's name if there is a column `stream`
partition     TINYINT ... BIGINT             from 1; null: by key, or balanced without a key
id            STRING | BINARY                a UUID, or its 16 bytes; null: the log generates one
timestamp     TIMESTAMP                      the header `hs.timestamp`
headers       ARRAY<STRUCT<key, kind, value>> | MAP<STRING, ...> | BINARY      headers as the source returns them
others        columns in headerColumns: one header per column, of the kind that fits the type

BOOLEAN bool | TINYINT int8 | SMALLINT int16 | INT int32 | BIGINT int64 | DECIMAL(p,0) int128 | FLOAT float32
DOUBLE float64 | STRING string | BINARY raw
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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
    StructType,
    TimestampType,
    VariantType,
)

from headstream.core.model.header_values import HeaderKind
from headstream.errors import InvalidOptionError
from headstream.spark.sink.options import SinkOptions

HeadersShape: TypeAlias = Literal["none", "binary", "array", "map"]

_KINDS: Final[dict[type[DataType], HeaderKind]] = {
    BooleanType: HeaderKind.BOOL, ByteType: HeaderKind.INT8, ShortType: HeaderKind.INT16, IntegerType: HeaderKind.INT32,
    LongType: HeaderKind.INT64, DecimalType: HeaderKind.INT128, FloatType: HeaderKind.FLOAT32,
    DoubleType: HeaderKind.FLOAT64, StringType: HeaderKind.STRING, BinaryType: HeaderKind.RAW,
}  # fmt: skip
_WHOLE: Final = tuple(range(HeaderKind.INT8, HeaderKind.FLOAT32))
_CONVERTIBLE: Final[dict[HeaderKind, tuple[int, ...]]] = {
    **dict.fromkeys((HeaderKind.INT8, HeaderKind.INT16, HeaderKind.INT32, HeaderKind.INT64, HeaderKind.INT128), _WHOLE),
    HeaderKind.BOOL: (HeaderKind.BOOL,),
    HeaderKind.FLOAT32: (HeaderKind.FLOAT32, HeaderKind.FLOAT64),
    HeaderKind.FLOAT64: (HeaderKind.FLOAT64,),
    HeaderKind.STRING: (HeaderKind.STRING, HeaderKind.RAW),
    HeaderKind.RAW: (HeaderKind.RAW, HeaderKind.STRING),
}
"""Kinds to which a column's kind can be converted; a row with a value that does not fit is a bad row."""

_TEXT: Final = (BinaryType, StringType)
_PLAIN: Final[dict[str, tuple[type[DataType], ...]]] = {
    "payload": _TEXT, "key": _TEXT, "topic": (StringType,), "stream": (StringType,), "id": _TEXT,
    "partition": (ByteType, ShortType, IntegerType, LongType), "timestamp": (TimestampType,),
}  # fmt: skip
_READ_ONLY_COLUMNS: Final = frozenset({"offset", "state", "checksum", "headers_repeated"})


@dataclass(frozen=True, slots=True)
class HeaderSource:
    """A column that becomes a header."""

    column: str
    key: str
    kind: HeaderKind


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The columns of each part of a message, named as in the DataFrame; None for a missing part.

    Args:
        topic: Column of the topic; None if all rows have the same topic.
        stream: Column of the stream; `topic` is then the topic's name.
        shape: Shape of the headers column.
    """

    payload: str
    key: str | None
    topic: str | None
    stream: str | None
    partition: str | None
    id: str | None
    timestamp: str | None
    headers: str | None
    shape: HeadersShape
    header_columns: tuple[HeaderSource, ...]


def plan_columns(schema: StructType, options: SinkOptions) -> SinkColumns:
    """Return the mapping of a DataFrame's columns."""
    types = {field.name: field.dataType for field in schema.fields}
    lower: dict[str, str] = {}
    for name in types:
        if lower.setdefault(name.lower(), name) != name:
            raise InvalidOptionError(f"the columns {lower[name.lower()]} and {name} differ only in case")
    header_columns = tuple(header_source(name, kind, types, lower) for name, kind in options.header_columns)
    taken = {source.column for source in header_columns}
    found = {name: lower[name] for name in (*_PLAIN, "headers") if name in lower and lower[name] not in taken}
    for name in found:
        if name != "headers" and not isinstance(types[found[name]], _PLAIN[name]):
            wanted = " or ".join(kind().simpleString().upper() for kind in _PLAIN[name])
            raise InvalidOptionError(_is(found[name], types[found[name]]), advice=f"Cast it to {wanted}")
    if "payload" not in found:
        raise InvalidOptionError(f"no column payload is among {', '.join(types) or 'none'}", advice="Name a column with AS")
    if options.topic is None and "topic" not in found:
        raise InvalidOptionError(
            "the rows have no target topic", advice='Set .option("topic", "shop/orders"), or add a column topic'
        )
    unknown = [name for name in types if name not in found.values() and name not in taken]
    if unknown:
        raise _unknown(unknown)
    headers = found.get("headers")
    return SinkColumns(
        payload=found["payload"],
        key=found.get("key"),
        topic=None if options.topic is not None else found.get("topic"),
        stream=None if options.topic is not None else found.get("stream"),
        partition=found.get("partition"),
        id=found.get("id"),
        timestamp=found.get("timestamp"),
        headers=headers,
        shape="none" if headers is None else headers_shape(headers, types[headers]),
        header_columns=header_columns,
    )


def _is(name: str, kind: DataType) -> str:
    return f"column {name} is {kind.simpleString().upper()}, which cannot be sent"


def _unknown(names: list[str]) -> InvalidOptionError:
    drops = ", ".join(f'"{name}"' for name in names)
    own = [name for name in names if name.lower() in _READ_ONLY_COLUMNS]
    what = f"{', '.join(own)}: set by the log" if own else f"{', '.join(names)}: not part of a message"
    return InvalidOptionError(
        f"these columns cannot be written: {what}",
        advice=f'To send headers, use .option("headerColumns", "{", ".join(names)}"); otherwise .drop({drops})',
    )


def header_source(name: str, wanted: HeaderKind | None, types: dict[str, DataType], lower: dict[str, str]) -> HeaderSource:
    """Return the header of a column in headerColumns; without a wanted kind, the kind fits the column's type."""
    column = lower.get(name.lower())
    if column is None:
        raise InvalidOptionError(f"headerColumns names {name}, which is not a column", advice=f"Use one of {', '.join(types)}")
    kind = _kind_of(types[column])
    if kind is None:
        advice = "Cast a time to STRING, or to BIGINT with unix_micros(); cast a DECIMAL with a scale to STRING or DOUBLE"
        raise InvalidOptionError(f"headerColumns: {_is(column, types[column])} as a header", advice=advice)
    if wanted is not None and wanted not in _CONVERTIBLE[kind]:
        raise InvalidOptionError(
            f"headerColumns: column {column}, {types[column].simpleString().upper()}, cannot be sent as {wanted.name.lower()}",
            advice="Cast the column first",
        )
    return HeaderSource(column, name, wanted or kind)


def _kind_of(kind: DataType) -> HeaderKind | None:
    if isinstance(kind, DecimalType) and kind.scale:
        return None
    return _KINDS.get(type(kind))


def headers_shape(name: str, kind: DataType) -> HeadersShape:
    """Return the shape of a column of headers."""
    if isinstance(kind, BinaryType):
        return "binary"
    if isinstance(kind, VariantType) or (isinstance(kind, MapType) and isinstance(kind.valueType, VariantType)):
        raise InvalidOptionError(
            f"{_is(name, kind)}: a VARIANT loses the kinds of headers and the sizes of integers",
            advice='Read with .option("headers", "array") or "binary", which lose nothing',
        )
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType) and _kind_of(kind.valueType) is not None:
        return "map"
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        members = {field.name.lower(): field.dataType for field in kind.elementType.fields}
        is_kind = isinstance(members.get("kind", StringType()), StringType)
        if is_kind and isinstance(members.get("key"), StringType) and isinstance(members.get("value"), _TEXT):
            return "array"
    raise InvalidOptionError(
        _is(name, kind), advice="Cast it to ARRAY<STRUCT<key: STRING, kind: STRING, value: BINARY>>, MAP<STRING, ...> or BINARY"
    )
