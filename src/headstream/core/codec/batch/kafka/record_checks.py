"""Checks all Kafka records of a batch in a kernel, before any record is converted. records.py describes their format."""

from __future__ import annotations

from typing import Final

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch.kafka.varints import read_varint
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch.kafka.varints import read_varint

MAX_TIME_MS: Final = ((1 << 63) - 1) // 1000
"""The last time in milliseconds whose microseconds fit into an int64."""
NO_BASE_MS: Final = -(1 << 63)
"""The base time if records have no time."""
TIME_FAULT: Final = 4
FAULTS: Final = {
    1: "a record is cut short",
    2: "the length of a record does not match its length field",
    3: "the offsets of the records are not 0, 1, 2 and so on",
    TIME_FAULT: "the time of a record is out of range",
    5: "there are unexpected bytes after the records",
}
"""The descriptions of faults by number."""

MAX_TIME = cython.declare(cython.longlong, MAX_TIME_MS)

# The positions of found numbers and notes: faults use the first 24 bytes.
FOUND = cython.declare(cython.longlong, 24)
HEADERS = cython.declare(cython.longlong, 32)
MOST_BYTES = cython.declare(cython.longlong, 40)

CUT = cython.declare(cython.int, 1)
LENGTH = cython.declare(cython.int, 2)
SEQUENCE = cython.declare(cython.int, 3)
TIME = cython.declare(cython.int, 4)
SURPLUS = cython.declare(cython.int, 5)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _skip(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, notes: cython.p_uchar) -> cython.longlong:
    """Record the length of length-prefixed bytes (-1 for null) and return their end position; -1 if they are truncated."""
    at = read_varint(p, at, end, notes, FOUND)
    if at < 0:
        return -1
    size: cython.longlong = c.load64_signed(notes, FOUND)
    if size < -1 or size > end - at:
        return -1
    return at + size if size > 0 else at


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_record(
    p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, number: cython.longlong, base_ms: cython.longlong,
    notes: cython.p_uchar,
) -> cython.longlong:  # fmt: skip
    """Add a record's headers to the notes and return the record's end position, or a fault."""
    begin: cython.longlong = read_varint(p, at, size, notes, FOUND)
    if begin < 0:
        return c.note_fault(notes, CUT, at, 0, 0)
    length: cython.longlong = c.load64_signed(notes, FOUND)
    if length < 1 or length > size - begin:
        return c.note_fault(notes, CUT, at, 0, 0)
    end: cython.longlong = begin + length
    at = read_varint(p, begin + 1, end, notes, FOUND)
    if at < 0:
        return c.note_fault(notes, CUT, begin, 0, 0)
    delta: cython.longlong = c.load64_signed(notes, FOUND)
    if base_ms >= -MAX_TIME and not -MAX_TIME - base_ms <= delta <= MAX_TIME - base_ms:
        return c.note_fault(notes, TIME, begin, 0, 0)
    at = read_varint(p, at, end, notes, FOUND)
    if at < 0:
        return c.note_fault(notes, CUT, begin, 0, 0)
    if c.load64_signed(notes, FOUND) != number:
        return c.note_fault(notes, SEQUENCE, begin, 0, 0)
    at = _skip(p, at, end, notes)
    if at >= 0:
        at = _skip(p, at, end, notes)
    headers_at: cython.longlong = at
    if at >= 0:
        at = read_varint(p, at, end, notes, FOUND)
    if at < 0:
        return c.note_fault(notes, CUT, begin, 0, 0)
    count: cython.longlong = c.load64_signed(notes, FOUND)
    if count < 0 or count > end - at:
        return c.note_fault(notes, CUT, at, 0, 0)
    c.store64_signed(notes, HEADERS, c.load64_signed(notes, HEADERS) + count)
    while count > 0:
        at = _skip(p, at, end, notes)
        if at < 0 or c.load64_signed(notes, FOUND) < 0:
            return c.note_fault(notes, CUT, headers_at, 0, 0)
        at = _skip(p, at, end, notes)
        if at < 0:
            return c.note_fault(notes, CUT, headers_at, 0, 0)
        count -= 1
    if at != end:
        return c.note_fault(notes, LENGTH, at, 0, 0)
    if end - headers_at > c.load64_signed(notes, MOST_BYTES):
        c.store64_signed(notes, MOST_BYTES, end - headers_at)
    return end


def check_records(
    p: cython.p_const_uchar, size: cython.longlong, count: cython.longlong, base_ms: cython.longlong, notes: cython.p_uchar
) -> cython.longlong:
    """Record the number of headers, and the largest header size of a record, in bytes 24 to 48 of `notes`; return 0 or a fault.

    `base_ms` is -MAX_TIME_MS to MAX_TIME_MS, or NO_BASE_MS for records without a time.
    """
    at: cython.longlong = 0
    number: cython.longlong
    for number in range(count):
        at = _check_record(p, at, size, number, base_ms, notes)
        if at < 0:
            return at
    return 0 if at == size else c.note_fault(notes, SURPLUS, at, 0, 0)
