"""Sends against the rows that say where they lie: checked, and rows made of sends; no object a send.

    row    byte_position u32 | size_bytes u32 | relative_offset u32 | count u32 | timestamp_us u64 | crc32c u32 | check u32

A row is an index entry as segments.layout draws it, whole with its check. A send is whole when its row's check holds,
it lies where the one before it ends, and its bytes are what the row says: so many messages from that offset on, of that
CRC-32C with each state byte taken as 0. Bytes that may be changed have their states set to 0 for a moment, and put back:
nobody else may look at them then. Of others a copy is made.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headstream.codec.batch.results import Sends
from headstream.codec.buffer import BytesLike

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.scan import end_of
    from headstream.codec.uncompiled_checksums import crc32_from, crc32c_from
    from headstream.codec.uncompiled_primitives import (
        changeable,
        load32,
        load64,
        new_bytes,
        readable,
        store32,
        store64,
        store64_signed,
        writable,
    )
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.scan import end_of
    from cython.cimports.headstream.codec.checksums import crc32_from, crc32c_from
    from cython.cimports.headstream.codec.primitives import (
        changeable,
        load32,
        load64,
        new_bytes,
        readable,
        store32,
        store64,
        store64_signed,
        writable,
    )

__all__ = ["check_sends", "extend_crc32c", "make_rows", "new_check"]

ROW = cython.declare(cython.longlong, 32)
MASK32 = cython.declare(cython.ulonglong, 0xFFFF_FFFF)
CUT = cython.declare(cython.longlong, -1)
STRANGE = cython.declare(cython.longlong, -2)
DAMAGED = cython.declare(cython.longlong, -3)
ROWS_AT_ONCE: Final = 1 << 16
"""The most rows that are made at once."""


# Bytes whose states are set to 0 and that are checksummed at a time: few enough to be in the nearest cache still, and
# the longer the piece the quicker a checksum. STATES is more than the messages that fit.
STRETCH = cython.declare(cython.longlong, 16384)
STATES: Final = 512

_NOTES: Final = struct.Struct("<6q")
_CHECK_NOTES: Final = struct.Struct("<11q")
"""The same, and where a check goes on: byte of the row, where its send begins, and how far that has been seen: byte,
count of messages, CRC-32C."""
_FAULTS: Final = {0: "", -1: "cut", -2: "offset", -3: "payload"}


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _sum(q: cython.p_uchar, at: cython.longlong, end: cython.longlong, states: cython.p_uchar, crc: cython.uint) -> cython.uint:
    """Return the CRC-32C of whole messages whose states have been set to 0, and give them their states back."""
    crc = crc32c_from(q, at, end - at, crc)
    number: cython.longlong = 0
    while at < end:
        q[at + 8] = states[number]
        number += 1
        at += 45 + load32(q, at + 37)
        at += load32(q, at - 4)
    return crc


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _walk(
    q: cython.p_uchar, at: cython.longlong, end: cython.longlong, crc: cython.uint, states: cython.p_uchar, notes: cython.p_uchar
) -> cython.uint:
    """Return the CRC-32C of messages with their states taken as 0; note how many are whole, and where they end."""
    begin: cython.longlong = at
    count: cython.longlong = 0
    number: cython.longlong = 0
    reached: cython.longlong
    while at < end:
        reached = end_of(q, at, end, notes)
        if reached < 0:
            break
        states[number] = q[at + 8]
        q[at + 8] = 0
        number += 1
        count += 1
        at = reached
        if at - begin >= STRETCH:
            crc = _sum(q, begin, at, states, crc)
            begin = at
            number = 0
    crc = _sum(q, begin, at, states, crc)
    store64_signed(notes, 24, count)
    store64_signed(notes, 32, at)
    return crc


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_sound(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.bint:
    """Return whether each payload of whole messages matches the CRC-32 it carries."""
    payload: cython.longlong
    size: cython.longlong
    while at < end:
        payload = at + 45 + load32(p, at + 37)
        size = load32(p, payload - 4)
        if crc32_from(p, payload, size, 0) != load32(p, at + 33):
            return False
        at = payload + size
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_plain(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, time_us: cython.ulonglong) -> cython.bint:
    """Return whether whole messages are all available, and of this time."""
    while at < end:
        if p[at + 8] != 1 or load64(p, at + 9) != time_us:
            return False
        at += 45 + load32(p, at + 37)
        at += load32(p, at - 4)
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _follows(rows: cython.p_const_uchar, row: cython.longlong) -> cython.bint:
    """Return whether a row begins at the offset after the one before it, and at no earlier time."""
    until: cython.ulonglong = load32(rows, row - ROW + 8)
    until += load32(rows, row - ROW + 12)
    return load32(rows, row + 8) == until and load64(rows, row + 16) >= load64(rows, row - ROW + 16)


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
    """Return how many of the first rows have whole sends; note where the first of the others was left, to go on there."""
    row: cython.longlong = load64(notes, 48)
    start: cython.longlong = load64(notes, 56)
    at: cython.longlong = load64(notes, 64)
    count: cython.longlong = load64(notes, 72)
    crc: cython.uint = load32(notes, 80)
    begin: cython.longlong = 0
    end: cython.longlong
    seed: cython.uint = base_offset & MASK32
    if rows_size > 0:
        begin = load32(rows, 0)
    while row < rows_size:
        end = load32(rows, row + 4)
        end += start
        if at == start:
            if crc32c_from(rows, row, ROW - 4, seed) != load32(rows, row + 28):
                break
            if load32(rows, row) != begin + start or start + 45 > size or end < start + 45:
                break
            if load64(p, at) != base_offset + load32(rows, row + 8):
                break
            if thorough and row > 0 and not _follows(rows, row):
                break
        crc = _walk(p, at, end if end < size else size, crc, states, notes)
        count += load64(notes, 24)
        at = load64(notes, 32)
        if at != end or count != load32(rows, row + 12) or crc != load32(rows, row + 24):
            break
        if thorough and not (_is_plain(p, start, end, load64(rows, row + 16)) and _is_sound(p, start, end)):
            break
        start = at
        count = 0
        crc = 0
        row += ROW
    store64_signed(notes, 48, row)
    store64_signed(notes, 56, start)
    store64_signed(notes, 64, at)
    store64_signed(notes, 72, count)
    store64_signed(notes, 80, crc)
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
    """Write the rows of runs of one time; note their count, the end of the last one, and its last offset's next one."""
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
            elif load64(p, reached) != offset + count:
                fault = STRANGE
            elif not _is_sound(p, reached, end):
                fault = DAMAGED
        if reached == size or fault < 0 or (count > 0 and load64(p, reached + 9) != time_us):
            if count > 0:
                store32(rows, row, byte_position + at)
                store32(rows, row + 4, reached - at)
                store32(rows, row + 8, offset - base_offset)
                store32(rows, row + 12, count)
                store64(rows, row + 16, time_us)
                store32(rows, row + 24, _walk(p, at, reached, 0, states, notes))
                store32(rows, row + 28, crc32c_from(rows, row, ROW - 4, seed))
                row += ROW
                offset += count
                at = reached
                count = 0
            if reached == size or fault < 0:
                break
            continue
        time_us = load64(p, reached + 9)
        count += 1
        reached = end
    store64_signed(notes, 24, row)
    store64_signed(notes, 32, at)
    store64_signed(notes, 40, offset)
    return fault


