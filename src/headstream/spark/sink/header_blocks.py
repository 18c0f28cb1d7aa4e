"""Converts header columns in Arrow to header blocks, for the sink, for Kafka and for column functions."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.core.codec.batch.from_columns.blocks import BlockBuilder
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.model.header_values import KIND_NAMES, KIND_WIDTHS, HeaderKind
from headstream.errors import HeaderError
from headstream.spark.sink.columns import HeadersShape

_KIND_NAMES: Final = pa.array([KIND_NAMES.get(kind, f"unknown({kind})") for kind in range(256)], pa.string())
_ARROW_TYPES: Final = {
    HeaderKind.INT8: pa.int8(), HeaderKind.INT16: pa.int16(), HeaderKind.INT32: pa.int32(), HeaderKind.INT64: pa.int64(),
    HeaderKind.UINT8: pa.uint8(), HeaderKind.UINT16: pa.uint16(), HeaderKind.UINT32: pa.uint32(),
    HeaderKind.UINT64: pa.uint64(), HeaderKind.INT128: pa.decimal128(38, 0), HeaderKind.UINT128: pa.decimal128(38, 0),
    HeaderKind.FLOAT32: pa.float32(), HeaderKind.FLOAT64: pa.float64(), HeaderKind.BOOL: pa.uint8(),
    HeaderKind.STRING: pa.string(), HeaderKind.RAW: pa.binary(),
}  # fmt: skip


def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with columns that begin at the start of their buffers."""
    if all(column.offset == 0 for column in batch.columns):
        return batch
    return batch.take(pa.array(range(batch.num_rows), pa.int64()))


def varied(column: pa.Array) -> VariableColumn:
    """Return the buffers of a BINARY or STRING column."""
    if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    view = memoryview(b"" if offsets is None else offsets)[: 4 * len(column) + 4]
    if len(view) < 4 * len(column) + 4:
        view = memoryview(bytes(4 * len(column) + 4))
    return VariableColumn(view, memoryview(b"" if data is None else data), None if column.null_count == 0 else validity)


def _members(entries: pa.StructArray) -> dict[str, pa.Array]:
    return {entries.type[number].name.lower(): entries.field(number) for number in range(entries.type.num_fields)}


def add_headers(builder: BlockBuilder, shape: HeadersShape, headers: pa.Array) -> None:
    """Add a header column; null means no headers. HeaderError: a key or value is null, or does not fit its kind."""
    if shape == "binary":
        builder.add_blocks(varied(headers))
    elif shape == "array":
        add_array(builder, headers)
    else:
        _add_map(builder, headers)


def add_array(builder: BlockBuilder, headers: pa.Array) -> None:
    """Add lists of headers: structs of key, value and optionally kind. Without a kind, a header is `string` or `raw`.

    A null list has no headers.

    Raises:
        HeaderError: a key is null, the value of a kind other than null is null, or a kind is unknown.
    """
    members = _members(headers.values)
    keys, values = members["key"], members["value"]
    plain = HeaderKind.STRING if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) else HeaderKind.RAW
    kinds = _kind_codes(members["kind"], keys) if "kind" in members else pa.repeat(pa.scalar(int(plain), pa.uint8()), len(keys))
    if headers.values.null_count or keys.null_count:
        raise HeaderError("a header, or its key, is null", advice="Omit the header")
    if values.null_count:
        missing = pc.and_(pc.is_null(values), pc.not_equal(kinds, pa.scalar(int(HeaderKind.NULL), pa.uint8())))
        if pc.any(missing).as_py():
            key = keys[pc.index(missing, True).as_py()].as_py()
            raise HeaderError(f"the value of header {key!r} is null", advice="Omit the header, or set its kind to null")
    _add_lists(builder, headers, keys, kinds, values)


def _add_map(builder: BlockBuilder, headers: pa.MapArray) -> None:
    """Add maps of headers, with kinds that fit the value type; a null map has no headers."""
    values = headers.items
    kind = _plain_kind(values.type)
    kinds = pc.if_else(pc.is_null(values), pa.scalar(int(HeaderKind.NULL), pa.uint8()), pa.scalar(int(kind), pa.uint8()))
    if kind not in (HeaderKind.STRING, HeaderKind.RAW):
        width = KIND_WIDTHS[kind]
        fixed = _fixed(values, kind)
        data = pa.Array.from_buffers(pa.binary(width), len(fixed), [None, fixed.buffers()[1]]).cast(pa.binary())
        values = pc.if_else(pc.is_null(headers.items), pa.scalar(b"", pa.binary()), data)
    _add_lists(builder, headers, headers.keys, kinds, values)


def _add_lists(builder: BlockBuilder, headers: pa.Array, keys: pa.Array, kinds: pa.Array, values: pa.Array) -> None:
    validity, offsets = headers.buffers()[:2]
    lists = VariableColumn(
        memoryview(offsets)[: 4 * len(headers) + 4] if offsets is not None else bytes(4 * len(headers) + 4),
        b"",
        None if headers.null_count == 0 else validity,
    )
    codes = memoryview(kinds.buffers()[1] or b"")[: len(kinds)]
    without_null = varied(values)._replace(validity=None)
    builder.add_lists(lists, varied(keys), codes, without_null)


def _kind_codes(names: pa.Array, keys: pa.Array) -> pa.Array:
    codes = pc.index_in(names, value_set=_KIND_NAMES)
    if codes.null_count:
        at = pc.index(pc.is_null(codes), True).as_py()
        known = ", ".join(KIND_NAMES.values())
        raise HeaderError(f"header {keys[at].as_py()!r} is of kind {names[at].as_py()}", advice=f"Use one of {known}")
    return codes.cast(pa.uint8())


def _plain_kind(kind: pa.DataType) -> HeaderKind:
    if pa.types.is_boolean(kind):
        return HeaderKind.BOOL
    if pa.types.is_decimal(kind):
        return HeaderKind.INT128
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return HeaderKind.STRING
    return next((each for each, arrow in _ARROW_TYPES.items() if arrow == kind), HeaderKind.RAW)


def _fixed(column: pa.Array, kind: HeaderKind) -> pa.Array:
    """Return a column with the values encoded as bytes of a fixed-width kind."""
    try:
        fixed = column if column.type == _ARROW_TYPES[kind] else column.cast(_ARROW_TYPES[kind])
    except pa.ArrowInvalid as error:
        raise HeaderError(f"a value does not fit {kind.name.lower()}: {error}") from error
    if kind is HeaderKind.UINT128 and pc.any(pc.less(fixed, pa.scalar(0, pa.decimal128(38, 0)))).as_py():
        raise HeaderError("a negative value does not fit uint128")
    return fixed


def add_column(builder: BlockBuilder, key: bytes, kind: HeaderKind, column: pa.Array) -> None:
    """Add a header to each message whose value is not null."""
    try:
        if kind in (HeaderKind.STRING, HeaderKind.RAW):
            builder.add_column(key, kind, varied(column))
            return
        fixed = _fixed(column, kind)
    except HeaderError as error:
        error.where = f"header {key.decode()!r}"
        raise
    validity, data = fixed.buffers()
    builder.add_numbers(key, kind, KIND_WIDTHS[kind], memoryview(data or b""), None if fixed.null_count == 0 else validity)
