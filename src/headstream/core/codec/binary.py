"""Converts messages to bytes of the binary transport and back; little-endian.

    sent     id u128 | headers_length u32 | headers | payload_length u32 | payload
    polled   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
             | headers_length u32 | headers | payload_length u32 | payload

The headers are a block as in core/model/header_block.py. The block is validated completely before a decoded message is returned,
but its values are decoded on access.

The dialect `binary-first` is the format before state and checksum were added to a polled message:

    polled   offset u64 | timestamp u64 | id u128 | headers_length u32 | headers | payload_length u32 | payload

Values for which the format has no field are reserved headers: a message's key is `hs.key` (raw), always first; a null payload is
`hs.null` (bool, true), directly after `hs.key` or first, with an empty payload. In any other position, headers with these names
are ordinary headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from headstream.core.codec.batch.headers import is_block
from headstream.core.codec.buffer import BytesLike, Reader
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import NO_HEADERS, Headers, undecoded_headers
from headstream.core.model.message import Message, MessageState, ReceivedMessage, stored_message
from headstream.core.model.reserved import KEY_HEADER, NULL_HEADER
from headstream.errors import HeaderError, InvalidInputError

Dialect: TypeAlias = Literal["binary", "binary-first"]
"""The format of a polled message: with or without state and checksum."""

_U32: Final = struct.Struct("<I")
_SENT_HEAD: Final = struct.Struct("<16sI")
_POLLED_HEAD: Final = struct.Struct("<QBQ16sII")
_FIRST_HEAD: Final = struct.Struct("<QQ16sI")
_NULL: Final = HeaderValue(HeaderKind.BOOL, b"\x01")
_KEY_BEGIN: Final = Headers({KEY_HEADER: b""}).as_bytes()[:-4]
"""The header hs.key up to the length of the value."""
_NULL_WHOLE: Final = Headers({NULL_HEADER: _NULL}).as_bytes()


def encode_headers(headers: Headers) -> bytes:
    """Encode a header block without its length."""
    return headers.as_bytes()


def decode_headers(data: BytesLike, at: int = 0) -> Headers:
    """Decode a header block at the end of the data, including reserved headers; values of unknown kinds keep their bytes."""
    reader = Reader(data, at)
    return _open(reader.pull_bytes(reader.remaining, "a header block"), at)


def encode_sent(messages: Iterable[Message]) -> bytes:
    """Encode messages in the sent format; HeaderError if a message's first header would be decoded as a key or null payload."""
    parts: list[bytes] = []
    for message in messages:
        parts.append(message.id.to_bytes(16, "little"))
        parts += _body(message)
    return b"".join(parts)


def decode_sent(data: BytesLike) -> list[Message]:
    """Decode messages in the sent format."""
    reader = Reader(data)
    messages = []
    while reader.remaining:
        message_id, headers_size = reader.pull_struct(_SENT_HEAD, "a sent message")
        key, headers, payload = _pull_body(reader, headers_size)
        messages.append(Message(payload=payload, headers=headers, key=key, id=int.from_bytes(message_id, "little")))
    return messages


def encode_polled(messages: Iterable[Message], *, dialect: Dialect = "binary") -> bytes:
    """Encode messages in the format of the log and of polls; the checksum is written unchanged.

    Raises:
        InvalidInputError: a message's offset or timestamp is missing or out of range, or the dialect cannot represent its state.
        HeaderError: a message's first header would be decoded as its key or as a null payload.
    """
    parts: list[bytes] = []
    for message in messages:
        offset, timestamp = message.offset, message.timestamp
        if offset is None or timestamp is None:
            raise InvalidInputError("the message has no offset or no timestamp, so it was not polled", advice="Use encode_sent()")
        message_id, state = message.id.to_bytes(16, "little"), int(message.state)
        body = _body(message)
        try:
            if dialect == "binary":
                head = _POLLED_HEAD.pack(offset, state, timestamp, message_id, message.checksum, 0)
            else:
                head = _FIRST_HEAD.pack(offset, timestamp, message_id, 0)
        except struct.error:
            raise InvalidInputError(
                f"offset {offset}, timestamp {timestamp} or checksum {message.checksum} is out of range"
            ) from None
        if dialect == "binary-first" and state != MessageState.AVAILABLE:
            raise InvalidInputError(f"the dialect binary-first cannot hold the state of the message at offset {offset}")
        parts.append(head[:-4])
        parts += body
    return b"".join(parts)


