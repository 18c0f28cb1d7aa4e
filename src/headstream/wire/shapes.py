"""Shapes: how one field is spelled, in bytes (little-endian), in JSON, and as a text in a URL.

Commands and replies are dataclasses whose fields say their shape, so that a class reads as its layout:

    stream: StreamId             u8 kind | u8 length | value
    count: U32
    name: Text8                  u8 length | UTF-8

records.py puts the fields together. A value that JSON spells wrongly is a DecodeError that names the place, as in `body.name`.
"""

from __future__ import annotations

import enum
import math
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from headstream.codec.buffer import BytesLike, Reader, Writer
from headstream.errors import DecodeError, InvalidInputError
from headstream.wire.sizes import format_size, parse_size

__all__ = [
    "F32",
    "IDENTIFIER",
    "TEXT8",
    "TEXT32",
    "U8",
    "U32",
    "U64",
    "AbsentU32",
    "AbsentU64",
    "Default",
    "Flag",
    "FlagShape",
    "GroupId",
    "Has",
    "Identifier",
    "Json",
    "NamedOrNumbered",
    "PartitionId",
    "Rest",
    "Shape",
    "Size",
    "StreamId",
    "Text8",
    "Text32",
    "TextCode",
    "TopicId",
    "Unsigned",
    "UserId",
    "wrong",
]

Identifier: TypeAlias = int | str
"""A stream, topic, group, user or consumer: by number or by name."""


class Default(NamedTuple):
    """What a field is that JSON leaves out; in bytes it is always there."""

    value: Any


class Json(NamedTuple):
    """The name a field has in JSON, where it is another."""

    name: str


def wrong(value: object, wanted: str, where: str) -> DecodeError:
    """Return the error for a value that JSON or a URL spells wrongly."""
    return DecodeError(f"{wanted} is needed, not {value!r:.60}", 0, where=where)


class Shape:
    """How one field is spelled."""

    is_optional = False
    """Whether JSON may leave it out: then it is read of null."""

    def push(self, writer: Writer, value: Any) -> None:
        """Write a value."""
        raise NotImplementedError

    def pull(self, reader: Reader, what: str) -> Any:
        """Read a value; `what` names it in errors."""
        raise NotImplementedError

    def spell(self, value: Any) -> Any:
        """Return a value as JSON has it."""
        return value

    def read(self, spelled: Any, where: str) -> Any:
        """Return the value that JSON spells; what has no spelling there is refused."""
        raise DecodeError("this has no spelling in JSON", 0, where=where)

    def spell_text(self, value: Any) -> str:
        """Return a value as a URL has it."""
        return str(value)

    def read_text(self, text: str, where: str) -> Any:
        """Return the value that a text in a URL spells."""
        return self.read(text, where)


class Unsigned(Shape):
    """An unsigned number of 1, 4 or 8 bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def push(self, writer: Writer, value: int) -> None:
        (writer.push_u8, writer.push_u32, writer.push_u64)[(1, 4, 8).index(self.size)](value)

    def pull(self, reader: Reader, what: str) -> int:
        if self.size == 1:
            return reader.pull_u8(what)
        return reader.pull_u32(what) if self.size == 4 else reader.pull_u64(what)

    def read(self, spelled: Any, where: str) -> int:
        if type(spelled) is not int or not 0 <= spelled < 1 << 8 * self.size:
            raise wrong(spelled, f"an unsigned {8 * self.size}-bit number", where)
        return spelled

    def read_text(self, text: str, where: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 20):
            raise wrong(text, f"an unsigned {8 * self.size}-bit number", where)
        return self.read(int(text), where)


class AbsentShape(Unsigned):
    """A number whose 0 means that nothing is given: JSON leaves it out or says null."""

    is_optional = True

    def spell(self, value: int) -> int | None:
        return value or None

    def read(self, spelled: Any, where: str) -> int:
        return 0 if spelled is None else super().read(spelled, where)


class RealShape(Shape):
    """A 32-bit float; JSON has no infinity and no NaN, which are null."""

    def push(self, writer: Writer, value: float) -> None:
        writer.push_f32(value)

    def pull(self, reader: Reader, what: str) -> float:
        return reader.pull_f32(what)

    def spell(self, value: float) -> float | None:
        return value if math.isfinite(value) else None

    def read(self, spelled: Any, where: str) -> float:
        if spelled is None:
            return math.nan
        if isinstance(spelled, bool) or not isinstance(spelled, (int, float)):
            raise wrong(spelled, "a number", where)
        return float(spelled)


class FlagShape(Shape):
    """One byte; exactly 1 is true."""

    def push(self, writer: Writer, value: bool) -> None:
        writer.push_u8(1 if value else 0)

    def pull(self, reader: Reader, what: str) -> bool:
        return reader.pull_u8(what) == 1

    def read(self, spelled: Any, where: str) -> bool:
        if not isinstance(spelled, bool):
            raise wrong(spelled, "true or false", where)
        return spelled

    def spell_text(self, value: bool) -> str:
        return "true" if value else "false"

    def read_text(self, text: str, where: str) -> bool:
        if text not in ("true", "false"):
            raise wrong(text, "true or false", where)
        return text == "true"


class TextShape(Shape):
    """A text behind its length in 1 or 4 bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def push(self, writer: Writer, value: str) -> None:
        (writer.push_text8 if self.size == 1 else writer.push_text32)(value)

    def pull(self, reader: Reader, what: str) -> str:
        return reader.pull_text8(what) if self.size == 1 else reader.pull_text32(what)

    def read(self, spelled: Any, where: str) -> str:
        if not isinstance(spelled, str):
            raise wrong(spelled, "a text", where)
        return spelled


