"""Reads and writes little-endian bytes, with checked bounds.

A length is compared with the remaining bytes before it is used. A Reader returns a value, or raises a DecodeError with the field,
its byte position, and the numbers of needed and available bytes.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any, Final, TypeAlias

from headstream.errors import DecodeError, InvalidInputError

BytesLike: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""Any contiguous buffer."""

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_F32: Final = struct.Struct("<f")


class Reader:
    """A cursor over bytes up to `end` (None for the end of the data). Bytes are copied only when they are pulled."""

    __slots__ = ("_view", "at", "end")

    def __init__(self, data: BytesLike, at: int = 0, end: int | None = None) -> None:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self._view = view
        self.at = at
        self.end = len(view) if end is None else end
        if not 0 <= at <= self.end <= len(view):
            raise DecodeError("the range is outside the data", at, self.end - at, len(view) - at)

    @property
    def remaining(self) -> int:
        """Number of bytes between the cursor and the end."""
        return self.end - self.at

    def _step(self, size: int, subject: str) -> int:
        at = self.at
        if size > self.end - at:
            raise DecodeError(f"{subject} is cut short", at, size, self.end - at)
        self.at = at + size
        return at

    def pull_struct(self, layout: struct.Struct, subject: str) -> tuple[Any, ...]:
        """Return the fields of a fixed layout; `subject` names the fields in the error."""
        return layout.unpack_from(self._view, self._step(layout.size, subject))

    def pull_u8(self, subject: str) -> int:
        """Return an unsigned 8-bit number; `subject` names the field in the error."""
        return self._view[self._step(1, subject)]

    def pull_u32(self, subject: str) -> int:
        """Return an unsigned 32-bit number; `subject` names the field in the error."""
        value: int = _U32.unpack_from(self._view, self._step(4, subject))[0]
        return value

    def pull_u64(self, subject: str) -> int:
        """Return an unsigned 64-bit number; `subject` names the field in the error."""
        value: int = _U64.unpack_from(self._view, self._step(8, subject))[0]
        return value

    def pull_f32(self, subject: str) -> float:
        """Return a 32-bit IEEE 754 number; `subject` names the field in the error."""
        value: float = _F32.unpack_from(self._view, self._step(4, subject))[0]
        return value

    def pull_bytes(self, size: int, subject: str) -> bytes:
        """Return a copy of the next `size` bytes; `subject` names the bytes in the error."""
        at = self._step(size, subject)
        return bytes(self._view[at : at + size])

    def pull_view(self, size: int, subject: str) -> memoryview:
        """Return the next `size` bytes without copying them; `subject` names the bytes in the error."""
        at = self._step(size, subject)
        return self._view[at : at + size]

    def pull_text(self, size: int, subject: str) -> str:
        """Decode the next `size` bytes as UTF-8."""
        at = self._step(size, subject)
        try:
            return str(self._view[at : at + size], "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"{subject} is not UTF-8", at + error.start) from None

    def pull_text8(self, subject: str) -> str:
        """Return a string that follows its length in one byte; `subject` names the field in the error."""
        return self.pull_text(self.pull_u8(f"the length of {subject}"), subject)

    def pull_text32(self, subject: str) -> str:
        """Return a string that follows its length in four bytes; `subject` names the field in the error."""
        return self.pull_text(self.pull_u32(f"the length of {subject}"), subject)

    def pull_end(self, subject: str) -> None:
        """Check that all bytes are consumed; `subject` is the last field's name."""
        if self.at != self.end:
            raise DecodeError(f"{self.end - self.at} unexpected bytes after {subject}", self.at)


class Writer:
    """A growing buffer of little-endian fields."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def _push_int(self, value: int, size: int) -> None:
        try:
            self._data += value.to_bytes(size, "little")
        except OverflowError:
            raise InvalidInputError(f"{value} is not an unsigned {8 * size}-bit number") from None

    def push_u8(self, value: int) -> None:
        """Append an unsigned 8-bit number; the methods for numbers raise InvalidInputError if a number is out of range."""
        self._push_int(value, 1)

    def push_u32(self, value: int) -> None:
        """Append an unsigned 32-bit number."""
        self._push_int(value, 4)

    def push_u64(self, value: int) -> None:
        """Append an unsigned 64-bit number."""
        self._push_int(value, 8)

    def push_f32(self, value: float) -> None:
        """Append a 32-bit IEEE 754 number; InvalidInputError if the number is too large."""
        try:
            self._data += _F32.pack(value)
        except OverflowError:
            raise InvalidInputError(f"{value} is too large for a 32-bit float") from None

    def push_bytes(self, value: BytesLike) -> None:
        """Append bytes unchanged."""
        self._data += value

    def push_text(self, value: str) -> None:
        """Append a string as UTF-8 without its length; the methods for strings raise InvalidInputError for lone surrogates."""
        try:
            self._data += value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"UTF-8 cannot encode character {error.start} of {value[:40]!r}") from None

    def push_text8(self, value: str) -> None:
        """Append a string's length in one byte, followed by the string."""
        self._push_sized(value, 1)

    def push_text32(self, value: str) -> None:
        """Append a string's length in four bytes, followed by the string."""
        self._push_sized(value, 4)

    def _push_sized(self, value: str, size: int) -> None:
        at = len(self._data)
        self._data += bytes(size)
        try:
            self.push_text(value)
            length = len(self._data) - at - size
            if length >> (8 * size):
                raise InvalidInputError(f"at most {(1 << 8 * size) - 1} bytes are allowed, not {length}", where=repr(value[:40]))
        except InvalidInputError:
            del self._data[at:]
            raise
        self._data[at : at + size] = length.to_bytes(size, "little")

    def to_bytes(self) -> bytes:
        """Return all appended bytes."""
        return bytes(self._data)
