"""Fields: what stands at which byte of an input, noted as it is read.

A walk reads an input from its beginning through a FieldReader. What it has read when it meets a DecodeError stays, so
that broken bytes are explained as far as they go. Evidence is counted beside: a checksum or a magic that fits is proof of
what the bytes are, where lengths alone could fit by chance.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headstream.cli.header_text import format_header
from headstream.cli.message_view import describe_bytes
from headstream.codec.buffer import Reader
from headstream.errors import DecodeError
from headstream.model.header_values import HeaderValue

__all__ = ["Field", "FieldReader", "Walk", "WalkEnd"]

_SHOWN: Final = 60
"""Characters of bytes that are shown of a field."""


class Field(NamedTuple):
    """One field: where it is, and what it says."""

    at: int
    size_bytes: int
    name: str
    value: str


class FieldReader:
    """Reads fields one after another and notes each.

    Args:
        data: The input.
        at: Where to begin.
        order: `<` little-endian, `>` big-endian.
        limit: How many messages are noted; the rest is read all the same.
    """

    def __init__(self, data: bytes, at: int = 0, order: str = "<", limit: int = 1000) -> None:
        self.data = data
        self.fields: list[Field] = []
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
        """Where the next field begins."""
        return self._reader.at

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return self._reader.remaining

    @property
    def is_full(self) -> bool:
        """Whether the next message is beyond those that are noted."""
        return self.count >= self._limit

    def skip(self, count: int, size_bytes: int) -> None:
        """Pass over messages of which there is nothing to note."""
        self.count += count
        self._reader.at += size_bytes

    def begin(self, name: str) -> None:
        """Begin the next message; its fields are named after it."""
        self._is_noting = self.count < self._limit
        self.prefix = f"{name} {self.count} "
        self.count += 1

    def end(self) -> None:
        """End a message."""
        self.prefix = ""
        self._is_noting = True

    def note(self, at: int, size_bytes: int, name: str, value: object) -> None:
        """Note a field that was read by other means."""
        if self._is_noting:
            self.fields.append(Field(at, size_bytes, f"{self.prefix}{name}", str(value)))

    def number(self, name: str, code: str, show: Callable[[Any], object] = str) -> Any:
        """Return a number.

        Args:
            name: The field's.
            code: As struct has it: B b H h I i Q q, or `16s` for 128 bits.
            show: How its value is shown.
        """
        layout = struct.Struct(self._order + code)
        at = self.at
        (value,) = self._reader.pull_struct(layout, name)
        if code == "16s":
            value = int.from_bytes(value, "little" if self._order == "<" else "big")
        self.note(at, layout.size, name, show(value))
        return value

    def bytes(self, name: str, size: int, show: Callable[[bytes], object] | None = None) -> bytes:
        """Return so many bytes; a negative size is that of null where the dialect has one, and none are read."""
        at = self.at
        if size < -1:
            raise DecodeError(f"the length of {name} is {size}", at)
        data = self._reader.pull_bytes(max(size, 0), name)
        text = describe_bytes(None if size < 0 else data, _SHOWN) if show is None else show(data)
        self.note(at, max(size, 0), name, text)
        return data

    def varint(self, name: str) -> int:
        """Return a zig-zag number of variable length."""
        at, value, shift = self.at, 0, 0
        while True:
            byte = self._reader.pull_u8(name)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise DecodeError(f"{name} is a number of more than 64 bits", at)
        value = (value >> 1) ^ -(value & 1)
        self.note(at, self.at - at, name, value)
        return value

    def header(self, at: int, key: str, value: HeaderValue) -> None:
        """Note a header that ends where the next field begins."""
        self.note(at, self.at - at, "header", format_header(key, value))

    def skip_to(self, at: int) -> None:
        """Go on at another place."""
        self._reader.at = min(at, self._reader.end)


Walk = Callable[[FieldReader], None]
"""Reads a whole input of one dialect; DecodeError where it is broken."""


class WalkEnd(NamedTuple):
    """What came of a walk."""

    reader: FieldReader
    fault: DecodeError | None

    @classmethod
    def of(cls, walk: Walk, reader: FieldReader) -> WalkEnd:
        """Walk, and return what came of it."""
        try:
            walk(reader)
        except DecodeError as error:
            return cls(reader, error)
        return cls(reader, None)
