"""Converts selected headers of stored messages to columns with declared types, without a Python object per message.

A value fits its column if the column's type can represent the value exactly:

    bool                     a bool
    int8 int16 int32 int64   any int or uint in range
    decimal                  any int or uint of at most the declared digits; 16 bytes, scale 0
    float32                  a float32; an int or uint of at most 24 bits
    float64                  a float64 or float32; an int or uint of at most 53 bits
    string                   a string; a char that is not half of a surrogate pair
    binary                   a raw value; the bytes of an unknown kind

If a header repeats, its last value is used. A null or missing header becomes null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.int32_limits import check_column
from headstream.core.codec.batch.results import HeaderColumn, HeaderType, WantedHeader
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.header_values import HeaderValue
from headstream.errors import HeaderError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import check_value, list_blocks
    from headstream.core.codec.batch.to_columns.whole_numbers import write_whole
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import check_value, list_blocks
    from cython.cimports.headstream.core.codec.batch.to_columns.whole_numbers import write_whole

BOOL = cython.declare(cython.int, 0)
SINGLE = cython.declare(cython.int, 3)
DOUBLE = cython.declare(cython.int, 4)
STRING = cython.declare(cython.int, 5)
_TYPES: Final[dict[HeaderType, tuple[int, int]]] = {
    "bool": (0, 1), "int8": (1, 1), "int16": (1, 2), "int32": (1, 4), "int64": (1, 8), "decimal": (2, 16), "float32": (3, 4),
    "float64": (4, 8), "string": (5, 0), "binary": (6, 0),
}  # fmt: skip
"""The number and the width of each type; whole_numbers.py has the same numbers."""

_NOTES: Final = struct.Struct("<7q")
MISFIT = cython.declare(cython.longlong, 24)  # the note of the first message whose header does not fit


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find_headers(
    p: cython.p_const_uchar,
    blocks: cython.p_const_uchar,
    count: cython.longlong,
    names: cython.p_const_uchar,
    ends: cython.p_const_uchar,
    wanted: cython.longlong,
    found: cython.p_uchar,
) -> cython.void:
    """For each requested name, record the position of the last header's kind (-1 if it is missing), column by column."""
    i: cython.longlong
    column: cython.longlong
    for i in range(count):
        for column in range(wanted):
            c.store64_signed(found, 8 * (column * count + i), -1)
        at: cython.longlong = c.load64_signed(blocks, layout.RUN_BYTES * i)
        end: cython.longlong = c.load64_signed(blocks, layout.RUN_BYTES * i + layout.RUN_END)
        while at < end:
            size: cython.longlong = c.load32(p, at)
            for column in range(wanted):
                start: cython.longlong = c.load64_signed(ends, 8 * column)
                if c.load64_signed(ends, 8 * (column + 1)) - start == size and c.equal(p, at + 4, names, start, size):
                    c.store64_signed(found, 8 * (column * count + i), at + 4 + size)
            at += 9 + size
            at += c.load32(p, at - 4)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_fixed(
    p: cython.p_const_uchar,
    kinds_at: cython.p_const_uchar,
    begin: cython.longlong,
    count: cython.longlong,
    type_: cython.int,
    width: cython.longlong,
    limit_high: cython.ulonglong,
    limit_low: cython.ulonglong,
    data: cython.p_uchar,
    validity: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Write a fixed-width column; return the number of values, or a fault."""
    i: cython.longlong
    present: cython.longlong = 0
    fits: cython.bint
    c.store64_signed(notes, MISFIT, -1)
    for i in range(count):
        at: cython.longlong = c.load64_signed(kinds_at, 8 * (begin + i))
        fits = False
        if at >= 0:
            kind: cython.int = p[at]
            size: cython.longlong = c.load32(p, at + 1)
            fault: cython.longlong = check_value(p, kind, at + layout.VALUE_HEAD, size, notes)
            if fault < 0:
                return fault
            if type_ == BOOL:
                fits = kind == 3
                if fits:
                    data[i] = p[at + layout.VALUE_HEAD]
            elif 4 <= kind <= 13:
                fits = write_whole(p, kind, at + layout.VALUE_HEAD, size, type_, width, limit_high, limit_low, data, width * i)
            elif (type_ == SINGLE and kind == 14) or (type_ == DOUBLE and kind == 15):
                fits = True
                c.copy(data, width * i, p, at + layout.VALUE_HEAD, width)
            elif type_ == DOUBLE and kind == 14:
                fits = True
                c.store_float64(data, width * i, c.load_float32(p, at + layout.VALUE_HEAD))
            if not fits and kind != 64 and c.load64_signed(notes, MISFIT) < 0:
                c.store64_signed(notes, MISFIT, i)
        if fits:
            validity[i >> 3] |= 1 << (i & 7)
            present += 1
        else:
            c.fill(data, width * i, 0, width)
    return present


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _write_char(p: cython.p_const_uchar, at: cython.longlong, data: cython.p_uchar, to: cython.longlong) -> cython.longlong:
    """Write a UTF-16 code unit as UTF-8; return the end position, which is `to` for half of a surrogate pair."""
    unit: cython.uint = c.load16(p, at)
    if unit < 0x80:
        data[to] = unit
        return to + 1
    if unit < 0x800:
        data[to] = 0xC0 | unit >> 6
        data[to + 1] = 0x80 | unit & 0x3F
        return to + 2
    if 0xD800 <= unit <= 0xDFFF:
        return to
    data[to] = 0xE0 | unit >> 12
    data[to + 1] = 0x80 | unit >> 6 & 0x3F
    data[to + 2] = 0x80 | unit & 0x3F
    return to + 3


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_variable(
    p: cython.p_const_uchar,
    kinds_at: cython.p_const_uchar,
    begin: cython.longlong,
    count: cython.longlong,
    type_: cython.int,
    offsets: cython.p_uchar,
    data: cython.p_uchar,
    validity: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Write a string or byte column; return the number of values, or a fault."""
    i: cython.longlong
    to: cython.longlong = 0
    present: cython.longlong = 0
    fits: cython.bint
    c.store64_signed(notes, MISFIT, -1)
    c.store32(offsets, 0, 0)
    for i in range(count):
        at: cython.longlong = c.load64_signed(kinds_at, 8 * (begin + i))
        if at >= 0:
            kind: cython.int = p[at]
            size: cython.longlong = c.load32(p, at + 1)
            fault: cython.longlong = check_value(p, kind, at + layout.VALUE_HEAD, size, notes)
            if fault < 0:
                return fault
            if type_ == STRING and kind == 65:
                end: cython.longlong = _write_char(p, at + layout.VALUE_HEAD, data, to)
                fits = end > to
                to = end
            else:
                fits = kind == 2 if type_ == STRING else kind == 1 or c.kind_width(kind) == -2
                if fits:
                    c.copy(data, to, p, at + layout.VALUE_HEAD, size)
                    to += size
            if fits:
                validity[i >> 3] |= 1 << (i & 7)
                present += 1
            elif kind != 64 and c.load64_signed(notes, MISFIT) < 0:
                c.store64_signed(notes, MISFIT, i)
        c.store32(offsets, 4 * (i + 1), to)
    return present


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _measure_values(
    p: cython.p_const_uchar, kinds_at: cython.p_const_uchar, begin: cython.longlong, count: cython.longlong
) -> cython.longlong:
    """Return the maximum size of a string or byte column."""
    i: cython.longlong
    total: cython.longlong = 0
    for i in range(count):
        at: cython.longlong = c.load64_signed(kinds_at, 8 * (begin + i))
        if at >= 0:
            total += c.load32(p, at + 1) + 1  # a char has 2 bytes stored, and up to 3 as text
    return total


def decode_header_columns(stored: BytesLike, wanted: Sequence[WantedHeader], *, fail: bool = False) -> list[HeaderColumn]:
    """Convert each requested header to a column. A value that does not fit becomes null, or causes a HeaderError (`fail`)."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    noted, listed = c.new_bytes(_NOTES.size), c.new_bytes(16 * (size // layout.OVERHEAD + 1))
    notes: cython.p_uchar = c.writable(noted)
    blocks: cython.p_uchar = c.writable(listed)
    fault: cython.longlong
    with cython.nogil:
        fault = list_blocks(p, size, False, blocks, notes)
    if fault < 0:
        raise decode_error(-fault, *_NOTES.unpack(noted)[:3])
    count = _NOTES.unpack(noted)[3]
    names = [column.name.encode() for column in wanted]
    ends = struct.pack(f"<{len(names) + 1}q", *(sum(map(len, names[:number])) for number in range(len(names) + 1)))
    found = c.new_bytes(8 * count * len(names))
    _find_all(p, blocks, count, b"".join(names), ends, len(names), found)
    columns: list[Any] = []
    for number, column in enumerate(wanted):
        made: Any = _make_column(p, found, number, count, column, noted)
        misfit = _NOTES.unpack(noted)[3]
        if fail and misfit >= 0:
            raise _misfit(view, struct.unpack_from("<q", found, 8 * (number * count + misfit))[0], column, misfit)
        made.misfit = misfit
        if made.offsets is not None:
            del made.data[int.from_bytes(made.offsets[4 * count :], "little") :]
        columns.append(made)
    return columns


def _misfit(view: memoryview, at: int, column: WantedHeader, number: int) -> HeaderError:
    """Return the error for a header whose value does not fit its column."""
    flat = view.cast("B")
    size = int.from_bytes(flat[at + 1 : at + layout.VALUE_HEAD], "little")
    value = HeaderValue(flat[at], bytes(flat[at + layout.VALUE_HEAD : at + layout.VALUE_HEAD + size]))
    start = _start_of(flat, number)
    type_ = f"decimal({column.digits},0)" if column.type == "decimal" else column.type
    return HeaderError(
        f"the header {column.name!r} is {value!r:.80}, which a column of type {type_} cannot hold",
        where=f"offset {int.from_bytes(flat[start : start + 8], 'little')}",
        advice="Declare a wider type, or read such values as null",
    )


def _start_of(flat: memoryview, number: int) -> int:
    """Return the start position of a message, given by number, among checked stored messages."""
    at = 0
    for _ in range(number):
        at += layout.OVERHEAD + int.from_bytes(flat[at + layout.HEADERS_SIZE : at + layout.HEADERS], "little")
        at += int.from_bytes(flat[at - 4 : at], "little")
    return at


@cython.cfunc
def _find_all(
    p: cython.p_const_uchar,
    blocks: cython.p_uchar,
    count: cython.longlong,
    names: Any,
    ends: Any,
    wanted: cython.longlong,
    found: bytearray,
) -> object:
    names_view, ends_view = memoryview(names), memoryview(ends)
    q: cython.p_const_uchar = c.readable(names_view)
    r: cython.p_const_uchar = c.readable(ends_view)
    to: cython.p_uchar = c.writable(found)
    with cython.nogil:
        _find_headers(p, blocks, count, q, r, wanted, to)
    return None


@cython.cfunc
def _make_column(
    p: cython.p_const_uchar, found: bytearray, number: cython.longlong, count: cython.longlong, column: Any, noted: bytearray
) -> object:
    """Make one column, and record the first value that does not fit."""
    numbered, wide = _TYPES[column.type]
    type_: cython.int = numbered
    width: cython.longlong = wide
    begin: cython.longlong = number * count
    limit = 10**column.digits if column.type == "decimal" else (1 << 24) + 1 if column.type == "float32" else (1 << 53) + 1
    limit_high: cython.ulonglong = limit >> 64
    limit_low: cython.ulonglong = limit & 0xFFFFFFFFFFFFFFFF
    kinds_at: cython.p_uchar = c.writable(found)
    notes: cython.p_uchar = c.writable(noted)
    bits = bytearray((count + 7) // 8)
    validity: cython.p_uchar = c.writable(bits)
    present: cython.longlong
    capacity: cython.longlong = width * count
    if width == 0:
        capacity = _measure_values(p, kinds_at, begin, count)
        check_column(column.name, capacity)
    values = c.new_bytes(capacity)
    data: cython.p_uchar = c.writable(values)
    placed = c.new_bytes(4 * count + 4) if width == 0 else None
    if placed is None:
        with cython.nogil:
            present = _write_fixed(p, kinds_at, begin, count, type_, width, limit_high, limit_low, data, validity, notes)
    else:
        offsets: cython.p_uchar = c.writable(placed)
        with cython.nogil:
            present = _write_variable(p, kinds_at, begin, count, type_, offsets, data, validity, notes)
    if present < 0:
        raise decode_error(-present, *_NOTES.unpack(noted)[:3])
    return HeaderColumn(None if present == count else bits, placed, values)
