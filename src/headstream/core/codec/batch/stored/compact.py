"""Compacts stored messages (layout.py) to the last message of each key.

    key      the reserved first header `hs.key` (raw); for a null payload `hs.null` follows (headers.py)
    table    count u64 | reserved u64 | slots of (hash u128 | offset + 1 u64); a free slot is all zeros

    dropped  offset u64, ascending: messages marked for deletion whose grace has expired

note_keys() records the newest offset of each key. compact_messages() then copies each message that is not dropped and has no
newer message with the same key.

A key is identified by its 128-bit SipHash-2-4 under a secret random seed, so the table's size does not depend on the
key lengths. The probability that two of the 3 million keys of a full table have the same hash is 2^-86, even for chosen keys.
A memory fault in the keys is far more probable.
"""

from __future__ import annotations

from headstream.core.codec.batch.results import Compacted
from headstream.core.codec.batch.stored.scan import take
from headstream.core.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import key_end, null_end
    from headstream.core.codec.batch.stored.siphash import siphash128
    from headstream.core.codec.uncompiled_checksums import crc32c_from
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import key_end, null_end
    from cython.cimports.headstream.core.codec.batch.stored.siphash import siphash128
    from cython.cimports.headstream.core.codec.checksums import crc32c_from

MASK64 = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)
MASK32 = cython.declare(cython.ulonglong, 0xFFFF_FFFF)
HEAD = cython.declare(cython.longlong, 16)
SLOT = cython.declare(cython.longlong, 24)
ENTRY = cython.declare(cython.longlong, 32)

