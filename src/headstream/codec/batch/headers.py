"""What the kernels have in common about a message's header block.

    headers  (key_length u32 | key | kind u8 | value_length u32 | value)*

The reserved headers are `hs.key` (raw, the first) and `hs.null` (bool, true, after the key or else the first,
with no bytes of payload). A list of headers is the positions of their keys, signed 64-bit, each key right
after its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.faults import (
        HEADER_CUT,
        HEADERS_CUT,
        KEY_CUT,
        KEY_LENGTH,
        KEY_TEXT,
        KIND_ZERO,
        MESSAGE_CUT,
        PAYLOAD_CUT,
        VALUE_BOOL,
        VALUE_CUT,
        VALUE_TEXT,
        VALUE_WIDTH,
    )
    from headstream.codec.uncompiled_primitives import (
        compare_keys,
        kind_width,
        load16,
        load32,
        load64_signed,
        note_fault,
        readable,
        sort_keys,
        store64_signed,
        utf8_size,
        writable,
    )
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.faults import (
        HEADER_CUT,
        HEADERS_CUT,
        KEY_CUT,
        KEY_LENGTH,
        KEY_TEXT,
        KIND_ZERO,
        MESSAGE_CUT,
        PAYLOAD_CUT,
        VALUE_BOOL,
        VALUE_CUT,
        VALUE_TEXT,
        VALUE_WIDTH,
    )
    from cython.cimports.headstream.codec.primitives import (
        compare_keys,
        kind_width,
        load16,
        load32,
        load64_signed,
        note_fault,
        readable,
        sort_keys,
        store64_signed,
        utf8_size,
        writable,
    )

__all__ = ["check_block", "check_value", "is_block", "keep_last", "key_end", "list_blocks", "list_keys", "null_end"]

NOTES_BYTES = cython.declare(cython.longlong, 48)

# The reserved names as numbers: all of `hs.key`, and `hs.null` in two halves that overlap.
KEY_FIRST = cython.declare(cython.uint, int.from_bytes(b"hs.k", "little"))
KEY_LAST = cython.declare(cython.uint, int.from_bytes(b"ey", "little"))
NULL_FIRST = cython.declare(cython.uint, int.from_bytes(b"hs.n", "little"))
NULL_LAST = cython.declare(cython.uint, int.from_bytes(b"null", "little"))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def check_value(
    p: cython.p_const_uchar, kind: cython.int, at: cython.longlong, size: cython.longlong, notes: cython.p_uchar
) -> cython.longlong:
    """Return 0 where bytes can be a value of a kind, or a fault; an unknown kind can have any.

    Args:
        p: The bytes that the value is in.
        kind: Its kind.
        at: Where it begins.
        size: How many bytes it has.
        notes: Where a fault is noted.
    """
    width: cython.longlong = kind_width(kind)
    if kind == 0:
        return note_fault(notes, KIND_ZERO, at - 5, 0, 0)
    if width >= 0 and size != width:
        return note_fault(notes, VALUE_WIDTH, at, width, size)
    if kind == 3 and p[at] > 1:
        return note_fault(notes, VALUE_BOOL, at, 1, p[at])
    if kind == 2:
        good: cython.longlong = utf8_size(p, at, size)
        if good < size:
            return note_fault(notes, VALUE_TEXT, at + good, size, good)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def check_block(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, values: cython.bint, notes: cython.p_uchar
) -> cython.longlong:
    """Return how many headers a block has, or a fault.

    Args:
        p: The bytes that the block is in.
        at: Where it begins.
        end: Where it ends.
        values: Whether to look at keys and values, not at lengths alone.
        notes: Where a fault is noted.
    """
    count: cython.longlong = 0
    good: cython.longlong
    size: cython.longlong
    while at < end:
        if end - at < 4:
            return note_fault(notes, HEADER_CUT, at, 4, end - at)
        size = load32(p, at)
        at += 4
        if end - at < size + 5:
            return note_fault(notes, KEY_CUT, at, size + 5, end - at)
        if size < 1 or size > 255:
            return note_fault(notes, KEY_LENGTH, at, 1, size)
        if values:
            good = utf8_size(p, at, size)
            if good < size:
                return note_fault(notes, KEY_TEXT, at + good, size, good)
        at += size + 5
        size = load32(p, at - 4)
        if end - at < size:
            return note_fault(notes, VALUE_CUT, at, size, end - at)
        if values:
            good = check_value(p, p[at - 5], at, size, notes)
            if good < 0:
                return good
        at += size
        count += 1
    return count


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def key_end(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the end of the reserved header with the message's key, or `at` where there is none."""
    if end - at < 15 or load32(p, at) != 6 or p[at + 10] != 1:
        return at
    if load32(p, at + 4) != KEY_FIRST or load16(p, at + 8) != KEY_LAST:
        return at
    return at + 15 + load32(p, at + 11)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def null_end(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, payload_size: cython.longlong
) -> cython.longlong:
    """Return the end of the reserved header of a null payload, or `at` where there is none."""
    if payload_size > 0 or end - at < 17 or load32(p, at) != 7 or p[at + 11] != 3 or load32(p, at + 12) != 1 or p[at + 16] != 1:
        return at
    if load32(p, at + 4) != NULL_FIRST or load32(p, at + 7) != NULL_LAST:
        return at
    return at + 17


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def list_blocks(
    p: cython.p_const_uchar, size: cython.longlong, values: cython.bint, blocks: cython.p_uchar, notes: cython.p_uchar
) -> cython.longlong:
    """List where the headers of each stored message begin, behind the reserved ones, and end; return 0 or a fault.

    Args:
        p: Stored messages.
        size: How many bytes they have.
        values: Whether to look at keys and values of headers, not at lengths alone.
        blocks: What is written to, 16 bytes a message.
        notes: Where a fault is noted; else, from byte 24 on, the numbers of messages, of headers, of bytes in the blocks, and
            of headers in the message that has most.
    """
    at: cython.longlong = 0
    count: cython.longlong = 0
    headers: cython.longlong = 0
    total: cython.longlong = 0
    most: cython.longlong = 0
    while at < size:
        if size - at < 45:
            return note_fault(notes, MESSAGE_CUT, at, 45, size - at)
        begin: cython.longlong = at + 41
        length: cython.longlong = load32(p, at + 37)
        if size - begin - 4 < length:
            return note_fault(notes, HEADERS_CUT, begin, length + 4, size - begin)
        end: cython.longlong = begin + length
        found: cython.longlong = check_block(p, begin, end, values, notes)
        if found < 0:
            return found
        length = load32(p, end)
        if size - end - 4 < length:
            return note_fault(notes, PAYLOAD_CUT, end + 4, length, size - end - 4)
        begin = null_end(p, key_end(p, begin, end), end, length)
        store64_signed(blocks, 16 * count, begin)
        store64_signed(blocks, 16 * count + 8, end)
        headers += found
        total += end - begin
        most = found if found > most else most
        count += 1
        at = end + 4 + length
    store64_signed(notes, 24, count)
    store64_signed(notes, 32, headers)
    store64_signed(notes, 40, total)
    store64_signed(notes, 48, most)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def list_keys(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, entries: cython.p_uchar) -> cython.longlong:
    """List the headers of a checked block in order of their keys, equal ones as they stand; return how many."""
    count: cython.longlong = 0
    sorted_so_far: cython.bint = True
    while at < end:
        store64_signed(entries, 8 * count, at + 4)
        if count > 0 and sorted_so_far:
            sorted_so_far = compare_keys(p, load64_signed(entries, 8 * count - 8), at + 4) <= 0
        count += 1
        at += 9 + load32(p, at)
        at += load32(p, at - 4)
    if not sorted_so_far:
        sort_keys(p, entries, count)
    return count


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def keep_last(p: cython.p_const_uchar, entries: cython.p_uchar, count: cython.longlong) -> cython.longlong:
    """Keep the last header of each key of a sorted list; return how many are left."""
    kept: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        key_at: cython.longlong = load64_signed(entries, 8 * i)
        if kept > 0 and compare_keys(p, load64_signed(entries, 8 * kept - 8), key_at) == 0:
            kept -= 1
        store64_signed(entries, 8 * kept, key_at)
        kept += 1
    return kept


def is_block(data: bytes) -> bool:
    """Return whether bytes are a header block, the values of known kinds included."""
    view = memoryview(data)
    noted = bytearray(NOTES_BYTES)
    p: cython.p_const_uchar = readable(view)
    notes: cython.p_uchar = writable(noted)
    return check_block(p, 0, len(data), True, notes) >= 0
