"""Converts Kafka's header arrays to header columns and back, in Arrow on executors; Spark's expressions cannot do this.

The headers of each row become a header block (codec.batch.kafka_decoding), and each block becomes a stored message without
payload. The kernels of the source decode these messages, so both sources return the same columns.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql.types import BinaryType

from headstream.core.codec.batch.from_columns.blocks import BlockBuilder
from headstream.core.codec.batch.from_columns.stored_headers import store_blocks
from headstream.core.codec.batch.kafka.decoding import FALLBACK_ROW, LOSSY_ROW, KafkaDecoded, decode_kafka_headers
from headstream.core.codec.batch.kafka.encoding import encode_kafka_headers
from headstream.core.codec.batch.results import VariableColumn, WantedHeader
from headstream.core.codec.binary import decode_headers
from headstream.core.codec.kafka import KafkaHeader, KafkaRecord, decode_record, encode_record, find_losses
from headstream.core.model.message import Message
from headstream.errors import HeaderError, HeadstreamError
from headstream.spark.sink.header_blocks import add_array, varied
from headstream.spark.source.columns import Assembler, arrow_schema
from headstream.spark.source.offsets import TopicPartition
from headstream.spark.source.options import RowShape
from headstream.spark.workers.arrow_functions import arrow_function

_LOGGER: Final = logging.getLogger("headstream.spark")
_NO_PARTITION: Final = TopicPartition("kafka/headers", 0)

Coordinates: TypeAlias = tuple[pa.Array, pa.Array, pa.Array]
"""The topic, partition and offset of each row."""

kafka_headers_type: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
"""Spark's type of a Kafka header column."""


def blocks_of_kafka_headers(headers: Column) -> Column:
    """Return the header block of each row, in the form that a log stores.

    Args:
        headers: Kafka's headers, of the type kafka_headers_type.

    Raises:
        MissingExtraError: this version of PySpark does not support functions over Arrow arrays.
    """
    return arrow_function(_blocks, BinaryType())(headers)


