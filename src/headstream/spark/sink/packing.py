"""Packs Spark's Arrow batches into messages for sending, without a Python object per message.

    RecordBatch -> columns as buffers -> header blocks (codec.batch.blocks) -> sent messages (codec.batch.pack)
                -> checked against the topic's limits (codec.batch.stamp) -> by partition (codec.batch.grouping)

Rejected rows are found by bisection: a batch is packed as a whole, and split only if packing fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.core.codec.batch.from_columns.blocks import BlockBuilder
from headstream.core.codec.batch.from_columns.grouping import cut_sent
from headstream.core.codec.batch.from_columns.keys_and_ids import hash_keys, parse_ids
from headstream.core.codec.batch.from_columns.pack import pack
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.batch.stored.stamp import find_fault
from headstream.core.model.header_values import HeaderKind
from headstream.core.model.reserved import TIMESTAMP_HEADER
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import HeadstreamError, InvalidInputError, LimitError
from headstream.spark.sink.columns import SinkColumns
from headstream.spark.sink.header_blocks import add_column, add_headers, varied, whole

_MAX_IGGY_PAYLOAD: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A topic that rows are sent to.

    Args:
        name: `stream/topic`.
        is_wide: Whether the topic's limits are `wide`.
        needs_key: Whether messages must have a key, because the topic is compacted.
    """

    name: str
    partitions: int
    is_wide: bool
    needs_key: bool


@dataclass(frozen=True, slots=True)
class Packed:
    """Packed messages of one topic.

    Args:
        sent: The messages, back to back.
        targets: The partition of each message, int32, 0 for any partition; None if all messages can go to any partition.
    """

    sent: bytearray
    targets: pa.Buffer | None
    count: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that its topic rejects."""

    row: int
    reason: HeadstreamError


class Packer:
    """Packs rows of one schema."""

    def __init__(self, columns: SinkColumns) -> None:
        self._columns = columns

    def pack(self, batch: pa.RecordBatch, target: Target, first_row: int = 0) -> Iterator[Packed | BadRow]:
        """Yield the rows of a batch, in order, as messages and rejected rows."""
        try:
            packed = self._pack(whole(batch), target)
        except (HeadstreamError, pa.ArrowInvalid) as error:
            if batch.num_rows == 1:
                yield BadRow(first_row, error if isinstance(error, HeadstreamError) else InvalidInputError(str(error)))
                return
            half = batch.num_rows // 2
            yield from self.pack(batch.slice(0, half), target, first_row)
            yield from self.pack(batch.slice(half), target, first_row + half)
        else:
            yield packed

    def _pack(self, batch: pa.RecordBatch, target: Target) -> Packed:
        columns, count = self._columns, batch.num_rows
        payload = varied(batch[columns.payload])
        limit = MAX_BATCH_BYTES if target.is_wide else _MAX_IGGY_PAYLOAD
        largest = pc.max(pc.binary_length(batch[columns.payload])).as_py() or 0 if len(memoryview(payload.data)) > limit else 0
        if largest > limit:
            advice = "Store large payloads elsewhere, and send their location"
            raise LimitError(f"a payload must have at most {limit} bytes, not {largest}", advice=advice)
        key = None if columns.key is None else varied(batch[columns.key])
        if target.needs_key and (columns.key is None or batch[columns.key].null_count):
            raise InvalidInputError("a message of a compacted topic must have a key", advice="Set a key for each row")
        blocks = self._blocks(batch)
        sent = pack(
            payload.offsets,
            payload.data,
            payload_validity=payload.validity,
            key_offsets=None if key is None else key.offsets,
            key_data=None if key is None else key.data,
            key_validity=None if key is None else key.validity,
            headers_offsets=None if blocks is None else blocks.offsets,
            headers_data=None if blocks is None else blocks.data,
            ids=None if columns.id is None else _ids(batch[columns.id]),
        )
        fault = find_fault(sent, target.is_wide)
        if fault is not None:
            raise fault[1]
        if len(sent) > MAX_BATCH_BYTES:
            _check_each(sent)
        return Packed(sent, self._targets(batch, key, target), count)

    def _blocks(self, batch: pa.RecordBatch) -> VariableColumn | None:
        columns = self._columns
        if columns.headers is None and columns.timestamp is None and not columns.header_columns:
            return None
        builder = BlockBuilder(batch.num_rows)
        if columns.headers is not None:
            add_headers(builder, columns.shape, batch[columns.headers])
        for source in columns.header_columns:
            add_column(builder, source.key.encode(), source.kind, batch[source.column])
        if columns.timestamp is not None:
            add_column(builder, TIMESTAMP_HEADER.encode(), HeaderKind.INT64, batch[columns.timestamp].cast(pa.int64()))
        return VariableColumn(*builder.build())

    def _targets(self, batch: pa.RecordBatch, key: VariableColumn | None, target: Target) -> pa.Buffer | None:
        columns = self._columns
        if columns.partition is None and key is None:
            return None
        by_key: Any = pa.scalar(0, pa.int32())
        if key is not None:
            hashed = hash_keys(key.offsets, key.data, key.validity, target.partitions)
            if columns.partition is None:
                return pa.py_buffer(hashed)
            by_key = pa.Array.from_buffers(pa.int32(), batch.num_rows, [None, pa.py_buffer(hashed)])
        asked = batch[columns.partition].cast(pa.int32())
        bounds = pc.min_max(asked).as_py()
        if bounds["min"] is not None and not 1 <= bounds["min"] <= bounds["max"] <= target.partitions:
            raise InvalidInputError(
                f"the column partition has values from {bounds['min']} to {bounds['max']}",
                advice=f"Use partitions 1 to {target.partitions}",
            )
        found = pc.coalesce(asked, by_key)
        return found.buffers()[1]


def _check_each(sent: bytearray) -> None:
    """Raise an error if a message exceeds the size limit of a batch."""
    rest = memoryview(sent)
    while rest:
        end = cut_sent(rest, MAX_BATCH_BYTES, -1, -1).end
        if end > MAX_BATCH_BYTES:
            raise LimitError(f"a message must have at most {MAX_BATCH_BYTES} bytes, not {end}")
        rest = rest[end:]


def _ids(column: pa.Array) -> bytearray | memoryview:
    ids = varied(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        found = parse_ids(ids.offsets, ids.data, ids.validity)
        if isinstance(found, int):
            raise InvalidInputError(f"column id has {column[found].as_py()!r}", advice="Pass a UUID of 36 characters, or null")
        return found
    lengths = pc.min_max(pc.binary_length(column)).as_py()
    if lengths["min"] not in (None, 16) or lengths["max"] not in (None, 16):
        raise InvalidInputError("the column id must have values of 16 bytes", advice="Pass the 16 bytes of a UUID, or null")
    return memoryview(pc.fill_null(column, bytes(16)).cast(pa.binary(16)).buffers()[1])[: 16 * len(column)]