class RestShape(Shape):
    """All bytes that are left; no JSON."""

    def push(self, writer: Writer, value: BytesLike) -> None:
        writer.push_bytes(value)

    def pull(self, reader: Reader, what: str) -> memoryview:
        return reader.pull_view(reader.remaining, what)

    def spell(self, value: BytesLike) -> None:
        raise InvalidInputError("raw bytes have no spelling in JSON")


class SizeShape(Unsigned):
    """A count of bytes, which JSON spells with a unit."""

    def spell(self, value: int) -> str:
        return format_size(value)

    def read(self, spelled: Any, where: str) -> int:
        return parse_size(spelled, where)


class TextCode(Shape):
    """One byte that stands for a member of an enumeration; JSON has its name.

    Args:
        kind: The enumeration.
        style: What is done to a member's name: `lower`, `upper`, or `camel`.
        short: Whether a text in a URL may be the first letter of a name.
        any_case: Whether who writes may use capitals as it likes.
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
            raise DecodeError(f"{code} is no {what}", at) from None

    def spell(self, value: Any) -> str:
        return self.names[value]

    def spell_text(self, value: Any) -> str:
        return self.names[value]

    def read(self, spelled: Any, where: str) -> enum.IntEnum:
        name = spelled.lower() if self.any_case and isinstance(spelled, str) else spelled
        if not isinstance(name, str) or name not in self.members:
            raise wrong(spelled, f"one of {', '.join(self.members)}", where)
        return self.members[name]

    def read_text(self, text: str, where: str) -> enum.IntEnum:
        return self.short[text] if text in self.short else self.read(text, where)


class Has(Shape):
    """One byte, 0 or 1, and a value if it is 1; None, or absent in JSON, if it is 0."""

    is_optional = True

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def push(self, writer: Writer, value: Any) -> None:
        writer.push_u8(value is not None)
        if value is not None:
            self.shape.push(writer, value)

    def pull(self, reader: Reader, what: str) -> Any:
        at = reader.at
        has = reader.pull_u8(f"whether there is {what}")
        if has > 1:
            raise DecodeError(f"whether there is {what} is 0 or 1, not {has}", at)
        return self.shape.pull(reader, what) if has else None

    def spell(self, value: Any) -> Any:
        return None if value is None else self.shape.spell(value)

    def read(self, spelled: Any, where: str) -> Any:
        return None if spelled is None else self.shape.read(spelled, where)


class IdentifierShape(Shape):
    """kind u8 | length u8 | value: kind 1 a number of 4 bytes, kind 2 a name of 1 to 255 bytes.

    A text in a URL or in JSON that is a number stands for the number: what is called `123` has no name there.
    """

    def push(self, writer: Writer, value: Identifier) -> None:
        if isinstance(value, int):
            writer.push_u8(1)
            writer.push_u8(4)
            writer.push_u32(value)
            return
        if not value:
            raise InvalidInputError("a name has 1 to 255 bytes, this one has none")
        writer.push_u8(2)
        writer.push_text8(value)

    def pull(self, reader: Reader, what: str) -> Identifier:
        at = reader.at
        kind = reader.pull_u8(f"the kind of {what}")
        size = reader.pull_u8(f"the length of {what}")
        if kind == 1 and size == 4:
            return reader.pull_u32(what)
        if kind == 2 and size:
            return reader.pull_text(size, what)
        raise DecodeError(f"{what} is of kind {kind} with {size} bytes: it is a number (1, 4 bytes) or a name (2)", at)

    def spell(self, value: Identifier) -> Identifier:
        return value

    def spell_text(self, value: Identifier) -> str:
        if isinstance(value, str) and _is_number(value):
            raise InvalidInputError(f"the name {value!r} is a number, which HTTP takes for an id", advice="Use the id")
        return str(value)

    def quote(self, value: Identifier) -> str:
        """Return a value as a piece of a path."""
        return quote(self.spell_text(value), safe="")

    def read(self, spelled: Any, where: str) -> Identifier:
        if type(spelled) is int and 0 < spelled < 1 << 32:
            return spelled
        if isinstance(spelled, str):
            return self.read_text(spelled, where)
        raise wrong(spelled, "a name, or a number from 1", where)

    def read_text(self, text: str, where: str) -> Identifier:
        if _is_number(text):
            if int(text):
                return int(text)
        elif 1 <= len(text.encode("utf-8", "surrogatepass")) <= 255:
            return text
        error = wrong(text, "a name of 1 to 255 bytes, or a number from 1", where)
        error.status = 6  # invalid_identifier, which HTTP tells precisely
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
NamedOrNumbered: TypeAlias = Annotated[Identifier, IDENTIFIER]
StreamId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("stream_id")]
TopicId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("topic_id")]
GroupId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("group_id")]
UserId: TypeAlias = Annotated[Identifier, IDENTIFIER, Json("user_id")]
PartitionId: TypeAlias = Annotated[int, Unsigned(4), Json("partition_id")]
