"""Skips values of any Avro type, for the fields of a row that do not become columns; compiled.

The task of the call contains the types, in the layout of codec.avro.codes. Skipped values are checked as strictly as decoded
values: a row with bytes that are not a value of the type is invalid.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.replicate.codec.avro import codes
    from headstream.replicate.codec.avro.uncompiled_primitives import varint_stop, varint_value
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.replicate.codec.avro import codes
    from cython.cimports.headstream.replicate.codec.avro.primitives import varint_stop, varint_value


def fail(
    task: cython.p_uchar, code: cython.longlong, at: cython.longlong, need: cython.longlong, have: cython.longlong
) -> cython.longlong:
    """Record a fault; return -1."""
    c.store64_signed(task, 0, code)
    c.store64_signed(task, codes.NOTE_AT, at)
    c.store64_signed(task, codes.NOTE_NEED, need)
    c.store64_signed(task, codes.NOTE_HAVE, have)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _number_stop(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, task: cython.p_uchar) -> cython.longlong:
    """Return the position after a varint, or -1."""
    stop: cython.longlong = varint_stop(p, at, end)
    return stop if stop >= 0 else fail(task, -stop, at, end - at + 1, end - at)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _skip_text(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, task: cython.p_uchar, kind: cython.longlong
) -> cython.longlong:
    """Skip a string or bytes; return the position after it, or -1."""
    stop: cython.longlong = _number_stop(p, at, end, task)
    if stop < 0:
        return -1
    size: cython.longlong = varint_value(p, at, stop)
    if size < 0:
        return fail(task, codes.LENGTH, at, size, 0)
    if size > end - stop:
        return fail(task, codes.CUT, stop, size, end - stop)
    good: cython.longlong = c.utf8_size(p, stop, size) if kind == codes.TEXT else size
    return stop + size if good == size else fail(task, codes.NOT_UTF8, stop + good, 0, 0)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _skip_blocks(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, task: cython.p_uchar, node: cython.longlong
) -> cython.longlong:
    """Skip an array or map, which consists of blocks of items; return the position after it, or -1."""
    is_map: cython.bint = c.load64_signed(task, node) == codes.MAP
    item: cython.longlong = c.load64_signed(task, node + codes.FIRST)
    start: cython.longlong
    count: cython.longlong = -1
    size: cython.longlong
    while True:
        start = at
        at = _number_stop(p, at, end, task)
        if at < 0:
            return -1
        count = varint_value(p, start, at)
        if count == 0:
            return at
        if count > 0:
            count = -count  # counted up to 0: the lowest number has no positive counterpart
        else:
            start = at
            at = _number_stop(p, at, end, task)
            if at < 0:
                return -1
            size = varint_value(p, start, at)
            if size < 0 or size > end - at:
                return fail(task, codes.CUT, start, size, end - at)
        while count < 0:
            if is_map:
                at = _skip_text(p, at, end, task, codes.TEXT)
                if at < 0:
                    return -1
            at = skip_value(p, at, end, task, item)
            if at < 0:
                return -1
            count += 1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _skip_plain(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, task: cython.p_uchar, node: cython.longlong
) -> cython.longlong:
    """Skip a value without inner values; return the position after it, or -1."""
    kind: cython.longlong = c.load64_signed(task, node)
    first: cython.longlong = c.load64_signed(task, node + codes.FIRST)
    if kind in (codes.TEXT, codes.BINARY):
        return _skip_text(p, at, end, task, kind)
    if kind == codes.FIXED:
        return at + first if first <= end - at else fail(task, codes.CUT, at, first, end - at)
    if kind == codes.BOOLEAN:
        if at == end:
            return fail(task, codes.CUT, at, 1, 0)
        return at + 1 if p[at] <= 1 else fail(task, codes.NOT_BOOLEAN, at, p[at], 0)
    stop: cython.longlong = _number_stop(p, at, end, task)
    if stop < 0:
        return -1
    value: cython.longlong = varint_value(p, at, stop)
    if value < first or value > c.load64_signed(task, node + codes.SECOND):
        return fail(task, codes.RANGE, at, value, 0)
    return stop


def skip_value(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, task: cython.p_uchar, node: cython.longlong
) -> cython.longlong:
    """Skip a value of the type at position `node` of the task; return the position after it, or record a fault and return -1."""
    kind: cython.longlong = c.load64_signed(task, node)
    spare: cython.longlong = c.load64_signed(task, codes.NOTE_SPARE) - 1
    c.store64_signed(task, codes.NOTE_SPARE, spare)
    if spare < 0:
        return fail(task, codes.ENDLESS, at, 0, 0)
    if kind == codes.NOTHING:
        return at
    if kind < codes.RECORD:
        return _skip_plain(p, at, end, task, node)
    if kind in (codes.ARRAY, codes.MAP):
        return _skip_blocks(p, at, end, task, node)
    count: cython.longlong = c.load64_signed(task, node + codes.FIRST)
    index: cython.longlong = 0
    if kind == codes.UNION:
        stop: cython.longlong = _number_stop(p, at, end, task)
        if stop < 0:
            return -1
        index = varint_value(p, at, stop)
        if index < 0 or index >= count:
            return fail(task, codes.BRANCH, at, index, count)
        return skip_value(p, stop, end, task, c.load64_signed(task, node + codes.SECOND + 8 * index))
    while index < count and at >= 0:
        at = skip_value(p, at, end, task, c.load64_signed(task, node + codes.SECOND + 8 * index))
        index += 1
    return at
