"""Converts record batches from and to clients: heads, checksums, compression, and rare records that kernels do not handle.

a client's batch -> checked -> decompressed -> decode_records -> sent messages
stored messages  -> encode_batch -> a batch for clients
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from headstream.core.codec.batch.checksum import crc32c
from headstream.core.codec.batch.kafka.batches import HEAD_BYTES, encode_batch
from headstream.core.codec.batch.kafka.records import decode_records
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.kafka.conventions import Convention, encode_any
from headstream.core.codec.kafka.messages import decode_record
from headstream.core.codec.kafka.record import KafkaHeader, KafkaRecord
from headstream.core.model.constructors import int64
from headstream.core.model.header_values import HeaderKind
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState
from headstream.core.model.reserved import KEY_HEADER, NULL_HEADER, STATE_HEADER, TIMESTAMP_HEADER
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import DecodeError, HeaderError
from headstream.server.kafka.handlers.compression import bound_decompressed, decompress
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError

_log: Final = logging.getLogger("headstream.server")
LEADER_EPOCH: Final = 0
"""The epoch of the only leader."""

_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END: Final = 12
_CHECKED_AT: Final = 21
_CODEC: Final = 7
_LOG_TIME: Final = 8
_TRANSACTIONAL: Final = 16
_CONTROL: Final = 32
_NO_TIME_MS: Final = -1
"""The timestamp of a record without a timestamp."""
_OWN: Final = frozenset({KEY_HEADER, NULL_HEADER})


class ClientBatch(NamedTuple):
    """A client's batch for a partition.

    Args:
        messages: Encoded sent messages, contiguous.
        producer_id: The id of an idempotent producer, else -1.
    """

    messages: bytearray
    messages_count: int
    producer_id: int
    epoch: int
    sequence: int


def read_batch(records: memoryview | None, convention: Convention = "headstream") -> ClientBatch:
    """Return the messages of a client's batch, decoded with the topic's header convention; a request has one batch per partition.

    Raises:
        DecodeError: the bytes are not a batch or do not match the checksum.
        ProtocolError: the batch is unsupported, or not allowed for clients.
        LimitError, HeaderError: the log rejects the messages.
    """
    if records is None or len(records) < HEAD_BYTES:
        raise DecodeError("a record batch is cut short", 0, HEAD_BYTES, 0 if records is None else len(records))
    _, length, _, magic, check, attributes, delta, base_ms, _, producer_id, epoch, sequence, count = _HEAD.unpack_from(records)
    if magic != 2:
        raise ProtocolError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"record batches must have format 2, not {magic}")
    if length != len(records) - _LENGTH_END:
        if _LENGTH_END <= length < len(records) - _LENGTH_END:
            raise ProtocolError(ErrorCode.INVALID_RECORD, "a partition accepts one record batch per request")
        raise DecodeError("the length of a record batch does not match its header", 8, length, len(records) - _LENGTH_END)
    if crc32c(records[_CHECKED_AT:]) != check:
        raise DecodeError("a record batch does not match its checksum", 17)
    if attributes & (_TRANSACTIONAL | _CONTROL):
        raise ProtocolError(ErrorCode.INVALID_RECORD, "transactions are not supported")
    if count < 1 or delta != count - 1:
        raise ProtocolError(ErrorCode.INVALID_RECORD, f"the batch has {count} records, but its last offset delta is {delta}")
    codec, packed = attributes & _CODEC, records[HEAD_BYTES:]
    plain = decompress(codec, packed, bound_decompressed(codec, packed, MAX_BATCH_BYTES))
    try:
        messages = decode_records(
            plain,
            count,
            None if attributes & _LOG_TIME else base_ms,
            partial(_decode_rare_record, convention=convention),
            MAX_BATCH_BYTES,
            is_typed=convention == "headstream",
        )
    except DecodeError as error:
        raise ProtocolError(ErrorCode.INVALID_RECORD, str(error)) from None
    return ClientBatch(messages, count, producer_id, epoch, sequence)


def make_batch(
    chunks: Sequence[BytesLike], base_offset: int, last_offset: int, topic: str = "", convention: Convention = "headstream"
) -> bytearray:
    """Return a batch for clients.

    Args:
        chunks: Stored messages. If empty, the batch has no records and only moves a client past the offsets.
        base_offset: The offset of the first message, or a smaller offset.
        last_offset: The offset of the last message, or a greater offset; less than 2^31 after base_offset.
    """
    write = partial(_encode_rare_message, topic=topic, convention=convention)
    return encode_batch(chunks, base_offset, last_offset, LEADER_EPOCH, write, is_typed=convention == "headstream")


# -- rare records ---------------------------------------------------------------------------------------------


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] > 127:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    value |= data[at] << shift
    return value >> 1 ^ -(value & 1), at + 1


def _bytes(data: memoryview, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (bytes(data[at : at + size]), at + size)


def _decode_rare_record(record: memoryview, base_ms: int | None, convention: Convention = "headstream") -> bytes:
    """Return the sent message for a checked record (without length)."""
    delta, at = _varint(record, 1)
    _, at = _varint(record, at)
    key, at = _bytes(record, at)
    value, at = _bytes(record, at)
    count, at = _varint(record, at)
    headers: list[KafkaHeader] = []
    for _ in range(count):
        name, at = _bytes(record, at)
        data, at = _bytes(record, at)
        try:
            headers.append(((name or b"").decode(), data))
        except UnicodeDecodeError:
            raise HeaderError("a header's key is not UTF-8", where=repr(name)) from None
    time_ms = None if base_ms is None or base_ms + delta == _NO_TIME_MS else base_ms + delta
    message = decode_record(
        KafkaRecord(value=value, key=key, headers=tuple(headers), timestamp_ms=time_ms), convention=convention
    )
    if message.state != MessageState.AVAILABLE:
        raise HeaderError("a new message must have the state available", where=STATE_HEADER, advice="Set the state afterwards")
    pairs = list(message.headers.items())
    reserved = next((name for name, _ in pairs if name in _OWN), None)
    if reserved is not None:
        raise HeaderError(f"the header {reserved!r} is reserved", advice="Add a key to the record, or set its value to null")
    has_time = any(name == TIMESTAMP_HEADER and value.kind == HeaderKind.INT64 for name, value in pairs)
    if time_ms is not None and not has_time:
        pairs.insert(0, (TIMESTAMP_HEADER, int64(1000 * time_ms)))
    return encode_sent([Message(payload=value, key=key, headers=Headers(pairs), id=message.id)])


def _encode_varint(number: int) -> bytes:
    value, spelled = (number << 1) ^ (number >> 63), bytearray()
    while value > 127:
        spelled.append(value & 127 | 128)
        value >>= 7
    spelled.append(value)
    return bytes(spelled)


def _encode_bytes(data: bytes | None) -> bytes:
    return b"\x01" if data is None else _encode_varint(len(data)) + data


def _encode_rare_message(
    stored: memoryview, base_ms: int | None, base_offset: int, topic: str = "", convention: Convention = "headstream"
) -> tuple[bytes, int]:
    """Return the record (with length) for a stored message, and the message's time in milliseconds."""
    message = next(iter(decode_polled(stored)))
    pairs = list(message.headers.items())
    times = [value.value for name, value in pairs if name == TIMESTAMP_HEADER and value.kind == HeaderKind.INT64]
    time_us = next((time for time in times if isinstance(time, int) and time // 1000 != _NO_TIME_MS), message.timestamp or 0)
    if pairs and pairs[0][0] == TIMESTAMP_HEADER and pairs[0][1].kind == HeaderKind.INT64 and pairs[0][1].value == time_us:
        pairs = pairs[1:] if time_us % 1000 == 0 else pairs
    kept = Message(payload=None, headers=Headers(pairs), id=message.id, topic=topic or None, timestamp=time_us)
    headers, refusal = encode_any(kept, convention)
    if refusal is not None:
        _log_once(topic, convention, str(refusal))
    time_ms = time_us // 1000
    delta = 0 if base_ms is None else time_ms - base_ms
    offset_delta = (message.offset or 0) - base_offset
    parts = [
        b"\0",
        _encode_varint(delta),
        _encode_varint(offset_delta),
        _encode_bytes(message.key),
        _encode_bytes(message.payload),
    ]
    parts.append(_encode_varint(len(headers)))
    for name, data in headers:
        parts += [_encode_bytes(name.encode()), _encode_bytes(data)]
    body = b"".join(parts)
    return _encode_varint(len(body)) + body, time_ms


@lru_cache(maxsize=1000)
def _log_once(topic: str, convention: str, refusal: str) -> None:
    _log.warning(
        "%s: the convention %s cannot represent the headers of a message; consumers receive them as strings with hs.kinds: %s",
        topic, convention, refusal,
    )  # fmt: skip
