"""The shapes of a message's headers in a row.

variant   headers VARIANT                                 headers:attempt::int; the last value of a repeated key
array     headers ARRAY<STRUCT<key STRING, kind STRING, value BINARY>>    all headers, in order; values as stored bytes
map       headers MAP<STRING, VARIANT>                    headers['attempt']::int; the last value of a repeated key
binary    headers BINARY                                  the header block as stored: for copying
none      no column; headers are not decoded

Every shape except `none` adds headers_repeated BOOLEAN: whether a key occurs more than once. `array` and `binary` are lossless.
VARIANT widens small integers, and keeps only the last value of a key.
"""

from __future__ import annotations

import functools
from typing import Final

import pyarrow as pa

from headstream.core.codec.batch.results import Columns, HeaderColumn, HeaderLists, HeaderType, WantedHeader
from headstream.core.codec.batch.to_columns.header_lists import EMPTY_METADATA
from headstream.core.model.header_values import KIND_NAMES
from headstream.spark.source.options import HeaderShape

_VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
"""Type of VARIANT in Spark's Arrow bridge."""
_HEADER: Final = pa.struct(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
_ARRAY: Final = pa.list_(pa.field("element", _HEADER, nullable=False))
_MAP: Final = pa.map_(pa.string(), pa.field("value", _VARIANT, nullable=False))

HEADERS_REPEATED: Final = pa.field("headers_repeated", pa.bool_())
"""Whether a header key occurs more than once."""
HEADER_FIELDS: Final[dict[HeaderShape, pa.Field]] = {
    "variant": pa.field("headers", _VARIANT),
    "array": pa.field("headers", _ARRAY),
    "map": pa.field("headers", _MAP),
    "binary": pa.field("headers", pa.binary()),
}
"""The field of each shape that has a column."""
_TYPES: Final[dict[HeaderType, pa.DataType]] = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "float32": pa.float32(), "float64": pa.float64(), "string": pa.string(), "binary": pa.binary(),
}  # fmt: skip


@functools.cache
def _kind_names() -> pa.Array:
    """Return the kind names by code. Called only when needed: PyArrow imports pandas for this array."""
    return pa.array([KIND_NAMES.get(kind, f"unknown({kind})") for kind in range(256)], pa.string())


def header_array(columns: Columns, shape: HeaderShape) -> pa.Array:
    """Return the headers decoded by decode_columns(), as `variant` or `binary`."""
    headers = _varied(pa.binary(), columns.count, columns.headers_offsets, columns.headers_data)
    if shape == "binary":
        return headers
    metadata = _varied(pa.binary(), columns.count, columns.metadata_offsets, columns.metadata_data)
    return pa.StructArray.from_arrays([headers, metadata], fields=list(_VARIANT))


def list_array(lists: HeaderLists, shape: HeaderShape) -> pa.Array:
    """Return the headers decoded by decode_header_lists(), as `array` or `map`."""
    count = len(lists.kinds)
    keys = _varied(pa.string(), count, lists.key_offsets, lists.key_data)
    values = _varied(pa.binary(), count, lists.value_offsets, lists.value_data)
    if shape == "map":
        metadata = pa.repeat(pa.scalar(EMPTY_METADATA, pa.binary()), count)
        variants = pa.StructArray.from_arrays([values, metadata], fields=list(_VARIANT))
        entries = pa.StructArray.from_arrays([keys, variants], fields=[_MAP.key_field, _MAP.item_field])
        return pa.Array.from_buffers(_MAP, len(lists.repeated), [None, pa.py_buffer(lists.offsets)], children=[entries])
    kinds = _kind_names().take(pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(lists.kinds)]))
    headers = pa.StructArray.from_arrays([keys, kinds, values], fields=list(_HEADER))
    return pa.Array.from_buffers(_ARRAY, len(lists.repeated), [None, pa.py_buffer(lists.offsets)], children=[headers])


def repeated_array(repeated: bytearray | None) -> pa.Array:
    """Return the column headers_repeated."""
    flags = _buffer(repeated)
    return pa.Array.from_buffers(pa.uint8(), flags.size, [None, flags]).cast(pa.bool_())


def column_field(column: WantedHeader) -> pa.Field:
    """Return the field of a header column."""
    return pa.field(column.name, pa.decimal128(column.digits, 0) if column.type == "decimal" else _TYPES[column.type])


def column_array(column: WantedHeader, made: HeaderColumn, count: int) -> pa.Array:
    """Return the array of a header column."""
    kind = column_field(column).type
    validity = None if made.validity is None else pa.py_buffer(made.validity)
    if made.offsets is not None:
        return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(made.offsets), pa.py_buffer(made.data)])
    if column.type == "bool":
        return pa.Array.from_buffers(pa.uint8(), count, [validity, pa.py_buffer(made.data)]).cast(pa.bool_())
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(made.data)])


def _varied(kind: pa.DataType, count: int, offsets: bytearray | None, data: bytearray | None) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, _buffer(offsets), _buffer(data)])


def _buffer(data: bytearray | None) -> pa.Buffer:
    if data is None:
        raise AssertionError("the columns were decoded for another shape")
    return pa.py_buffer(data)
