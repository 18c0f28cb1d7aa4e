"""Scans stored messages (layout.py): finds where each message begins, whether it is complete, and the checksum of a range.

The checksum of a range is computed with every state byte treated as 0, so that a state can change in place.
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.codec.batch.checksum import crc32, crc32c
from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.results import Scan
from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError, InvalidInputError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
    from headstream.core.codec.batch.headers import check_block
    from headstream.core.codec.uncompiled_checksums import crc32c_from
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout
    from cython.cimports.headstream.core.codec.batch.headers import check_block
    from cython.cimports.headstream.core.codec.checksums import crc32c_from

__all__ = ["crc32", "crc32c", "end_of", "find_offset", "find_states", "find_timestamp", "masked", "masked_crc32c", "scan", "take"]

# Messages smaller than this are copied together, with their state bytes set to 0, before the checksum, which is faster on
# long pieces; in interpreted code, only the number of pieces matters.
COLLECTED = cython.declare(cython.longlong, 512 if cython.compiled else 1 << 20)
STRETCH = cython.declare(cython.longlong, 16384 if cython.compiled else 1 << 20)


def end_of(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, notes: cython.p_uchar) -> cython.longlong:
    """Return the end position of a message, computed from its lengths, or a fault."""
    length: cython.longlong
    if size - at < layout.OVERHEAD:
        return c.note_fault(notes, faults.MESSAGE_CUT, at, layout.OVERHEAD, size - at)
    length = c.load32(p, at + layout.HEADERS_SIZE)
    if size - at - layout.OVERHEAD < length:
        return c.note_fault(notes, faults.HEADERS_CUT, at + layout.HEADERS, length + 4, size - at - layout.HEADERS)
    at += layout.OVERHEAD + length
    length = c.load32(p, at - 4)
    if size - at < length:
        return c.note_fault(notes, faults.PAYLOAD_CUT, at, length, size - at)
    return at + length


def masked(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, scratch: cython.p_uchar, crc: cython.uint
) -> cython.uint:
    """Return the CRC-32C of complete messages with their state bytes treated as 0; `scratch` has STRETCH bytes."""
    filled: cython.longlong = 0
    size: cython.longlong
    while at < end:
        size = c.load32(p, at + layout.HEADERS_SIZE)
        size += layout.OVERHEAD
        size += c.load32(p, at + size - 4)
        if filled > 0 and (size >= COLLECTED or filled + size > STRETCH):
            crc = crc32c_from(scratch, 0, filled, crc)
            filled = 0
        if size < COLLECTED:
            c.copy(scratch, filled, p, at, size)
            scratch[filled + layout.STATE] = 0
            filled += size
        else:
            c.copy(scratch, 0, p, at, layout.STATE)
            scratch[layout.STATE] = 0
            crc = crc32c_from(scratch, 0, layout.TIMESTAMP, crc)
            crc = crc32c_from(p, at + layout.TIMESTAMP, size - layout.TIMESTAMP, crc)
        at += size
    return crc32c_from(scratch, 0, filled, crc)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _walk(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, notes: cython.p_uchar) -> cython.longlong:
    """Record the count and end of complete messages and the position of the last message; return 0 or a fault."""
    count: cython.longlong = 0
    last: cython.longlong = -1
    result: cython.longlong = 0
    end: cython.longlong
    while at < size:
        end = end_of(p, at, size, notes)
        if end < 0:
            result = end
            break
        result = check_block(p, at + layout.HEADERS, at + layout.HEADERS + c.load32(p, at + layout.HEADERS_SIZE), False, notes)
        if result < 0:
            break
        last = at
        at = end
        count += 1
    c.store64_signed(notes, layout.NOTED_COUNT, count)
    c.store64_signed(notes, layout.NOTED_END, at)
    c.store64_signed(notes, layout.NOTED_LAST, last)
    return result


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find(
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    field: cython.longlong,
    value: cython.ulonglong,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Return the position of the first message whose 64-bit field is at least a value, `size` if there is none, or a fault."""
    end: cython.longlong
    while at < size:
        end = end_of(p, at, size, notes)
        if end < 0 or c.load64(p, at + field) >= value:
            return end if end < 0 else at
        at = end
    return at


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find_state(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, notes: cython.p_uchar) -> cython.longlong:
    """Return the position of the first message whose state is not 1, `size` if there is none, or a fault."""
    end: cython.longlong
    while at < size:
        end = end_of(p, at, size, notes)
        if end < 0 or p[at + layout.STATE] != 1:
            return end if end < 0 else at
        at = end
    return at


