"""Header columns: the shapes that a message's headers can take in a row.

variant   headers VARIANT, headers_repeated BOOLEAN     headers:attempt::int; the last value of a repeated key
binary    headers BINARY, headers_repeated BOOLEAN      the header block as it is stored: for copying, loses nothing
none      no column: nothing of the headers is decoded
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from headstream.codec.batch.results import Columns
    from headstream.spark.options import HeaderShape

__all__ = ["HEADER_FIELDS", "header_array"]

_VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
"""What Spark's Arrow bridge takes for VARIANT."""
_REPEATED: Final = pa.field("headers_repeated", pa.bool_())

HEADER_FIELDS: Final[dict[HeaderShape, tuple[pa.Field, ...]]] = {
    "variant": (pa.field("headers", _VARIANT), _REPEATED),
    "binary": (pa.field("headers", pa.binary()), _REPEATED),
    "none": (),
}
"""The fields of each shape."""


def header_array(columns: Columns, name: str, shape: HeaderShape) -> pa.Array:
    """Return one of the columns of HEADER_FIELDS[shape].

    Args:
        columns: What decode_columns() made with the same shape.
        name: The field's name.
        shape: One of HEADER_FIELDS.
    """
    if name == "headers_repeated":
        return pa.Array.from_buffers(pa.uint8(), columns.count, [None, _buffer(columns.repeated)]).cast(pa.bool_())
    headers = _binary(columns.count, columns.headers_offsets, columns.headers_data)
    if shape != "variant":
        return headers
    metadata = _binary(columns.count, columns.metadata_offsets, columns.metadata_data)
    return pa.StructArray.from_arrays([headers, metadata], fields=list(_VARIANT))


def _binary(count: int, offsets: bytearray | None, data: bytearray | None) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), count, [None, _buffer(offsets), _buffer(data)])


def _buffer(data: bytearray | None) -> pa.Buffer:
    if data is None:
        raise AssertionError("the columns were decoded for another shape")
    return pa.py_buffer(data)
