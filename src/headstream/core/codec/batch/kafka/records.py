"""Decodes the records of a Kafka record batch (format 2) to sent messages (layout.py), without an object per message.

    record   length v | attributes i8 | time_delta v | offset_delta v | key_length v | key | value_length v | value
             | count v | (key_length v | key | value_length v | value)*            v: a varint; a length of -1 is null

A key becomes hs.key, a null value hs.null, and the record's time hs.timestamp, in this order before the other headers, whose
kinds are in hs.kinds. A time before 1970 is negative; as in Kafka, -1 ms means no time. All input is checked before a byte is
written. Records with more than 64 headers, with reserved headers other than hs.kinds, or in another product's convention are
passed to the fallback in codec.kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from headstream.core.codec.batch.kafka.record_checks import FAULTS, MAX_TIME_MS, NO_BASE_MS, TIME_FAULT
from headstream.core.codec.batch.kafka.values import NAMES
from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError, LimitError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.kafka.decoding import decode_row
    from headstream.core.codec.batch.kafka.record_checks import check_records
    from headstream.core.codec.batch.kafka.varints import read_varint
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.kafka.decoding import decode_row
    from cython.cimports.headstream.core.codec.batch.kafka.record_checks import check_records
    from cython.cimports.headstream.core.codec.batch.kafka.varints import read_varint

NO_BASE = cython.declare(cython.longlong, NO_BASE_MS)
NO_TIME = cython.declare(cython.longlong, -1)
"""The time of a record without a time, in milliseconds; no record has this time in microseconds."""
FALLBACK = cython.declare(cython.longlong, -2)

_GROWTH: Final = 85
"""Maximum growth of a record without headers into a message: the sent head, hs.key, hs.null and hs.timestamp."""
_HEADER_GROWTH: Final = 26
"""Maximum growth of a header: lengths, kind, and a value that is longer than its text."""

# The positions of found numbers and notes: faults use the first 24 bytes, the checks the next.
FOUND = cython.declare(cython.longlong, 24)
AT = cython.declare(cython.longlong, 48)
NUMBER = cython.declare(cython.longlong, 56)
BODY_END = cython.declare(cython.longlong, 64)
_NOTES: Final = struct.Struct("<9q")

HS_KEY = cython.declare(cython.uint, int.from_bytes(b"hs.k", "little"))
EY = cython.declare(cython.uint, int.from_bytes(b"ey", "little"))
HS_N = cython.declare(cython.uint, int.from_bytes(b"hs.n", "little"))
NULL = cython.declare(cython.uint, int.from_bytes(b"null", "little"))
HS_TIMES = cython.declare(cython.ulonglong, int.from_bytes(b"hs.times", "little"))
TAMP = cython.declare(cython.uint, int.from_bytes(b"tamp", "little"))
HS_KINDS = cython.declare(cython.ulonglong, int.from_bytes(b"hs.kinds", "little"))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_reserved(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.bint:
    """Return whether a key is a reserved key other than hs.kinds; codec.kafka handles such keys."""
    if size < 3 or p[at] != 104 or p[at + 1] != 115 or p[at + 2] != 46:
        return False
    return size != 8 or c.load64(p, at) != HS_KINDS


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_headers(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    count: cython.longlong,
    names: cython.p_const_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
    roles: cython.p_uchar,
    entries: cython.p_uchar,
    q: cython.p_uchar,
    to: cython.longlong,
    notes: cython.p_uchar,
    most_headers: cython.longlong,
) -> cython.longlong:
    """Write the block of a checked record's headers; return the end position, or FALLBACK."""
    key_at: cython.longlong = 0
    value_at: cython.longlong = 0
    some_null: cython.bint = False
    j: cython.longlong
    c.store32(key_offsets, 0, 0)
    c.store32(value_offsets, 0, 0)
    c.store64(validity, 0, 0)
    if count > most_headers:
        return FALLBACK
    for j in range(count):
        at = read_varint(p, at, end, notes, FOUND)
        size: cython.longlong = c.load64_signed(notes, FOUND)
        if _is_reserved(p, at, size):
            return FALLBACK
        c.copy(keys, key_at, p, at, size)
        key_at += size
        at = read_varint(p, at + size, end, notes, FOUND)
        size = c.load64_signed(notes, FOUND)
        if size >= 0:
            c.copy(values, value_at, p, at, size)
            value_at += size
            at += size
            validity[j >> 3] |= 1 << (j & 7)
        else:
            some_null = True
        c.store32(key_offsets, 4 * (j + 1), key_at)
        c.store32(value_offsets, 4 * (j + 1), value_at)
    return decode_row(0, count, key_offsets, keys, value_offsets, values, validity, some_null, True, names, roles, entries, q, to)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_own(
    q: cython.p_uchar, to: cython.longlong, p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong,
    is_null: cython.bint, time_us: cython.longlong,
) -> cython.longlong:  # fmt: skip
    """Write hs.key, hs.null and hs.timestamp of a record if it has them; return the end position."""
    if size >= 0:
        c.store32(q, to, layout.KEY_KIND - layout.KEY_NAME)
        c.store32(q, to + layout.KEY_NAME, HS_KEY)
        c.store16(q, to + layout.KEY_LAST, EY)
        q[to + layout.KEY_KIND] = 1
        c.store32(q, to + layout.KEY_SIZE, size)
        c.copy(q, to + layout.KEY_VALUE, p, at, size)
        to += layout.KEY_VALUE + size
    if is_null:
        c.store32(q, to, layout.NULL_KIND - layout.NULL_NAME)
        c.store32(q, to + layout.NULL_NAME, HS_N)
        c.store32(q, to + layout.NULL_LAST, NULL)
        q[to + layout.NULL_KIND] = 3
        c.store32(q, to + layout.NULL_SIZE, 1)
        q[to + layout.NULL_VALUE] = 1
        to += layout.NULL_BYTES
    if time_us != NO_TIME:
        c.store32(q, to, layout.TIME_KIND - layout.TIME_NAME)
        c.store64(q, to + layout.TIME_NAME, HS_TIMES)
        c.store32(q, to + layout.TIME_LAST, TAMP)
        q[to + layout.TIME_KIND] = 7
        c.store32(q, to + layout.TIME_SIZE, 8)
        c.store64_signed(q, to + layout.TIME_VALUE, time_us)
        to += layout.TIME_BYTES
    return to


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_records(
    p: cython.p_const_uchar,
    size: cython.longlong,
    count: cython.longlong,
    base_ms: cython.longlong,
    names: cython.p_const_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
    roles: cython.p_uchar,
    entries: cython.p_uchar,
    q: cython.p_uchar,
    to: cython.longlong,
    notes: cython.p_uchar,
    most_headers: cython.longlong,
) -> cython.longlong:
    """Write messages from the recorded position up to the first record that needs the fallback; return the end position."""
    at: cython.longlong = c.load64_signed(notes, AT)
    number: cython.longlong = c.load64_signed(notes, NUMBER)
    while number < count:
        record: cython.longlong = at
        at = read_varint(p, at, size, notes, FOUND)
        end: cython.longlong = at + c.load64_signed(notes, FOUND)
        at = read_varint(p, at + 1, end, notes, FOUND)
        time_us: cython.longlong = NO_TIME
        if base_ms != NO_BASE and base_ms + c.load64_signed(notes, FOUND) != NO_TIME:
            time_us = 1000 * (base_ms + c.load64_signed(notes, FOUND))
        at = read_varint(p, at, end, notes, FOUND)
        key_at: cython.longlong = read_varint(p, at, end, notes, FOUND)
        key_size: cython.longlong = c.load64_signed(notes, FOUND)
        at = key_at + key_size if key_size > 0 else key_at
        value_at: cython.longlong = read_varint(p, at, end, notes, FOUND)
        value_size: cython.longlong = c.load64_signed(notes, FOUND)
        is_null: cython.bint = value_size < 0
        value_size = 0 if is_null else value_size
        at = read_varint(p, value_at + value_size, end, notes, FOUND)
        header_count: cython.longlong = c.load64_signed(notes, FOUND)
        reached: cython.longlong = _write_own(q, to + layout.SENT_HEADERS, p, key_at, key_size, is_null, time_us)
        if header_count > 0:
            reached = _write_headers(
                p, at, end, header_count, names, key_offsets, keys, value_offsets, values, validity, roles, entries, q, reached,
                notes, most_headers,
            )  # fmt: skip
        if reached == FALLBACK:
            c.store64_signed(notes, BODY_END, end)
            at = record
            break
        c.store64(q, to, 0)
        c.store64(q, to + layout.ID_HIGH, 0)
        c.store32(q, to + layout.SENT_HEADERS_SIZE, reached - to - layout.SENT_HEADERS)
        c.store32(q, reached, value_size)
        c.copy(q, reached + 4, p, value_at, value_size)
        to = reached + 4 + value_size
        at = end
        number += 1
    c.store64_signed(notes, AT, at)
    c.store64_signed(notes, NUMBER, number)
    return to


