"""Encodes stored messages as a Kafka record batch (format 2), without a Python object per message: the reverse of records.py.

    batch    base_offset i64 | length i32 | leader_epoch i32 | magic i8 = 2 | crc32c u32 | attributes i16 | last_offset_delta i32
             | base_time i64 | max_time i64 | producer_id i64 | epoch i16 | sequence i32 | count i32 | records      big-endian

A record's time is the message's hs.timestamp, or its append time if hs.timestamp is missing or in the millisecond before 1970:
Kafka's number for this millisecond, -1, means no time. hs.key and hs.null become the record's key and null value. An hs.timestamp
of full milliseconds directly after these headers is written only as the record's time. All other headers are written as text,
followed by hs.kinds. Messages that encode_row() cannot encode are passed to write_fallback(), one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from headstream.core.codec.batch.checksum import crc32c
from headstream.core.codec.batch.kafka.values import NAMES
from headstream.core.codec.batch.stored.scan import take
from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import key_end, null_end
    from headstream.core.codec.batch.kafka.encoding import encode_row
    from headstream.core.codec.batch.kafka.varints import varint_size, write_varint
    from headstream.core.codec.batch.stored.scan import end_of
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import key_end, null_end
    from cython.cimports.headstream.core.codec.batch.kafka.encoding import encode_row
    from cython.cimports.headstream.core.codec.batch.kafka.varints import varint_size, write_varint
    from cython.cimports.headstream.core.codec.batch.stored.scan import end_of

HEAD_BYTES: Final = layout.RECORDS_HEAD
"""Size of a batch's header, which precedes the records, bytes."""

_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_CHECK: Final = struct.Struct(">I")

_BLOCK_BYTES: Final = 8 << 10
"""Maximum size of a message's headers in this kernel, and the reserved space; larger messages are passed to the fallback."""
_HEADERS: Final = 65
"""Maximum number of headers of a record in this kernel, including hs.kinds."""

# The positions of found numbers and notes: the scans, like encode_row(), use the first 48 bytes.
ENCODED_HEADERS = cython.declare(cython.longlong, 24)
ENCODED_KEYS = cython.declare(cython.longlong, 32)
ENCODED_VALUES = cython.declare(cython.longlong, 40)
_AT_BYTE: Final = 48
AT = cython.declare(cython.longlong, _AT_BYTE)
BASE_MS = cython.declare(cython.longlong, 56)
MOST_MS = cython.declare(cython.longlong, 64)
COUNT = cython.declare(cython.longlong, 72)
STATUS = cython.declare(cython.longlong, 80)
MOST_BLOCK = cython.declare(cython.longlong, 88)
_NOTES: Final = struct.Struct("<12q")
_STATE: Final = struct.Struct("<4q")
_AT: Final = struct.Struct("<q")

DONE = cython.declare(cython.int, 0)
FALLBACK = cython.declare(cython.int, 1)
FULL = cython.declare(cython.int, 2)
BROKEN = cython.declare(cython.int, 3)

RECORD_SPACE = cython.declare(cython.longlong, 64)
NO_TIME = cython.declare(cython.longlong, -1)
"""Time that means no time: of a record without a time, or of a message without an hs.timestamp that a record can represent."""

