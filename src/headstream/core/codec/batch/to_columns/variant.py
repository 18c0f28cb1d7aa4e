"""Encodes headers as a VARIANT, the binary form of a self-describing value in Spark and Parquet.

    metadata   1 | sorted << 4 | (offset_size - 1) << 6, count, offsets (count + 1), keys
    object     2 | (offset_size - 1) << 2 | (id_size - 1) << 4 | large << 6, count, ids, offsets (count + 1), values
    value      type << 2, then the bytes; a string of less than 64 bytes: size << 2 | 1, then the bytes

All numbers of the metadata have offset_size bytes; an object's count has 1 byte, or 4 bytes if it is large. Keys are sorted
bytewise and each message has its own key list, so the ids are 0, 1, 2, ... A kind becomes a type that can represent all its
values: unsigned numbers become the next wider signed type, and numbers of 64 unsigned bits or more become a decimal.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout

# Header bytes of values: a primitive type's number << 2.
NULL = cython.declare(cython.uchar, 0)
TRUE = cython.declare(cython.uchar, 1 << 2)
FALSE = cython.declare(cython.uchar, 2 << 2)
INT8 = cython.declare(cython.uchar, 3 << 2)
INT16 = cython.declare(cython.uchar, 4 << 2)
INT32 = cython.declare(cython.uchar, 5 << 2)
INT64 = cython.declare(cython.uchar, 6 << 2)
FLOAT64 = cython.declare(cython.uchar, 7 << 2)
DECIMAL16 = cython.declare(cython.uchar, 10 << 2)
FLOAT32 = cython.declare(cython.uchar, 14 << 2)
BINARY = cython.declare(cython.uchar, 15 << 2)
LONG_STRING = cython.declare(cython.uchar, 16 << 2)

SHORT_STRING_SIZE = cython.declare(cython.longlong, 63)

# 10^38, the first number that has 39 digits.
DIGITS_HIGH = cython.declare(cython.ulonglong, 10**38 >> 64)
DIGITS_LOW = cython.declare(cython.ulonglong, 10**38 & ((1 << 64) - 1))
MASK64 = cython.declare(cython.ulonglong, (1 << 64) - 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _width_of(number: cython.longlong) -> cython.longlong:
    """Return the number of bytes, 1 to 4, that a non-negative number needs."""
    if number < 1 << 8:
        return 1
    if number < 1 << 16:
        return 2
    return 3 if number < 1 << 24 else 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _store(q: cython.p_uchar, to: cython.longlong, number: cython.longlong, width: cython.longlong) -> cython.longlong:
    """Write a number in 1 to 4 bytes; return the end position."""
    q[to] = number & 0xFF
    if width > 1:
        q[to + 1] = number >> 8 & 0xFF
    if width > 2:
        q[to + 2] = number >> 16 & 0xFF
    if width > 3:
        q[to + 3] = number >> 24 & 0xFF
    return to + width


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _fits_decimal(p: cython.p_const_uchar, at: cython.longlong, is_signed: cython.bint) -> cython.bint:
    """Return whether a 128-bit number has at most 38 digits."""
    low: cython.ulonglong = c.load64(p, at)
    high: cython.ulonglong = c.load64(p, at + layout.ID_HIGH)
    if is_signed and c.load64_signed(p, at + layout.ID_HIGH) < 0:  # the complement is the magnitude minus one
        low = low ^ MASK64
        high = high ^ MASK64
        return high < DIGITS_HIGH or (high == DIGITS_HIGH and low < DIGITS_LOW - 1)
    return high < DIGITS_HIGH or (high == DIGITS_HIGH and low < DIGITS_LOW)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _encode_bytes(
    type_byte: cython.uchar,
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write bytes or a long string; return the end position."""
    q[to] = type_byte
    c.store32(q, to + 1, size)
    c.copy(q, to + 5, p, at, size)
    return to + 5 + size


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _encode_number(
    type_byte: cython.uchar,
    width: cython.longlong,
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write a number of `size` bytes in `width` bytes; return the end position."""
    q[to] = type_byte
    c.copy(q, to + 1, p, at, size)
    if width > size:
        c.fill(q, to + 1 + size, 0, width - size)
    return to + 1 + width


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _encode_decimal(
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    is_signed: cython.bint,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write a number of 64 or 128 bits as a decimal, or as a string if it has more than 38 digits."""
    if size == 16 and not _fits_decimal(p, at, is_signed):
        size = c.store_decimal(q, to + 1, p, at, is_signed)
        q[to] = size << 2 | 1
        return to + 1 + size
    _encode_number(0, 16, p, at, size, q, to + 1)  # the scale, which is 0, is written as its type byte
    q[to] = DECIMAL16
    return to + 18


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _encode_char(p: cython.p_const_uchar, at: cython.longlong, q: cython.p_uchar, to: cython.longlong) -> cython.longlong:
    """Write a UTF-16 code unit as a string, or as bytes if it is half of a surrogate pair."""
    unit: cython.uint = c.load16(p, at)
    if unit < 0x80:
        q[to] = 1 << 2 | 1
        q[to + 1] = unit
        return to + 2
    if unit < 0x800:
        q[to] = 2 << 2 | 1
        q[to + 1] = 0xC0 | unit >> 6
        q[to + 2] = 0x80 | unit & 0x3F
        return to + 3
    if 0xD800 <= unit <= 0xDFFF:
        return _encode_bytes(BINARY, p, at, 2, q, to)
    q[to] = 3 << 2 | 1
    q[to + 1] = 0xE0 | unit >> 12
    q[to + 2] = 0x80 | unit >> 6 & 0x3F
    q[to + 3] = 0x80 | unit & 0x3F
    return to + 4


def encode_value(
    kind: cython.int, p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write the value of a checked header, at most the value's size plus 41 bytes; return the end position."""
    if kind == 2 and size > SHORT_STRING_SIZE:
        return _encode_bytes(LONG_STRING, p, at, size, q, to)
    if kind == 2:
        return _encode_number(size << 2 | 1, size, p, at, size, q, to)
    if kind == 3:
        q[to] = TRUE if p[at] == 1 else FALSE
        return to + 1
    if kind == 4:
        return _encode_number(INT8, 1, p, at, 1, q, to)
    if kind == 5 or kind == 9:
        return _encode_number(INT16, 2, p, at, size, q, to)
    if kind == 6 or kind == 10:
        return _encode_number(INT32, 4, p, at, size, q, to)
    if kind == 7 or kind == 11:
        return _encode_number(INT64, 8, p, at, size, q, to)
    if kind == 12 or kind == 8 or kind == 13:
        return _encode_decimal(p, at, size, kind == 8, q, to)
    if kind == 14:
        return _encode_number(FLOAT32, 4, p, at, 4, q, to)
    if kind == 15:
        return _encode_number(FLOAT64, 8, p, at, 8, q, to)
    if kind == 64:
        q[to] = NULL
        return to + 1
    if kind == 65:
        return _encode_char(p, at, q, to)
    return _encode_bytes(BINARY, p, at, size, q, to)


def encode_object(
    p: cython.p_const_uchar, entries: cython.p_const_uchar, count: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write checked headers as an object; return the end position.

    Entries are the positions of keys, which follow their lengths; the entries are sorted by key and unique. The output has space
    for the values plus 50 bytes per header plus 9 bytes.
    """
    i: cython.longlong
    key_at: cython.longlong
    kind_at: cython.longlong
    guess: cython.longlong = 0
    id_width: cython.longlong = _width_of(count - 1 if count > 0 else 0)
    is_large: cython.bint = count > 255
    for i in range(count):
        key_at = c.load64_signed(entries, 8 * i)
        guess += 2 + c.load32(p, key_at + c.load32(p, key_at - 4) + 1)
    width: cython.longlong = _width_of(guess)
    while True:
        q[to] = 2 | (width - 1) << 2 | (id_width - 1) << 4 | (0x40 if is_large else 0)
        at: cython.longlong = _store(q, to + 1, count, 4 if is_large else 1)
        for i in range(count):
            at = _store(q, at, i, id_width)
        begin: cython.longlong = at + (count + 1) * width
        end: cython.longlong = begin
        for i in range(count):
            at = _store(q, at, end - begin, width)
            key_at = c.load64_signed(entries, 8 * i)
            kind_at = key_at + c.load32(p, key_at - 4)
            end = encode_value(p[kind_at], p, kind_at + 5, c.load32(p, kind_at + 1), q, end)
        _store(q, at, end - begin, width)
        if _width_of(end - begin) == width:
            return end
        width = _width_of(end - begin)  # the estimate was on the wrong side of a boundary: repeat


def encode_keys(
    p: cython.p_const_uchar, entries: cython.p_const_uchar, count: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write the keys of an object as its metadata; return the end position.

    Besides the keys, at most 4 bytes per header and 9 bytes are written."""
    i: cython.longlong
    key_at: cython.longlong
    key_size: cython.longlong
    total: cython.longlong = 0
    for i in range(count):
        total += c.load32(p, c.load64_signed(entries, 8 * i) - 4)
    width: cython.longlong = _width_of(total)  # a key has at least one byte, so the count fits as well
    q[to] = 0x11 | (width - 1) << 6
    at: cython.longlong = _store(q, to + 1, count, width)
    begin: cython.longlong = at + (count + 1) * width
    end: cython.longlong = begin
    for i in range(count):
        at = _store(q, at, end - begin, width)
        key_at = c.load64_signed(entries, 8 * i)
        key_size = c.load32(p, key_at - 4)
        c.copy(q, end, p, key_at, key_size)
        end += key_size
    _store(q, at, end - begin, width)
    return end