def decode_records(
    records: BytesLike,
    count: int,
    base_ms: int | None,
    read_fallback: Callable[[memoryview, int | None], bytes],
    most_bytes: int,
    *,
    is_typed: bool = True,
) -> bytearray:
    """Convert records to sent messages.

    Args:
        records: Contiguous uncompressed records.
        base_ms: Base time of the records, milliseconds since 1970 UTC; None for records without a time.
        read_fallback: Converts a record that the kernel does not support. Arguments: the record's bytes without its length, and
            base_ms. Returns the sent message.
        most_bytes: Maximum size of the messages, bytes.
        is_typed: Whether kinds are read from hs.kinds; otherwise read_fallback converts all records that have headers.
    """
    view, noted = memoryview(records), bytearray(_NOTES.size)
    if base_ms is not None and not -MAX_TIME_MS <= base_ms <= MAX_TIME_MS:
        raise DecodeError(FAULTS[TIME_FAULT], 0)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    total: cython.longlong = count
    base: cython.longlong = NO_BASE if base_ms is None else base_ms
    notes: cython.p_uchar = c.writable(noted)
    fault: cython.longlong
    with cython.nogil:
        fault = check_records(p, size, total, base, notes)
    at, _, _, _, headers, most = _NOTES.unpack(noted)[:6]
    if fault < 0:
        raise DecodeError(FAULTS[-fault], at)
    capacity = view.nbytes + _GROWTH * count + _HEADER_GROWTH * headers
    if capacity > most_bytes + _GROWTH * count:
        raise LimitError(f"the records exceed the limit of {most_bytes} bytes", advice="Send smaller batches")
    data, scratch = c.new_bytes(capacity), _Scratch(most)
    end = 0
    while True:
        end = _fill(view, count, base, scratch, data, end, noted, _COUNT if is_typed else 0)
        at, number, fallback_end = _NOTES.unpack(noted)[6:]
        if number == count:
            break
        message = read_fallback(_body(view, at, fallback_end), base_ms)
        _put(data, end, message)
        end += len(message)
        _NOTES.pack_into(noted, 0, *_NOTES.unpack(noted)[:6], fallback_end, number + 1, 0)
    del data[end:]
    return data