HS_TIMES = cython.declare(cython.ulonglong, int.from_bytes(b"hs.times", "little"))
TAMP = cython.declare(cython.uint, int.from_bytes(b"tamp", "little"))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_time(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.bint:
    """Return whether the header at a position is an hs.timestamp of the correct kind, with a time that a record can have."""
    if end - at < layout.TIME_BYTES or c.load32(p, at) != layout.TIME_KIND - layout.TIME_NAME:
        return False
    if c.load64(p, at + layout.TIME_NAME) != HS_TIMES or c.load32(p, at + layout.TIME_LAST) != TAMP:
        return False
    if p[at + layout.TIME_KIND] != 7 or c.load32(p, at + layout.TIME_SIZE) != 8:
        return False
    return _to_ms(c.load64_signed(p, at + layout.TIME_VALUE)) != NO_TIME


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _to_ms(time_us: cython.longlong) -> cython.longlong:
    """Convert microseconds to milliseconds, rounded down, because compiled division rounds towards zero."""
    return time_us // 1000 if time_us >= 0 else -1 - -(time_us + 1) // 1000


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find_time(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the first hs.timestamp of a block, or NO_TIME."""
    while end - at >= layout.TIME_BYTES:
        if _is_time(p, at, end):
            return c.load64_signed(p, at + layout.TIME_VALUE)
        at += layout.HEADER_OVERHEAD + c.load32(p, at)
        if at > end:
            break
        at += c.load32(p, at - 4)
    return NO_TIME


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _sized(size: cython.longlong) -> cython.longlong:
    """Return the size of a key or value including its encoded length; -1 is null."""
    return varint_size(size) + (size if size > 0 else 0)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _size_of_headers(
    count: cython.longlong, key_offsets: cython.p_uchar, value_offsets: cython.p_uchar, validity: cython.p_uchar
) -> cython.longlong:
    """Return the size of the encoded headers of a record."""
    size: cython.longlong = 0
    j: cython.longlong
    for j in range(count):
        length: cython.longlong = c.load32(key_offsets, 4 * (j + 1))
        length -= c.load32(key_offsets, 4 * j)
        size += _sized(length)
        length = -1
        if validity[j >> 3] >> (j & 7) & 1:
            length = c.load32(value_offsets, 4 * (j + 1))
            length -= c.load32(value_offsets, 4 * j)
        size += _sized(length)
    return size


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_sized(
    q: cython.p_uchar, to: cython.longlong, p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong
) -> cython.longlong:
    """Write a length, -1 for null, followed by the bytes; return the end position."""
    to = write_varint(q, to, size)
    if size > 0:
        c.copy(q, to, p, at, size)
        to += size
    return to


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_headers(
    q: cython.p_uchar,
    to: cython.longlong,
    count: cython.longlong,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
) -> cython.longlong:
    """Write the number of headers followed by the encoded headers; return the end position."""
    j: cython.longlong
    to = write_varint(q, to, count)
    for j in range(count):
        at: cython.longlong = c.load32(key_offsets, 4 * j)
        to = _write_sized(q, to, keys, at, c.load32(key_offsets, 4 * (j + 1)) - at)
        at = c.load32(value_offsets, 4 * j)
        is_there: cython.bint = validity[j >> 3] >> (j & 7) & 1 == 1
        to = _write_sized(q, to, values, at, c.load32(value_offsets, 4 * (j + 1)) - at if is_there else -1)
    return to


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _encode_headers(
    p: cython.p_const_uchar,
    block: cython.longlong,
    end: cython.longlong,
    names: cython.p_const_uchar,
    entries: cython.p_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Encode the headers of a block; return their number, including hs.kinds, or -1 if the fallback must encode them."""
    if end - block > c.load64_signed(notes, MOST_BLOCK):
        return -1
    c.store64_signed(notes, ENCODED_HEADERS, 0)
    c.store64_signed(notes, ENCODED_KEYS, 0)
    c.store64_signed(notes, ENCODED_VALUES, 0)
    c.store64_signed(validity, 0, 0)
    c.store64_signed(validity, 8, 0)
    if encode_row(p, block, end, names, entries, key_offsets, keys, value_offsets, values, validity, notes):
        return -1
    return c.load64_signed(notes, ENCODED_HEADERS)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_messages(
    p: cython.p_const_uchar,
    size: cython.longlong,
    base_offset: cython.longlong,
    names: cython.p_const_uchar,
    entries: cython.p_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
    q: cython.p_uchar,
    to: cython.longlong,
    capacity: cython.longlong,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Write records from the recorded position up to the first message that needs the fallback; return the end position."""
    at: cython.longlong = c.load64_signed(notes, AT)
    base_ms: cython.longlong = c.load64_signed(notes, BASE_MS)
    most_ms: cython.longlong = c.load64_signed(notes, MOST_MS)
    count: cython.longlong = c.load64_signed(notes, COUNT)
    status: cython.int = DONE
    while at < size:
        end: cython.longlong = end_of(p, at, size, notes)
        block_end: cython.longlong = at + layout.HEADERS + c.load32(p, at + layout.HEADERS_SIZE) if end >= 0 else at
        begin: cython.longlong = key_end(p, at + layout.HEADERS, block_end)
        if begin > block_end:
            status = BROKEN
            break
        payload_size: cython.longlong = c.load32(p, block_end)
        key_size: cython.longlong = begin - at - layout.HEADERS - layout.KEY_VALUE if begin > at + layout.HEADERS else -1
        block: cython.longlong = null_end(p, begin, block_end, payload_size)
        value_size: cython.longlong = payload_size if block == begin else -1
        time_us: cython.longlong = _find_time(p, block, block_end)
        if time_us != NO_TIME and time_us % 1000 == 0 and _is_time(p, block, block_end):
            block += layout.TIME_BYTES
        time_ms: cython.longlong = _to_ms(c.load64_signed(p, at + layout.TIMESTAMP) if time_us == NO_TIME else time_us)
        if count == 0:
            base_ms = time_ms
        header_count: cython.longlong = 0
        if block < block_end:
            header_count = _encode_headers(
                p, block, block_end, names, entries, key_offsets, keys, value_offsets, values, validity, notes
            )
        if header_count < 0:
            status = FALLBACK
            break
        offset_delta: cython.longlong = c.load64_signed(p, at) - base_offset
        length: cython.longlong = 1 + varint_size(time_ms - base_ms) + varint_size(offset_delta) + varint_size(header_count)
        length += _sized(key_size) + _sized(value_size) + _size_of_headers(header_count, key_offsets, value_offsets, validity)
        if to + length + RECORD_SPACE > capacity:
            status = FULL
            break
        to = write_varint(q, to, length)
        q[to] = 0
        to = write_varint(q, to + 1, time_ms - base_ms)
        to = write_varint(q, to, offset_delta)
        to = _write_sized(q, to, p, begin - key_size, key_size)
        to = _write_sized(q, to, p, block_end + 4, value_size)
        to = _write_headers(q, to, header_count, key_offsets, keys, value_offsets, values, validity)
        most_ms = time_ms if count == 0 or time_ms > most_ms else most_ms
        count += 1
        at = end
    c.store64_signed(notes, AT, at)
    c.store64_signed(notes, BASE_MS, base_ms)
    c.store64_signed(notes, MOST_MS, most_ms)
    c.store64_signed(notes, COUNT, count)
    c.store64_signed(notes, STATUS, status)
    return to


class _EncodeScratch:
    """Buffers for the headers of one record."""

    def __init__(self) -> None:
        self.entries = c.new_bytes(8 * _HEADERS)
        self.key_offsets, self.value_offsets = bytearray(4 * _HEADERS + 4), bytearray(4 * _HEADERS + 4)
        self.keys, self.values = c.new_bytes(_BLOCK_BYTES + 64), c.new_bytes(5 * _BLOCK_BYTES + 60 * _HEADERS)
        self.validity = bytearray(16)


def encode_batch(
    chunks: Sequence[BytesLike],
    base_offset: int,
    last_offset: int,
    leader_epoch: int,
    write_fallback: Callable[[memoryview, int | None, int], tuple[bytes, int]],
    *,
    is_typed: bool = True,
) -> bytearray:
    """Encode stored messages as a record batch.

    Args:
        chunks: Complete stored messages in order of offset; can be empty.
        base_offset: First offset of the batch; at most the first message's offset.
        last_offset: Last offset of the batch; at least the last message's offset, and less than base_offset + 2^31.
        write_fallback: Encodes a message that the kernel does not support. Arguments: the message, the batch's base time (None:
            the message's time), base_offset. Returns the record with its length, and its time in milliseconds since 1970 UTC.
        is_typed: Whether headers are written as text with hs.kinds; otherwise write_fallback encodes messages with headers.
    """
    data = c.new_bytes(HEAD_BYTES + sum(len(chunk) for chunk in chunks) + _SLACK_BYTES)
    noted, scratch, end = bytearray(_NOTES.size), _EncodeScratch(), HEAD_BYTES
    _NOTES.pack_into(noted, 0, *(0,) * 8, -1, 0, 0, _BLOCK_BYTES if is_typed else 0)
    for chunk in chunks:
        view = memoryview(chunk)
        _AT.pack_into(noted, _AT_BYTE, 0)
        while True:
            end = _fill(view, base_offset, scratch, data, end, noted)
            at, base_ms, most_ms, count, status = _NOTES.unpack(noted)[6:11]
            if status == _DONE:
                break
            if status == _BROKEN:
                raise DecodeError("a stored message is cut short", at)
            stop = take(view, at, 1, 1)[0]
            if status == _FULL:
                data += bytes(len(view) // 2 + stop - at + _RECORD_BYTES)
                continue
            record, time_ms = write_fallback(view[at:stop], base_ms if count else None, base_offset)
            if end + len(record) > len(data):
                data += bytes(len(record) + len(view) - stop + _SLACK_BYTES)
            data[end : end + len(record)] = record
            end += len(record)
            _STATE.pack_into(
                noted, _AT_BYTE, stop, base_ms if count else time_ms, max(most_ms, time_ms) if count else time_ms, count + 1
            )
    base_ms, most_ms, count = _NOTES.unpack(noted)[7:10]
    del data[end:]
    _seal(data, (base_offset, last_offset, leader_epoch), (base_ms, most_ms), count)
    return data


_DONE, _FULL, _BROKEN = 0, 2, 3
_SLACK_BYTES: Final = 256
_RECORD_BYTES: Final = 128 << 10
"""Maximum size of a record without its payload, if its stored headers have at most 8 KiB."""


def _seal(data: bytearray, place: tuple[int, int, int], times: tuple[int, int], count: int) -> None:
    """Write the header of a batch and its checksum."""
    base_offset, last_offset, leader_epoch = place
    base_ms, most_ms = times if count else (-1, -1)
    size, delta = len(data) - layout.RECORDS_EPOCH, last_offset - base_offset
    _HEAD.pack_into(data, 0, base_offset, size, leader_epoch, 2, 0, 0, delta, base_ms, most_ms, -1, -1, -1, count)
    _CHECK.pack_into(data, layout.RECORDS_CHECK, crc32c(memoryview(data)[layout.RECORDS_CHECKED :]))


def _fill(view: memoryview, first_offset: int, scratch: _EncodeScratch, data: bytearray, start: int, noted: bytearray) -> int:
    """Write records up to the first record that needs the fallback; return the end position."""
    names_view = memoryview(NAMES)
    p: cython.p_const_uchar = c.readable(view)
    names: cython.p_const_uchar = c.readable(names_view)
    size: cython.longlong = view.nbytes
    base_offset: cython.longlong = first_offset
    to: cython.longlong = start
    capacity: cython.longlong = len(data)
    entries: cython.p_uchar = c.writable(scratch.entries)
    key_offsets: cython.p_uchar = c.writable(scratch.key_offsets)
    keys: cython.p_uchar = c.writable(scratch.keys)
    value_offsets: cython.p_uchar = c.writable(scratch.value_offsets)
    values: cython.p_uchar = c.writable(scratch.values)
    validity: cython.p_uchar = c.writable(scratch.validity)
    q: cython.p_uchar = c.writable(data)
    notes: cython.p_uchar = c.writable(noted)
    written: cython.longlong
    with cython.nogil:
        written = _write_messages(
            p, size, base_offset, names, entries, key_offsets, keys, value_offsets, values, validity, q, to, capacity, notes
        )
    return written
