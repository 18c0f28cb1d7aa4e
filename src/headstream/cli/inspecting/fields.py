"""Fields: records the fields of an input, with their positions, while they are read.

A walk function reads an input from its beginning with a FieldReader. Fields that were read before a DecodeError are retained, so
invalid bytes are explained as far as possible. Matching checksums and magic values are counted, because lengths alone can match
by chance.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headstream.cli.shared.header_text import format_header
from headstream.cli.shared.message_view import describe_bytes
from headstream.core.codec.buffer import Reader
from headstream.core.model.header_values import HeaderValue
from headstream.errors import DecodeError

_SHOWN: Final = 60
"""Maximum number of characters shown of a bytes field."""


class ShownField(NamedTuple):
    """One field: its position and value."""

    at: int
    size_bytes: int
    name: str
    value: str


class FieldReader:
    """Reads fields in order and records each field.

    Args:
        order: `<` little-endian, `>` big-endian.
        limit: Number of messages whose fields are recorded; fields of later messages are not recorded.
    """

    def __init__(self, data: bytes, at: int = 0, order: str = "<", limit: int = 1000) -> None:
        self.data = data
        self.fields: list[ShownField] = []
        self.notes: list[str] = []
        self.evidence = 0
        self.count = 0
        self.prefix = ""
        self._reader = Reader(data, at)
        self._order = order
        self._limit = limit
        self._is_noting = True

    @property
    def at(self) -> int:
        """Position of the next field."""
        return self._reader.at

    @property
    def remaining(self) -> int:
        """Number of bytes left."""
        return self._reader.remaining

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of messages has been recorded."""
        return self.count >= self._limit

    def skip(self, count: int, size_bytes: int) -> None:
        """Skip messages without recording their fields."""
        self.count += count
        self._reader.at += size_bytes

    def begin(self, name: str) -> None:
        """Begin the next message; its name becomes the prefix of its fields."""
        self._is_noting = self.count < self._limit
        self.prefix = f"{name} {self.count} "
        self.count += 1

    def end(self) -> None:
        """End a message."""
        self.prefix = ""
        self._is_noting = True

    def note(self, at: int, size_bytes: int, name: str, value: object) -> None:
        """Record a field that other code has read."""
        if self._is_noting:
            self.fields.append(ShownField(at, size_bytes, f"{self.prefix}{name}", str(value)))

    def number(self, name: str, code: str, show: Callable[[Any], object] = str) -> Any:
        """Read a number with a struct code (B b H h I i Q q, or `16s` for 128 bits); `show` formats its value."""
        layout = struct.Struct(self._order + code)
        at = self.at
        (value,) = self._reader.pull_struct(layout, name)
        if code == "16s":
            value = int.from_bytes(value, "little" if self._order == "<" else "big")
        self.note(at, layout.size, name, show(value))
        return value

    def bytes(self, name: str, size: int, show: Callable[[bytes], object] | None = None) -> bytes:
        """Read bytes. A negative size means null in dialects that have null; no bytes are read."""
        at = self.at
        if size < -1:
            raise DecodeError(f"{name} has the invalid length {size}", at)
        data = self._reader.pull_bytes(max(size, 0), name)
        text = describe_bytes(None if size < 0 else data, _SHOWN) if show is None else show(data)
        self.note(at, max(size, 0), name, text)
        return data

    def varint(self, name: str) -> int:
        """Read a zig-zag varint."""
        at, value, shift = self.at, 0, 0
        while True:
            byte = self._reader.pull_u8(name)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise DecodeError(f"{name} must have at most 64 bits", at)
        value = (value >> 1) ^ -(value & 1)
        self.note(at, self.at - at, name, value)
        return value

    def header(self, at: int, key: str, value: HeaderValue) -> None:
        """Record a header whose bytes end at the current position."""
        self.note(at, self.at - at, "header", format_header(key, value))

    def skip_to(self, at: int) -> None:
        """Continue at another position."""
        self._reader.at = min(at, self._reader.end)


Walk = Callable[[FieldReader], None]
"""Reads a complete input of one dialect; DecodeError if it is invalid."""


class WalkEnd(NamedTuple):
    """The result of a walk function."""

    reader: FieldReader
    fault: DecodeError | None

    @classmethod
    def of(cls, walk: Walk, reader: FieldReader) -> WalkEnd:
        """Run a walk function and return its result."""
        try:
            walk(reader)
        except DecodeError as error:
            return cls(reader, error)
        return cls(reader, None)
