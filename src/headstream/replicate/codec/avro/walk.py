"""Reads Avro rows into column memory, compiled.

The steps of a task (codec.avro.codes) control the reading. Numbers are written to `fixed` and the starts of strings to `scratch`,
in the layout of codec.avro.rows. Fields that do not become columns are skipped (codec.avro.skip). Reading stops at a row that
does not match its schema, and the task's notes then contain the fault.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.replicate.codec.avro import codes
    from headstream.replicate.codec.avro.skip import fail, skip_value
    from headstream.replicate.codec.avro.uncompiled_primitives import reverse_decimal, varint_stop, varint_value
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.replicate.codec.avro import codes
    from cython.cimports.headstream.replicate.codec.avro.primitives import reverse_decimal, varint_stop, varint_value
    from cython.cimports.headstream.replicate.codec.avro.skip import fail, skip_value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _put_text(
    start: cython.longlong,
    size: cython.longlong,
    task: cython.p_uchar,
    step: cython.longlong,
    fixed: cython.p_uchar,
    scratch: cython.p_uchar,
    row: cython.longlong,
) -> cython.void:
    """Record the start of a string in the data, and its end in the column."""
    offset: cython.longlong = c.load64_signed(task, step + codes.VALUES) + 4 * row
    c.store32(fixed, offset + 4, c.load32(fixed, offset) + size)
    c.store32(scratch, c.load64_signed(task, step + codes.STARTS) + 4 * row, start)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _put_null(
    task: cython.p_uchar, step: cython.longlong, fixed: cython.p_uchar, scratch: cython.p_uchar, row: cython.longlong
) -> cython.void:
    """Write the placeholder of a null: 0 or an empty string. The validity bit is already 0."""
    kind: cython.longlong = c.load64_signed(task, step)
    place: cython.longlong = c.load64_signed(task, step + codes.VALUES)
    if kind in (codes.TEXT, codes.BINARY, codes.FIXED):
        _put_text(0, 0, task, step, fixed, scratch, row)
    elif kind in (codes.INT32, codes.FLOAT):
        c.store32(fixed, place + 4 * row, 0)
    elif kind in (codes.INT64, codes.DOUBLE):
        c.store64(fixed, place + 8 * row, 0)
    elif kind == codes.BOOLEAN:
        fixed[place + row] = 0
    elif kind != codes.SKIPPED:
        c.store64(fixed, place + 16 * row, 0)
        c.store64(fixed, place + 16 * row + 8, 0)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _take_decimal(
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    task: cython.p_uchar,
    step: cython.longlong,
    fixed: cython.p_uchar,
    row: cython.longlong,
) -> cython.longlong:
    """Read a big-endian number of 1 to 16 bytes, or more if the excess repeats the sign; return the position after it, or -1."""
    start: cython.longlong = at
    end: cython.longlong = at + size
    while end - start > 16 and (p[start] == 255 if p[start + 1] > 127 else p[start] == 0):
        start += 1
    if size < 1 or end - start > 16:
        return fail(task, codes.DECIMAL_SIZE, at, size, 0)
    place: cython.longlong = c.load64_signed(task, step + codes.VALUES) + 16 * row
    if not reverse_decimal(
        fixed, place, p, start, end - start, c.load64(task, step + codes.LOW), c.load64(task, step + codes.HIGH)
    ):
        return fail(task, codes.DECIMAL_DIGITS, at, 0, 0)
    return end


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _take_fixed(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    task: cython.p_uchar,
    step: cython.longlong,
    fixed: cython.p_uchar,
    scratch: cython.p_uchar,
    row: cython.longlong,
) -> cython.longlong:
    """Read a value without a leading varint; return the position after it, or -1."""
    kind: cython.longlong = c.load64_signed(task, step)
    place: cython.longlong = c.load64_signed(task, step + codes.VALUES)
    size: cython.longlong = c.load64_signed(task, step + codes.EXTENT)
    if size > end - at:
        return fail(task, codes.CUT, at, size, end - at)
    if kind == codes.FLOAT:
        c.store32(fixed, place + 4 * row, c.load32(p, at))
    elif kind == codes.DOUBLE:
        c.store64(fixed, place + 8 * row, c.load64(p, at))
    elif kind == codes.BOOLEAN:
        if p[at] > 1:
            return fail(task, codes.NOT_BOOLEAN, at, p[at], 0)
        fixed[place + row] = p[at]
    elif kind == codes.FIXED_DECIMAL:
        return _take_decimal(p, at, size, task, step, fixed, row)
    else:
        _put_text(at, size, task, step, fixed, scratch, row)
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _take_value(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    task: cython.p_uchar,
    step: cython.longlong,
    fixed: cython.p_uchar,
    scratch: cython.p_uchar,
    row: cython.longlong,
) -> cython.longlong:
    """Read a value that is not null; return the position after it, or -1."""
    kind: cython.longlong = c.load64_signed(task, step)
    if kind > codes.DECIMAL:
        if kind == codes.SKIPPED:
            return skip_value(p, at, end, task, c.load64_signed(task, step + codes.EXTENT))
        return _take_fixed(p, at, end, task, step, fixed, scratch, row)
    stop: cython.longlong = varint_stop(p, at, end)
    if stop < 0:
        return fail(task, -stop, at, end - at + 1, end - at)
    value: cython.longlong = varint_value(p, at, stop)
    if kind <= codes.INT64:
        if value < c.load64_signed(task, step + codes.LOW) or value > c.load64_signed(task, step + codes.HIGH):
            return fail(task, codes.RANGE, at, value, 0)
        if kind == codes.INT32:
            c.store32(fixed, c.load64_signed(task, step + codes.VALUES) + 4 * row, value)
        else:
            c.store64_signed(fixed, c.load64_signed(task, step + codes.VALUES) + 8 * row, value)
        return stop
    if value < 0:
        return fail(task, codes.LENGTH, at, value, 0)
    if value > end - stop:
        return fail(task, codes.CUT, stop, value, end - stop)
    if kind == codes.DECIMAL:
        return _take_decimal(p, stop, value, task, step, fixed, row)
    if kind == codes.TEXT:
        good: cython.longlong = c.utf8_size(p, stop, value)
        if good != value:
            return fail(task, codes.NOT_UTF8, stop + good, 0, 0)
    _put_text(stop, value, task, step, fixed, scratch, row)
    return stop + value


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _take_row(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    task: cython.p_uchar,
    fixed: cython.p_uchar,
    scratch: cython.p_uchar,
    row: cython.longlong,
) -> cython.longlong:
    """Read one row into slot `row` of the columns; return the step after the last step, or -1 - step at a fault."""
    step: cython.longlong = codes.NOTES_SIZE
    steps_end: cython.longlong = c.load64_signed(task, codes.NOTE_END)
    stop: cython.longlong
    branches: cython.longlong
    bits: cython.longlong
    index: cython.longlong
    c.store64_signed(task, codes.NOTE_SPARE, codes.SPARE_VALUES + 4 * (end - at))
    while step < steps_end:
        branches = c.load64_signed(task, step + codes.BRANCHES)
        index = -2  # no union: never the index of null
        if branches != 0:
            stop = varint_stop(p, at, end)
            if stop < 0:
                fail(task, -stop, at, end - at + 1, end - at)
                return -1 - step
            index = varint_value(p, at, stop)
            if index < 0 or index >= branches:
                fail(task, codes.BRANCH, at, index, branches)
                return -1 - step
            at = stop
        stop = step
        if c.load64_signed(task, step) == codes.SECTION:
            if index == c.load64_signed(task, step + codes.NULL_INDEX):
                stop = step + c.load64_signed(task, step + codes.EXTENT) * codes.STEP_SIZE
            if c.load64_signed(task, step + codes.VALUES):
                fixed[c.load64_signed(task, codes.NOTE_PRESENT) + row] = index != c.load64_signed(task, step + codes.NULL_INDEX)
            while step < stop:
                step += codes.STEP_SIZE
                _put_null(task, step, fixed, scratch, row)
        elif index == c.load64_signed(task, step + codes.NULL_INDEX):
            _put_null(task, step, fixed, scratch, row)
        else:
            at = _take_value(p, at, end, task, step, fixed, scratch, row)
            if at < 0:
                return -1 - step
            bits = c.load64_signed(task, step + codes.VALIDITY)
            if bits >= 0:
                fixed[bits + (row >> 3)] |= 1 << (row & 7)
        step += codes.STEP_SIZE
    if at < end:
        fail(task, codes.LEFT_OVER, at, 0, end - at)
        return -1
    return step


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _clear_row(task: cython.p_uchar, fixed: cython.p_uchar, row: cython.longlong) -> cython.void:
    """Clear the validity bits of an invalid row, because the next valid row reuses its slot."""
    bits: cython.longlong
    step: cython.longlong = codes.NOTES_SIZE
    while step < c.load64_signed(task, codes.NOTE_END):
        bits = c.load64_signed(task, step + codes.VALIDITY)
        if bits >= 0:
            fixed[bits + (row >> 3)] &= 0xFF ^ (1 << (row & 7))
        step += codes.STEP_SIZE


def walk_rows(
    data: memoryview,
    ranges: tuple[memoryview, memoryview, memoryview | None],
    memory: tuple[bytearray, bytearray, bytearray],
    first: int,
    count: int,
) -> int:
    """Read rows into the columns until a row is invalid.

    Args:
        ranges: The start and end of each row, and the indexes of the rows to read (None: all); int64.
        memory: Output buffers. task: the fault and the number of valid rows; fixed: numbers and offsets; scratch: the starts of
            strings.

    Returns:
        The index of the invalid row among the rows to read, or `count`.
    """
    starts_view, ends_view, rows_view = ranges
    task_bytes, fixed_bytes, scratch_bytes = memory
    p: cython.p_const_uchar = c.readable(data)
    starts: cython.p_const_uchar = c.readable(starts_view)
    ends: cython.p_const_uchar = c.readable(ends_view)
    picked: cython.bint = rows_view is not None
    rows: cython.p_const_uchar = c.readable(starts_view if rows_view is None else rows_view)
    task: cython.p_uchar = c.writable(task_bytes)
    fixed: cython.p_uchar = c.writable(fixed_bytes)
    scratch: cython.p_uchar = c.writable(scratch_bytes)
    good: cython.longlong = c.load64_signed(task, codes.NOTE_COUNT)
    index: cython.longlong = first
    limit: cython.longlong = count
    row: cython.longlong
    ended: cython.longlong
    with cython.nogil:
        while index < limit:
            row = c.load64_signed(rows, index * 8) if picked else index
            ended = _take_row(p, c.load64_signed(starts, row * 8), c.load64_signed(ends, row * 8), task, fixed, scratch, good)
            if ended < 0:
                c.store64_signed(task, codes.NOTE_STEP, -1 - ended)
                _clear_row(task, fixed, good)
                break
            c.store64_signed(fixed, good * 8, row)
            good += 1
            index += 1
        c.store64_signed(task, codes.NOTE_COUNT, good)
    return index
