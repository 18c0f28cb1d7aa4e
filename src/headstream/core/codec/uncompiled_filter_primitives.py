"""Compares numbers of different types in the interpreted filter kernel, with the names and meanings of filter_primitives.h."""

from __future__ import annotations

import struct


def load_double(p: memoryview, at: int) -> float:
    """Return the 64-bit float at a byte position."""
    value: float = struct.unpack_from("<d", p, at)[0]
    return value


def compare_floats(a: float, b: float) -> int:
    """Return -1, 0 or 1 if the first float is less than, equal to or greater than the second; 2 if either is a NaN."""
    return -1 if a < b else 1 if a > b else 0 if a == b else 2


def compare_whole_to_float(negative: bool, low: int, high: int, b: float) -> int:
    """Compare an integer, given as sign and 128 bits of magnitude, with a float; return -1, 0, 1 or 2 as in compare_floats()."""
    if b != b:
        return 2
    whole = high << 64 | low
    whole = -whole if negative else whole
    return -1 if whole < b else 1 if whole > b else 0
