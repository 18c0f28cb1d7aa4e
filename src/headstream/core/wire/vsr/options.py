"""Options: settings of a topic, stream or user, as a list of named values at the end of a request.

    options   (2 u8 | key_length u32 | key | kind u8 | value_length u32 | value)*

Sizes and times can be strings such as `10 GB`, `7 days`, `unlimited` or `server_default`. In JSON, options are an object of
strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headstream.core.codec.buffer import Reader
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.quantities import parse_duration_us, parse_size_bytes
from headstream.core.model.topology import Fsync
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT, Compression
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import DecodeError, HeaderError, InvalidInputError

_MAX_BYTES: Final = 100_000
_MAX_OPTIONS: Final = 1024
_KEY_KIND: Final = HeaderKind.STRING.value
_WORDS: Final = {"unlimited": NEVER, "never": NEVER, "never_expire": NEVER, "none": NEVER, "server_default": SERVER_DEFAULT}
_UNSIGNED: Final = range(HeaderKind.UINT8, HeaderKind.UINT128 + 1)


def _number(kind: int, value: bytes) -> int:
    number = int.from_bytes(value, "little") if kind in _UNSIGNED else parse_size_bytes(_text(kind, value))
    if number > NEVER:
        raise InvalidInputError(f"{number} has more than 64 bits")
    return number


def _text(kind: int, value: bytes) -> str:
    if kind != HeaderKind.STRING:
        raise InvalidInputError(f"kind {kind} is neither a string nor an unsigned number")
    return value.decode().strip().lower()


def _expiry(kind: int, value: bytes) -> dict[str, Any]:
    if kind in _UNSIGNED:
        return {"message_expiry": _number(kind, value)}
    text = _text(kind, value)
    return {"message_expiry": _WORDS[text] if text in _WORDS else parse_duration_us(text)}


def _size(kind: int, value: bytes) -> dict[str, Any]:
    text = _text(kind, value) if kind == HeaderKind.STRING else ""
    return {"max_topic_size": _WORDS[text] if text in _WORDS else _number(kind, value)}


def _compression(kind: int, value: bytes) -> dict[str, Any]:
    try:
        return {
            "compression": Compression(_number(kind, value)) if kind in _UNSIGNED else Compression[_text(kind, value).upper()]
        }
    except (KeyError, ValueError):
        raise InvalidInputError("the value must be 'none' or 'gzip'") from None


def _durability(kind: int, value: bytes) -> dict[str, Any]:
    text = _text(kind, value)
    if text not in ("replicated", "persisted"):
        raise InvalidInputError("the value must be 'replicated' or 'persisted'")
    return {"fsync": Fsync.ALWAYS if text == "persisted" else None}


def _offset_durability(kind: int, value: bytes) -> dict[str, Any]:
    if _text(kind, value) != "replicated":
        raise InvalidInputError("the value must be 'replicated': stored offsets are not synced to disk individually")
    return {}


def _count(kind: int, value: bytes) -> dict[str, Any]:
    _number(kind, value)
    return {}


def _flag(kind: int, value: bytes) -> dict[str, Any]:
    if kind != HeaderKind.BOOL and _text(kind, value) not in ("true", "false"):
        raise InvalidInputError("the value must be true or false")
    return {}


class Option(NamedTuple):
    """An option: the function that converts its value to fields of a command, and its description for clients."""

    read: Callable[[int, bytes], dict[str, Any]]
    kind: HeaderKind
    about: str
    default: bytes = b""


_UNUSED: Final = "Accepted without effect"
NO_OPTIONS: Final[dict[str, Option]] = {}
"""Streams and users have no options."""
UPDATABLE_OPTIONS: Final[dict[str, Option]] = {
    "message_expiry": Option(_expiry, HeaderKind.UINT64, "Maximum age of messages: microseconds, or a string such as `7 days`"),
    "max_topic_size": Option(_size, HeaderKind.UINT64, "Maximum size of the topic: bytes, or a string such as `10 GB`"),
    "compression_algorithm": Option(_compression, HeaderKind.STRING, "none or gzip; stored, but has no effect", b"none"),
}
"""Options accepted for an existing topic."""
TOPIC_OPTIONS: Final[dict[str, Option]] = {
    **UPDATABLE_OPTIONS,
    "durability": Option(_durability, HeaderKind.STRING, "persisted: sync each send; replicated: as configured", b"replicated"),
    "consumer_offset_durability": Option(_offset_durability, HeaderKind.STRING, "persisted is rejected", b"replicated"),
    "segment_size": Option(_count, HeaderKind.UINT64, _UNUSED),
    "messages_required_to_save": Option(_count, HeaderKind.UINT32, _UNUSED),
    "size_of_messages_required_to_save": Option(_count, HeaderKind.UINT64, _UNUSED),
    "preallocate_segments": Option(_flag, HeaderKind.BOOL, _UNUSED),
}
"""Key -> option."""


def pull_options(reader: Reader, known: Mapping[str, Option]) -> dict[str, Any]:
    """Decode a request's options to the fields that they set.

    Raises:
        HeadstreamError: an unknown key (status 4041), an invalid value (4042) or too many options (4043).
    """
    if reader.remaining > _MAX_BYTES:
        raise refusal(Status.OPTIONS_TOO_LARGE, f"options must have at most {_MAX_BYTES} bytes, not {reader.remaining}")
    fields, seen = dict[str, Any](), set[str]()
    while reader.remaining:
        at, kind = reader.at, reader.pull_u8("the kind of an option key")
        key = reader.pull_text32("an option key")
        value_kind = reader.pull_u8("an option's kind")
        value = reader.pull_bytes(reader.pull_u32("an option's length"), "an option")
        if kind != _KEY_KIND or key in seen or not value:
            raise DecodeError(f"the option {key!r:.60} is repeated, has no value, or has a key that is not a string", at)
        seen.add(key)
        if len(seen) > _MAX_OPTIONS:
            raise refusal(Status.OPTIONS_TOO_LARGE, f"a request must have at most {_MAX_OPTIONS} options")
        fields |= _read_option(key, value_kind, value, known)
    return fields


def read_options(texts: object, known: Mapping[str, Option]) -> dict[str, Any]:
    """Convert options in JSON, an object of strings or None, to the fields that they set; errors as in pull_options()."""
    fields = dict[str, Any]()
    if texts is not None and not isinstance(texts, dict):
        raise DecodeError("options must be an object whose values are strings", 0, where="body.options")
    for key, text in (texts or {}).items():
        if not isinstance(text, str):
            raise DecodeError("an option value must be a string", 0, where=f"body.options.{key}")
        fields |= _read_option(key, _KEY_KIND, text.encode(), known)
    return fields


def _read_option(key: str, kind: int, value: bytes, known: Mapping[str, Option]) -> dict[str, Any]:
    option = known.get(key)
    if option is None:
        raise refusal(Status.UNSUPPORTED_OPTION, f"there is no option {key!r:.60}", advice=f"Use one of {', '.join(known)}")
    try:
        HeaderValue(kind, value)  # checks the width of the kind's values, and that a string is UTF-8
        return option.read(kind, value)
    except (HeaderError, InvalidInputError) as error:
        raise refusal(Status.INVALID_OPTION, f"the option {key} is invalid: {error.what}") from None
