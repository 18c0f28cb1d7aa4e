"""Checks a message's header block and finds positions in it; shared by the kernels.

    headers  (key_length u32 | key | kind u8 | value_length u32 | value)*

The reserved headers are `hs.key` (raw, first) and `hs.null` (bool, true, directly after `hs.key` or first, with an empty
payload). A list of headers contains the positions of their keys, signed 64-bit; a key's length precedes the key.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout

NOTES_BYTES = cython.declare(cython.longlong, 48)

# The reserved names as numbers: all of `hs.key`, and `hs.null` in two overlapping halves.
KEY_FIRST = cython.declare(cython.uint, int.from_bytes(b"hs.k", "little"))
KEY_LAST = cython.declare(cython.uint, int.from_bytes(b"ey", "little"))
NULL_FIRST = cython.declare(cython.uint, int.from_bytes(b"hs.n", "little"))
NULL_LAST = cython.declare(cython.uint, int.from_bytes(b"null", "little"))


def check_value(
    p: cython.p_const_uchar, kind: cython.int, at: cython.longlong, size: cython.longlong, notes: cython.p_uchar
) -> cython.longlong:
    """Return 0 if bytes are a valid value of a kind, or record and return a fault; an unknown kind allows any bytes."""
    width: cython.longlong = c.kind_width(kind)
    if kind == 0:
        return c.note_fault(notes, faults.KIND_ZERO, at - layout.VALUE_HEAD, 0, 0)
    if width >= 0 and size != width:
        return c.note_fault(notes, faults.VALUE_WIDTH, at, width, size)
    if kind == 3 and p[at] > 1:
        return c.note_fault(notes, faults.VALUE_BOOL, at, 1, p[at])
    if kind == 2:
        good: cython.longlong = c.utf8_size(p, at, size)
        if good < size:
            return c.note_fault(notes, faults.VALUE_TEXT, at + good, size, good)
    return 0


def check_block(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, values: cython.bint, notes: cython.p_uchar
) -> cython.longlong:
    """Return the number of a block's headers, or record and return a fault; `values` checks keys and values."""
    count: cython.longlong = 0
    good: cython.longlong
    size: cython.longlong
    while at < end:
        if end - at < 4:
            return c.note_fault(notes, faults.HEADER_CUT, at, 4, end - at)
        size = c.load32(p, at)
        at += 4
        if end - at < size + layout.VALUE_HEAD:
            return c.note_fault(notes, faults.KEY_CUT, at, size + layout.VALUE_HEAD, end - at)
        if size < 1 or size > 255:
            return c.note_fault(notes, faults.KEY_LENGTH, at, 1, size)
        if values:
            good = c.utf8_size(p, at, size)
            if good < size:
                return c.note_fault(notes, faults.KEY_TEXT, at + good, size, good)
        at += size + layout.VALUE_HEAD
        size = c.load32(p, at - 4)
        if end - at < size:
            return c.note_fault(notes, faults.VALUE_CUT, at, size, end - at)
        if values:
            good = check_value(p, p[at - layout.VALUE_HEAD], at, size, notes)
            if good < 0:
                return good
        at += size
        count += 1
    return count