class HeaderDecoder:
    """Decodes Kafka's header arrays to header columns.

    Args:
        shape: The header columns to return; `shape.columns` is `headers` and `headers_repeated`, or empty.
    """

    def __init__(self, shape: RowShape) -> None:
        self._shape = shape
        self._fields = list(arrow_schema(shape))
        self._warned: set[str] = set()

    def decode(
        self, headers: pa.ListArray, coordinates: Coordinates | None = None, raw: Sequence[pa.Array] = ()
    ) -> pa.StructArray:
        """Return the columns, as an array with one struct per row.

        Invalid headers raise an error if `shape.fail_on_mismatch` is set; otherwise they are skipped with a warning of the logger
        headstream.spark.

        Args:
            headers: Of the type kafka_headers_type; null means no headers.
            coordinates: Topic, partition and offset of each row, for warnings and errors.
            raw: One array per declared column, for rows with only raw headers, which `headers` omits: the values of a BINARY
                column; for another column, which is null, whether the header exists. Can be empty.

        Raises:
            HeaderError: a header does not fit, and `shape.fail_on_mismatch` is set; the message names the coordinates.
        """
        if raw:
            return self._decode_beside(headers, coordinates, raw)
        try:
            found = decode_blocks(headers, strict=self._shape.fail_on_mismatch)
            columns = self.columns_of(len(headers), VariableColumn(*found.blocks))
        except HeadstreamError as error:
            raise self._locate(error, headers, coordinates) from None
        if found.dropped_count:
            _LOGGER.warning(
                "%s and after: skipped %d invalid headers in %d rows: their keys are empty or longer than 255 bytes",
                _where(found.flags.find(LOSSY_ROW), coordinates),
                found.dropped_count,
                found.flags.count(LOSSY_ROW),
            )
        self._warn_of_mismatches(headers, columns, coordinates)
        return columns

    def _decode_beside(self, headers: pa.ListArray, coordinates: Coordinates | None, raw: Sequence[pa.Array]) -> pa.StructArray:
        """Return the columns, using `raw` for rows that have only raw headers; see decode()."""
        is_raw = pc.equal(pc.list_value_length(headers), 0)
        is_all_raw = not len(headers.values)
        decoded = None if is_all_raw else self.decode(headers, coordinates)
        columns = []
        for number, (column, given) in enumerate(zip(self._shape.header_columns, raw, strict=True)):
            kind = self._fields[number].type
            if column.type == "binary":
                found = given.cast(kind)
            else:
                self._warn_of_misfits(column, pc.indices_nonzero(pc.and_(is_raw, given)), len(headers), coordinates)
                found = pa.nulls(len(headers), kind)
            columns.append(found if decoded is None else pc.if_else(is_raw, found, decoded.field(number)))
        return pa.StructArray.from_arrays(columns, fields=self._fields)

    def _warn_of_mismatches(self, headers: pa.ListArray, columns: pa.StructArray, coordinates: Coordinates | None) -> None:
        """Warn, once per declared column and task, of rows whose column is null because the header does not fit."""
        for column in self._shape.header_columns:
            values = columns.field(column.name)
            if column.name in self._warned or not values.null_count:
                continue
            entries = headers.flatten()
            has_value = pc.and_(pc.equal(entries.field("key"), column.name), entries.field("value").is_valid())
            rows = pc.unique(pc.list_parent_indices(headers).filter(has_value))
            misfits = rows.filter(values.take(rows).is_null())
            self._warn_of_misfits(column, misfits, len(headers), coordinates)

    def _warn_of_misfits(self, column: WantedHeader, rows: pa.Array, count: int, coordinates: Coordinates | None) -> None:
        if not len(rows) or column.name in self._warned:
            return
        self._warned.add(column.name)
        _LOGGER.warning(
            "%s and after: the header %r does not have the type %s declared in headerColumns (%d of %d rows), so its column is "
            "null; a record without hs.kinds has raw headers",
            _where(rows[0].as_py(), coordinates),
            column.name,
            column.type.upper(),
            len(rows),
            count,
        )

    def columns_of(self, count: int, blocks: VariableColumn) -> pa.StructArray:
        """Return the columns, as an array with one struct per header block; a null block has no headers."""
        stored = store_blocks(count, blocks)
        batch, _ = Assembler(_NO_PARTITION, self._shape, max(count, 1)).assemble(memoryview(stored))
        return pa.StructArray.from_arrays(batch.columns, fields=self._fields)

    def _locate(self, error: HeadstreamError, headers: pa.ListArray, coordinates: Coordinates | None) -> HeadstreamError:
        """Return the error of the first failing row, with its coordinates."""
        if coordinates is None:
            return error
        first, count = 0, len(headers)  # rows before `first` are valid; one of the next `count` rows is invalid
        while count > 1:
            half = count // 2
            try:
                HeaderDecoder(self._shape).decode(headers.slice(first, half))
            except HeadstreamError:
                count = half
            else:
                first, count = first + half, count - half
        try:
            HeaderDecoder(self._shape).decode(headers.slice(first, count))
        except HeadstreamError as fault:
            return HeaderError(fault.what, where=_where(first, coordinates), advice=fault.advice)
        return error


def _blocks(headers: pa.Array) -> pa.Array:
    return _block_decoder().decode(headers).field("headers")


@functools.cache
def _block_decoder() -> HeaderDecoder:
    return HeaderDecoder(RowShape(("headers",), "binary", (), False))  # one decoder per process, which warns once per header


def _where(row: int, coordinates: Coordinates | None) -> str:
    if coordinates is None:
        return f"row {row} of a header column"
    topic, partition, offset = (column[row].as_py() for column in coordinates)
    return f"topic {topic}, partition {partition}, offset {offset}"


def decode_blocks(headers: pa.ListArray, *, strict: bool) -> KafkaDecoded:
    """Return the header blocks of Kafka's headers; rows that the kernel does not handle are decoded individually.

    Null means no headers. Invalid headers are skipped, or raise HeaderError if `strict` is set; a missing key is always an error.
    """
    if headers.offset or headers.values.offset:
        headers = headers.take(pa.array(range(len(headers)), pa.int64()))
    keys, values = headers.values.field(0), headers.values.field(1)
    if headers.values.null_count or keys.null_count:
        raise HeaderError("a header, or its key, is null", advice="Omit the header")
    validity, offsets = headers.buffers()[:2]
    count = len(headers)
    lists = VariableColumn(
        bytes(4 * count + 4) if offsets is None or offsets.size == 0 else offsets, b"", validity if headers.null_count else None
    )
    decoded = decode_kafka_headers(count, lists, varied(keys), varied(values), strict=strict)
    if decoded.flags.find(FALLBACK_ROW) < 0:
        return decoded
    return _add_left(headers, decoded, strict)


