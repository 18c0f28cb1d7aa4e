"""The source's columns in Arrow: their fields, and arrays of the buffers that the kernels decode from stored messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import pyarrow as pa

from headstream.core.codec.batch.results import Columns
from headstream.core.codec.batch.to_columns.columns import HeadersForm, decode_columns
from headstream.core.codec.batch.to_columns.header_columns import decode_header_columns
from headstream.core.codec.batch.to_columns.header_lists import decode_header_lists
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, state_name
from headstream.spark.source.header_shapes import (
    HEADER_FIELDS,
    HEADERS_REPEATED,
    column_array,
    column_field,
    header_array,
    list_array,
    repeated_array,
)
from headstream.spark.source.offsets import TopicPartition
from headstream.spark.source.options import RowShape

_ID_BYTES: Final = 36
"""Length of a UUID as a string."""
_STATE_NAMES: Final = [state_name(code) for code in range(256)]
_FIELDS: Final = {
    field.name: field
    for field in (
        pa.field("stream", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("state", pa.string()),
        pa.field("id", pa.string()),
        pa.field("checksum", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("payload", pa.binary()),
    )
}


def arrow_schema(shape: RowShape) -> pa.Schema:
    """Return the schema of every batch."""
    fields = dict(_FIELDS)
    if shape.headers != "none":
        fields |= {"headers": HEADER_FIELDS[shape.headers], HEADERS_REPEATED.name: HEADERS_REPEATED}
    return pa.schema([fields[name] for name in shape.columns] + [column_field(column) for column in shape.header_columns])


class Assembler:
    """Builds record batches of one partition's messages; constant columns are built once."""

    def __init__(self, partition: TopicPartition, shape: RowShape, rows: int) -> None:
        topic = TopicName.parse(partition.topic)
        self._shape = shape
        self._schema = arrow_schema(shape)
        self._form: HeadersForm = "none"
        self._lists: Literal["array", "map"] | None = None
        if {"headers", "headers_repeated"} & set(shape.columns):
            if shape.headers == "array" or shape.headers == "map":
                self._lists = shape.headers
            else:
                self._form = shape.headers
        self._available = pa.repeat(pa.scalar(_STATE_NAMES[MessageState.AVAILABLE], pa.string()), rows)
        self._id_offsets = pa.array(range(0, (rows + 1) * _ID_BYTES, _ID_BYTES), pa.int32()).buffers()[1]
        makers: dict[str, Callable[[Columns], pa.Array]] = {
            "stream": _constant(pa.scalar(topic.stream, pa.string()), rows),
            "topic": _constant(pa.scalar(topic.topic, pa.string()), rows),
            "partition": _constant(pa.scalar(partition.number, pa.int32()), rows),
            "offset": lambda columns: _fixed(pa.int64(), columns.offset, columns.count),
            "timestamp": lambda columns: _fixed(pa.timestamp("us", tz="UTC"), columns.timestamp, columns.count),
            "state": self._states,
            "id": self._ids,
            "checksum": lambda columns: _fixed(pa.uint32(), columns.checksum, columns.count).cast(pa.int64()),
            "key": lambda columns: _varied(columns.count, columns.key_validity, columns.key_offsets, columns.key_data),
            "headers": lambda columns: header_array(columns, shape.headers),
            "headers_repeated": lambda columns: repeated_array(columns.repeated),
            "payload": lambda columns: _varied(
                columns.count, columns.payload_validity, columns.payload_offsets, columns.payload_data
            ),
        }
        self._makers = {name: makers[name] for name in shape.columns}
        self.misfits: dict[str, int] = {}
        """Header column -> position, in the last batch, of the first message whose header does not fit (the column is null)."""

    def assemble(self, stored: memoryview) -> tuple[pa.RecordBatch, Columns]:
        """Return the rows of complete stored messages, back to back, and the decoded columns."""
        shape = self._shape
        columns = decode_columns(stored, headers=self._form, ids="id" in shape.columns)
        makers = self._makers
        if self._lists is not None:
            lists = decode_header_lists(stored, self._lists)
            made = {
                "headers": lambda _: list_array(lists, shape.headers),
                "headers_repeated": lambda _: repeated_array(lists.repeated),
            }
            makers = {name: made.get(name, make) for name, make in makers.items()}
        arrays = [make(columns) for make in makers.values()]
        self.misfits = {}
        if shape.header_columns:
            for column, values in zip(
                shape.header_columns,
                decode_header_columns(stored, shape.header_columns, fail=shape.fail_on_mismatch),
                strict=True,
            ):
                arrays.append(column_array(column, values, columns.count))
                if values.misfit >= 0:
                    self.misfits[column.name] = values.misfit
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), columns

    def _states(self, columns: Columns) -> pa.Array:
        if columns.state.count(MessageState.AVAILABLE) == columns.count:
            return self._available.slice(0, columns.count)
        return pa.array([_STATE_NAMES[code] for code in columns.state], pa.string())

    def _ids(self, columns: Columns) -> pa.Array:
        return pa.Array.from_buffers(pa.string(), columns.count, [None, self._id_offsets, pa.py_buffer(columns.id_data)])


def _constant(value: pa.Scalar, rows: int) -> Callable[[Columns], pa.Array]:
    values = pa.repeat(value, rows)
    return lambda columns: values.slice(0, columns.count)


def _fixed(kind: pa.DataType, data: bytearray, count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _varied(count: int, validity: bytearray | None, offsets: bytearray, data: bytearray) -> pa.Array:
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
