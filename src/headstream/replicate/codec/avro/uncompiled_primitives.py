"""Varints and decimals of Avro for kernels that are not compiled, with the names and semantics of avro_primitives.h.

A pointer is a memoryview of unsigned bytes; `at` counts from its first byte.
"""

from __future__ import annotations


def varint_stop(p: memoryview, at: int, end: int) -> int:
    """Return the position after a varint; -1 if the varint does not end before `end`, -2 if it has more than 64 bits."""
    limit = min(at + 9, end)
    for position in range(at, limit):
        if p[position] < 0x80:
            return position + 1
    if limit == end:
        return -1
    return limit + 1 if p[limit] <= 1 else -2


def varint_value(p: memoryview, at: int, stop: int) -> int:
    """Return the zig-zag number of the varint from `at` to `stop`."""
    value = 0
    for byte in p[at:stop][::-1]:
        value = (value << 7) | (byte & 0x7F)
    return (value >> 1) ^ -(value & 1)


def reverse_decimal(target: memoryview, to: int, p: memoryview, at: int, size: int, low: int, high: int) -> bool:
    """Write a big-endian number as 16 little-endian bytes; return whether its absolute value is less than high * 2^64 + low."""
    value = int.from_bytes(p[at : at + size], "big", signed=True)
    target[to : to + 16] = value.to_bytes(16, "little", signed=True)
    return abs(value) < (high << 64) + low
