"""The pipeline's own log (`<checkpoint>/log`): complete parked and dead-lettered messages, as Arrow columns.

A message retains its payload, key and headers, and gets headers with its origin and the reason why it was parked or rejected:

    <original headers> | hs.origin.topic string | hs.origin.partition int32 | hs.origin.offset int64
                       | hs.origin.timestamp int64 (us) | hs.schema_id string | hs.reason string

hs.schema_id and hs.reason are "" if unknown. One process writes; any number of processes can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.core.codec.batch.from_columns.pack import pack
from headstream.core.codec.batch.results import WantedHeader
from headstream.core.codec.batch.to_columns.columns import decode_columns
from headstream.core.codec.batch.to_columns.header_columns import decode_header_columns
from headstream.core.codec.binary import encode_headers
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.constructors import int32, int64, string
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState
from headstream.core.model.polling import PollingStrategy
from headstream.core.model.reserved import ORIGIN_PREFIX, REASON_HEADER, SCHEMA_ID_HEADER
from headstream.errors import CorruptLogError, TopicNotFoundError
from headstream.log.opening import open_directory
from headstream.log.partition.recovery import recover
from headstream.log.system.files import OsFiles
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.spark.source.header_shapes import column_array

_PARTITION: Final = 1
_BATCH_BYTES: Final = 8 << 20
_WANTED: Final = (
    WantedHeader(f"{ORIGIN_PREFIX}topic", "string"),
    WantedHeader(f"{ORIGIN_PREFIX}partition", "int32"),
    WantedHeader(f"{ORIGIN_PREFIX}offset", "int64"),
    WantedHeader(f"{ORIGIN_PREFIX}timestamp", "int64"),
    WantedHeader(SCHEMA_ID_HEADER, "string"),
    WantedHeader(REASON_HEADER, "string"),
)


def _head(name: str, is_text: bool, width: int = 0) -> bytes:
    """Return the bytes of a header before its value, or before the value's length if the length varies."""
    value = string("x") if is_text else int32(0) if width == 4 else int64(0)
    block = encode_headers(Headers([(name, value)]))
    return block[:-5] if is_text else block[:-width]


_TOPIC, _SCHEMA_ID, _REASON = (_head(name, True) for name in (f"{ORIGIN_PREFIX}topic", SCHEMA_ID_HEADER, REASON_HEADER))
_ORIGIN_PARTITION = _head(f"{ORIGIN_PREFIX}partition", False, 4)
_OFFSET, _TIMESTAMP = (_head(f"{ORIGIN_PREFIX}{name}", False, 8) for name in ("offset", "timestamp"))
_FIXED_BYTES: Final = sum(map(len, (_TOPIC, _SCHEMA_ID, _REASON, _ORIGIN_PARTITION, _OFFSET, _TIMESTAMP))) + 3 * 4 + 4 + 2 * 8


class Placed(NamedTuple):
    """The position of appended messages: the first offset, the offset after the last, and their size in bytes."""

    from_offset: int
    until_offset: int
    size_bytes: int


class OwnLog:
    """The log of one checkpoint.

    Args:
        checkpoint: The pipeline's checkpoint directory.
        topics: Topics to create if missing; empty for read-only use.
    """

    def __init__(self, checkpoint: Path, topics: tuple[str, ...] = ()) -> None:
        # Bypasses the client: a producer rejects the reserved headers that are written here.
        self._broker = Broker(open_directory(str((checkpoint / "log").resolve())))
        self._client = Client(self._broker)
        for topic in topics:
            self._client.create_topic(topic, partitions=1, limits="wide", if_not_exists=True)

    @property
    def client(self) -> Client:
        """A client for reading the log."""
        return self._client

    def close(self) -> None:
        """Close the log."""
        self._client.close()

    def end(self, topic: str) -> int:
        """Return the offset of a topic's next message; 0 if the topic does not exist."""
        try:
            return self._client.topic(topic).partitions[_PARTITION - 1].end_offset
        except TopicNotFoundError:
            return 0

    def put(self, topic: str, messages: pa.Table) -> Placed:
        """Append one or more messages (RAW_SCHEMA) at consecutive offsets."""
        name = TopicName.parse(topic)
        batch = messages.combine_chunks()
        sizes = _lengths(batch["payload"]) + _lengths(batch["key"]) + _lengths(batch["headers"]) + _FIXED_BYTES
        first, size_bytes, row = None, 0, 0
        while row < batch.num_rows:
            reach = np.searchsorted(np.cumsum(sizes[row:]), _BATCH_BYTES, "right")
            count = max(int(reach), 1)
            sent = _pack(batch.slice(row, count))
            offset = self._broker.messages.send(name, _PARTITION, sent)
            first = offset if first is None else first
            size_bytes += len(sent)
            row += count
        assert first is not None, "there is nothing to put"
        return Placed(first, first + batch.num_rows, size_bytes)

    def read(self, topic: str, from_offset: int, until_offset: int) -> Iterator[pa.Table]:
        """Iterate over the messages of a range as tables of RAW_SCHEMA with an additional last column `log_offset`.

        Erased messages are skipped.

        Raises:
            CorruptLogError: the log ends before the end of the range.
        """
        name = TopicName.parse(topic)
        while from_offset < until_offset:
            strategy = PollingStrategy.offset(from_offset)
            polled = self._broker.messages.poll(
                name, _PARTITION, PollRequest(strategy, until_offset - from_offset, states=None, size_bytes=_BATCH_BYTES)
            )
            if polled.end_offset < until_offset:
                raise CorruptLogError(
                    f"the pipeline's own log has no message {polled.end_offset} of {topic}, but its ledger refers to it",
                    advice="If files of the checkpoint were changed, restore the log and the ledger from the same backup",
                )
            for chunk in polled.chunks:
                found = _unpack(chunk)
                yield found.filter(pc.less(found["log_offset"], until_offset))  # after a gap, a poll can return later messages
            if not polled.count:
                return
            from_offset = polled.next_offset

    def mark_for_deletion(self, topic: str, offsets: list[int], reason: str) -> None:
        """Mark messages for deletion; readers of the log no longer receive them."""
        if offsets:
            self._client.set_state(topic, _PARTITION, offsets, MessageState.MARKED_FOR_DELETION.value, reason=reason)


