"""Converts batches of Iggy's protocol 0.11 (servers from 0.9) to Headstream's messages and back; little-endian.

    batch    partition u64 | base_offset u64 | base_time u64 | origin_time u64 | length u64 | checksum u64 | count u32
             | 204 zeros, then one frame per message; length is the size of the batch
    frame    checksum u64 | id u128 | offset_delta u32 | origin_delta u32 | headers_length u32 | payload_length u32
             | 8 zeros | payload | headers
    headers  (key_kind u8 | key_length u32 | key | kind u8 | value_length u32 | value)*

A frame's checksum is the XXH3 of the frame's other bytes. A batch's checksum is the XXH3 of its first 40 bytes, its count and the
checksums of its frames. All messages of a batch have the batch's base time.

The sender's time (`origin`) is stored like the time of a Kafka record: as the header `hs.timestamp`, before all headers except
`hs.key` and `hs.null`. For a message without this header, the time of its append is sent. Keys are strings (kind 2).
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
    from headstream.core.codec.batch.headers import check_block, key_end, null_end
    from headstream.core.codec.uncompiled_checksums import xxh3_from
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout
    from cython.cimports.headstream.core.codec.batch.headers import check_block, key_end, null_end
    from cython.cimports.headstream.core.codec.checksums import xxh3_from

BATCH = cython.declare(cython.longlong, layout.BATCH_BYTES)
FRAME = cython.declare(cython.longlong, layout.FRAME_BYTES)
TIME_KEY_FIRST = cython.declare(cython.ulonglong, int.from_bytes(b"hs.times", "little"))
TIME_KEY_LAST = cython.declare(cython.uint, int.from_bytes(b"tamp", "little"))
INT64_KIND = cython.declare(cython.uchar, 7)
TEXT_KIND = cython.declare(cython.uchar, 2)
SAME_TIME_US = cython.declare(cython.ulonglong, 1000)
"""Messages appended within this number of microseconds after the first message of a batch are in the batch and have its time."""
MAX_U32 = cython.declare(cython.ulonglong, 0xFFFF_FFFF)
MAX_ORIGIN = cython.declare(cython.ulonglong, 0x7FFF_FFFF_0000_0000)
"""Latest sender time of a batch, microseconds; with any delta, the sum still fits into an int64."""

# The notes of _groups() for each batch, in bytes: end in the stored bytes, messages, smallest time of a sender, frames' bytes.
# A fault is noted before.
GROUP = cython.declare(cython.longlong, layout.GROUP_BYTES)
GROUPS = cython.declare(cython.longlong, 64)


class BatchFault:
    """The fault of a rejected batch."""

    LAYOUT: Final = 1
    RESERVED: Final = 2
    BATCH_CHECKSUM: Final = 3
    MESSAGE_CHECKSUM: Final = 4
    KEY_KIND: Final = 5
    HEADERS: Final = 6
    EMPTY_PAYLOAD: Final = 7


LAYOUT = cython.declare(cython.longlong, -1)
RESERVED = cython.declare(cython.longlong, -2)
BATCH_CHECKSUM = cython.declare(cython.longlong, -3)
MESSAGE_CHECKSUM = cython.declare(cython.longlong, -4)
KEY_KIND = cython.declare(cython.longlong, -5)
HEADERS = cython.declare(cython.longlong, -6)
EMPTY_PAYLOAD = cython.declare(cython.longlong, -7)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _take_headers(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write the headers of a frame in the layout of a message; return their end position, or a fault."""
    size: cython.longlong
    while at < end:
        if end - at < layout.VALUE_HEAD:
            return HEADERS
        size = c.load32(p, at + 1)
        if end - at - 2 * layout.VALUE_HEAD < size:
            return HEADERS
        if p[at] != TEXT_KIND:
            return KEY_KIND
        length: cython.longlong = c.load32(p, at + layout.VALUE_HEAD + size + 1)
        if end - at - 2 * layout.VALUE_HEAD - size < length:
            return HEADERS
        length += layout.HEADER_OVERHEAD + size
        c.copy(q, to, p, at + 1, length)
        to += length
        at += length + 1
    return to


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _take_batch(p: cython.p_const_uchar, size: cython.longlong, q: cython.p_uchar, sums: cython.p_uchar) -> cython.longlong:
    """Write the messages of a batch in the sent layout; return their size, or a fault.

    Each frame is checked and copied before the next frame is read. `sums` has space for 44 bytes plus 8 bytes per message.
    """
    at: cython.longlong = BATCH
    to: cython.longlong = 0
    count: cython.longlong = 0
    if size < BATCH or c.load64_signed(p, layout.BATCH_LENGTH) != size or c.load64(p, layout.BATCH_ORIGIN) > MAX_ORIGIN:
        return LAYOUT
    origin: cython.ulonglong = c.load64(p, layout.BATCH_ORIGIN)
    i: cython.longlong = layout.BATCH_ZEROS
    while i < BATCH:
        if c.load32(p, i) != 0:
            return RESERVED
        i += 4
    while at < size:
        if size - at < FRAME or count >= c.load32(p, layout.BATCH_COUNT):
            return LAYOUT
        headers: cython.longlong = c.load32(p, at + layout.FRAME_HEADERS)
        payload: cython.longlong = c.load32(p, at + layout.FRAME_PAYLOAD)
        body: cython.longlong = at + FRAME
        end: cython.longlong = body + payload + headers
        if end > size:
            return LAYOUT
        if c.load64(p, at + layout.FRAME_ZEROS) != 0:
            return RESERVED
        if payload == 0:
            return EMPTY_PAYLOAD
        if xxh3_from(p, at + layout.FRAME_ID, end - at - layout.FRAME_ID) != c.load64(p, at):
            return MESSAGE_CHECKSUM
        c.copy(sums, layout.SUMMED_FRAMES + 8 * count, p, at, 8)
        count += 1
        c.copy(q, to, p, at + layout.FRAME_ID, layout.ID_BYTES)
        block: cython.longlong = to + layout.SENT_HEADERS
        time_us: cython.ulonglong = origin + c.load32(p, at + layout.FRAME_ORIGIN)
        shown: cython.longlong = block + (layout.TIME_BYTES if time_us > 0 else 0)
        to = _take_headers(p, body + payload, end, q, shown)
        if to < 0:
            return to
        if time_us > 0:
            key: cython.longlong = key_end(q, shown, to) - shown
            c.copy(q, block, p, body + payload + 1, key)
            _store_time(q, block + key, time_us)
        c.store32(q, block - 4, to - block)
        c.store32(q, to, payload)
        c.copy(q, to + 4, p, body, payload)
        to += 4 + payload
        at = end
    if count != c.load32(p, layout.BATCH_COUNT) or count == 0:
        return LAYOUT
    c.copy(sums, 0, p, 0, layout.SUMMED_COUNT)
    c.copy(sums, layout.SUMMED_COUNT, p, layout.BATCH_COUNT, 4)
    return to if xxh3_from(sums, 0, layout.SUMMED_FRAMES + 8 * count) == c.load64(p, layout.BATCH_CHECKSUM) else BATCH_CHECKSUM


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _store_time(q: cython.p_uchar, to: cython.longlong, time_us: cython.ulonglong) -> cython.void:
    """Write the header hs.timestamp."""
    c.store32(q, to, layout.TIME_KIND - layout.TIME_NAME)
    c.store64(q, to + layout.TIME_NAME, TIME_KEY_FIRST)
    c.store32(q, to + layout.TIME_LAST, TIME_KEY_LAST)
    q[to + layout.TIME_KIND] = INT64_KIND
    c.store32(q, to + layout.TIME_SIZE, 8)
    c.store64(q, to + layout.TIME_VALUE, time_us)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _time_at(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, payload: cython.longlong) -> cython.longlong:
    """Return the position of the header with the sender's time, or -1 if the message does not have this header."""
    at = null_end(p, key_end(p, at, end), end, payload)
    if end - at < layout.TIME_BYTES or c.load32(p, at) != layout.TIME_KIND - layout.TIME_NAME:
        return -1
    if c.load64(p, at + layout.TIME_NAME) != TIME_KEY_FIRST or c.load32(p, at + layout.TIME_LAST) != TIME_KEY_LAST:
        return -1
    if p[at + layout.TIME_KIND] != INT64_KIND or c.load32(p, at + layout.TIME_SIZE) != 8:
        return -1
    return at if c.load64_signed(p, at + layout.TIME_VALUE) >= 0 else -1  # before 1970: an ordinary header


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _groups(p: cython.p_const_uchar, size: cython.longlong, most: cython.longlong, notes: cython.p_uchar) -> cython.longlong:
    """Divide stored messages into batches and record each batch; return the number of batches, or a fault."""
    at: cython.longlong = 0
    group: cython.longlong = -1
    number: cython.longlong = 0
    count: cython.longlong = 0
    size_bytes: cython.longlong = 0
    first_us: cython.ulonglong = 0
    least: cython.ulonglong = 0
    largest: cython.ulonglong = 0
    base: cython.ulonglong = 0
    while at < size:
        if size - at < layout.OVERHEAD or number >= most:
            return c.note_fault(notes, faults.MESSAGE_CUT, at, layout.OVERHEAD, size - at)
        block: cython.longlong = at + layout.HEADERS
        length: cython.longlong = c.load32(p, at + layout.HEADERS_SIZE)
        if size - block - 4 < length:
            return c.note_fault(notes, faults.HEADERS_CUT, block, length + 4, size - block)
        end: cython.longlong = block + length
        payload: cython.longlong = c.load32(p, end)
        if size - end - 4 < payload:
            return c.note_fault(notes, faults.PAYLOAD_CUT, end + 4, payload, size - end - 4)
        headers: cython.longlong = check_block(p, block, end, False, notes)
        if headers < 0:
            return headers
        time_us: cython.ulonglong = c.load64(p, at + layout.TIMESTAMP)
        origin: cython.ulonglong = time_us
        timed: cython.longlong = _time_at(p, block, end, payload)
        length += headers
        if timed >= 0:
            origin = c.load64(p, timed + layout.TIME_VALUE)
            length -= layout.TIME_BYTES + 1
        low: cython.ulonglong = least if least < origin else origin
        high: cython.ulonglong = largest if largest > origin else origin
        if (
            group < 0
            or time_us < first_us
            or time_us - first_us >= SAME_TIME_US
            or high - low > MAX_U32
            or c.load64(p, at) - base > MAX_U32
        ):
            group += 1
            first_us, base, count, size_bytes = time_us, c.load64(p, at), 0, 0
            low = high = origin
        least, largest = low, high
        count += 1
        number += 1
        size_bytes += FRAME + length + payload
        at = end + 4 + payload
        note: cython.longlong = GROUPS + GROUP * group
        c.store64_signed(notes, note, at)
        c.store64_signed(notes, note + layout.GROUP_COUNT, count)
        c.store64(notes, note + layout.GROUP_ORIGIN, least)
        c.store64_signed(notes, note + layout.GROUP_FRAMES, size_bytes)
    return group + 1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _give_headers(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    timed: cython.longlong,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write the headers of a message in the layout of a frame, except the header at `timed`; return their end position."""
    length: cython.longlong
    while at < end:
        length = c.load32(p, at)
        length += layout.HEADER_OVERHEAD + c.load32(p, at + length + layout.VALUE_HEAD)
        if at != timed:
            q[to] = TEXT_KIND
            c.copy(q, to + 1, p, at, length)
            to += length + 1
        at += length
    return to


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _give_batch(
    p: cython.p_const_uchar,
    at: cython.longlong,
    notes: cython.p_const_uchar,
    partition: cython.longlong,
    q: cython.p_uchar,
    to: cython.longlong,
    sums: cython.p_uchar,
) -> cython.longlong:
    """Write one batch of the messages from `at` on, as recorded by _groups() in `notes`; return its end position."""
    end: cython.longlong = c.load64_signed(notes, 0)
    count: cython.longlong = 0
    begin: cython.longlong = to
    base: cython.ulonglong = c.load64(p, at)
    origin: cython.ulonglong = c.load64(notes, layout.GROUP_ORIGIN)
    c.fill(q, to, 0, BATCH)
    c.store64_signed(q, to, partition)
    c.store64(q, to + layout.BATCH_OFFSET, base)
    c.store64(q, to + layout.BATCH_TIME, c.load64(p, at + layout.TIMESTAMP))
    c.store64(q, to + layout.BATCH_ORIGIN, origin)
    c.store64_signed(q, to + layout.BATCH_LENGTH, BATCH + c.load64_signed(notes, layout.GROUP_FRAMES))
    c.store32(q, to + layout.BATCH_COUNT, c.load64_signed(notes, layout.GROUP_COUNT))
    to += BATCH
    while at < end:
        block: cython.longlong = at + layout.HEADERS
        headers: cython.longlong = block + c.load32(p, at + layout.HEADERS_SIZE)
        payload: cython.longlong = c.load32(p, headers)
        timed: cython.longlong = _time_at(p, block, headers, payload)
        c.copy(q, to + layout.FRAME_ID, p, at + layout.ID, layout.ID_BYTES)
        c.store32(q, to + layout.FRAME_OFFSET, c.load64(p, at) - base)
        sent_us: cython.ulonglong = c.load64(p, timed + layout.TIME_VALUE) if timed >= 0 else c.load64(p, at + layout.TIMESTAMP)
        c.store32(q, to + layout.FRAME_ORIGIN, sent_us - origin)
        c.store32(q, to + layout.FRAME_PAYLOAD, payload)
        c.store64(q, to + layout.FRAME_ZEROS, 0)
        c.copy(q, to + FRAME, p, headers + 4, payload)
        last: cython.longlong = _give_headers(p, block, headers, timed, q, to + FRAME + payload)
        c.store32(q, to + layout.FRAME_HEADERS, last - to - FRAME - payload)
        c.store64(q, to, xxh3_from(q, to + layout.FRAME_ID, last - to - layout.FRAME_ID))
        c.copy(sums, layout.SUMMED_FRAMES + 8 * count, q, to, 8)
        count += 1
        to = last
        at = headers + 4 + payload
    c.copy(sums, 0, q, begin, layout.SUMMED_COUNT)
    c.copy(sums, layout.SUMMED_COUNT, q, begin + layout.BATCH_COUNT, 4)
    c.store64(q, begin + layout.BATCH_CHECKSUM, xxh3_from(sums, 0, layout.SUMMED_FRAMES + 8 * count))
    return to


_NOTES: Final = struct.Struct("<3q")


def decode_batch(batch: BytesLike) -> memoryview | int:
    """Convert a complete batch, including its header, to sent messages, or return its BatchFault."""
    view = memoryview(batch)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    most: cython.longlong = 0
    if size >= BATCH:
        most = min(c.load32(p, layout.BATCH_COUNT), (size - BATCH) // FRAME)
    summed, sent = c.new_bytes(layout.SUMMED_FRAMES + 8 * most), c.new_bytes(size + 5 * most)
    sums: cython.p_uchar = c.writable(summed)
    q: cython.p_uchar = c.writable(sent)
    found: cython.longlong
    with cython.nogil:
        found = _take_batch(p, size, q, sums)
    return -found if found < 0 else memoryview(sent)[:found]


def encode_batches(stored: BytesLike, count: int, partition: int, head: int = 0) -> bytearray:
    """Convert stored messages to one batch, or several if their times are too far apart, after `head` undefined bytes.

    The client numbers partitions from 0. DecodeError if a message is malformed, or if there are more than `count` messages.
    """
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    most: cython.longlong = count
    number: cython.longlong = partition
    noted, summed = c.new_bytes(GROUPS + GROUP * most), c.new_bytes(layout.SUMMED_FRAMES + 8 * most)
    notes: cython.p_uchar = c.writable(noted)
    sums: cython.p_uchar = c.writable(summed)
    found: cython.longlong
    with cython.nogil:
        found = _groups(p, size, most, notes)
    if found < 0:
        raise _error(-found, noted)
    total: cython.longlong = head
    i: cython.longlong
    for i in range(found):
        total += BATCH + c.load64_signed(notes, GROUPS + GROUP * i + layout.GROUP_FRAMES)
    batches = c.new_bytes(total)
    q: cython.p_uchar = c.writable(batches)
    at: cython.longlong = 0
    to: cython.longlong = head
    with cython.nogil:
        for i in range(found):
            to = _give_batch(p, at, c.after(notes, GROUPS + GROUP * i), number, q, to, sums)
            at = c.load64_signed(notes, GROUPS + GROUP * i)
    return batches


def _error(code: int, noted: bytearray) -> DecodeError:
    return decode_error(code, *_NOTES.unpack_from(noted))
