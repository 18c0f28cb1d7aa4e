"""The checksums of the interpreted kernels, with the names and meanings of checksums.h.

CRC-32 is computed by zlib. The standard library has no CRC-32C, and a table-driven loop reaches only 15 MB/s. Therefore the bytes
are read as one long integer, a polynomial over GF(2) whose first bit is the highest power, and the polynomial is shortened before
the table is used. Castagnoli's polynomial P divides

    x^6777 + x^484 + x^100 + 1    and    x^290 + x^136 + x^113 + x^107 + x^32 + 1

so x^6777 can be replaced by the sum of the other three terms. Squaring is linear over GF(2), so the same holds with all exponents
doubled any number of times. Each step removes about half of the remaining bits with a few shifts and exclusive ors of long
integers.
"""

from __future__ import annotations

import zlib
from typing import Final

import xxhash

crc_level: Final = 0

_FEW_TERMS: Final = (6777, 484, 100, 0)
_MORE_TERMS: Final = (290, 136, 113, 107, 32, 0)


def _build_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE: Final = _build_table()


def crc32_from(p: memoryview, at: int, size: int, value: int) -> int:
    """Return the CRC-32 of `size` bytes, continued from the CRC-32 `value` of the preceding bytes."""
    return zlib.crc32(p[at : at + size], value)


def crc32c_from(p: memoryview, at: int, size: int, value: int) -> int:
    """Return the CRC-32C of `size` bytes, continued from the CRC-32C `value` of the preceding bytes."""
    rest: bytes | memoryview = p[at : at + size]
    state = value ^ 0xFFFFFFFF
    if size >= 64:
        number, bits = int.from_bytes(rest, "little") ^ state, size * 8
        number, bits = _shorten(number, bits, _FEW_TERMS)
        number, bits = _shorten(number, bits, _MORE_TERMS)
        rest, state = number.to_bytes(bits // 8, "little"), 0
    table = _TABLE
    for byte in rest:
        state = (state >> 8) ^ table[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


def copy_crc32(target: memoryview, at: int, source: memoryview, start: int, size: int) -> int:
    """Copy `size` bytes and return their CRC-32."""
    piece = source[start : start + size]
    target[at : at + size] = piece
    return zlib.crc32(piece)


def xxh3_from(p: memoryview, at: int, size: int) -> int:
    """Return the 64-bit XXH3 of `size` bytes, with seed 0."""
    return xxhash.xxh3_64_intdigest(p[at : at + size])


def _shorten(number: int, bits: int, terms: tuple[int, ...]) -> tuple[int, int]:
    """Return a shorter polynomial with the same remainder; bit 0 is the highest power."""
    highest, second = terms[0], terms[1]
    while bits > highest:
        doublings = (bits // highest).bit_length() - 1
        removed, level = max(
            _removable(bits, highest, second, doublings), _removable(bits, highest, second, max(doublings - 1, 0))
        )
        if not removed:
            break
        ahead = number & ((1 << removed) - 1)
        number >>= removed
        for exponent in terms[1:]:
            number ^= ahead << (((highest - exponent) << level) - removed)
        bits -= removed
    return number, bits


def _removable(bits: int, highest: int, second: int, doublings: int) -> tuple[int, int]:
    """Return how many bits (full bytes) a step removes if the exponents are doubled `doublings` times, and `doublings`."""
    return min(bits - (highest << doublings), (highest - second) << doublings) & ~7, doublings