def key_end(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the end of the reserved header with the message's key, or `at` if there is no such header."""
    if end - at < layout.KEY_VALUE or c.load32(p, at) != layout.KEY_KIND - layout.KEY_NAME or p[at + layout.KEY_KIND] != 1:
        return at
    if c.load32(p, at + layout.KEY_NAME) != KEY_FIRST or c.load16(p, at + layout.KEY_LAST) != KEY_LAST:
        return at
    return at + layout.KEY_VALUE + c.load32(p, at + layout.KEY_SIZE)


def null_end(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, payload_size: cython.longlong
) -> cython.longlong:
    """Return the end of the reserved header of a null payload, or `at` if there is no such header."""
    if (
        payload_size > 0
        or end - at < layout.NULL_BYTES
        or c.load32(p, at) != layout.NULL_KIND - layout.NULL_NAME
        or p[at + layout.NULL_KIND] != 3
        or c.load32(p, at + layout.NULL_SIZE) != 1
        or p[at + layout.NULL_VALUE] != 1
    ):
        return at
    if c.load32(p, at + layout.NULL_NAME) != NULL_FIRST or c.load32(p, at + layout.NULL_LAST) != NULL_LAST:
        return at
    return at + layout.NULL_BYTES


def list_blocks(
    p: cython.p_const_uchar, size: cython.longlong, values: cython.bint, blocks: cython.p_uchar, notes: cython.p_uchar
) -> cython.longlong:
    """List where the headers of each stored message begin and end, without reserved headers; return 0 or a fault.

    Args:
        blocks: Output, 16 bytes per message.
        notes: Output: a fault, or, from NOTED_COUNT on, the numbers of messages, of headers and of bytes in the blocks, and the
            largest number of headers in one message.
    """
    at: cython.longlong = 0
    count: cython.longlong = 0
    headers: cython.longlong = 0
    total: cython.longlong = 0
    most: cython.longlong = 0
    while at < size:
        if size - at < layout.OVERHEAD:
            return c.note_fault(notes, faults.MESSAGE_CUT, at, layout.OVERHEAD, size - at)
        begin: cython.longlong = at + layout.HEADERS
        length: cython.longlong = c.load32(p, at + layout.HEADERS_SIZE)
        if size - begin - 4 < length:
            return c.note_fault(notes, faults.HEADERS_CUT, begin, length + 4, size - begin)
        end: cython.longlong = begin + length
        found: cython.longlong = check_block(p, begin, end, values, notes)
        if found < 0:
            return found
        length = c.load32(p, end)
        if size - end - 4 < length:
            return c.note_fault(notes, faults.PAYLOAD_CUT, end + 4, length, size - end - 4)
        begin = null_end(p, key_end(p, begin, end), end, length)
        c.store64_signed(blocks, layout.RUN_BYTES * count, begin)
        c.store64_signed(blocks, layout.RUN_BYTES * count + layout.RUN_END, end)
        headers += found
        total += end - begin
        most = found if found > most else most
        count += 1
        at = end + 4 + length
    c.store64_signed(notes, layout.BLOCKS_COUNT, count)
    c.store64_signed(notes, layout.BLOCKS_HEADERS, headers)
    c.store64_signed(notes, layout.BLOCKS_SIZE, total)
    c.store64_signed(notes, layout.BLOCKS_MOST, most)
    return 0


def list_keys(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, entries: cython.p_uchar) -> cython.longlong:
    """List the headers of a checked block, sorted by key (stable); return the number of headers."""
    count: cython.longlong = 0
    sorted_so_far: cython.bint = True
    while at < end:
        c.store64_signed(entries, 8 * count, at + 4)
        if count > 0 and sorted_so_far:
            sorted_so_far = c.compare_keys(p, c.load64_signed(entries, 8 * (count - 1)), at + 4) <= 0
        count += 1
        at += layout.HEADER_OVERHEAD + c.load32(p, at)
        at += c.load32(p, at - 4)
    if not sorted_so_far:
        c.sort_keys(p, entries, count)
    return count


def keep_last(p: cython.p_const_uchar, entries: cython.p_uchar, count: cython.longlong) -> cython.longlong:
    """Remove all but the last header of each key from a sorted list; return the new length."""
    kept: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        key_at: cython.longlong = c.load64_signed(entries, 8 * i)
        if kept > 0 and c.compare_keys(p, c.load64_signed(entries, 8 * (kept - 1)), key_at) == 0:
            kept -= 1
        c.store64_signed(entries, 8 * kept, key_at)
        kept += 1
    return kept


def is_block(data: bytes) -> bool:
    """Return whether bytes are a valid header block with valid values of all known kinds."""
    view = memoryview(data)
    noted = bytearray(NOTES_BYTES)
    p: cython.p_const_uchar = c.readable(view)
    notes: cython.p_uchar = c.writable(noted)
    return check_block(p, 0, len(data), True, notes) >= 0
