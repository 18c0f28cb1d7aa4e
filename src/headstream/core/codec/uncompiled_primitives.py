"""The primitives of the interpreted kernels, with the names and meanings of primitives.h.

An interpreted kernel imports this module as `c`; a compiled kernel imports primitives.pxd as `c`. A pointer is a memoryview of
unsigned bytes here, and `at` is a position in the memoryview.
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.model.header_values import KIND_WIDTHS, HeaderKind

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_I64: Final = struct.Struct("<q")
_F32: Final = struct.Struct("<f")
_F64: Final = struct.Struct("<d")
_unpack16, _unpack32, _unpack64, _unpack64_signed = _U16.unpack_from, _U32.unpack_from, _U64.unpack_from, _I64.unpack_from
_pack16, _pack32, _pack64, _pack64_signed = _U16.pack_into, _U32.pack_into, _U64.pack_into, _I64.pack_into
_pack_head: Final = struct.Struct("<QBQQQI").pack_into
_pack_fault: Final = struct.Struct("<3q").pack_into
_WIDTHS: Final = {HeaderKind.RAW: -1, HeaderKind.STRING: -1, **KIND_WIDTHS}
_MASK64: Final = (1 << 64) - 1


def load16(p: memoryview, at: int) -> int:
    """Return the unsigned 16-bit number at a byte position."""
    value: int = _unpack16(p, at)[0]
    return value


def is_null(validity: memoryview, some_null: bool, i: int) -> bool:
    """Return whether value i of a column is null in Arrow's validity bitmap, which can be empty if no value is null."""
    return some_null and not validity[i >> 3] >> (i & 7) & 1


def load32(p: memoryview, at: int) -> int:
    """Return the unsigned 32-bit number at a byte position."""
    value: int = _unpack32(p, at)[0]
    return value


def load64(p: memoryview, at: int) -> int:
    """Return the unsigned 64-bit number at a byte position."""
    value: int = _unpack64(p, at)[0]
    return value


def load64_signed(p: memoryview, at: int) -> int:
    """Return the signed 64-bit number at a byte position."""
    value: int = _unpack64_signed(p, at)[0]
    return value


def store16(p: memoryview, at: int, value: int) -> None:
    """Write the low 16 bits of a number."""
    _pack16(p, at, value & 0xFFFF)


def store32(p: memoryview, at: int, value: int) -> None:
    """Write the low 32 bits of a number."""
    _pack32(p, at, value & 0xFFFFFFFF)


def store64(p: memoryview, at: int, value: int) -> None:
    """Write the low 64 bits of a number."""
    _pack64(p, at, value & _MASK64)


def store64_signed(p: memoryview, at: int, value: int) -> None:
    """Write a signed 64-bit number."""
    _pack64_signed(p, at, value)


def load_float32(p: memoryview, at: int) -> float:
    """Return the 32-bit float at a byte position."""
    value: float = _F32.unpack_from(p, at)[0]
    return value


def store_float32(p: memoryview, at: int, value: float) -> None:
    """Write a number as a 32-bit float."""
    _F32.pack_into(p, at, value)


def store_float64(p: memoryview, at: int, value: float) -> None:
    """Write a number as a 64-bit float."""
    _F64.pack_into(p, at, value)


def copy(target: memoryview, at: int, source: memoryview, start: int, size: int) -> None:
    """Copy `size` bytes."""
    target[at : at + size] = source[start : start + size]


def fill(target: memoryview, at: int, value: int, size: int) -> None:
    """Set `size` bytes to one value."""
    target[at : at + size] = bytes((value,)) * size


def equal(a: memoryview, at: int, b: memoryview, start: int, size: int) -> bool:
    """Return whether two ranges of `size` bytes are equal."""
    return a[at : at + size] == b[start : start + size]


def compare(a: memoryview, at: int, a_size: int, b: memoryview, start: int, b_size: int) -> int:
    """Return a negative number, 0 or a positive number if the first range sorts before, equals or sorts after the second."""
    first, second = bytes(a[at : at + a_size]), bytes(b[start : start + b_size])
    return (first > second) - (first < second)


def utf8_size(p: memoryview, at: int, size: int) -> int:
    """Return the number of valid UTF-8 bytes from `at` on; `size` if all bytes are valid."""
    try:
        str(p[at : at + size], "utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return size


def kind_width(kind: int) -> int:
    """Return the width of a kind's values in bytes; -1 for variable width, -2 for an unknown kind."""
    return _WIDTHS.get(kind, -2)


def note_fault(notes: memoryview, code: int, at: int, need: int, have: int) -> int:
    """Record a fault with its position and the numbers of needed and available bytes; return the fault as a negative number."""
    _pack_fault(notes, 0, at, need, have)
    return -code


def store_head(p: memoryview, at: int, offset: int, state: int, timestamp: int, id_low: int, id_high: int, crc: int) -> None:
    """Write the beginning of a stored message, before the size of the headers: offset, state, timestamp, id and checksum."""
    _pack_head(p, at, offset, state, timestamp, id_low, id_high, crc)


def store_uuid(target: memoryview, at: int, source: memoryview, start: int) -> None:
    """Write the UUID whose 16 bytes are at `start`, as 36 characters."""
    text = source[start : start + 16].hex()
    target[at : at + 36] = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode()


def store_decimal(target: memoryview, at: int, source: memoryview, start: int, is_signed: bool) -> int:
    """Write a 128-bit number as decimal text of at most 40 characters; return its length."""
    text = str(int.from_bytes(source[start : start + 16], "little", signed=is_signed)).encode()
    target[at : at + len(text)] = text
    return len(text)


def compare_keys(p: memoryview, a: int, b: int) -> int:
    """Return a negative number, 0 or a positive number if the key at `a` sorts before, equals or sorts after the key at `b`."""
    return compare(p, a, load32(p, a - 4), p, b, load32(p, b - 4))


def sort_keys(p: memoryview, entries: memoryview, count: int) -> None:
    """Sort positions of keys by key, bytewise; equal keys keep their order."""
    if count < 2:
        return
    layout = struct.Struct(f"<{count}q")
    positions = layout.unpack_from(entries)
    layout.pack_into(entries, 0, *sorted(positions, key=lambda at: bytes(p[at : at + load32(p, at - 4)])))


def after(p: memoryview, at: int) -> memoryview:
    """Return a pointer to the bytes from a byte position on."""
    return p[at:]


def mix64(state: int) -> int:
    """Return the next number of a splitmix64 sequence."""
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def uuid_time(time_ms: int) -> int:
    """Return the first half of a version 7 UUID without random bits: 48 bits of milliseconds, and the version."""
    return int.from_bytes((time_ms & 0xFFFF_FFFF_FFFF).to_bytes(6, "big") + b"\x70", "little")


def new_bytes(size: int) -> bytearray:
    """Return a bytearray of a size, with undefined content."""
    return bytearray(size)


def writable(data: bytearray) -> memoryview:
    """Return a pointer to the bytes of a bytearray, valid until it is resized."""
    return memoryview(data)


def readable(view: memoryview) -> memoryview:
    """Return a pointer to the bytes of a memoryview."""
    if not view.c_contiguous:
        raise BufferError("the buffer is not contiguous")
    return view.cast("B")


def changeable(view: memoryview) -> memoryview:
    """Return a writable pointer to the bytes of a memoryview."""
    if view.readonly:
        raise BufferError("the buffer is read-only")
    return readable(view)
