"""Reads the values that a filter's program uses from a stored message. filter_scan.py shows the layout of the values.

Pointers: p is the message, q the program, v the values.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
    from headstream.core.codec.batch.headers import key_end, null_end
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout
    from cython.cimports.headstream.core.codec.batch.headers import key_end, null_end

VALUE = cython.declare(cython.longlong, layout.VALUE_BYTES)
FIELDS = cython.declare(cython.longlong, 6)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _set(
    v: cython.p_uchar, i: cython.longlong, kind: cython.int, negative: cython.int, low: cython.ulonglong, high: cython.ulonglong
) -> cython.void:
    i *= VALUE
    v[i] = kind
    v[i + layout.VALUE_SIGN] = negative
    v[i + layout.VALUE_SOURCE] = 0
    c.store64(v, i + layout.VALUE_LOW, low)
    c.store64(v, i + layout.VALUE_HIGH, high)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _set_whole(
    v: cython.p_uchar,
    i: cython.longlong,
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    signed: cython.bint,
) -> cython.void:
    """Set value i to a little-endian integer of 1 to 16 bytes."""
    to: cython.longlong = i * VALUE
    negative: cython.bint = signed and p[at + size - 1] >= 0x80
    _set(v, i, layout.WHOLE, negative, 0, 0)
    if not negative:
        c.copy(v, to + layout.VALUE_LOW, p, at, size)
        return
    carry: cython.uint = 1  # the magnitude: complement and add one
    k: cython.longlong
    for k in range(16):
        carry += (p[at + k] ^ 0xFF) if k < size else 0
        v[to + layout.VALUE_LOW + k] = carry & 0xFF
        carry >>= 8


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _set_char(v: cython.p_uchar, i: cython.longlong, unit: cython.uint) -> cython.void:
    """Set value i to the UTF-8 bytes of a UTF-16 code unit, which are stored in the value itself."""
    to: cython.longlong = i * VALUE + layout.VALUE_TEXT
    size: cython.longlong = 1 if unit < 0x80 else 2 if unit < 0x800 else 3
    _set(v, i, layout.TEXT, 0, to, size)
    v[i * VALUE + layout.VALUE_SOURCE] = 2
    if size == 1:
        v[to] = unit
    elif size == 2:
        v[to] = 0xC0 | (unit >> 6)
        v[to + 1] = 0x80 | (unit & 0x3F)
    else:
        v[to] = 0xE0 | (unit >> 12)
        v[to + 1] = 0x80 | ((unit >> 6) & 0x3F)
        v[to + 2] = 0x80 | (unit & 0x3F)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _set_header(
    v: cython.p_uchar, i: cython.longlong, p: cython.p_const_uchar, kind: cython.int, at: cython.longlong, size: cython.longlong
) -> cython.void:
    """Set value i to a header's value."""
    width: cython.longlong = c.kind_width(kind)
    if kind == 1 or kind == 2:
        _set(v, i, layout.TEXT, 0, at, size)
    elif width < 0 or width != size:
        _set(v, i, layout.OPAQUE, 0, 0, 0)
    elif kind == 3:
        _set(v, i, layout.BOOLEAN, 0, p[at] != 0, 0)
    elif kind < 14:
        _set_whole(v, i, p, at, size, kind < 9)
    elif kind == 14:
        _set(v, i, layout.FLOAT, 0, 0, 0)
        c.store_float64(v, i * VALUE + layout.VALUE_LOW, c.load_float32(p, at))
    elif kind == 15:
        _set(v, i, layout.FLOAT, 0, c.load64(p, at), 0)
    elif kind == 65:
        _set_char(v, i, c.load16(p, at))
    else:
        _set(v, i, layout.NULL, 0, 0, 0)


def set_fields(
    v: cython.p_uchar,
    fields: cython.int,
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    payload_size: cython.longlong,
) -> cython.void:
    """Set the values of the fields that a program uses. The message begins at `at`; its headers end at `end`."""
    begin: cython.longlong = at + layout.HEADERS
    after: cython.longlong = key_end(p, begin, end)
    if fields & 1:
        _set(v, 0, layout.WHOLE, 0, c.load64(p, at), 0)
    if fields & 2:
        _set(v, 1, layout.WHOLE, 0, c.load64(p, at + layout.TIMESTAMP), 0)
    if fields & 4:
        _set(v, 2, layout.WHOLE, 0, p[at + layout.STATE], 0)
    if fields & 8:
        _set(v, 3, layout.WHOLE, 0, c.load64(p, at + layout.ID), c.load64(p, at + layout.ID + layout.ID_HIGH))
    if fields & 16:
        if after > begin and after <= end:
            _set(v, 4, layout.TEXT, 0, begin + layout.KEY_VALUE, after - begin - layout.KEY_VALUE)
        else:
            _set(v, 4, layout.NULL, 0, 0, 0)
    if fields & 32:
        if null_end(p, after, end, payload_size) > after:
            _set(v, 5, layout.NULL, 0, 0, 0)
        else:
            _set(v, 5, layout.WHOLE, 0, payload_size, 0)


def set_headers(
    v: cython.p_uchar,
    q: cython.p_const_uchar,
    names: cython.longlong,
    count: cython.longlong,
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Set the values of the headers that a program uses, from the block between `at` and `end`; return 0 or a fault."""
    i: cython.longlong
    size: cython.longlong
    name_at: cython.longlong
    for i in range(count):
        v[(FIELDS + i) * VALUE] = layout.NULL
    while at < end:
        if end - at < 4:
            return c.note_fault(notes, faults.HEADER_CUT, at, 4, end - at)
        size = c.load32(p, at)
        at += 4
        if end - at < size + layout.VALUE_HEAD:
            return c.note_fault(notes, faults.KEY_CUT, at, size + layout.VALUE_HEAD, end - at)
        value_at: cython.longlong = at + size + layout.VALUE_HEAD
        value_size: cython.longlong = c.load32(p, value_at - 4)
        if end - value_at < value_size:
            return c.note_fault(notes, faults.VALUE_CUT, value_at, value_size, end - value_at)
        for i in range(count):
            if c.load32(q, names + layout.NAME_BYTES * i + layout.NAME_SIZE) == size:
                name_at = c.load32(q, names + layout.NAME_BYTES * i)
                if c.equal(p, at, q, name_at, size):
                    _set_header(v, FIELDS + i, p, p[value_at - layout.VALUE_HEAD], value_at, value_size)
                    break
        at = value_at + value_size
    return 0