# The positions of the results in the notes of _keep().
NOTE_SIZE = cython.declare(cython.longlong, 0)
NOTE_ENTRIES = cython.declare(cython.longlong, 8)
NOTE_COUNT = cython.declare(cython.longlong, 16)
NOTE_NULL_US = cython.declare(cython.longlong, 24)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _key_end_of(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the end of the reserved header with a message's key, or `at` if the header is missing or truncated."""
    found: cython.longlong = key_end(p, at, end)
    return found if found <= end else at


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _slot_of(t: cython.p_const_uchar, slots: cython.longlong, low: cython.ulonglong, high: cython.ulonglong) -> cython.longlong:
    """Return the slot that contains a hash, or the free slot for the hash; at least one slot is always free."""
    mask: cython.ulonglong = slots - 1
    i: cython.longlong = low & mask
    slot: cython.longlong = HEAD + SLOT * i
    while c.load64(t, slot + layout.SLOT_UNTIL) != 0 and (
        c.load64(t, slot) != low or c.load64(t, slot + layout.SLOT_HASH_HIGH) != high
    ):
        i = (i + 1) & mask
        slot = HEAD + SLOT * i
    return slot


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _note(
    p: cython.p_const_uchar,
    size: cython.longlong,
    t: cython.p_uchar,
    slots: cython.longlong,
    seed_low: cython.ulonglong,
    seed_high: cython.ulonglong,
    scratch: cython.p_uchar,
) -> cython.longlong:
    """Record the keys of complete messages until the table is full; return the position after the last recorded message."""
    at: cython.longlong = 0
    block: cython.longlong
    end: cython.longlong
    key: cython.longlong
    slot: cython.longlong
    count: cython.longlong = c.load64(t, 0)
    most: cython.longlong = slots // 4 * 3
    while at < size:
        block = at + layout.HEADERS
        end = block + c.load32(p, at + layout.HEADERS_SIZE)
        key = _key_end_of(p, block, end)
        if key > block:
            siphash128(p, block + layout.KEY_VALUE, key - block - layout.KEY_VALUE, seed_low, seed_high, scratch)
            slot = _slot_of(t, slots, c.load64(scratch, 0), c.load64(scratch, layout.SLOT_HASH_HIGH))
            if c.load64(t, slot + layout.SLOT_UNTIL) == 0:
                if count >= most:
                    break
                count += 1
                c.copy(t, slot, scratch, 0, layout.SLOT_UNTIL)
            c.store64(t, slot + layout.SLOT_UNTIL, c.load64(p, at) + 1)
        at = end + 4 + c.load32(p, end)
    c.store64(t, 0, count)
    return at


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _close_run(
    p: cython.p_const_uchar,
    start: cython.longlong,
    end: cython.longlong,
    q: cython.p_uchar,
    to: cython.longlong,
    entries: cython.p_uchar,
    row: cython.longlong,
    byte_position: cython.longlong,
    base_offset: cython.ulonglong,
    count: cython.longlong,
) -> cython.longlong:
    """Copy a run of messages and write the run's index entry; return the end of the copy."""
    size: cython.longlong = end - start
    at: cython.longlong = to
    c.copy(q, to, p, start, size)
    while at < to + size:
        q[at + layout.STATE] = 0
        at += layout.HEADERS + c.load32(q, at + layout.HEADERS_SIZE)
        at += 4 + c.load32(q, at)
    crc: cython.uint = crc32c_from(q, to, size, 0)
    at = to
    while at < to + size:
        q[at + layout.STATE] = p[at - to + start + layout.STATE]
        at += layout.HEADERS + c.load32(q, at + layout.HEADERS_SIZE)
        at += 4 + c.load32(q, at)
    c.store32(entries, row, byte_position + to)
    c.store32(entries, row + layout.ENTRY_SIZE, size)
    c.store32(entries, row + layout.ENTRY_OFFSET, c.load64(p, start) - base_offset)
    c.store32(entries, row + layout.ENTRY_COUNT, count)
    c.store64(entries, row + layout.ENTRY_TIMESTAMP, c.load64(p, start + layout.TIMESTAMP))
    c.store32(entries, row + layout.ENTRY_CHECKSUM, crc)
    c.store32(entries, row + layout.ENTRY_CHECK, crc32c_from(entries, row, layout.ENTRY_CHECK, base_offset & MASK32))
    return to + size


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_listed(d: cython.p_const_uchar, count: cython.longlong, offset: cython.ulonglong) -> cython.bint:
    """Return whether an offset is in a list of ascending offsets."""
    low: cython.longlong = 0
    high: cython.longlong = count
    middle: cython.longlong
    while low < high:
        middle = (low + high) // 2
        if c.load64(d, 8 * middle) < offset:
            low = middle + 1
        else:
            high = middle
    return low < count and c.load64(d, 8 * low) == offset


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _keep(
    p: cython.p_const_uchar,
    size: cython.longlong,
    t: cython.p_const_uchar,
    slots: cython.longlong,
    seed_low: cython.ulonglong,
    seed_high: cython.ulonglong,
    null_before_us: cython.ulonglong,
    dropped_state: cython.int,
    d: cython.p_const_uchar,
    dropped: cython.longlong,
    q: cython.p_uchar,
    entries: cython.p_uchar,
    byte_position: cython.longlong,
    base_offset: cython.ulonglong,
    scratch: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.void:
    """Copy the retained messages, write one index entry per run, and record the totals."""
    at: cython.longlong = 0
    to: cython.longlong = 0
    rows: cython.longlong = 0
    kept: cython.longlong = 0
    run_start: cython.longlong = 0
    run_count: cython.longlong = 0
    run_until: cython.ulonglong = 0
    run_us: cython.ulonglong = 0
    oldest_null_us: cython.ulonglong = MASK64
    block: cython.longlong
    end: cython.longlong
    key: cython.longlong
    slot: cython.longlong
    stays: cython.bint
    is_null: cython.bint
    while at < size:
        offset: cython.ulonglong = c.load64(p, at)
        timestamp_us: cython.ulonglong = c.load64(p, at + layout.TIMESTAMP)
        block = at + layout.HEADERS
        end = block + c.load32(p, at + layout.HEADERS_SIZE)
        key = _key_end_of(p, block, end)
        stays = p[at + layout.STATE] != dropped_state or not _is_listed(d, dropped, offset)
        if stays and key > block:
            is_null = null_end(p, key, end, c.load32(p, end)) > key
            stays = not is_null or timestamp_us >= null_before_us
            if stays:
                siphash128(p, block + layout.KEY_VALUE, key - block - layout.KEY_VALUE, seed_low, seed_high, scratch)
                slot = _slot_of(t, slots, c.load64(scratch, 0), c.load64(scratch, layout.SLOT_HASH_HIGH))
                stays = c.load64(t, slot + layout.SLOT_UNTIL) <= offset + 1
            if stays and is_null and timestamp_us < oldest_null_us:
                oldest_null_us = timestamp_us
        if run_count > 0 and not (stays and offset == run_until and timestamp_us == run_us):
            to = _close_run(p, run_start, at, q, to, entries, ENTRY * rows, byte_position, base_offset, run_count)
            rows += 1
            run_count = 0
        if stays:
            if run_count == 0:
                run_start = at
                run_us = timestamp_us
            run_count += 1
            run_until = offset + 1
            kept += 1
        at = end + 4 + c.load32(p, end)
    if run_count > 0:
        to = _close_run(p, run_start, at, q, to, entries, ENTRY * rows, byte_position, base_offset, run_count)
        rows += 1
    c.store64(notes, NOTE_SIZE, to)
    c.store64(notes, NOTE_ENTRIES, rows)
    c.store64(notes, NOTE_COUNT, kept)
    c.store64(notes, NOTE_NULL_US, oldest_null_us)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find_keyless(p: cython.p_const_uchar, size: cython.longlong) -> cython.longlong:
    """Return the number of the first message without a key in a sent batch, or -1."""
    at: cython.longlong = 0
    number: cython.longlong = 0
    end: cython.longlong
    while size - at >= 24:
        end = at + layout.SENT_HEADERS + c.load32(p, at + layout.SENT_HEADERS_SIZE)
        if size - end < 4:
            break
        if _key_end_of(p, at + layout.SENT_HEADERS, end) == at + layout.SENT_HEADERS:
            return number
        at = end + 4 + c.load32(p, end)
        number += 1
    return -1


def find_keyless(sent: BytesLike) -> int:
    """Return the number, from 0, of the first message without a key in a sent batch, or -1; a truncated message ends the scan."""
    view = memoryview(sent)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    found: cython.longlong
    with cython.nogil:
        found = _find_keyless(p, size)
    return found


def new_key_table(keys_count: int) -> bytearray:
    """Return an empty table for a number of keys."""
    slots = 1 << max(4, (max(keys_count, 1) * 4 // 3 + 1).bit_length())
    return bytearray(16 + 24 * slots)


def note_keys(stored: BytesLike, table: bytearray, seed: bytes) -> int:
    """Record the newest offset of each key until the table is full; return the byte position reached.

    The position reached is the start of the first message that did not fit, or the size of `stored`. The seed is 16 random bytes.
    """
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    _check(view, table, seed)
    slots: cython.longlong = (len(table) - 16) // 24
    t: cython.p_uchar = c.writable(table)
    seed_low: cython.ulonglong = int.from_bytes(seed[:8], "little")
    seed_high: cython.ulonglong = int.from_bytes(seed[8:], "little")
    scratched = c.new_bytes(16)
    scratch: cython.p_uchar = c.writable(scratched)
    at: cython.longlong
    with cython.nogil:
        at = _note(p, size, t, slots, seed_low, seed_high, scratch)
    return at


def _check(view: memoryview, table: bytearray, seed: bytes) -> int:
    """Return the number of messages; raise an error if the messages, the table or the seed are invalid."""
    slots = (len(table) - 16) // 24
    if len(seed) != 16 or slots < 16 or slots & (slots - 1) or len(table) != 16 + 24 * slots:
        raise InvalidInputError(
            f"a table of {len(table)} or a seed of {len(seed)} bytes is invalid", advice="Use new_key_table() and 16 bytes"
        )
    return take(view, 0, view.nbytes, view.nbytes)[1]


def compact_messages(
    stored: BytesLike,
    table: bytearray,
    seed: bytes,
    *,
    null_before_us: int,
    dropped_state: int,
    dropped: BytesLike = b"",
    byte_position: int,
    base_offset: int,
) -> Compacted:
    """Copy stored messages, except messages that are superseded by a newer message with the same key.

    Old null payloads, and listed messages in the state `dropped_state`, are also dropped. Messages without a key are retained.

    Args:
        null_before_us: Null payloads appended before this time are dropped, microseconds since 1970 UTC.
        dropped_state: The code of the state in which a listed message is dropped; a listed message in another state is retained.
        dropped: The listed offsets, ascending, unsigned 64-bit little-endian; offsets of other messages are ignored.
        byte_position: Position of the copy in the new segment; the copy must end before 2^32.
        base_offset: The segment's base offset; at most 2^32 - 1 less than the newest message's offset.
    """
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    count = _check(view, table, seed)
    slots: cython.longlong = (len(table) - 16) // 24
    t: cython.p_uchar = c.writable(table)
    seed_low: cython.ulonglong = int.from_bytes(seed[:8], "little")
    seed_high: cython.ulonglong = int.from_bytes(seed[8:], "little")
    null_us: cython.ulonglong = max(null_before_us, 0)
    state: cython.int = dropped_state
    listed = memoryview(dropped)
    d: cython.p_const_uchar = c.readable(listed)
    listed_count: cython.longlong = listed.nbytes // 8
    position: cython.longlong = byte_position
    base: cython.ulonglong = base_offset
    data = c.new_bytes(size)
    rows = c.new_bytes(32 * count)
    noted = c.new_bytes(48)
    q: cython.p_uchar = c.writable(data)
    entries: cython.p_uchar = c.writable(rows)
    notes: cython.p_uchar = c.writable(noted)
    scratched = c.new_bytes(16)
    scratch: cython.p_uchar = c.writable(scratched)
    with cython.nogil:
        _keep(p, size, t, slots, seed_low, seed_high, null_us, state, d, listed_count, q, entries, position, base, scratch, notes)
    kept_bytes, entries_count = c.load64(notes, NOTE_SIZE), c.load64(notes, NOTE_ENTRIES)
    kept_count, null_at_us = c.load64(notes, NOTE_COUNT), c.load64(notes, NOTE_NULL_US)
    return Compacted(
        memoryview(data)[:kept_bytes],
        memoryview(rows)[: 32 * entries_count],
        kept_count,
        count - kept_count,
        null_at_us if null_at_us < 1 << 63 else None,
    )
