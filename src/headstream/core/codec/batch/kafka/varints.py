"""The varints of Kafka's record batches, for kernels: zigzag numbers of up to 64 bits, 7 bits per byte, lowest bits first."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
else:
    from cython.cimports.headstream.core.codec import primitives as c

MOST_BITS = cython.declare(cython.int, 63)
MASK64 = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)


def read_varint(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, found: cython.p_uchar, slot: cython.longlong
) -> cython.longlong:
    """Read a varint into a slot of 8 bytes; return the end position, or -1 if the varint is truncated or too long."""
    value: cython.ulonglong = 0
    shift: cython.int = 0
    while at < end and shift <= MOST_BITS:
        byte: cython.ulonglong = p[at]
        at += 1
        value |= ((byte & 127) << shift) & MASK64
        if byte < 128:
            number: cython.longlong = value >> 1
            c.store64_signed(found, slot, -number - 1 if value & 1 else number)
            return at
        shift += 7
    return -1


def varint_size(number: cython.longlong) -> cython.longlong:
    """Return the encoded size of a number."""
    value: cython.longlong = number if number >= 0 else -number - 1
    size: cython.longlong = 1
    value >>= 6
    while value > 0:
        size += 1
        value >>= 7
    return size


def write_varint(q: cython.p_uchar, to: cython.longlong, number: cython.longlong) -> cython.longlong:
    """Write any number, at most 10 bytes; return the end position."""
    is_negative: cython.bint = number < 0
    value: cython.ulonglong = -number - 1 if is_negative else number
    value = (value << 1) & MASK64
    if is_negative:
        value |= 1
    while value > 127:
        q[to] = (value & 127) | 128
        to += 1
        value >>= 7
    q[to] = value
    return to + 1
