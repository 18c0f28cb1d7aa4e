"""Kafka Connect types in Debezium messages: the column of a field, the Arrow type in which its JSON is read, and its values.

Connect type (semantic name)                   column       read as            value
int8 int16 int32 int64                         INT1..INT8   int64
float double                                   REAL4 REAL8  double             "NaN" and infinities are strings in JSON
boolean, string                                BOOLEAN WSTRING
bytes                                          BYTES        base64
bytes (org.apache.kafka.connect.data.Decimal)  NUMERIC      base64             big-endian number without the scale
struct (...VariableScaleDecimal)               NUMERIC      struct             string: each value has its own scale
int32 (...time.Date, connect.data.Date)        DATE         int64              days
int64 (Timestamp, MicroTimestamp, NanoTimestamp)  DATETIME  int64
string (ZonedTimestamp)                        DATETIME     string
int32, int64 (Time, MicroTime, NanoTime)       TIME         int64              string
array, map, other structs                      WSTRING      list, struct, map  JSON, with bytes as base64
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as data_field
from decimal import MAX_PREC, Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.replicate.codec.metadata import ColumnMetadata

_PLAIN: Final[dict[str, tuple[str, pa.DataType]]] = {
    "int8": ("INT1", pa.int64()),
    "int16": ("INT2", pa.int64()),
    "int32": ("INT4", pa.int64()),
    "int64": ("INT8", pa.int64()),
    "float": ("REAL4", pa.float64()),
    "float32": ("REAL4", pa.float64()),
    "double": ("REAL8", pa.float64()),
    "float64": ("REAL8", pa.float64()),
    "boolean": ("BOOLEAN", pa.bool_()),
    "string": ("WSTRING", pa.string()),
    "bytes": ("BYTES", pa.string()),
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
_MEANINGS: Final = {
    "io.debezium.time.Date": "DATE",
    "org.apache.kafka.connect.data.Date": "DATE",
    "io.debezium.time.Timestamp": "DATETIME",
    "io.debezium.time.MicroTimestamp": "DATETIME",
    "io.debezium.time.NanoTimestamp": "DATETIME",
    "org.apache.kafka.connect.data.Timestamp": "DATETIME",
    "io.debezium.time.ZonedTimestamp": "DATETIME",
    "io.debezium.time.IsoTimestamp": "DATETIME",
    "io.debezium.time.Time": "TIME",
    "io.debezium.time.MicroTime": "TIME",
    "io.debezium.time.NanoTime": "TIME",
    "org.apache.kafka.connect.data.Time": "TIME",
    _DECIMAL: "NUMERIC",
    _VARIABLE: "NUMERIC",
}
_UNITS: Final = {"Micro": "us", "Nano": "ns"}
_WIDE: Final = Context(prec=MAX_PREC)
"""Exact decimal context; numbers in PostgreSQL have up to 147,455 digits."""


@dataclass(frozen=True, slots=True)
class ConnectField:
    """One field of a row.

    Args:
        type: Type in Kafka Connect, such as `int32`.
        meaning: The name of the field's schema, such as `io.debezium.time.Date`; "" for a plain value.
        inner: The fields of a struct, or the items of an array.
        default: The default value in JSON types; None if there is no default, or if the default is unknown.
    """

    name: str
    type: str
    meaning: str = ""
    optional: bool = True
    precision: int = 0
    scale: int = 0
    inner: tuple[ConnectField, ...] = ()
    default: Any = data_field(default=None, compare=False)

    @property
    def is_text_of_json(self) -> bool:
        """Whether the column stores the value as JSON text."""
        return self.type in ("array", "map") or (self.type == "struct" and self.meaning != _VARIABLE)

    @property
    def reading_type(self) -> pa.DataType:
        """The Arrow type in which the field's JSON is read; for a map, the type of its string form."""
        if self.type == "array":
            return pa.list_(self.inner[0].reading_type)
        if self.type == "struct":
            return pa.struct([(field.name, field.reading_type) for field in self.inner])
        return _PLAIN[self.type][1] if self.type in _PLAIN else pa.string()

    @property
    def has_map(self) -> bool:
        """Whether the field contains a map, which Arrow cannot read from JSON."""
        return self.type == "map" or any(field.has_map for field in self.inner)

    def column(self, ordinal: int, key_position: int) -> ColumnMetadata:
        """Return the target column of the field."""
        kind = _MEANINGS.get(self.meaning) or ("WSTRING" if self.is_text_of_json else _PLAIN[self.type][0])
        return ColumnMetadata(self.name, ordinal, kind, 0, self.precision, self.scale, key_position, self.optional)


