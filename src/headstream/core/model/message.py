"""Message: one message as a value, with its state and checksum."""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headstream.core.model.headers import NO_HEADERS, Headers
from headstream.errors import InvalidInputError

MAX_REASON_BYTES: Final = 1000
MAX_AUTHOR_BYTES: Final = 255
MAX_STATE_OFFSETS: Final = 10_000
"""Limits per state change: bytes of the reason and of the author's name, and number of messages, which are synced together."""
_MAX_ID: Final = (1 << 128) - 1


class MessageState(enum.IntEnum):
    """The state of a stored message, with Iggy's codes.

    A code unknown to this version, from 0 to 255, is a member with a generated name: `MessageState(99).name` is "unknown(99)".
    Iteration over MessageState does not include such members.
    """

    AVAILABLE = 1
    UNAVAILABLE = 10
    POISONED = 20
    MARKED_FOR_DELETION = 30

    @classmethod
    def _missing_(cls, value: object) -> MessageState | None:
        if not isinstance(value, int) or not 0 <= value <= 255:
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"unknown({value})", value
        # Cached like the pseudo-members of enum.Flag, so that the same code is the same object.
        return cls._value2member_map_.setdefault(value, unknown)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a stored message's state (1 to 255); the time is in microseconds since 1970 UTC."""

    offset: int
    state: int
    reason: str
    by: str
    changed_us: int


def state_name(state: int) -> str:
    """Return a state's name: `available`, ..., or `unknown(n)`."""
    return MessageState(state).name.lower() if 0 <= state <= 255 else f"unknown({state})"


def parse_state(name: str) -> MessageState:
    """Return the state with a name (case-insensitive; `unknown(n)` is accepted); InvalidInputError if there is no such state."""
    text = name.strip().lower()
    if text.startswith("unknown(") and text.endswith(")") and text[8:-1].isdecimal() and int(text[8:-1]) < 256:
        return MessageState(int(text[8:-1]))
    try:
        return MessageState[text.upper()]
    except KeyError:
        names = ", ".join(state.name.lower() for state in MessageState)
        raise InvalidInputError(f"{name!r} is not a message state", advice=f"Use one of {names}") from None


def checksum(payload: bytes) -> int:
    """Return a payload's CRC-32 (IEEE, as in zlib), the checksum of its message.

    Args:
        payload: The payload's bytes, as stored.
    """
    return zlib.crc32(payload)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """One message.

    Args:
        payload: The bytes; None is a null payload (a tombstone), which differs from b"".
        headers: Typed headers, in any form that Headers() accepts.
        key: The bytes that determine the partition and identify the message for compaction, or None.
        id: Unsigned 128-bit number; if it is 0, the log generates an id.
        offset: Offset in the partition, from 0; None before the message is stored.
        timestamp: Time of the append, microseconds since 1970 UTC; None before the message is stored.
        state: A MessageState, or its code from 0 to 255.
        checksum: CRC-32 of the payload; computed by default.
        topic: `stream/topic` from which the message was read; not part of equality.
        partition: Number of the partition from which the message was read; not part of equality.

    Raises:
        InvalidInputError: a number is out of range.
    """

    payload: bytes | None
    headers: Headers = NO_HEADERS
    key: bytes | None = None
    id: int = 0
    offset: int | None = None
    timestamp: int | None = None
    state: MessageState = MessageState.AVAILABLE
    checksum: int = -1
    topic: str | None = field(default=None, compare=False)
    partition: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.payload, (bytes, type(None))) or not isinstance(self.key, (bytes, type(None))):
            raise InvalidInputError(
                f"payload and key must be bytes or None, not {type(self.payload).__name__} and {type(self.key).__name__}",
                advice='Encode text, as in "text".encode()',
            )
        if not isinstance(self.id, int) or not 0 <= self.id <= _MAX_ID:
            raise InvalidInputError(f"message id {self.id!r} is not an unsigned 128-bit number")
        if not isinstance(self.headers, Headers):
            object.__setattr__(self, "headers", Headers(self.headers).as_read_only())
        elif not self.headers.read_only:  # later changes of the sender's headers must not change this message
            object.__setattr__(self, "headers", self.headers.as_read_only())
        if self.checksum == -1:
            object.__setattr__(self, "checksum", zlib.crc32(self.payload or b""))
        if not isinstance(self.state, MessageState):
            if not isinstance(self.state, int) or not 0 <= self.state <= 255:
                raise InvalidInputError(f"a state must be a number from 0 to 255, not {self.state}")
            object.__setattr__(self, "state", MessageState(self.state))

    def verify(self) -> bool:
        """Return whether the checksum matches the payload."""
        return self.checksum == zlib.crc32(self.payload or b"")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in _COMPARED))


_COMPARED: Final = ("payload", "headers", "key", "id", "offset", "timestamp", "state", "checksum")
"""The fields that determine whether two messages are equal: all except the origin and the class."""


class ReceivedMessage(Message):
    """A message that was read from a log: its topic, partition, offset and timestamp are known."""

    __slots__ = ("_attempt",)
    if TYPE_CHECKING:
        offset: int
        timestamp: int
        topic: str
        partition: int
        _attempt: int

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1. Always 1 for a consumer without `on_error`, and in copies of the message."""
        try:
            return self._attempt
        except AttributeError:
            return 1


def set_attempt(message: ReceivedMessage, attempt: int) -> None:
    """Set the number of the attempt when a message is delivered."""
    _put_attempt(message, attempt)


_put_attempt: Final[Any] = ReceivedMessage.__dict__["_attempt"].__set__
_STATES: Final = tuple(MessageState(code) for code in range(256))


def stored_message(
    payload: bytes | None,
    headers: Headers,
    key: bytes | None,
    id: int,
    offset: int,
    timestamp: int,
    state: int,
    checksum: int,
    place: tuple[str | None, int | None],
) -> ReceivedMessage:
    """Return a ReceivedMessage from fields read from a log; they are known to be valid and are not checked.

    If `checksum` is -1, it is computed. `place` is `stream/topic` and the partition.
    """
    message: ReceivedMessage = _new(ReceivedMessage)
    _set_payload(message, payload)
    _set_headers(message, headers)
    _set_key(message, key)
    _set_id(message, id)
    _set_offset(message, offset)
    _set_timestamp(message, timestamp)
    _set_state(message, _STATES[state])
    _set_checksum(message, zlib.crc32(payload or b"") if checksum == -1 else checksum)
    _set_topic(message, place[0])
    _set_partition(message, place[1])
    return message


_new: Final[Any] = Message.__new__
_FIELDS: Final[dict[str, Any]] = {name: Message.__dict__[name].__set__ for name in Message.__slots__}
_set_payload, _set_headers, _set_key = _FIELDS["payload"], _FIELDS["headers"], _FIELDS["key"]
_set_id, _set_offset, _set_timestamp = _FIELDS["id"], _FIELDS["offset"], _FIELDS["timestamp"]
_set_state, _set_checksum = _FIELDS["state"], _FIELDS["checksum"]
_set_topic, _set_partition = _FIELDS["topic"], _FIELDS["partition"]
