"""Checks sends against their index rows, and makes rows from sends, without an object per send.

    row    byte_position u32 | size_bytes u32 | relative_offset u32 | count u32 | timestamp_us u64 | crc32c u32 | check u32

A row is an index entry of log/segments/layout.py, including its check. A send is intact if its row's check matches, it begins
where the previous send ends, and its bytes match the row: the number of messages, the first offset, and the CRC-32C with each
state byte treated as 0. In a writable buffer the states are set to 0 temporarily and restored, so no other thread must read the
buffer during this time. Read-only buffers are copied.
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.codec.batch.results import Sends
from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.stored.scan import end_of
    from headstream.core.codec.uncompiled_checksums import crc32_from, crc32c_from
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.stored.scan import end_of
    from cython.cimports.headstream.core.codec.checksums import crc32_from, crc32c_from

ROW = cython.declare(cython.longlong, layout.ENTRY_BYTES)
MASK32 = cython.declare(cython.ulonglong, 0xFFFF_FFFF)
CUT = cython.declare(cython.longlong, -1)
WRONG_OFFSET = cython.declare(cython.longlong, -2)
DAMAGED = cython.declare(cython.longlong, -3)
ROWS_AT_ONCE: Final = 1 << 16
"""The maximum number of rows per call."""


# The bytes whose states are set to 0 and checksummed at a time: few enough for the L1 cache, since a checksum is
# faster on long pieces. STATES exceeds the number of messages that fit.
STRETCH = cython.declare(cython.longlong, 16384)
STATES: Final = 512

_NOTES: Final = struct.Struct("<6q")
_CHECK_NOTES: Final = struct.Struct("<11q")
"""A fault, then the state between two checks: position of the row, start of its send, and the checked part of the send: its
end, count of messages, CRC-32C."""
_FAULTS: Final = {0: "", -1: "cut", -2: "offset", -3: "payload"}


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _sum(q: cython.p_uchar, at: cython.longlong, end: cython.longlong, states: cython.p_uchar, crc: cython.uint) -> cython.uint:
    """Compute the CRC-32C of complete messages whose states are set to 0, then restore the states; return the CRC-32C."""
    crc = crc32c_from(q, at, end - at, crc)
    number: cython.longlong = 0
    while at < end:
        q[at + layout.STATE] = states[number]
        number += 1
        at += layout.OVERHEAD + c.load32(q, at + layout.HEADERS_SIZE)
        at += c.load32(q, at - 4)
    return crc


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _walk(
    q: cython.p_uchar, at: cython.longlong, end: cython.longlong, crc: cython.uint, states: cython.p_uchar, notes: cython.p_uchar
) -> cython.uint:
    """Return the CRC-32C of messages with their states treated as 0; record the number and the end of complete messages."""
    begin: cython.longlong = at
    count: cython.longlong = 0
    number: cython.longlong = 0
    reached: cython.longlong
    while at < end:
        reached = end_of(q, at, end, notes)
        if reached < 0:
            break
        states[number] = q[at + layout.STATE]
        q[at + layout.STATE] = 0
        number += 1
        count += 1
        at = reached
        if at - begin >= STRETCH:
            crc = _sum(q, begin, at, states, crc)
            begin = at
            number = 0
    crc = _sum(q, begin, at, states, crc)
    c.store64_signed(notes, layout.NOTED_COUNT, count)
    c.store64_signed(notes, layout.NOTED_END, at)
    return crc


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_sound(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.bint:
    """Return whether each payload of complete messages matches its CRC-32."""
    payload: cython.longlong
    size: cython.longlong
    while at < end:
        payload = at + layout.OVERHEAD + c.load32(p, at + layout.HEADERS_SIZE)
        size = c.load32(p, payload - 4)
        if crc32_from(p, payload, size, 0) != c.load32(p, at + layout.CHECKSUM):
            return False
        at = payload + size
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_plain(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, time_us: cython.ulonglong) -> cython.bint:
    """Return whether all of the complete messages are available and have this time."""
    while at < end:
        if p[at + layout.STATE] != 1 or c.load64(p, at + layout.TIMESTAMP) != time_us:
            return False
        at += layout.OVERHEAD + c.load32(p, at + layout.HEADERS_SIZE)
        at += c.load32(p, at - 4)
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _follows(rows: cython.p_const_uchar, row: cython.longlong) -> cython.bint:
    """Return whether a row continues the previous row: it has the next offset, and its time is not earlier."""
    until: cython.ulonglong = c.load32(rows, row - ROW + layout.ENTRY_OFFSET)
    until += c.load32(rows, row - ROW + layout.ENTRY_COUNT)
    return c.load32(rows, row + layout.ENTRY_OFFSET) == until and c.load64(rows, row + layout.ENTRY_TIMESTAMP) >= c.load64(
        rows, row - ROW + layout.ENTRY_TIMESTAMP
    )


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check(
    p: cython.p_uchar,
    size: cython.longlong,
    rows: cython.p_const_uchar,
    rows_size: cython.longlong,
    base_offset: cython.ulonglong,
    thorough: cython.bint,
    states: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Return the number of intact sends, from the first row on; record the position in the next send, from which to resume."""
    row: cython.longlong = c.load64(notes, layout.CHECK_ROW)
    start: cython.longlong = c.load64(notes, layout.CHECK_START)
    at: cython.longlong = c.load64(notes, layout.CHECK_AT)
    count: cython.longlong = c.load64(notes, layout.CHECK_MESSAGES)
    crc: cython.uint = c.load32(notes, layout.CHECK_CRC)
    begin: cython.longlong = 0
    end: cython.longlong
    seed: cython.uint = base_offset & MASK32
    if rows_size > 0:
        begin = c.load32(rows, 0)
    while row < rows_size:
        end = c.load32(rows, row + layout.ENTRY_SIZE)
        end += start
        if at == start:
            if crc32c_from(rows, row, layout.ENTRY_CHECK, seed) != c.load32(rows, row + layout.ENTRY_CHECK):
                break
            if c.load32(rows, row) != begin + start or start + layout.OVERHEAD > size or end < start + layout.OVERHEAD:
                break
            if c.load64(p, at) != base_offset + c.load32(rows, row + layout.ENTRY_OFFSET):
                break
            if thorough and row > 0 and not _follows(rows, row):
                break
        crc = _walk(p, at, end if end < size else size, crc, states, notes)
        count += c.load64(notes, layout.NOTED_COUNT)
        at = c.load64(notes, layout.NOTED_END)
        if at != end or count != c.load32(rows, row + layout.ENTRY_COUNT) or crc != c.load32(rows, row + layout.ENTRY_CHECKSUM):
            break
        if thorough and not (_is_plain(p, start, end, c.load64(rows, row + layout.ENTRY_TIMESTAMP)) and _is_sound(p, start, end)):
            break
        start = at
        count = 0
        crc = 0
        row += ROW
    c.store64_signed(notes, layout.CHECK_ROW, row)
    c.store64_signed(notes, layout.CHECK_START, start)
    c.store64_signed(notes, layout.CHECK_AT, at)
    c.store64_signed(notes, layout.CHECK_MESSAGES, count)
    c.store64_signed(notes, layout.CHECK_CRC, crc)
    return row // ROW


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _make(
    p: cython.p_uchar,
    size: cython.longlong,
    rows: cython.p_uchar,
    rows_size: cython.longlong,
    base_offset: cython.ulonglong,
    byte_position: cython.longlong,
    offset: cython.ulonglong,
    states: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Write one row per run of equal time; record the number of rows, the end of the last run, and the next offset."""
    at: cython.longlong = 0
    reached: cython.longlong = 0
    end: cython.longlong = 0
    row: cython.longlong = 0
    count: cython.longlong = 0
    time_us: cython.ulonglong = 0
    seed: cython.uint = base_offset & MASK32
    fault: cython.longlong = 0
    while row < rows_size:
        if reached < size:
            end = end_of(p, reached, size, notes)
            if end < 0:
                fault = CUT
            elif c.load64(p, reached) != offset + count:
                fault = WRONG_OFFSET
            elif not _is_sound(p, reached, end):
                fault = DAMAGED
        if reached == size or fault < 0 or (count > 0 and c.load64(p, reached + layout.TIMESTAMP) != time_us):
            if count > 0:
                c.store32(rows, row, byte_position + at)
                c.store32(rows, row + layout.ENTRY_SIZE, reached - at)
                c.store32(rows, row + layout.ENTRY_OFFSET, offset - base_offset)
                c.store32(rows, row + layout.ENTRY_COUNT, count)
                c.store64(rows, row + layout.ENTRY_TIMESTAMP, time_us)
                c.store32(rows, row + layout.ENTRY_CHECKSUM, _walk(p, at, reached, 0, states, notes))
                c.store32(rows, row + layout.ENTRY_CHECK, crc32c_from(rows, row, layout.ENTRY_CHECK, seed))
                row += ROW
                offset += count
                at = reached
                count = 0
            if reached == size or fault < 0:
                break
            continue
        time_us = c.load64(p, reached + layout.TIMESTAMP)
        count += 1
        reached = end
    c.store64_signed(notes, layout.MADE_ROWS_END, row)
    c.store64_signed(notes, layout.NOTED_END, at)
    c.store64_signed(notes, layout.MADE_UNTIL, offset)
    return fault


def _changeable(stored: BytesLike) -> memoryview:
    """Return the given buffer if it is writable, otherwise a writable copy."""
    view = memoryview(stored)
    return memoryview(bytearray(view)) if view.readonly else view


def check_sends(
    stored: BytesLike, rows: BytesLike, base_offset: int, *, thorough: bool = False, notes: bytearray | None = None
) -> int:
    """Return the number of intact sends, from the first row on.

    Args:
        stored: Stored messages, beginning with the first row's send. The last send can be truncated.
        thorough: Whether an intact send must also meet these conditions: its messages are available and have the row's time,
            every payload matches its CRC-32, and the row continues the offsets and times of the previous row.
        notes: A state from new_check(). Pass the same object in each call with the same rows and a longer prefix of the same
            messages; a call resumes where the previous call ended.
    """
    view, row_view = _changeable(stored), memoryview(rows)
    if row_view.nbytes < ROW:
        return 0
    rows_size: cython.longlong = row_view.nbytes // ROW * ROW
    size: cython.longlong = view.nbytes
    base: cython.ulonglong = base_offset
    is_thorough: cython.bint = thorough
    noted, kept = new_check() if notes is None else notes, c.new_bytes(STATES)
    q: cython.p_uchar = c.writable(noted)
    states: cython.p_uchar = c.writable(kept)
    p: cython.p_uchar = c.changeable(view)
    r: cython.p_const_uchar = c.readable(row_view)
    count: cython.longlong
    with cython.nogil:
        count = _check(p, size, r, rows_size, base, is_thorough, states, q)
    return count


def new_check() -> bytearray:
    """Return a new state for check_sends(), which keeps its progress between calls."""
    return bytearray(_CHECK_NOTES.size)


def extend_crc32c(stored: BytesLike, value: int) -> tuple[int, int]:
    """Return the end of the last complete message, and the CRC-32C up to this position with states treated as 0."""
    view = _changeable(stored)
    p: cython.p_uchar = c.changeable(view)
    size: cython.longlong = view.nbytes
    crc: cython.uint = value
    noted, kept = c.new_bytes(_NOTES.size), c.new_bytes(STATES)
    notes: cython.p_uchar = c.writable(noted)
    states: cython.p_uchar = c.writable(kept)
    with cython.nogil:
        crc = _walk(p, 0, size, crc, states, notes)
    return c.load64(notes, layout.NOTED_END), crc


def make_rows(stored: BytesLike, base_offset: int, byte_position: int, offset: int) -> Sends:
    """Return rows for stored messages, one row per run of messages with the same time.

    The rows end at the first message that is truncated, does not have the next offset, or has a damaged payload.
    """
    view = _changeable(stored)
    p: cython.p_uchar = c.changeable(view)
    size: cython.longlong = view.nbytes
    base: cython.ulonglong = base_offset
    position: cython.longlong = byte_position
    first: cython.ulonglong = offset
    made = c.new_bytes((size // layout.OVERHEAD + 1) * 32 if size < ROWS_AT_ONCE * layout.OVERHEAD else ROWS_AT_ONCE * 32)
    noted, kept = c.new_bytes(_NOTES.size), c.new_bytes(STATES)
    rows: cython.p_uchar = c.writable(made)
    rows_size: cython.longlong = len(made)
    notes: cython.p_uchar = c.writable(noted)
    states: cython.p_uchar = c.writable(kept)
    fault: cython.longlong
    with cython.nogil:
        fault = _make(p, size, rows, rows_size, base, position, first, states, notes)
    rows_end, end, until_offset = _NOTES.unpack(noted)[3:]
    return Sends(bytes(made[:rows_end]), end, until_offset, _FAULTS[fault])
