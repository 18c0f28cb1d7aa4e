"""Decodes flat Avro records to columns, compiled, without a Python object per value. An invalid row does not affect other rows.

A row is the message of one data envelope, a record as codec.avro.plan describes; codec.avro.reader describes the encoding of
values. The rows of one schema are read once (codec.avro.walk): numbers are written to their columns, and strings are checked and
their positions recorded. Then the strings are copied, column by column. The memory of a call:

    fixed     rows, int64 | before_present, uint8 | validity bits of each column
              | values, or int32 offsets, of each column
    scratch   start position of each string in the data, uint32
    texts     the strings of each column, back to back

`fixed` and `scratch` have space for rows that are at least as long as the schema's smallest row; `texts` has space for the
strings.
"""

from __future__ import annotations

from typing import Final

from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec.avro.faults import explain
from headstream.replicate.codec.avro.plan import ColumnBuffers, RowPlan, Rows, compile_rows
from headstream.replicate.codec.avro.walk import walk_rows

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.replicate.codec.avro import codes
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.replicate.codec.avro import codes

__all__ = ["ColumnBuffers", "RowPlan", "Rows", "compile_rows", "decode_rows"]


MAX_ROWS_BYTES: Final = (1 << 31) - 1  # the range of a column's int32 offsets
MAX_DATA_BYTES: Final = (1 << 32) - 1  # the range of scratch's uint32
# A string of at most SHORT bytes is copied as SHORT bytes, without a call. Thus, SHORT bytes must be readable from the string's
# start, and writable after a column's last string.
SHORT = cython.declare(cython.longlong, 16)
# Number of rows whose strings are copied column by column at a time: few enough to stay in the processor's cache.
BLOCK = cython.declare(cython.longlong, 1024)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _measure(
    starts: cython.p_const_uchar,
    ends: cython.p_const_uchar,
    rows: cython.p_const_uchar,
    picked: cython.bint,
    known: cython.longlong,
    count: cython.longlong,
    size: cython.longlong,
    least: cython.longlong,
    task: cython.p_uchar,
) -> cython.longlong:
    """Return the size of all rows, or -1 - i if row i is outside the data; record the maximum number of valid rows."""
    total: cython.longlong = 0
    likely: cython.longlong = 0
    index: cython.longlong = 0
    row: cython.longlong
    at: cython.longlong
    end: cython.longlong
    while index < count:
        row = c.load64_signed(rows, index * 8) if picked else index
        if row < 0 or row >= known:
            return -1 - index
        at = c.load64_signed(starts, row * 8)
        end = c.load64_signed(ends, row * 8)
        if at < 0 or end < at or end > size:
            return -1 - index
        total += end - at
        if end - at >= least:
            likely += 1
        index += 1
    c.store64_signed(task, codes.NOTE_COUNT, likely)
    return total


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _width(kind: cython.longlong) -> cython.longlong:
    """Return the size of a value in its column; for strings, the size of an offset."""
    if kind in (codes.DECIMAL, codes.FIXED_DECIMAL):
        return 16
    if kind in (codes.INT64, codes.DOUBLE):
        return 8
    return 1 if kind == codes.BOOLEAN else 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _is_text(kind: cython.longlong) -> cython.bint:
    return kind in (codes.TEXT, codes.BINARY, codes.FIXED)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _lay_out(task: cython.p_uchar, slots: cython.longlong, sizes: cython.p_uchar) -> cython.void:
    """Assign the positions of every column for `slots` rows, aligned to 16 bytes; record the sizes of `fixed` and `scratch`."""
    at: cython.longlong = slots * 8
    scratch: cython.longlong = 0
    kind: cython.longlong
    step: cython.longlong = codes.NOTES_SIZE
    c.store64_signed(task, codes.NOTE_PRESENT, at)
    at += slots
    while step < c.load64_signed(task, codes.NOTE_END):
        if c.load64_signed(task, step + codes.VALIDITY) >= 0:
            at = (at + 15) & -16
            c.store64_signed(task, step + codes.VALIDITY, at)
            at += (slots + 7) // 8
        step += codes.STEP_SIZE
    step = codes.NOTES_SIZE
    while step < c.load64_signed(task, codes.NOTE_END):
        kind = c.load64_signed(task, step)
        if kind < codes.SECTION:
            at = (at + 15) & -16
            c.store64_signed(task, step + codes.VALUES, at)
            at += (slots + _is_text(kind)) * _width(kind)
        if _is_text(kind):
            c.store64_signed(task, step + codes.STARTS, scratch)
            scratch += slots * 4
        step += codes.STEP_SIZE
    c.store64_signed(sizes, 0, at)
    c.store64_signed(sizes, 8, scratch)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _clear(task: cython.p_uchar, slots: cython.longlong, fixed: cython.p_uchar) -> cython.void:
    """Set all validity bits and first offsets to 0."""
    step: cython.longlong = codes.NOTES_SIZE
    while step < c.load64_signed(task, codes.NOTE_END):
        if c.load64_signed(task, step + codes.VALIDITY) >= 0:
            c.fill(fixed, c.load64_signed(task, step + codes.VALIDITY), 0, (slots + 7) // 8)
        if _is_text(c.load64_signed(task, step)):
            c.store32(fixed, c.load64_signed(task, step + codes.VALUES), 0)
        step += codes.STEP_SIZE


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _place_texts(task: cython.p_uchar, fixed: cython.p_uchar) -> cython.longlong:
    """Assign the position of every column's strings, with space for a SHORT string after it; return the total size."""
    total: cython.longlong = 0
    step: cython.longlong = codes.NOTES_SIZE
    count: cython.longlong = c.load64_signed(task, codes.NOTE_COUNT)
    while step < c.load64_signed(task, codes.NOTE_END):
        if _is_text(c.load64_signed(task, step)):
            c.store64_signed(task, step + codes.TEXTS, total)
            total += c.load32(fixed, c.load64_signed(task, step + codes.VALUES) + 4 * count) + SHORT
        step += codes.STEP_SIZE
    return total


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _copy_texts(
    p: cython.p_const_uchar,
    size: cython.longlong,
    task: cython.p_uchar,
    step: cython.longlong,
    fixed: cython.p_uchar,
    scratch: cython.p_uchar,
    texts: cython.p_uchar,
    row: cython.longlong,
    end: cython.longlong,
) -> cython.void:
    """Copy the strings of one column and some rows to their positions."""
    starts: cython.longlong = c.load64_signed(task, step + codes.STARTS)
    offsets: cython.longlong = c.load64_signed(task, step + codes.VALUES)
    first: cython.longlong = c.load64_signed(task, step + codes.TEXTS)
    to: cython.longlong = first + c.load32(fixed, offsets + 4 * row)
    at: cython.longlong
    length: cython.longlong
    while row < end:
        at = c.load32(scratch, starts + 4 * row)
        length = first + c.load32(fixed, offsets + 4 * row + 4) - to
        if cython.compiled and length <= SHORT and at + SHORT <= size:
            c.store64(texts, to, c.load64(p, at))
            c.store64(texts, to + 8, c.load64(p, at + 8))
        else:
            c.copy(texts, to, p, at, length)
        to += length
        row += 1


def decode_rows(plan: RowPlan, data: BytesLike, starts: BytesLike, ends: BytesLike, rows: BytesLike | None = None) -> Rows:
    """Read the rows of one schema into columns.

    Args:
        starts: Start of each row in `data`: int64, in any buffer.
        ends: End of each row in `data`: int64, in any buffer.
        rows: Indexes of the entries of starts and ends that are rows of this schema: int64; None: all entries.

    Raises:
        InvalidInputError: a row is outside `data`, buffers have different lengths, or one call has rows of more than 2 GiB or
            data of more than 4 GiB.
    """
    data_view, starts_view, ends_view = memoryview(data), memoryview(starts), memoryview(ends)
    rows_view = None if rows is None else memoryview(rows)
    meant = starts_view if rows_view is None else rows_view
    if starts_view.nbytes != ends_view.nbytes or starts_view.nbytes % 8 or meant.nbytes % 8:
        raise InvalidInputError("starts, ends and rows must be int64 buffers; starts and ends must have the same length")
    starts_p: cython.p_const_uchar = c.readable(starts_view)
    ends_p: cython.p_const_uchar = c.readable(ends_view)
    rows_p: cython.p_const_uchar = c.readable(meant)
    picked: cython.bint = rows_view is not None
    known: cython.longlong = starts_view.nbytes // 8
    count: cython.longlong = meant.nbytes // 8
    size: cython.longlong = data_view.nbytes
    least: cython.longlong = plan.least_bytes
    task_bytes = bytearray(plan.task)
    task: cython.p_uchar = c.writable(task_bytes)
    total: cython.longlong = _measure(starts_p, ends_p, rows_p, picked, known, count, size, least, task)
    if total < 0:
        raise InvalidInputError(f"row {-1 - total} is outside the {known} rows, or outside the {size} bytes of data")
    if total > MAX_ROWS_BYTES or size > MAX_DATA_BYTES:
        advice = "Pass less than 2 GiB of rows, in less than 4 GiB of data, per call"
        raise InvalidInputError(f"the rows ({total} bytes) or the data ({size} bytes) are too large for one call", advice=advice)
    sizes_bytes = bytearray(16)
    slots: cython.longlong = c.load64_signed(task, codes.NOTE_COUNT) + 1  # an invalid row is overwritten by the next valid row
    c.store64_signed(task, codes.NOTE_COUNT, 0)
    _lay_out(task, slots, c.writable(sizes_bytes))
    fixed_bytes = c.new_bytes(c.load64_signed(c.writable(sizes_bytes), 0))
    memory = (task_bytes, fixed_bytes, c.new_bytes(c.load64_signed(c.writable(sizes_bytes), 8)))
    _clear(task, slots, c.writable(fixed_bytes))
    ranges = (starts_view, ends_view, rows_view)
    faults: list[tuple[int, DecodeError]] = []
    index: cython.longlong = walk_rows(data_view, ranges, memory, 0, count)
    row: cython.longlong
    while index < count:
        row = c.load64_signed(rows_p, index * 8) if picked else index
        faults.append((row, explain(plan, task_bytes, c.load64_signed(starts_p, row * 8))))
        index = walk_rows(data_view, ranges, memory, index + 1, count)
    return _collect(plan, data_view, memory, faults)


def _collect(
    plan: RowPlan,
    data: memoryview,
    memory: tuple[bytearray, bytearray, bytearray],
    faults: list[tuple[int, DecodeError]],
) -> Rows:
    """Copy the strings and divide the memory into columns."""
    task_bytes, fixed_bytes, scratch_bytes = memory
    p: cython.p_const_uchar = c.readable(data)
    size: cython.longlong = data.nbytes
    task: cython.p_uchar = c.writable(task_bytes)
    fixed: cython.p_uchar = c.writable(fixed_bytes)
    scratch: cython.p_uchar = c.writable(scratch_bytes)
    total: cython.longlong = _place_texts(task, fixed)
    texts_bytes = c.new_bytes(total)
    texts: cython.p_uchar = c.writable(texts_bytes)
    count: cython.longlong = c.load64_signed(task, codes.NOTE_COUNT)
    step: cython.longlong
    row: cython.longlong = 0
    at: cython.longlong
    end: cython.longlong
    with cython.nogil:
        while row < count:
            end = row + BLOCK if count - row > BLOCK else count
            step = codes.NOTES_SIZE
            while step < c.load64_signed(task, codes.NOTE_END):
                if _is_text(c.load64_signed(task, step)):
                    _copy_texts(p, size, task, step, fixed, scratch, texts, row, end)
                step += codes.STEP_SIZE
            row = end
    fixed_view, texts_view = memoryview(fixed_bytes), memoryview(texts_bytes)
    columns: list[ColumnBuffers] = []
    step = codes.NOTES_SIZE
    while step < c.load64_signed(task, codes.NOTE_END):
        kind: cython.longlong = c.load64_signed(task, step)
        if kind < codes.SECTION:
            at = c.load64_signed(task, step + codes.VALIDITY)
            validity = fixed_view[at : at + (count + 7) // 8] if at >= 0 else None
            at = c.load64_signed(task, step + codes.VALUES)
            values = fixed_view[at : at + (count + _is_text(kind)) * _width(kind)]
            if _is_text(kind):
                end = c.load32(fixed, at + 4 * count)
                at = c.load64_signed(task, step + codes.TEXTS)
                columns.append(ColumnBuffers(validity, None, values, texts_view[at : at + end]))
            else:
                columns.append(ColumnBuffers(validity, values, None, None))
        step += codes.STEP_SIZE
    at = c.load64_signed(task, codes.NOTE_PRESENT)
    present = fixed_view[at : at + count] if plan.before_step >= 0 else None
    return Rows(count, fixed_view[: 8 * count].cast("q"), faults, present, tuple(columns))