def row_fields(schema: Mapping[str, Any]) -> tuple[ConnectField, ...]:
    """Return the fields of a struct's schema in JSON.

    Raises:
        SchemaError: a type does not exist in Kafka Connect.
    """
    return tuple(_field(str(member.get("field")), member) for member in schema.get("fields", ()))


def _field(name: str, schema: Mapping[str, Any]) -> ConnectField:
    kind, parameters = schema.get("type"), schema.get("parameters") or {}
    if kind not in _PLAIN and kind not in ("array", "map", "struct"):
        raise SchemaError(f"the field {name!r} has the type {kind!r}, which is not a Kafka Connect type")
    inner: tuple[ConnectField, ...] = ()
    if kind == "array":
        inner = (_field("item", schema["items"]),)
    elif kind == "struct":
        inner = row_fields(schema)
    precision, scale = (int(parameters.get(key) or 0) for key in ("connect.decimal.precision", "scale"))
    meaning = schema.get("name") or ""
    if meaning == _DECIMAL and not precision:
        precision = 38
    is_optional, default = bool(schema.get("optional", True)), schema.get("default")
    return ConnectField(name, kind, meaning, is_optional, precision, scale, inner, default)


def infer_fields(kind: pa.StructType) -> tuple[ConnectField, ...]:
    """Return the fields of rows without a schema: integers become BIGINT, other numbers DOUBLE, all other values STRING.

    A column that is null in all rows has no type and is omitted.

    Args:
        kind: The type that Arrow has inferred for the rows.
    """
    return tuple(_inferred(member.name, member.type) for member in kind if not pa.types.is_null(member.type))


def _inferred(name: str, kind: pa.DataType) -> ConnectField:
    types = {"boolean": pa.types.is_boolean, "int64": pa.types.is_integer, "double": pa.types.is_floating}
    for plain, is_type in types.items():
        if is_type(kind):
            return ConnectField(name, plain)
    if pa.types.is_list(kind):
        return ConnectField(name, "array", inner=(_inferred("item", kind.value_type),))
    if pa.types.is_struct(kind):
        return ConnectField(name, "struct", inner=tuple(_inferred(member.name, member.type) for member in kind))
    return ConnectField(name, "string")


