"""The source's columns, in Arrow: their fields, and how they are made of a batch's decoded buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from headstream.codec.batch.results import Columns
from headstream.model.identifiers import TopicName
from headstream.model.message import MessageState, state_name
from headstream.spark.headers import HEADER_FIELDS, header_array
from headstream.spark.offsets import Place
from headstream.spark.options import HeaderShape

__all__ = ["Assembler", "arrow_schema"]

_ID_BYTES: Final = 36
"""A UUID as text."""
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


def arrow_schema(names: tuple[str, ...], shape: HeaderShape) -> pa.Schema:
    """Return the schema of every batch.

    Args:
        names: Which columns, in this order.
        shape: The shape of the header columns.
    """
    fields = _FIELDS | {field.name: field for field in HEADER_FIELDS[shape]}
    return pa.schema([fields[name] for name in names])


class Assembler:
    """Makes record batches of one partition's messages; what is the same in every row is made once.

    Args:
        place: The partition.
        names: Which columns, in this order.
        shape: The shape of the header columns.
        rows: How many rows a batch has at most.
    """

    def __init__(self, place: Place, names: tuple[str, ...], shape: HeaderShape, rows: int) -> None:
        topic = TopicName.parse(place.topic)
        self._schema = arrow_schema(names, shape)
        self._available = pa.repeat(pa.scalar(_STATE_NAMES[MessageState.AVAILABLE], pa.string()), rows)
        self._id_offsets = pa.array(range(0, (rows + 1) * _ID_BYTES, _ID_BYTES), pa.int32()).buffers()[1]
        makers: dict[str, Callable[[Columns], pa.Array]] = {
            "stream": _constant(pa.scalar(topic.stream, pa.string()), rows),
            "topic": _constant(pa.scalar(topic.topic, pa.string()), rows),
            "partition": _constant(pa.scalar(place.partition, pa.int32()), rows),
            "offset": lambda columns: _fixed(pa.int64(), columns.offset, columns.count),
            "timestamp": lambda columns: _fixed(pa.timestamp("us", tz="UTC"), columns.timestamp, columns.count),
            "state": self._states,
            "id": self._ids,
            "checksum": lambda columns: _fixed(pa.uint32(), columns.checksum, columns.count).cast(pa.int64()),
            "key": lambda columns: _varied(columns.count, columns.key_validity, columns.key_offsets, columns.key_data),
            "headers": lambda columns: header_array(columns, "headers", shape),
            "headers_repeated": lambda columns: header_array(columns, "headers_repeated", shape),
            "payload": lambda columns: _varied(
                columns.count, columns.payload_validity, columns.payload_offsets, columns.payload_data
            ),
        }
        self._makers = [makers[name] for name in names]

    def assemble(self, columns: Columns) -> pa.RecordBatch:
        """Return the rows of decoded messages."""
        return pa.RecordBatch.from_arrays([make(columns) for make in self._makers], schema=self._schema)

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
