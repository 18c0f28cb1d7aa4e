"""Converts messages to KIP-82 messages and back. Fields that KIP-82 does not have become the first headers, with reserved names.

    hs.id raw 16 bytes | hs.state int16 | hs.appended int64 | hs.checksum int64     in this order, if needed

hs.appended is the log's time in microseconds, if the time is not a full millisecond. hs.checksum is a checksum that does not
match the payload. In other positions, headers with these names are ordinary headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headstream.core.codec.kip82.headers import STRICT
from headstream.core.codec.kip82.message import Kip82Message
from headstream.core.model.constructors import int16, int64, raw
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState
from headstream.core.model.reserved import APPENDED_HEADER, CHECKSUM_HEADER, ID_HEADER, RESERVED_PREFIX, STATE_HEADER
from headstream.errors import DecodeError, HeaderError

_Read: TypeAlias = Callable[[Any, Kip82Message], int | None]

_RESERVED_FIELDS: Final[tuple[tuple[str, HeaderKind, str, _Read], ...]] = (
    (ID_HEADER, HeaderKind.RAW, "id", lambda value, _: int.from_bytes(value, "little") if len(value) == 16 else None),
    (STATE_HEADER, HeaderKind.INT16, "state", lambda value, _: value if 0 <= value < 256 else None),
    (APPENDED_HEADER, HeaderKind.INT64, "timestamp", lambda value, at: value if value // 1000 == at.timestamp_ms else None),
    (CHECKSUM_HEADER, HeaderKind.INT64, "checksum", lambda value, _: value if 0 <= value < 1 << 32 else None),
)
"""Header name, kind, Message attribute and value decoder (returns None for an invalid value), in order."""


def from_message(message: Message) -> Kip82Message:
    """Convert a message to a KIP-82 message; only topic and partition are lost.

    Args:
        message: The message to convert. A missing offset becomes 0; a missing timestamp becomes -1.

    Raises:
        HeaderError: the message's first header is reserved and would be decoded as a field.
    """
    timestamp = message.timestamp
    reserved: list[tuple[str, HeaderValue]] = []
    if message.id:
        reserved.append((ID_HEADER, raw(message.id.to_bytes(16, "little"))))
    if message.state != MessageState.AVAILABLE:
        reserved.append((STATE_HEADER, int16(int(message.state))))
    if timestamp is not None and timestamp % 1000:
        reserved.append((APPENDED_HEADER, int64(timestamp)))
    if not message.verify():
        reserved.append((CHECKSUM_HEADER, int64(message.checksum)))
    headers = message.headers
    if headers:
        name, value = headers.items()[0]
        if any(name == other and value.kind == kind for other, kind, _, _ in _RESERVED_FIELDS):
            raise HeaderError(f"the header {name!r} is reserved as the first header", advice="Rename the header")
    if reserved:
        headers = Headers([*reserved, *headers.items()])
    return Kip82Message(
        value=message.payload,
        key=message.key,
        headers=headers,
        offset=message.offset or 0,
        timestamp_ms=-1 if timestamp is None else timestamp // 1000,
        by_log=timestamp is not None,
    )


def to_message(message: Kip82Message, *, topic: str | None = None, partition: int | None = None) -> Message:
    """Convert a KIP-82 message to a Headstream message; headers are not decoded unless the first header is reserved."""
    headers, members = message.headers, dict[str, Any]()
    if message.timestamp_ms is not None and message.timestamp_ms >= 0:
        members["timestamp"] = message.timestamp_ms * 1000
    if _can_have_reserved(headers):
        headers, reserved = _take_reserved(message)
        members |= reserved
    return Message(
        payload=message.value,
        headers=headers,
        key=message.key,
        offset=message.offset,
        topic=topic,
        partition=partition,
        **members,
    )


def _can_have_reserved(headers: Headers) -> bool:
    """Return whether the first header may be reserved, without decoding a block."""
    block = headers.received_bytes(STRICT)
    if block is not None:
        return block[4 : 4 + len(RESERVED_PREFIX)] == RESERVED_PREFIX.encode()
    return bool(headers)


def _take_reserved(message: Kip82Message) -> tuple[Headers, dict[str, Any]]:
    members = dict[str, Any]()
    try:
        pairs = message.headers.items()
    except DecodeError:
        return message.headers, members  # reading the headers raises the error
    taken = 0
    for name, kind, attribute, read in _RESERVED_FIELDS:
        if taken < len(pairs) and pairs[taken][0] == name and pairs[taken][1].kind == kind:
            value = read(pairs[taken][1].value, message)
            if value is None:
                break
            members[attribute] = value
            taken += 1
    return (Headers(pairs[taken:]) if taken else message.headers), members