class Placeholders:
    """The placeholders for values that were not sent: `unavailable.value.placeholder` in every type that a column can have.

    Debezium 3.6 has no placeholder for arrays of decimals and floating-point numbers; later versions send one number per byte.
    """

    def __init__(self, text: str) -> None:
        content = text.encode()
        self.contents = pa.array([content], pa.binary())
        # The last string is for `hstore`, which is a JSON string or a map.
        self.texts = pa.array([text, base64.b64encode(content).decode(), content.hex(), _to_text({text: text})])
        numbers = np.frombuffer(content, np.int8).tolist()  # Java's bytes
        one_byte_each = [base64.b64encode(bytes([byte])).decode() for byte in content]
        # The form of java.util.UUID.nameUUIDFromBytes().
        own_uuid = str(uuid.UUID(bytes=hashlib.md5(content, usedforsecurity=False).digest(), version=3))
        self._lists: list[list[Any]] = [[text], [own_uuid], [base64.b64encode(content).decode()], numbers, one_byte_each]
        self._lists.append([{"scale": 0, "value": value} for value in one_byte_each])

    def marks(self, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Return which values are a placeholder; None if no value is one.

        Args:
            values: Values in the type in which they were read.
        """
        if pa.types.is_binary(values.type):
            found = pc.is_in(values, value_set=self.contents)
        elif pa.types.is_string(values.type):
            found = pc.is_in(values, value_set=self.texts)
        elif pa.types.is_list(values.type):
            short = pc.fill_null(pc.less_equal(pc.list_value_length(values), len(self._lists[-1])), False)
            rows = [value is not None and value in self._lists for value in pc.if_else(short, values, None).to_pylist()]
            found = pa.array(rows, pa.bool_())
        else:
            return None
        return found.to_numpy(zero_copy_only=False) if pc.any(found).as_py() else None


def is_unknown(field: ConnectField, values: pa.Array) -> pa.Array:
    """Return which before values can stand for unknown values: null or, in a NOT NULL column, the default or zero.

    Args:
        values: Values in the type in which they were read. Structs and strings with a semantic name can always be unknown.
    """
    if field.optional:
        return values.is_null()
    zero: Any = field.default
    if zero is None and pa.types.is_list(values.type):
        return pc.equal(pc.list_value_length(values), 0)
    if zero is None and not field.meaning:
        zero = "" if pa.types.is_string(values.type) or pa.types.is_binary(values.type) else 0
    elif zero is None and pa.types.is_integer(values.type):
        zero = 0
    try:
        return pc.fill_null(pc.equal(values, pa.scalar(zero).cast(values.type)), True)
    except pa.ArrowException:
        return pa.repeat(True, len(values))


def column_values(field: ConnectField, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return a field's values in a form that columns.conversion.convert() accepts, and the reason for each row without a value.

    Args:
        values: Values in the type in which they were read: reading_type, or bytes and decimals from Avro.
    """
    bad: dict[int, str] = {}
    if pa.types.is_decimal(values.type) or (pa.types.is_binary(values.type) and field.meaning != _DECIMAL):
        return values, bad
    if pa.types.is_binary(values.type):
        return _each(values, lambda content: _decimal_text(content, field.scale)), bad
    if field.meaning == _DECIMAL:
        return _decimals(field, values), bad
    if field.meaning == _VARIABLE:
        return _each(values, lambda value: _variable(value)), bad
    if field.is_text_of_json:
        return (values if field.type == "map" else _each(values, lambda value: _to_text(_inner(field, value)))), bad
    kind = _MEANINGS.get(field.meaning)
    if kind == "DATE":
        fits = pc.and_(pc.greater_equal(values, -(2**31)), pc.less(values, 2**31))
        return pc.if_else(fits, values, None).cast(pa.int32()).cast(pa.date32()), bad
    if kind == "DATETIME" and field.type != "string":
        return values.cast(pa.timestamp(_unit(field), "UTC")), bad
    if kind == "TIME":
        return _times(values, _unit(field)), bad
    if field.type == "bytes":
        return _bytes(values, bad), bad
    return values, bad


def _unit(field: ConnectField) -> str:
    name = field.meaning.rpartition(".")[2]
    return next((unit for prefix, unit in _UNITS.items() if name.startswith(prefix)), "ms")


def _each(values: pa.Array, write: Callable[[Any], str | None]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())


def _to_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _inner(field: ConnectField, value: Any) -> Any:
    """Return the JSON form of a value in an array or struct; a decimal is a number in a string."""
    if value is None:
        return None
    if field.type == "array":
        return [_inner(field.inner[0], item) for item in value]
    if field.type == "struct":
        if field.meaning == _VARIABLE:
            return _variable(value)
        return {member.name: _inner(member, value.get(member.name)) for member in field.inner}
    if field.meaning == _DECIMAL:
        return _decimal_text(base64.b64decode(value), field.scale)
    kind = _MEANINGS.get(field.meaning)
    if kind in ("DATE", "DATETIME", "TIME") and not isinstance(value, str):
        converted, _ = column_values(field, pa.array([value], pa.int64()))
        return converted.cast(pa.string())[0].as_py()
    return value


def _variable(value: Mapping[str, Any]) -> str | None:
    if value.get("value") is None:
        return None
    return _decimal_text(base64.b64decode(value["value"]), value.get("scale") or 0)


def _decimal_text(content: bytes, scale: int) -> str:
    return f"{Decimal(int.from_bytes(content, 'big', signed=True)).scaleb(-scale, _WIDE):f}"


def _bytes(values: pa.Array, bad: dict[int, str]) -> pa.Array:
    found: list[bytes | None] = []
    for row, text in enumerate(values.to_pylist()):
        try:
            found.append(None if text is None else base64.b64decode(text, validate=True))
        except binascii.Error:
            found.append(None)
            bad[row] = "not base64"
    return pa.array(found, pa.binary())


def _times(values: pa.Array, unit: str) -> pa.Array:
    """Return times as strings, including 24:00:00 and MySQL's range of -838:59:59 to 838:59:59."""
    encoded = values.dictionary_encode()
    per_s = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    texts: list[str | None] = []
    for number in encoded.dictionary.to_pylist():
        seconds, fraction = divmod(abs(number), per_s)
        spelled = f"{fraction * (10**9 // per_s):09d}".rstrip("0")
        sign = "-" if number < 0 else ""
        texts.append(
            f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" + (f".{spelled}" if spelled else "")
        )
    return pc.take(pa.array(texts, pa.string()), encoded.indices)


# Decimals: base64 of big-endian two's complement -> Arrow's 16 bytes, little-endian.

_SEXTETS: Final = np.full(256, 255, np.uint8)
_SEXTETS[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = np.arange(64)
_SEXTETS[ord("=")] = 0
_LONGEST: Final = 16


def _decimals(field: ConnectField, values: pa.Array) -> pa.Array:
    """Return decimals, as strings if some have too many digits for Arrow."""
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    precision = field.precision
    if precision > 38 or field.scale < 0 or field.scale > precision or lengths.max(initial=0) > 24:
        return _each(values, lambda text: _decimal_text(base64.b64decode(text), field.scale))
    found = np.zeros((len(values), _LONGEST), np.uint8)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.frombuffer(values.buffers()[2], np.uint8) if values.buffers()[2] is not None else np.zeros(0, np.uint8)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        characters = data[offsets[rows][:, None] + np.arange(length)]
        sextets = _SEXTETS[characters].astype(np.uint32).reshape(len(rows), -1, 4)
        numbers = sextets[:, :, 0] << 18 | sextets[:, :, 1] << 12 | sextets[:, :, 2] << 6 | sextets[:, :, 3]
        content = (
            np.stack([numbers >> 16 & 255, numbers >> 8 & 255, numbers & 255], axis=2).reshape(len(rows), -1).astype(np.uint8)
        )
        pads = (characters[:, -2:] == ord("=")).sum(axis=1)
        for pad in np.unique(pads).tolist():
            chosen = pads == pad
            some = content[chosen][:, : content.shape[1] - pad][:, -_LONGEST:]
            wide = np.where(some[:, :1] >= 128, 255, 0).astype(np.uint8).repeat(_LONGEST, axis=1)
            wide[:, _LONGEST - some.shape[1] :] = some
            found[rows[chosen]] = wide[:, ::-1]
    kind = pa.decimal128(38, field.scale)
    validity = pc.is_valid(values).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(found.tobytes())])


def fields_document(fields: Sequence[ConnectField]) -> list[Any]:
    """Return fields as JSON values, for the schema store."""
    return [
        [field.name, field.type, field.meaning, field.optional, field.precision, field.scale, fields_document(field.inner)]
        for field in fields
    ]


def known_fields(text: str) -> tuple[ConnectField, ...]:
    """Return the fields from a table's JSON in the schema store: a list ending with fields_document(), or Connect's schema."""
    document = json.loads(text)
    if isinstance(document, list):
        return tuple(map(_from_document, document[-1]))
    return row_fields(document) if document.get("type") == "struct" else ()


def _from_document(item: list[Any]) -> ConnectField:
    *plain, inner = item
    return ConnectField(*[*plain, tuple(map(_from_document, inner))])