def decode_polled(
    data: BytesLike, *, topic: str | None = None, partition: int | None = None, dialect: Dialect = "binary"
) -> list[ReceivedMessage]:
    """Decode stored or polled messages; in `binary-first` every message is available, and its checksum is computed."""
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    head = _POLLED_HEAD if dialect == "binary" else _FIRST_HEAD
    messages, at, size = list[ReceivedMessage](), 0, len(view)
    place = topic, partition
    while at < size:
        block_at = at + head.size
        if block_at > size:
            Reader(data, at).pull_struct(head, "a polled message")  # raises the DecodeError
        if dialect == "binary":
            offset, state, timestamp, message_id, checksum, block_size = head.unpack_from(view, at)
        else:
            offset, timestamp, message_id, block_size = head.unpack_from(view, at)
            state, checksum = MessageState.AVAILABLE, -1
        payload_at = block_at + block_size + 4
        at = payload_at + _U32.unpack_from(view, payload_at - 4)[0] if payload_at <= size else size + 1
        if at > size:
            _pull_body(Reader(data, block_at), block_size)  # raises the DecodeError
        payload: bytes | None = bytes(view[payload_at:at])
        key, headers = None, NO_HEADERS
        if block_size:
            key, headers, payload = _take_reserved(bytes(view[block_at : payload_at - 4]), block_at, payload)
        messages.append(
            stored_message(payload, headers, key, int.from_bytes(message_id, "little"), offset, timestamp, state, checksum, place)
        )
    return messages


def _body(message: Message) -> tuple[bytes, bytes, bytes, bytes]:
    """Encode headers_length, headers, payload_length and payload."""
    payload = b"" if message.payload is None else message.payload
    block = message.headers.as_bytes() if message.headers else b""
    if block and message.payload is not None:
        _check_reserved(message, block)
    if message.payload is None:
        block = _NULL_WHOLE + block
    if message.key is not None:
        block = b"".join((_KEY_BEGIN, len(message.key).to_bytes(4, "little"), message.key, block))
    return len(block).to_bytes(4, "little"), block, len(payload).to_bytes(4, "little"), payload


def _check_reserved(message: Message, block: bytes) -> None:
    """Raise HeaderError if an ordinary header is in the position of a key or a null payload."""
    if message.key is None and block.startswith(_KEY_BEGIN):
        raise HeaderError(f"the header {KEY_HEADER!r} is reserved for the key if it is the first header", advice="Pass a key")
    if not message.payload and block.startswith(_NULL_WHOLE):
        raise HeaderError(
            f"the header {NULL_HEADER!r} must not be the first header if the payload is empty, because it means a null payload",
            advice="To send a null payload, pass None as the payload",
        )


def _pull_body(reader: Reader, headers_size: int) -> tuple[bytes | None, Headers, bytes | None]:
    at = reader.at
    block = reader.pull_bytes(headers_size, "a message's headers") if headers_size else b""
    payload = reader.pull_bytes(reader.pull_u32("the payload's length"), "a message's payload")
    return _take_reserved(block, at, payload) if block else (None, NO_HEADERS, payload)


def _take_reserved(block: bytes, at: int, payload: bytes | None) -> tuple[bytes | None, Headers, bytes | None]:
    """Return the key, headers and payload of a message whose header block begins at byte `at` of the input."""
    headers = undecoded_headers(block, at)
    if not is_block(block):
        headers.items()  # raises the DecodeError with its position
    if not block.startswith(b"hs.", 4):
        return None, headers, payload
    key, begin = None, 0
    if block.startswith(_KEY_BEGIN):
        begin = len(_KEY_BEGIN) + 4
        end = begin + int.from_bytes(block[begin - 4 : begin], "little")
        key, begin = block[begin:end], end
    if not payload and block.startswith(_NULL_WHOLE, begin):
        payload = None
        begin += len(_NULL_WHOLE)
    if begin:
        headers = undecoded_headers(block[begin:], at + begin) if begin < len(block) else NO_HEADERS
    return key, headers, payload


def _open(block: bytes, at: int) -> Headers:
    """Validate a block completely, and return its headers."""
    headers = undecoded_headers(block, at) if block else NO_HEADERS
    if not is_block(block):
        headers.items()  # raises the DecodeError with its position
    return headers