def recover_log(checkpoint: Path) -> None:
    """Repair the ends of a log's partitions after a process was killed. No other process may use the log."""
    for partition in sorted((checkpoint / "log" / "streams").glob("*/*/[0-9]*")):
        recover(str(partition), OsFiles())


def _pack(messages: pa.Table) -> bytearray:
    columns = {name: messages[name].combine_chunks() for name in messages.schema.names}
    blocks = pc.binary_join_element_wise(
        pc.fill_null(columns["headers"], b""),
        _TOPIC, *_text(columns["topic"]),
        _ORIGIN_PARTITION, _number(columns["partition"]),
        _OFFSET, _number(columns["offset"]),
        _TIMESTAMP, _number(columns["timestamp_us"]),
        _SCHEMA_ID, *_text(columns["schema_id"]),
        _REASON, *_text(columns["reason"]),
        b"",
    )  # fmt: skip
    payload, key, headers = (_buffers(array) for array in (columns["payload"], columns["key"], blocks))
    return pack(
        payload[1], payload[2], payload_validity=payload[0],
        key_offsets=key[1], key_data=key[2], key_validity=key[0],
        headers_offsets=headers[1], headers_data=headers[2],
    )  # fmt: skip


def _text(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return strings as the lengths and bytes of header values."""
    content = pc.fill_null(values, "").cast(pa.binary())
    return _number(pc.binary_length(content).cast(pa.int32())), content


def _number(values: pa.Array) -> pa.Array:
    """Return numbers as little-endian bytes."""
    width = values.type.bit_width // 8
    data = pa.py_buffer(values.to_numpy().tobytes())
    return pa.Array.from_buffers(pa.binary(width), len(values), [None, data]).cast(pa.binary())


def _buffers(values: pa.Array) -> tuple[pa.Buffer | None, pa.Buffer, pa.Buffer]:
    """Return the validity, offsets and data of a binary array, beginning at the array's first row."""
    whole = pa.concat_arrays([values]) if values.offset == 0 else pa.concat_arrays([values, values.slice(0, 0)])
    validity, offsets, data = whole.buffers()
    return validity, offsets, data if data is not None else pa.py_buffer(b"")


def _unpack(stored: memoryview) -> pa.Table:
    columns = decode_columns(stored, headers="binary", ids=False)
    count = columns.count
    origin = [
        column_array(wanted, made, count)
        for wanted, made in zip(_WANTED, decode_header_columns(stored, _WANTED, fail=True), strict=True)
    ]
    topic, partition, offset, timestamp, schema_id, reason = origin
    topics, ids, reasons = (_lengths(text.cast(pa.binary())) for text in (topic, schema_id, reason))
    added = topics + ids + reasons + _FIXED_BYTES
    assert columns.headers_offsets is not None
    assert columns.headers_data is not None
    arrays = [
        topic, partition, offset, timestamp,
        _binary(count, columns.key_validity, columns.key_offsets, columns.key_data),
        _cut_ends(columns.headers_offsets, columns.headers_data, added),
        _binary(count, columns.payload_validity, columns.payload_offsets, columns.payload_data),
        *(pc.if_else(pc.equal(text, ""), None, text) for text in (schema_id, reason)),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offset)]),
    ]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA.append(pa.field("log_offset", pa.int64())))


def _binary(count: int, validity: bytearray | None, offsets: bytearray, data: bytearray) -> pa.Array:
    bitmap = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(pa.binary(), count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])


def _cut_ends(offsets: bytearray, data: bytearray, sizes: npt.NDArray[np.int64]) -> pa.Array:
    """Return values without the last `sizes` bytes of each value."""
    bounds = np.frombuffer(offsets, np.int32)
    ends = bounds[1:].astype(np.int64)
    edges = np.zeros(len(data) + 1, np.int8)
    np.add.at(edges, ends - sizes, 1)
    np.add.at(edges, ends, -1)
    kept = np.frombuffer(data, np.uint8, len(data))[np.cumsum(edges[:-1], dtype=np.int8) == 0]
    lengths = np.diff(bounds) - sizes
    begins = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(begins.tobytes()), pa.py_buffer(kept.tobytes())])


def _lengths(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    lengths = pc.fill_null(pc.binary_length(values), 0)
    whole = lengths.combine_chunks() if isinstance(lengths, pa.ChunkedArray) else lengths
    found: npt.NDArray[np.int64] = whole.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
