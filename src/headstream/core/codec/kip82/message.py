"""One message of KIP-82, and of the older formats, big-endian.

    offset i64 | message_size i32 | crc u32 | magic i8 | attributes i8 | [timestamp i64] | key_length i32 | key
    | [headers_length i32 | headers] | value_length i32 | value

    message_size   size of the bytes from crc on
    crc            CRC-32 (IEEE, as in zlib) of the bytes from magic to the end of value, including headers
    magic          0: no timestamp, no headers; 1: no headers; 2: KIP-82
    attributes     bits 0-2 compression (0 none, 1 gzip, 2 snappy, 3 lz4); bit 3 (0x08), from magic 1, the source of the
                   timestamp (0 the sender, 1 the log); bit 4 (0x10), magic 2, headers_length and headers are present
    timestamp      milliseconds since 1970 UTC; -1 if there is none
    lengths        -1 means null, for key and value

Kafka's later record batches also have magic 2 at this position; their checksum, a CRC-32C, distinguishes them. This format was
only proposed: no Kafka broker accepts it.

Fields of a Message that the format does not have are written as reserved headers at the beginning (core/model/reserved.py).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

from headstream.core.codec.batch import layout
from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.buffer import BytesLike, Reader
from headstream.core.codec.kip82.headers import STRICT, TypedHeaders
from headstream.core.model.headers import Headers
from headstream.errors import DecodeError, InvalidInputError

HEADERS_BIT: Final = 0x10
_COMPRESSION_BITS: Final = 0x07
_LOG_TIME_BIT: Final = 0x08
_HEAD: Final = struct.Struct(">qiIbB")
_MIN_SIZE: Final = {0: 14, 1: 22, 2: 22}
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kip82Message:
    """One message of the format.

    Args:
        timestamp_ms: Milliseconds since 1970 UTC; -1 if there is no timestamp; None in magic 0, which has no such field.
        magic: 0, 1 or 2.
        compression: 0 none, 1 gzip, 2 snappy, 3 lz4. The value of a compressed message is a message set.
        by_log: Whether the log, not the sender, set the timestamp.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=Headers)
    offset: int = 0
    timestamp_ms: int | None = -1
    magic: int = 2
    compression: int = 0
    by_log: bool = False
    received: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The bytes from which the message was decoded; None in a copy with other fields."""

    def __post_init__(self) -> None:
        if self.magic not in _MIN_SIZE:
            raise InvalidInputError(f"the magic must be 0, 1 or 2, not {self.magic}")
        if (self.timestamp_ms is None) != (self.magic == 0):
            raise InvalidInputError(
                "messages of magic 0 must not have a timestamp; magic 1 and 2 require one", advice="Pass None, or -1 if unknown"
            )
        if self.headers and self.magic != 2:
            raise InvalidInputError(
                f"magic {self.magic} cannot have headers", advice="Use down_convert(), which returns the dropped parts"
            )


def encode_message(message: Kip82Message, layout: TypedHeaders = STRICT) -> bytes:
    """Encode a message; for a decoded message, return the bytes from which it was decoded."""
    if message.received is not None:
        return message.received
    attributes = message.compression | (_LOG_TIME_BIT if message.by_log and message.magic else 0)
    parts: list[bytes] = []
    try:
        if message.timestamp_ms is not None:
            parts.append(_I64.pack(message.timestamp_ms))
        parts += _nullable(message.key)
        if message.headers:
            attributes |= HEADERS_BIT
            block = message.headers.as_bytes(layout)
            parts += (_I32.pack(len(block)), block)
        parts += _nullable(message.value)
        body = b"".join((struct.pack(">bB", message.magic, attributes), *parts))
        return struct.pack(">qiI", message.offset, len(body) + 4, zlib.crc32(body)) + body
    except struct.error:
        raise InvalidInputError(
            f"offset {message.offset}, timestamp {message.timestamp_ms} or a length is out of range"
        ) from None


def _nullable(data: bytes | None) -> tuple[bytes, ...]:
    return (_I32.pack(-1),) if data is None else (_I32.pack(len(data)), data)


def decode_message(data: BytesLike, at: int = 0, *, layout: TypedHeaders = STRICT) -> tuple[Kip82Message, int]:
    """Decode the message at a byte position, and return it with its end position.

    Lengths and the checksum are checked immediately; headers are checked when they are read. `lenient` ignores unknown bits of
    attributes.
    """
    reader = Reader(data, at)
    offset, size, crc, magic, attributes = reader.pull_struct(_HEAD, "a message header")
    if magic not in _MIN_SIZE:
        raise DecodeError(f"magic {magic} is not 0, 1 or 2", at + 16)
    if size < _MIN_SIZE[magic]:
        raise DecodeError(f"a message of magic {magic} must have a size of {_MIN_SIZE[magic]} or more, not {size}", at + 8)
    end = at + 12 + size
    if end > reader.end:
        raise DecodeError("a message is cut short", at + 12, size, reader.end - at - 12)
    reader = Reader(data, at + 18, end)
    received = bytes(memoryview(data)[at:end])
    _check_crc(received, crc, at)
    known = _COMPRESSION_BITS | (_LOG_TIME_BIT if magic else 0) | (HEADERS_BIT if magic == 2 else 0)
    if attributes & ~known and layout.strict:
        raise DecodeError(f"attributes {attributes:#04x} have bits that are undefined in magic {magic}", at + 17)
    timestamp = reader.pull_struct(_I64, "the timestamp")[0] if magic else None
    key = _pull_nullable(reader, "the key")
    headers = Headers()
    if magic == 2 and attributes & HEADERS_BIT:
        block_at = reader.at
        length = reader.pull_struct(_I32, "the length of the headers")[0]
        if length < 0:
            raise DecodeError(f"the headers have the invalid length {length}", block_at)
        headers = Headers.from_bytes(reader.pull_bytes(length, "the headers"), layout, at=block_at + 4)
    value = _pull_nullable(reader, "the value")
    reader.pull_end("a message value")
    message = Kip82Message(
        value=value,
        key=key,
        headers=headers,
        offset=offset,
        timestamp_ms=timestamp,
        magic=magic,
        compression=attributes & _COMPRESSION_BITS,
        by_log=bool(magic and attributes & _LOG_TIME_BIT),
    )
    _set_received(message, received)
    return message, end


_set_received: Final[Any] = Kip82Message.__dict__["received"].__set__


def _check_crc(received: bytes, crc: int, at: int) -> None:
    actual = zlib.crc32(memoryview(received)[16:])
    if actual == crc:
        return
    if (
        len(received) > layout.RECORDS_HEAD
        and received[layout.RECORDS_MAGIC] == 2
        and crc32c(received[layout.RECORDS_CHECKED :])
        == int.from_bytes(received[layout.RECORDS_CHECK : layout.RECORDS_CHECKED], "big")
    ):
        raise DecodeError(
            "the bytes are a Kafka record batch, not a KIP-82 message: both have magic 2", at, advice="Use the dialect kafka"
        )
    raise DecodeError(f"the stored checksum of a message is {crc:#010x}, but its bytes have the checksum {actual:#010x}", at + 12)


def _pull_nullable(reader: Reader, what: str) -> bytes | None:
    at = reader.at
    length = reader.pull_struct(_I32, f"the length of {what}")[0]
    if length < -1:
        raise DecodeError(f"{what} has the invalid length {length}", at)
    return None if length == -1 else reader.pull_bytes(length, what)


def down_convert(message: Kip82Message, magic: int) -> tuple[Kip82Message, tuple[str, ...]]:
    """Convert an uncompressed message to magic 0 or 1, and return it with the losses."""
    if magic not in (0, 1) or magic > message.magic:
        raise InvalidInputError(f"a message of magic {message.magic} cannot be converted down to {magic}")
    if message.compression:
        raise InvalidInputError("a compressed message set cannot be converted as a whole", advice="Decode the set first")
    lost = [f"header {key!r} ({value.kind_name})" for key, value in message.headers.items()]
    timestamp = message.timestamp_ms if magic else None
    if magic == 0 and message.timestamp_ms not in (None, -1):
        lost.append(f"timestamp {message.timestamp_ms} ms")
    converted = Kip82Message(
        value=message.value,
        key=message.key,
        offset=message.offset,
        timestamp_ms=timestamp,
        magic=magic,
        by_log=bool(magic and message.by_log),
    )
    return converted, tuple(lost)
