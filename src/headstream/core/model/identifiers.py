"""Names and numbers of streams and topics, and message ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headstream.errors import InvalidInputError

MAX_NAME_BYTES: Final = 255
"""Maximum size of a name, bytes: the length is encoded in one byte."""

_MAX_ID: Final = (1 << 32) - 1
"""Maximum id of a stream or topic: ids are encoded as unsigned 32-bit numbers."""
_ID_DIGITS: Final = len(str(_MAX_ID))

_NAMED_BY_CLIENTS: Final = frozenset({"consumer", "group"})
"""Kinds of names in which existing clients use any characters."""


def check_name(name: str, noun: str) -> str:
    """Return the name of a stream, topic or group if valid.

    Args:
        name: 1 to 255 bytes of UTF-8.
        noun: The kind of the named object. A stream's name must not contain a dot or slash. The name of a consumer or group can
            contain NUL.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"a {noun} name must be a str, not {type(name).__name__}")
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_NAME_BYTES:
        raise InvalidInputError(f"a {noun} name must have 1 to {MAX_NAME_BYTES} bytes, not {size}", where=repr(name[:40]))
    has_nul = "\x00" in name and noun not in _NAMED_BY_CLIENTS
    if has_nul or any("\ud800" <= character <= "\udfff" for character in name):
        raise InvalidInputError(f"a {noun} name must not contain NUL or a lone surrogate", where=repr(name))
    if noun == "stream" and ("/" in name or "." in name):
        raise InvalidInputError(
            "a stream name must not contain a dot or a slash", where=repr(name), advice="Topics are written stream/topic"
        )
    return name


def has_control_character(name: str) -> bool:
    """Return whether a name has a control character, U+0000 to U+001F or U+007F to U+009F."""
    return any(character < " " or "\x7f" <= character <= "\x9f" for character in name)


def check_new_name(name: str, noun: str) -> str:
    """Return the name of a new stream or topic; unlike check_name(), reject control characters."""
    check_name(name, noun)
    if has_control_character(name):
        raise InvalidInputError(f"a new {noun} name must not contain control characters", where=repr(name))
    return name


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """`stream/topic`: the full name of a topic."""

    stream: str
    topic: str

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Parse `stream/topic`; the first slash is the separator."""
        stream, slash, topic = text.partition("/")
        if not slash:
            raise InvalidInputError(f"{text!r} is not a topic", advice="Write stream/topic, as in shop/orders")
        return cls(check_name(stream, "stream"), check_name(topic, "topic"))

    def __str__(self) -> str:
        return f"{self.stream}/{self.topic}"


def parse_number(text: str) -> int | None:
    """Parse a stream or topic id (1 to 4294967295, no leading zeros); None if the string is not an id."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _ID_DIGITS) or text.startswith("0"):
        return None
    return int(text) if int(text) <= _MAX_ID else None


def format_message_id(message_id: int) -> str:
    """Format a message id as a UUID, whose bytes are the id in little-endian order."""
    import uuid  # this import takes a twentieth of the time of `import headstream`

    return str(uuid.UUID(bytes=message_id.to_bytes(16, "little")))


def parse_message_id(text: str) -> int:
    """Parse a message id, a UUID or a decimal number, to a number; InvalidInputError if it is neither."""
    import uuid

    if text.isdecimal() and int(text) < 1 << 128:
        return int(text)
    try:
        return int.from_bytes(uuid.UUID(text).bytes, "little")
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a message id", advice="Write a UUID or a decimal number") from None