def _add_left(headers: pa.ListArray, decoded: KafkaDecoded, strict: bool) -> KafkaDecoded:
    """Return the blocks of all rows, decoding the rows that the kernel did not handle."""
    flags, dropped = bytearray(decoded.flags), decoded.dropped_count
    blocks = [b""] * len(flags)
    for row, flag in enumerate(decoded.flags):
        if flag == FALLBACK_ROW:
            pairs = tuple((header["key"], header["value"]) for header in headers[row].as_py())
            blocks[row], losses = _decode_left(pairs, strict=strict)
            flags[row] = LOSSY_ROW if losses else 0
            dropped += losses
    builder = BlockBuilder(len(flags))
    builder.add_blocks(VariableColumn(*decoded.blocks))
    builder.add_blocks(VariableColumn(_offsets(blocks), b"".join(blocks)))
    return KafkaDecoded(builder.build(), flags, dropped)


def _offsets(values: Sequence[bytes]) -> memoryview:
    return memoryview(pa.array(accumulate(map(len, values), initial=0), pa.int32()).buffers()[1])


@functools.lru_cache(maxsize=1 << 14)
def _decode_left(row: tuple[KafkaHeader, ...], *, strict: bool) -> tuple[bytes, int]:
    """Return a record's header block, and the number of skipped headers; cached, since headers repeat."""
    record = KafkaRecord(value=b"", headers=row)
    found = decode_record(record, on_loss="error" if strict else "drop")
    return found.headers.as_bytes(), len(find_losses(record))


def encode_header_blocks(blocks: pa.Array) -> pa.ListArray:
    """Return Kafka's headers for header blocks, which the source returns with `headers=binary`.

    Args:
        blocks: BINARY; null means no headers.

    Raises:
        DecodeError: a value is not a header block.
        HeaderError: a header has a reserved name.
    """
    if blocks.offset:
        blocks = blocks.take(pa.array(range(len(blocks)), pa.int64()))
    return encode_blocks(len(blocks), varied(blocks))


def encode_header_lists(lists: pa.ListArray) -> pa.ListArray:
    """Return Kafka's headers for lists of key, kind and value, which the source returns with `headers=array`.

    Args:
        lists: ARRAY<STRUCT<key STRING, kind STRING, value BINARY>>; null means no headers.

    Raises:
        HeaderError: a kind is unknown, a value is null, or a name is reserved.
        DecodeError: a value is not valid for its kind.
    """
    if lists.offset or lists.values.offset:
        lists = lists.take(pa.array(range(len(lists)), pa.int64()))
    builder = BlockBuilder(len(lists))
    add_array(builder, lists)
    return encode_blocks(len(lists), VariableColumn(*builder.build()))


def encode_blocks(count: int, blocks: VariableColumn) -> pa.ListArray:
    """Return Kafka's headers for header blocks; blocks that the kernel cannot handle are encoded individually."""
    made = encode_kafka_headers(count, blocks)
    keys = pa.Array.from_buffers(
        pa.string(), made.header_count, [None, pa.py_buffer(made.keys.offsets), pa.py_buffer(made.keys.data)]
    )
    buffers = [
        pa.py_buffer(b"" if made.values.validity is None else made.values.validity),
        pa.py_buffer(made.values.offsets),
        pa.py_buffer(made.values.data),
    ]
    values = pa.Array.from_buffers(pa.binary(), made.header_count, buffers)
    entries = pa.StructArray.from_arrays([keys, values], fields=list(kafka_headers_type.value_type))
    lists = pa.Array.from_buffers(kafka_headers_type, count, [None, pa.py_buffer(made.lists)], children=[entries])
    left = [row for row, flag in enumerate(made.flags) if flag] if any(made.flags) else []
    if not left:
        return lists
    offsets = memoryview(blocks.offsets).cast("B").cast("i")
    data = memoryview(blocks.data)
    encoded = pa.array([_encode_left(bytes(data[offsets[row] : offsets[row + 1]])) for row in left], kafka_headers_type)
    rows = list(range(count))
    for number, row in enumerate(left):
        rows[row] = count + number
    return pa.concat_arrays([lists, encoded]).take(pa.array(rows, pa.int64()))


def _encode_left(block: bytes) -> list[dict[str, object]]:
    """Return the headers of a record with this header block."""
    record = encode_record(Message(payload=b"", headers=decode_headers(block)))
    return [{"key": key, "value": value} for key, value in record.headers]
