"""Writes integers of every kind into columns of numbers that can represent them exactly."""

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

# The type of a number column; header_columns.py has the same numbers.
WHOLE = cython.declare(cython.int, 1)
DECIMAL = cython.declare(cython.int, 2)
SINGLE = cython.declare(cython.int, 3)

MASK64 = cython.declare(cython.ulonglong, (1 << 64) - 1)
ONE = cython.declare(cython.ulonglong, 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _low_of(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, is_signed: cython.bint) -> cython.ulonglong:
    """Return the low 64 bits of a sign-extended integer."""
    if size >= 8:
        return c.load64(p, at)
    value: cython.ulonglong = p[at] if size == 1 else c.load16(p, at) if size == 2 else c.load32(p, at)
    if is_signed and value >> (8 * size - 1):
        value |= MASK64 ^ ((ONE << (8 * size)) - 1)
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _high_of(
    p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, is_signed: cython.bint, low: cython.ulonglong
) -> cython.ulonglong:
    """Return the high 64 bits of a sign-extended integer."""
    if size == 16:
        return c.load64(p, at + layout.ID_HIGH)
    return MASK64 if is_signed and low >> 63 else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _is_less(
    high: cython.ulonglong,
    low: cython.ulonglong,
    is_negative: cython.bint,
    limit_high: cython.ulonglong,
    limit_low: cython.ulonglong,
) -> cython.bint:
    """Return whether a number's magnitude is less than a limit whose low half is not 0."""
    if is_negative:  # the complement is the magnitude minus one
        high = high ^ MASK64
        low = low ^ MASK64
        limit_low = limit_low - 1
    return high < limit_high or (high == limit_high and low < limit_low)


def write_whole(
    p: cython.p_const_uchar,
    kind: cython.int,
    at: cython.longlong,
    size: cython.longlong,
    type_: cython.int,
    width: cython.longlong,
    limit_high: cython.ulonglong,
    limit_low: cython.ulonglong,
    data: cython.p_uchar,
    to: cython.longlong,
) -> cython.bint:
    """Write an integer into a number column; return whether it fits.

    The limit of magnitudes is exclusive, and its low half is not 0. For columns of type WHOLE, only the width limits the number.
    """
    is_signed: cython.bint = kind <= 8
    low: cython.ulonglong = _low_of(p, at, size, is_signed)
    high: cython.ulonglong = _high_of(p, at, size, is_signed, low)
    is_negative: cython.bint = is_signed and (high >> 63) != 0
    if type_ == WHOLE:
        half: cython.ulonglong = ONE << (8 * width - 1)
        if high != (MASK64 if is_negative else 0) or (MASK64 ^ low if is_negative else low) >= half:
            return False
        if width == 1:
            data[to] = low & 0xFF
        elif width == 2:
            c.store16(data, to, low)
        elif width == 4:
            c.store32(data, to, low)
        else:
            c.store64(data, to, low)
        return True
    if not _is_less(high, low, is_negative, limit_high, limit_low):
        return False
    if type_ == DECIMAL:
        c.store64(data, to, low)
        c.store64(data, to + layout.ID_HIGH, high)
        return True
    magnitude: cython.double = (MASK64 ^ low) + 1 if is_negative else low
    if type_ == SINGLE:
        c.store_float32(data, to, -magnitude if is_negative else magnitude)
    else:
        c.store_float64(data, to, -magnitude if is_negative else magnitude)
    return True