def take_at(
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    count: cython.longlong,
    size_bytes: cython.longlong,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Return the end of at least one and at most `count` messages within `size_bytes`, or a fault; record their number."""
    start: cython.longlong = at
    taken: cython.longlong = 0
    end: cython.longlong
    while at < size and taken < count:
        end = end_of(p, at, size, notes)
        if end < 0:
            return end
        if taken > 0 and end - start > size_bytes:
            break
        at = end
        taken += 1
    c.store64_signed(notes, layout.NOTED_COUNT, taken)
    return at


_NOTES: Final = struct.Struct("<6q")
_MAX_UINT64: Final = (1 << 64) - 1
_HEAD: Final = struct.Struct("<QBQ")


def _error(fault: int, noted: bytearray) -> DecodeError:
    at, need, have = _NOTES.unpack(noted)[:3]
    return decode_error(-fault, at, need, have)


def _check_start(start: int, size: int) -> None:
    if not 0 <= start <= size:
        raise InvalidInputError(f"byte position {start} is outside the {size} bytes of data")


def scan(stored: BytesLike, start: int = 0) -> Scan:
    """Return a summary of a range of stored messages up to the first truncated or malformed message."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    _check_start(start, size)
    begin: cython.longlong = start
    noted, collected = c.new_bytes(_NOTES.size), c.new_bytes(min(STRETCH, size + layout.TIMESTAMP))
    notes: cython.p_uchar = c.writable(noted)
    scratch: cython.p_uchar = c.writable(collected)
    fault: cython.longlong
    crc: cython.uint
    with cython.nogil:
        fault = _walk(p, begin, size, notes)
        crc = masked(p, begin, c.load64(notes, layout.NOTED_END), scratch, 0)
    error = _error(fault, noted) if fault < 0 else None
    count, end, last = _NOTES.unpack(noted)[3:]
    if count == 0:
        return Scan(0, end, -1, -1, -1, -1, 0, error)
    flat = view.cast("B")
    first_offset, _, first_us = _HEAD.unpack_from(flat, start)
    last_offset, _, last_us = _HEAD.unpack_from(flat, last)
    return Scan(count, end, first_offset, last_offset, first_us, last_us, crc, error)


def masked_crc32c(stored: BytesLike) -> int:
    """Return the CRC-32C of complete stored messages, with each state byte treated as 0."""
    found = scan(stored)
    if found.fault is not None:
        raise found.fault
    return found.crc32c


def find_offset(stored: BytesLike, offset: int, start: int = 0) -> int:
    """Return the byte position of the first message with at least this offset; the size of `stored` if there is none."""
    return _find_first(stored, 0, offset, start)


def find_timestamp(stored: BytesLike, timestamp_us: int, start: int = 0) -> int:
    """Return the byte position of the first message appended at or after a time; the size of `stored` if there is none."""
    return _find_first(stored, layout.TIMESTAMP, timestamp_us, start)


def _find_first(stored: BytesLike, field_at: int, least: int, start: int) -> int:
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    _check_start(start, size)
    at: cython.longlong = start
    field: cython.longlong = field_at
    value: cython.ulonglong = min(max(least, 0), _MAX_UINT64)
    noted = c.new_bytes(_NOTES.size)
    notes: cython.p_uchar = c.writable(noted)
    with cython.nogil:
        at = _find(p, at, size, field, value, notes)
    if at < 0:
        raise _error(at, noted)
    return at


def take(stored: BytesLike, start: int, count: int, size_bytes: int) -> tuple[int, int]:
    """Return the end and number of the messages within a maximum count and size; the first message can exceed the size."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    _check_start(start, size)
    at: cython.longlong = start
    most: cython.longlong = count
    most_bytes: cython.longlong = size_bytes
    noted = c.new_bytes(_NOTES.size)
    notes: cython.p_uchar = c.writable(noted)
    with cython.nogil:
        at = take_at(p, at, size, most, most_bytes, notes)
    if at < 0:
        raise _error(at, noted)
    return at, c.load64(notes, layout.NOTED_COUNT)


def take_complete(stored: BytesLike, count: int, size_bytes: int) -> tuple[int, int]:
    """Return the end and number of the messages within a maximum count and size; the last message can be truncated.

    The first message is included regardless of its size.
    """
    try:
        return take(stored, 0, count, size_bytes)
    except DecodeError:
        whole = memoryview(stored)[: scan(stored).end]
        return take(whole, 0, count, size_bytes)


def find_states(stored: BytesLike, start: int = 0) -> list[tuple[int, int, int]]:
    """Return every message that is not available, as (byte position, offset, state)."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    _check_start(start, size)
    at: cython.longlong = start
    noted = c.new_bytes(_NOTES.size)
    notes: cython.p_uchar = c.writable(noted)
    found: list[tuple[int, int, int]] = []
    while True:
        with cython.nogil:
            at = _find_state(p, at, size, notes)
        if at < 0:
            raise _error(at, noted)
        if at == size:
            return found
        found.append((at, c.load64(p, at), p[at + layout.STATE]))
        at = end_of(p, at, size, notes)
