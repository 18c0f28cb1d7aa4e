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
        KEY_CUT,
        KEY_LENGTH,
        KEY_TEXT,
        KIND_ZERO,
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
        sort_keys,
        store64_signed,
        utf8_size,
    )
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.faults import (
        HEADER_CUT,
        KEY_CUT,
        KEY_LENGTH,
        KEY_TEXT,
        KIND_ZERO,
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
        sort_keys,
        store64_signed,
        utf8_size,
    )

__all__ = ["check_block", "keep_last", "key_end", "list_keys", "null_end"]

# The reserved names as numbers: all of `hs.key`, and `hs.null` in two halves that overlap.
KEY_FIRST = cython.declare(cython.uint, int.from_bytes(b"hs.k", "little"))
KEY_LAST = cython.declare(cython.uint, int.from_bytes(b"ey", "little"))
NULL_FIRST = cython.declare(cython.uint, int.from_bytes(b"hs.n", "little"))
NULL_LAST = cython.declare(cython.uint, int.from_bytes(b"null", "little"))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_value(
    p: cython.p_const_uchar, kind: cython.int, at: cython.longlong, size: cython.longlong, notes: cython.p_uchar
) -> cython.longlong:
    """Return 0 where bytes can be a value of a kind, or a fault; an unknown kind can have any."""
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
            good = _check_value(p, p[at - 5], at, size, notes)
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