def _body(view: memoryview, at: int, end: int) -> memoryview:
    """Return the bytes of a checked record without its length."""
    while view[at] > 127:
        at += 1
    return view[at + 1 : end]


def _put(data: bytearray, at: int, message: bytes) -> None:
    """Write a message at a position."""
    if at + len(message) > len(data):
        raise LimitError("a record exceeds the maximum size of a message", advice="Send fewer headers")
    data[at : at + len(message)] = message


class _Scratch:
    """Buffers for the headers of one record, of limited size."""

    def __init__(self, most_bytes: int) -> None:
        self.key_offsets, self.value_offsets = bytearray(4 * _COUNT + 4), bytearray(4 * _COUNT + 4)
        self.keys, self.values = c.new_bytes(most_bytes), c.new_bytes(most_bytes)
        self.validity, self.roles, self.entries = bytearray(8), bytearray(_COUNT), bytearray(40 * _COUNT)


_COUNT: Final = 64


def _fill(
    view: memoryview, count: int, base_ms: int, scratch: _Scratch, data: bytearray, start: int, noted: bytearray, most: int
) -> int:
    """Write messages up to the end or the first record that needs the fallback; return the end position."""
    names_view = memoryview(NAMES)
    p: cython.p_const_uchar = c.readable(view)
    names: cython.p_const_uchar = c.readable(names_view)
    size: cython.longlong = view.nbytes
    total: cython.longlong = count
    base: cython.longlong = base_ms
    to: cython.longlong = start
    key_offsets: cython.p_uchar = c.writable(scratch.key_offsets)
    keys: cython.p_uchar = c.writable(scratch.keys)
    value_offsets: cython.p_uchar = c.writable(scratch.value_offsets)
    values: cython.p_uchar = c.writable(scratch.values)
    validity: cython.p_uchar = c.writable(scratch.validity)
    roles: cython.p_uchar = c.writable(scratch.roles)
    entries: cython.p_uchar = c.writable(scratch.entries)
    q: cython.p_uchar = c.writable(data)
    notes: cython.p_uchar = c.writable(noted)
    most_headers: cython.longlong = most
    written: cython.longlong
    with cython.nogil:
        written = _write_records(
            p, size, total, base, names, key_offsets, keys, value_offsets, values, validity, roles, entries, q, to, notes,
            most_headers,
        )  # fmt: skip
    return written
