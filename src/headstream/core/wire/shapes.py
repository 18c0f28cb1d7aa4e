"""Shapes: the encoding of one field in bytes (little-endian), in JSON, and in URLs.

Commands and replies are dataclasses whose fields are annotated with shapes, so a class shows its layout:

    stream: StreamId             u8 kind | u8 length | value
    count: U32
    name: Text8                  u8 length | UTF-8

records.py combines the fields. For an invalid JSON value, DecodeError contains the path, for example `body.name`.
"""

from __future__ import annotations

import enum
import functools
import math
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.model.quantities import SIZE_UNITS, parse_size_bytes
from headstream.errors import DecodeError, InvalidInputError

# Sizes in JSON: strings with a unit, such as "1.5 KB".
#
# The unit is the largest of EiB, EB, PiB, PB, ... KiB, KB in which the size is at least 1 and needs at most three decimals,
# else B.

_UNITS: Final = list(reversed(SIZE_UNITS.items()))[:-1]


def format_size(size: int) -> str:
    """Format a size with its unit."""
    for name, scale in _UNITS:
        if size >= scale and size * 1000 % scale == 0:
            whole, rest = divmod(size * 1000 // scale, 1000)
            return f"{whole}{f'.{rest:03}'.rstrip('0') if rest else ''} {name}"
    return f"{size} B"


def parse_size(json_value: Any, where: str = "size") -> int:
    """Parse a size with a unit, or a plain number of bytes; `where` is the path of the JSON value, for error messages."""
    try:
        return parse_size_bytes(json_value)
    except InvalidInputError:
        raise DecodeError(
            f"a size must be a number of bytes below 2^64 or a string such as '1.5 KB', not {json_value!r:.40}", 0, where=where
        ) from None


_CACHED_NAMES: Final = 1024
"""Number of encoded stream and topic names that are cached: about 0.1 MB."""

Identifier: TypeAlias = int | str
"""A stream, topic, group, user or consumer: by number or by name."""


class Default(NamedTuple):
    """The default of a field that JSON can omit; the byte encoding always contains the field."""

    value: Any


class Json(NamedTuple):
    """A field's name in JSON, if it differs from the Python name."""

    name: str


def invalid_value(value: object, wanted: str, where: str) -> DecodeError:
    """Return the error for an invalid value in JSON or a URL."""
    return DecodeError(f"{wanted} is required, not {value!r:.60}", 0, where=where)


class Shape:
    """The encoding of one field."""

    is_optional = False
    """Whether JSON can omit the value, which is then read from null."""

    def push(self, writer: Writer, value: Any) -> None:
        """Write a value."""
        raise NotImplementedError

    def pull(self, reader: Reader, what: str) -> Any:
        """Read a value; `what` names the value in errors."""
        raise NotImplementedError

    def to_json_value(self, value: Any) -> Any:
        """Convert a value to JSON."""
        return value

    def from_json_value(self, json_value: Any, where: str) -> Any:
        """Convert a JSON value to a value; raise an error if the shape has no JSON form."""
        raise DecodeError("the value has no JSON form", 0, where=where)

    def to_url_text(self, value: Any) -> str:
        """Convert a value to its form in a URL."""
        return str(value)

    def from_url_text(self, text: str, where: str) -> Any:
        """Convert the form in a URL to a value."""
        return self.from_json_value(text, where)


class Unsigned(Shape):
    """An unsigned number of 1, 4 or 8 bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._push = {1: Writer.push_u8, 4: Writer.push_u32, 8: Writer.push_u64}[size]
        self._pull = {1: Reader.pull_u8, 4: Reader.pull_u32, 8: Reader.pull_u64}[size]

    def push(self, writer: Writer, value: int) -> None:
        self._push(writer, value)

    def pull(self, reader: Reader, what: str) -> int:
        return self._pull(reader, what)

    def from_json_value(self, json_value: Any, where: str) -> int:
        if type(json_value) is not int or not 0 <= json_value < 1 << 8 * self.size:
            raise invalid_value(json_value, f"an unsigned {8 * self.size}-bit number", where)
        return json_value

    def from_url_text(self, text: str, where: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 20):
            raise invalid_value(text, f"an unsigned {8 * self.size}-bit number", where)
        return self.from_json_value(int(text), where)


class AbsentShape(Unsigned):
    """A number in which 0 means an absent value, which JSON omits or contains as null."""

    is_optional = True

    def to_json_value(self, value: int) -> int | None:
        return value or None

    def from_json_value(self, json_value: Any, where: str) -> int:
        return 0 if json_value is None else super().from_json_value(json_value, where)


class RealShape(Shape):
    """A 32-bit float; infinities and NaN are null in JSON, which cannot represent them."""

    def push(self, writer: Writer, value: float) -> None:
        writer.push_f32(value)

    def pull(self, reader: Reader, what: str) -> float:
        return reader.pull_f32(what)

    def to_json_value(self, value: float) -> float | None:
        return value if math.isfinite(value) else None

    def from_json_value(self, json_value: Any, where: str) -> float:
        if json_value is None:
            return math.nan
        if isinstance(json_value, bool) or not isinstance(json_value, (int, float)):
            raise invalid_value(json_value, "a number", where)
        return float(json_value)


class FlagShape(Shape):
    """One byte, which is true if it is exactly 1."""

    def push(self, writer: Writer, value: bool) -> None:
        writer.push_u8(1 if value else 0)

    def pull(self, reader: Reader, what: str) -> bool:
        return reader.pull_u8(what) == 1

    def from_json_value(self, json_value: Any, where: str) -> bool:
        if not isinstance(json_value, bool):
            raise invalid_value(json_value, "true or false", where)
        return json_value

    def to_url_text(self, value: bool) -> str:
        return "true" if value else "false"

    def from_url_text(self, text: str, where: str) -> bool:
        if text not in ("true", "false"):
            raise invalid_value(text, "true or false", where)
        return text == "true"


class TextShape(Shape):
    """A length of 1 or 4 bytes, followed by a string in UTF-8."""

    def __init__(self, size: int) -> None:
        self.size = size

    def push(self, writer: Writer, value: str) -> None:
        (writer.push_text8 if self.size == 1 else writer.push_text32)(value)

    def pull(self, reader: Reader, what: str) -> str:
        return reader.pull_text8(what) if self.size == 1 else reader.pull_text32(what)

    def from_json_value(self, json_value: Any, where: str) -> str:
        if not isinstance(json_value, str):
            raise invalid_value(json_value, "a string", where)
        return json_value


class RestShape(Shape):
    """All remaining bytes; has no JSON form."""

    def push(self, writer: Writer, value: BytesLike) -> None:
        writer.push_bytes(value)

    def pull(self, reader: Reader, what: str) -> memoryview:
        return reader.pull_view(reader.remaining, what)

    def to_json_value(self, value: BytesLike) -> Any:
        raise InvalidInputError("raw bytes have no JSON form")


class SizeShape(Unsigned):
    """A number of bytes; in JSON a string with a unit."""

    def to_json_value(self, value: int) -> str:
        return format_size(value)

    def from_json_value(self, json_value: Any, where: str) -> int:
        return parse_size(json_value, where)


class TextCode(Shape):
    """One byte for a member of an enumeration; in JSON the member's name.

    Args:
        short: Whether a URL can contain only the first letter of a name.
        any_case: Whether names are case-insensitive when they are read.
    """

    def __init__(self, kind: type[enum.IntEnum], style: str = "lower", *, short: bool = False, any_case: bool = False) -> None:
        self.kind = kind
        self.any_case = any_case
        self.names = {member: _style(member.name, style) for member in kind}
        self.members = {name: member for member, name in self.names.items()}
        self.short = {name[0]: member for name, member in self.members.items()} if short else {}

    def push(self, writer: Writer, value: int) -> None:
        writer.push_u8(value)

    def pull(self, reader: Reader, what: str) -> enum.IntEnum:
        at = reader.at
        code = reader.pull_u8(what)
        try:
            return self.kind(code)
        except ValueError:
            raise DecodeError(f"{code} is not a valid {what}", at) from None

    def to_json_value(self, value: Any) -> str:
        return self.names[value]

    def to_url_text(self, value: Any) -> str:
        return self.names[value]

    def from_json_value(self, json_value: Any, where: str) -> enum.IntEnum:
        name = json_value.lower() if self.any_case and isinstance(json_value, str) else json_value
        if not isinstance(name, str) or name not in self.members:
            raise invalid_value(json_value, f"one of {', '.join(self.members)}", where)
        return self.members[name]

    def from_url_text(self, text: str, where: str) -> enum.IntEnum:
        return self.short[text] if text in self.short else self.from_json_value(text, where)


class OptionalShape(Shape):
    """One byte, followed by a value if the byte is 1. If it is 0, the value is None and is absent in JSON."""

    is_optional = True

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def push(self, writer: Writer, value: Any) -> None:
        writer.push_u8(value is not None)
        if value is not None:
            self.shape.push(writer, value)

    def pull(self, reader: Reader, what: str) -> Any:
        at, has = reader.at, reader.pull_u8(f"the presence flag of {what}")
        if has > 1:
            raise DecodeError(f"the presence flag of {what} must be 0 or 1, not {has}", at)
        return self.shape.pull(reader, what) if has else None

    def to_json_value(self, value: Any) -> Any:
        return None if value is None else self.shape.to_json_value(value)

    def from_json_value(self, json_value: Any, where: str) -> Any:
        return None if json_value is None else self.shape.from_json_value(json_value, where)

    def to_url_text(self, value: Any) -> str:
        return self.shape.to_url_text(value)

    def from_url_text(self, text: str, where: str) -> Any:
        return self.shape.from_url_text(text, where)


@functools.lru_cache(_CACHED_NAMES)
def _encoded_name(value: str) -> bytes:
    """Return the encoded bytes of a name; cached, because each request about a topic contains two names."""
    if not value:
        raise InvalidInputError("a name must have 1 to 255 bytes, not 0")
    writer = Writer()
    writer.push_u8(2)
    writer.push_text8(value)
    return writer.to_bytes()


class IdentifierShape(Shape):
    """kind u8 | length u8 | value; for kind 1 a number of 4 bytes, for kind 2 a name of 1 to 255 bytes.

    A string of digits in a URL or in JSON is interpreted as a number, so a name such as `123` cannot be used there.
    """

    def push(self, writer: Writer, value: Identifier) -> None:
        if isinstance(value, int):
            writer.push_u8(1)
            writer.push_u8(4)
            writer.push_u32(value)
        else:
            writer.push_bytes(_encoded_name(value))

    def pull(self, reader: Reader, what: str) -> Identifier:
        at = reader.at
        kind = reader.pull_u8(f"the kind of {what}")
        size = reader.pull_u8(f"the length of {what}")
        if kind == 1 and size == 4:
            return reader.pull_u32(what)
        if kind == 2 and size:
            return reader.pull_text(size, what)
        raise DecodeError(f"{what} must be a number (kind 1, 4 bytes) or a name (kind 2), not kind {kind} with {size} bytes", at)

    def to_json_value(self, value: Identifier) -> Identifier:
        return value

    def to_url_text(self, value: Identifier) -> str:
        if isinstance(value, str) and _is_number(value):
            raise InvalidInputError(f"the name {value!r} is a number, which HTTP treats as an id", advice="Use the id")
        return str(value)

    def quote(self, value: Identifier) -> str:
        """Convert a value to a segment of a path."""
        return quote(self.to_url_text(value), safe="")

    def from_json_value(self, json_value: Any, where: str) -> Identifier:
        if type(json_value) is int and 0 < json_value < 1 << 32:
            return json_value
        if isinstance(json_value, str):
            return self.from_url_text(json_value, where)
        raise invalid_value(json_value, "a name, or a number from 1", where)

    def from_url_text(self, text: str, where: str) -> Identifier:
        if _is_number(text):
            if int(text):
                return int(text)
        elif 1 <= len(text.encode("utf-8", "surrogatepass")) <= 255:
            return text
        error = invalid_value(text, "a name of 1 to 255 bytes, or a number from 1", where)
        error.status = 6  # invalid_identifier, which HTTP clients expect
        raise error


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 1 << 32


def _style(name: str, style: str) -> str:
    if style == "camel":
        return "".join(part.capitalize() for part in name.split("_"))
    return name if style == "upper" else name.lower()


TEXT8: Final = TextShape(1)
TEXT32: Final = TextShape(4)
IDENTIFIER: Final = IdentifierShape()
U8: TypeAlias = Annotated[int, Unsigned(1)]
U32: TypeAlias = Annotated[int, Unsigned(4)]
U64: TypeAlias = Annotated[int, Unsigned(8)]
AbsentU32: TypeAlias = Annotated[int, AbsentShape(4)]
AbsentU64: TypeAlias = Annotated[int, AbsentShape(8)]
F32: TypeAlias = Annotated[float, RealShape()]
Flag: TypeAlias = Annotated[bool, FlagShape()]
Size: TypeAlias = Annotated[int, SizeShape(8)]
Text8: TypeAlias = Annotated[str, TEXT8]
Text32: TypeAlias = Annotated[str, TEXT32]
Rest: TypeAlias = Annotated[BytesLike, RestShape()]
StreamId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("stream_id")]
TopicId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("topic_id")]
GroupId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("group_id")]
UserId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("user_id")]
PartitionId: TypeAlias = Annotated[int, Unsigned(4), Json("partition_id")]
