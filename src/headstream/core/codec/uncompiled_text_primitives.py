"""Converts numbers to decimal text and back in the interpreted kernels, with the names and meanings of text_primitives.h.

A pointer is a memoryview of unsigned bytes here, and `at` is a position in the memoryview.
"""

from __future__ import annotations

import math
import struct


def parse_float(p: memoryview, at: int, size: int) -> float:
    """Return the double nearest to a decimal text of at most 63 characters; infinity if the number is out of range."""
    return float(bytes(p[at : at + size]))


def write_float(target: memoryview, to: int, value: float) -> int:
    """Write the shortest decimal text, of at most 24 characters, that decodes to a double; return its length."""
    text = repr(value).encode()
    target[to : to + len(text)] = text
    return len(text)


def load_float64(p: memoryview, at: int) -> float:
    """Return the 64-bit float at a byte position."""
    value: float = struct.unpack_from("<d", p, at)[0]
    return value


def is_beyond_float32(value: float) -> bool:
    """Return whether a double is finite but outside the single-precision range."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return math.isfinite(value)
    return False


def parse_whole(target: memoryview, to: int, p: memoryview, at: int, size: int, width: int, is_signed: bool) -> bool:
    """Parse an optional minus sign and 1 to 39 digits, and write the integer in `width` bytes; return whether it fits."""
    try:
        target[to : to + width] = int(bytes(p[at : at + size])).to_bytes(width, "little", signed=is_signed)
    except OverflowError:
        return False
    return True


def write_whole(target: memoryview, to: int, p: memoryview, at: int, width: int, is_signed: bool) -> int:
    """Write an integer of `width` little-endian bytes as text of at most 40 characters; return the length of the text."""
    text = str(int.from_bytes(p[at : at + width], "little", signed=is_signed)).encode()
    target[to : to + len(text)] = text
    return len(text)
