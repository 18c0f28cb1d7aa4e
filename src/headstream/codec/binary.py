"""Message values to and from the bytes of the binary transport, little-endian.

    sent     id u128 | headers_length u32 | headers | payload_length u32 | payload
    polled   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
             | headers_length u32 | headers | payload_length u32 | payload
    headers  (key_length u32 | key | kind u8 | value_length u32 | value)*

The dialect `binary-first` is the format before state and checksum were added to a polled message:

    polled   offset u64 | timestamp u64 | id u128 | headers_length u32 | headers | payload_length u32 | payload

What the format has no field for travels as a reserved header: a message's key as `hs.key` (raw), always the
first; a null payload as `hs.null` (bool, true), after the key or else the first, with no bytes of payload.
Only in these places do they stand for key and null; elsewhere they are headers like any other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from headstream.codec.buffer import BytesLike, Reader
from headstream.errors import DecodeError, HeaderError, InvalidInputError
from headstream.model.header_values import HeaderKind, HeaderValue
from headstream.model.headers import MAX_KEY_BYTES, Headers
from headstream.model.message import Message, MessageState

__all__ = [
    "KEY_HEADER",
    "NULL_HEADER",
    "Dialect",
    "decode_headers",
    "decode_polled",
    "decode_sent",
    "encode_headers",
    "encode_polled",
    "encode_sent",
]

Dialect: TypeAlias = Literal["binary", "binary-first"]
"""How a polled message is spelled: with state and checksum, or as before they were added."""

KEY_HEADER: Final = "hs.key"
NULL_HEADER: Final = "hs.null"

_SENT_HEAD: Final = struct.Struct("<16sI")
_POLLED_HEAD: Final = struct.Struct("<QBQ16sII")
_FIRST_HEAD: Final = struct.Struct("<QQ16sI")
_HEADER_END: Final = struct.Struct("<BI")
_NULL: Final = HeaderValue(HeaderKind.BOOL, b"\x01")
_NO_HEADERS: Final = Headers()

_Known: TypeAlias = dict[bytes, tuple[str, HeaderValue]]
"""Headers by their bytes: the messages of one call share those that are equal, which a stream has many of."""


def encode_headers(headers: Headers) -> bytes:
    """Return a header block, without its length.

    Args:
        headers: The headers; order and repeats are kept.
    """
    parts: list[bytes] = []
    for key, value in headers.items():
        name = key.encode("utf-8")
        parts += (len(name).to_bytes(4, "little"), name, _HEADER_END.pack(value.kind, len(value.data)), value.data)
    return b"".join(parts)


def decode_headers(data: BytesLike, at: int = 0) -> Headers:
    """Return the headers of a block, reserved ones included; kinds this version does not know keep their bytes.

    Args:
        data: Bytes that end with the block.
        at: The byte position where the block begins.

    Raises:
        DecodeError: the bytes are not a header block.
    """
    reader = Reader(data, at)
    return Headers(_decode_pairs(reader.pull_bytes(reader.remaining, "a header block"), at, {}))


def encode_sent(messages: Iterable[Message]) -> bytes:
    """Return messages as a client sends them.

    Args:
        messages: Their id, key, headers and payload are written.

    Raises:
        HeaderError: a message's first header would be read back as its key or its null payload.
    """
    parts: list[bytes] = []
    for message in messages:
        parts.append(message.id.to_bytes(16, "little"))
        parts += _body(message)
    return b"".join(parts)


def decode_sent(data: BytesLike) -> list[Message]:
    """Return the messages that a client sent.

    Args:
        data: Sent messages, back to back.

    Raises:
        DecodeError: the bytes are not sent messages.
    """
    reader, known = Reader(data), _Known()
    messages = []
    while reader.remaining:
        message_id, headers_size = reader.pull_struct(_SENT_HEAD, "a sent message")
        key, headers, payload = _pull_body(reader, headers_size, known)
        messages.append(Message(payload=payload, headers=headers, key=key, id=int.from_bytes(message_id, "little")))
    return messages


def encode_polled(messages: Iterable[Message], *, dialect: Dialect = "binary") -> bytes:
    """Return messages as a log stores and delivers them.

    Args:
        messages: Messages that have an offset and a timestamp; the checksum is written as it is.
        dialect: `binary`, or `binary-first`, which has no room for a state or a checksum.

    Raises:
        InvalidInputError: a message has no offset or timestamp, or one out of range, or the dialect cannot hold its state.
        HeaderError: a message's first header would be read back as its key or its null payload.
    """
    parts: list[bytes] = []
    for message in messages:
        offset, timestamp = message.offset, message.timestamp
        if offset is None or timestamp is None:
            raise InvalidInputError("a message without offset and timestamp was not polled", advice="Use encode_sent()")
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
            raise InvalidInputError(f"the dialect binary-first has no room for the state of the message at offset {offset}")
        parts.append(head[:-4])
        parts += body
    return b"".join(parts)


def decode_polled(
    data: BytesLike, *, topic: str | None = None, partition: int | None = None, dialect: Dialect = "binary"
) -> list[Message]:
    """Return stored or polled messages.

    Args:
        data: Messages, back to back.
        topic: `stream/topic`, given to every message.
        partition: Given to every message.
        dialect: `binary`, or `binary-first`, where every message is available and its checksum is computed.

    Raises:
        DecodeError: the bytes are not polled messages.
    """
    reader, known = Reader(data), _Known()
    messages = []
    while reader.remaining:
        if dialect == "binary":
            offset, state, timestamp, message_id, checksum, size = reader.pull_struct(_POLLED_HEAD, "a polled message")
        else:
            offset, timestamp, message_id, size = reader.pull_struct(_FIRST_HEAD, "a polled message")
            state, checksum = MessageState.AVAILABLE, -1
        key, headers, payload = _pull_body(reader, size, known)
        message = Message(
            payload=payload,
            headers=headers,
            key=key,
            id=int.from_bytes(message_id, "little"),
            offset=offset,
            timestamp=timestamp,
            state=state,
            checksum=checksum,
            topic=topic,
            partition=partition,
        )
        messages.append(message)
    return messages


def _body(message: Message) -> tuple[bytes, bytes, bytes, bytes]:
    """Return headers_length, headers, payload_length and payload."""
    payload = b"" if message.payload is None else message.payload
    block = encode_headers(message.headers) if message.headers else b""
    if message.key is not None or message.payload is None:
        reserved: list[tuple[str, HeaderValue]] = []
        if message.key is not None:
            reserved.append((KEY_HEADER, HeaderValue(HeaderKind.RAW, message.key)))
        if message.payload is None:
            reserved.append((NULL_HEADER, _NULL))
        block = encode_headers(Headers(reserved)) + block
    if message.headers and message.payload is not None:
        _check_reserved(message)
    return len(block).to_bytes(4, "little"), block, len(payload).to_bytes(4, "little"), payload


def _check_reserved(message: Message) -> None:
    """Refuse ordinary headers that stand where a key or a null payload would."""
    name, value = message.headers.items()[0]
    if name == KEY_HEADER and message.key is None and value.kind == HeaderKind.RAW:
        raise HeaderError(f"the header {KEY_HEADER!r} in the first place is the message's key", advice="Give it as key")
    if not message.payload and _is_null(name, value):
        raise HeaderError(
            f"the header {NULL_HEADER!r} in the first place makes an empty payload null", advice="Give None as the payload"
        )


def _is_null(name: str, value: HeaderValue) -> bool:
    return name == NULL_HEADER and value.kind == HeaderKind.BOOL and value.data == b"\x01"


def _pull_body(reader: Reader, headers_size: int, known: _Known) -> tuple[bytes | None, Headers, bytes | None]:
    """Return key, headers and payload."""
    pairs: list[tuple[str, HeaderValue]] = []
    if headers_size:
        at = reader.at
        block = reader.pull_bytes(headers_size, "the headers of a message")
        pairs = _decode_pairs(block, at, known)
    payload: bytes | None = reader.pull_bytes(reader.pull_u32("the payload's length"), "the payload of a message")
    if not pairs:
        return None, _NO_HEADERS, payload
    key = None
    if pairs[0][0] == KEY_HEADER and pairs[0][1].kind == HeaderKind.RAW:
        key = pairs.pop(0)[1].data
    if not payload and pairs and _is_null(*pairs[0]):
        payload = None
        del pairs[0]
    return key, Headers(pairs), payload


def _decode_pairs(block: bytes, at: int, known: _Known) -> list[tuple[str, HeaderValue]]:
    """Return the headers of a block that begins at byte `at` of the input; `known` are headers decoded before."""
    pairs = []
    begin, end = 0, len(block)
    while begin < end:
        if end - begin < 4:
            raise DecodeError("a header is cut short", at + begin, 4, end - begin)
        key_end = begin + 4 + int.from_bytes(block[begin : begin + 4], "little")
        if key_end + 5 > end:
            raise DecodeError("the key of a header is cut short", at + begin + 4, key_end + 1 - begin, end - begin - 4)
        value_end = key_end + 5 + int.from_bytes(block[key_end + 1 : key_end + 5], "little")
        if value_end > end:
            raise DecodeError("the value of a header is cut short", at + key_end + 5, value_end - key_end - 5, end - key_end - 5)
        piece = block[begin:value_end]
        pair = known.get(piece)
        if pair is None:
            pair = known[piece] = _decode_pair(piece, key_end - begin, at + begin)
        pairs.append(pair)
        begin = value_end
    return pairs


def _decode_pair(piece: bytes, key_end: int, at: int) -> tuple[str, HeaderValue]:
    """Return one header; its lengths fit."""
    if not 1 <= key_end - 4 <= MAX_KEY_BYTES:
        raise DecodeError(f"the key of a header has 1 to {MAX_KEY_BYTES} bytes, this one has {key_end - 4}", at)
    try:
        key = piece[4:key_end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("the key of a header is not UTF-8", at + 4 + error.start) from None
    try:
        return key, HeaderValue(piece[key_end], piece[key_end + 5 :])
    except HeaderError as error:
        raise DecodeError(error.what, at + key_end + 5, where=f"header {key!r}") from None