def _changeable(stored: BytesLike) -> memoryview:
    """Return bytes that may be changed for a moment: those themselves, or a copy of those that may not."""
    view = memoryview(stored)
    return memoryview(bytearray(view)) if view.readonly else view


def check_sends(
    stored: BytesLike, rows: BytesLike, base_offset: int, *, thorough: bool = False, notes: bytearray | None = None
) -> int:
    """Return how many sends, from the first row's on, are whole.

    Args:
        stored: Stored messages; the first row's send begins at their first byte. It may be cut short.
        rows: Rows back to back.
        base_offset: The first offset of the segment that the rows belong to.
        thorough: Whether a send counts only if its messages are of the row's time too, all available, every payload
            matches its own CRC-32, and the row continues the one before it in offsets and time.
        notes: From new_check(): the same at each call for the same rows and more of the same messages, which then goes on
            where the one before it ended.
    """
    view, row_view = _changeable(stored), memoryview(rows)
    if row_view.nbytes < ROW:
        return 0
    rows_size: cython.longlong = row_view.nbytes // ROW * ROW
    size: cython.longlong = view.nbytes
    base: cython.ulonglong = base_offset
    is_thorough: cython.bint = thorough
    noted, kept = new_check() if notes is None else notes, new_bytes(STATES)
    q: cython.p_uchar = writable(noted)
    states: cython.p_uchar = writable(kept)
    p: cython.p_uchar = changeable(view)
    r: cython.p_const_uchar = readable(row_view)
    count: cython.longlong
    with cython.nogil:
        count = _check(p, size, r, rows_size, base, is_thorough, states, q)
    return count


def new_check() -> bytearray:
    """Return what check_sends() notes down between its calls."""
    return bytearray(_CHECK_NOTES.size)


def extend_crc32c(stored: BytesLike, value: int) -> tuple[int, int]:
    """Return the CRC-32C, states taken as 0, of the whole messages at the beginning after bytes of a CRC-32C.

    Args:
        stored: Stored messages; the last one may be cut short.
        value: The CRC-32C of what came before.

    Returns:
        The byte position after the last whole message, and the CRC-32C up to there.
    """
    view = _changeable(stored)
    p: cython.p_uchar = changeable(view)
    size: cython.longlong = view.nbytes
    crc: cython.uint = value
    noted, kept = new_bytes(_NOTES.size), new_bytes(STATES)
    notes: cython.p_uchar = writable(noted)
    states: cython.p_uchar = writable(kept)
    with cython.nogil:
        crc = _walk(p, 0, size, crc, states, notes)
    return load64(notes, 32), crc


def make_rows(stored: BytesLike, base_offset: int, byte_position: int, offset: int) -> Sends:
    """Return rows for stored messages, one for each run of messages of the same time.

    It ends at the first message that is cut short, has not the offset that follows, or a payload that does not match
    its CRC-32.

    Args:
        stored: Stored messages.
        base_offset: The first offset of the segment.
        byte_position: Where they begin in the segment.
        offset: That of the first one.
    """
    view = _changeable(stored)
    p: cython.p_uchar = changeable(view)
    size: cython.longlong = view.nbytes
    base: cython.ulonglong = base_offset
    position: cython.longlong = byte_position
    first: cython.ulonglong = offset
    made = new_bytes((size // 45 + 1) * 32 if size < ROWS_AT_ONCE * 45 else ROWS_AT_ONCE * 32)
    noted, kept = new_bytes(_NOTES.size), new_bytes(STATES)
    rows: cython.p_uchar = writable(made)
    rows_size: cython.longlong = len(made)
    notes: cython.p_uchar = writable(noted)
    states: cython.p_uchar = writable(kept)
    fault: cython.longlong
    with cython.nogil:
        fault = _make(p, size, rows, rows_size, base, position, first, states, notes)
    rows_end, end, until_offset = _NOTES.unpack(noted)[3:]
    return Sends(bytes(made[:rows_end]), end, until_offset, _FAULTS[fault])
