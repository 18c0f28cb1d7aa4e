"""Deduplicates messages by id, with the ids of the newest messages in a table of fixed size.

    window   capacity u64 | noted u64 | seed u64 | reserved u64 | ring | slots
    ring     the ids of the newest `capacity` messages, u128 each; the id of the n-th noted message is at n % capacity
    slots    u32 per slot, at least twice as many as ids: the ring index + 1 of the id that hashes here, 0 for a free slot

Collisions are resolved by linear probing. A freed slot is refilled from the following slots, so the table is never rebuilt.
"""

from __future__ import annotations

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.stored.scan import take
from headstream.core.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

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

HEAD = cython.declare(cython.longlong, 32)
ID = cython.declare(cython.longlong, 16)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _slot_of(
    ids: cython.p_const_uchar,
    ring: cython.longlong,
    slots: cython.p_const_uchar,
    begin: cython.longlong,
    mask: cython.longlong,
    scale: cython.longlong,
    seed: cython.ulonglong,
    low: cython.ulonglong,
    high: cython.ulonglong,
) -> cython.longlong:
    """Return the number of an id's slot, or -1 - n if slot n is free for the id.

    `ring` and `begin` are the positions of the first id and the first slot, `mask` is the number of slots minus one, and `scale`
    is the distance between ids in bytes.
    """
    i: cython.longlong = c.mix64(low ^ c.mix64(high ^ seed)) & mask
    value: cython.longlong = c.load32(slots, begin + 4 * i)
    at: cython.longlong
    while value != 0:
        at = ring + (value - 1) * scale
        if c.load64(ids, at) == low and c.load64(ids, at + layout.ID_HIGH) == high:
            return i
        i = (i + 1) & mask
        value = c.load32(slots, begin + 4 * i)
    return -1 - i


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _free_slot(
    w: cython.p_uchar, begin: cython.longlong, mask: cython.longlong, seed: cython.ulonglong, i: cython.longlong
) -> cython.void:
    """Free a slot, and move a later id into the free slot if probing for the id would stop there."""
    j: cython.longlong = i
    at: cython.longlong
    home: cython.longlong
    value: cython.longlong
    while True:
        j = (j + 1) & mask
        value = c.load32(w, begin + 4 * j)
        if value == 0:
            break
        at = HEAD + (value - 1) * ID
        home = c.mix64(c.load64(w, at) ^ c.mix64(c.load64(w, at + layout.ID_HIGH) ^ seed)) & mask
        if ((j - home) & mask) >= ((j - i) & mask):
            c.store32(w, begin + 4 * i, value)
            i = j
    c.store32(w, begin + 4 * i, 0)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _note(
    p: cython.p_const_uchar, size: cython.longlong, w: cython.p_uchar, begin: cython.longlong, mask: cython.longlong
) -> cython.void:
    """Record the ids of complete stored messages in place of the oldest ids."""
    at: cython.longlong = 0
    capacity: cython.longlong = c.load64(w, 0)
    noted: cython.longlong = c.load64(w, layout.WINDOW_NOTED)
    seed: cython.ulonglong = c.load64(w, layout.WINDOW_SEED)
    place: cython.longlong
    slot: cython.longlong
    while at < size:
        place = noted % capacity
        if noted >= capacity:
            old: cython.longlong = HEAD + place * ID
            slot = _slot_of(w, HEAD, w, begin, mask, ID, seed, c.load64(w, old), c.load64(w, old + layout.ID_HIGH))
            if slot >= 0 and c.load32(w, begin + 4 * slot) == place + 1:
                _free_slot(w, begin, mask, seed, slot)
        slot = _slot_of(
            w, HEAD, w, begin, mask, ID, seed, c.load64(p, at + layout.ID), c.load64(p, at + layout.ID + layout.ID_HIGH)
        )
        c.copy(w, HEAD + place * ID, p, at + layout.ID, layout.ID_BYTES)
        c.store32(w, begin + 4 * (slot if slot >= 0 else -1 - slot), place + 1)
        noted += 1
        at += layout.HEADERS + c.load32(p, at + layout.HEADERS_SIZE)
        at += 4 + c.load32(p, at)
    c.store64(w, layout.WINDOW_NOTED, noted)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _drop(
    p: cython.p_const_uchar,
    size: cython.longlong,
    w: cython.p_const_uchar,
    begin: cython.longlong,
    mask: cython.longlong,
    q: cython.p_uchar,
    own: cython.p_uchar,
    own_mask: cython.longlong,
) -> cython.longlong:
    """Copy the messages with new ids, in the longest possible pieces; return the end of the copy.

    Each message is compared with the newest messages before it, including messages of the same batch.
    """
    at: cython.longlong = 0
    to: cython.longlong = 0
    start: cython.longlong = 0
    end: cython.longlong
    slot: cython.longlong
    seed: cython.ulonglong = c.load64(w, layout.WINDOW_SEED)
    capacity: cython.longlong = c.load64(w, 0)
    newest: cython.longlong = c.load64(w, layout.WINDOW_NOTED) - 1
    numbers: cython.longlong = 4 * (own_mask + 1)
    kept: cython.longlong = 0
    is_repeat: cython.bint
    while at < size:
        low: cython.ulonglong = c.load64(p, at)
        high: cython.ulonglong = c.load64(p, at + layout.ID_HIGH)
        end = at + layout.SENT_HEADERS + c.load32(p, at + layout.SENT_HEADERS_SIZE)
        end += 4 + c.load32(p, end)
        is_repeat = False
        if low != 0 or high != 0:
            # A slot of `own` contains the position + 1 of a message; the array after the slots, the messages retained before it.
            slot = _slot_of(p, 0, own, 0, own_mask, 1, seed, low, high)
            if slot >= 0:
                is_repeat = kept - c.load32(own, numbers + 4 * slot) <= capacity
            else:
                place: cython.longlong = _slot_of(w, HEAD, w, begin, mask, ID, seed, low, high)
                if place >= 0:
                    is_repeat = (newest - (c.load32(w, begin + 4 * place) - 1)) % capacity + kept < capacity
                slot = -1 - slot
            if not is_repeat:
                c.store32(own, 4 * slot, at + 1)
                c.store32(own, numbers + 4 * slot, kept)
        kept += not is_repeat
        if is_repeat:
            c.copy(q, to, p, start, at - start)
            to += at - start
            start = end
        at = end
    if start > 0:  # otherwise all ids are new, and the caller ignores the copy
        c.copy(q, to, p, start, at - start)
    return to + at - start


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _count(p: cython.p_const_uchar, size: cython.longlong) -> cython.longlong:
    """Return the number of messages of a sent batch, or -1 - n if the message at byte position n is truncated."""
    at: cython.longlong = 0
    end: cython.longlong
    count: cython.longlong = 0
    while at < size:
        if size - at < layout.SENT_OVERHEAD:
            return -1 - at
        end = at + layout.SENT_HEADERS + c.load32(p, at + layout.SENT_HEADERS_SIZE)
        if size - end < 4:
            return -1 - at
        end += 4 + c.load32(p, end)
        if end > size:
            return -1 - at
        at = end
        count += 1
    return count


def new_id_window(capacity: int, seed: bytes) -> bytearray:
    """Return an empty window; the seed is 8 random bytes or more, so that senders cannot choose colliding ids."""
    slots = 1 << (2 * capacity).bit_length()
    window = bytearray(layout.WINDOW_IDS + layout.ID_BYTES * capacity + 4 * slots)
    window[: layout.WINDOW_NOTED] = capacity.to_bytes(8, "little")
    window[layout.WINDOW_SEED : layout.WINDOW_SEED + 8] = seed[:8]
    return window


def window_capacity(window: bytearray) -> int:
    """Return the number of ids that a window holds."""
    capacity = int.from_bytes(window[: layout.WINDOW_NOTED], "little")
    if len(window) != layout.WINDOW_IDS + layout.ID_BYTES * capacity + (4 << (2 * capacity).bit_length()) or capacity < 1:
        raise InvalidInputError(f"{len(window)} bytes are not a window of {capacity} ids", advice="Use new_id_window()")
    return capacity


def note_ids(stored: BytesLike, window: bytearray) -> None:
    """Add the ids of newer messages to a window in place of the oldest ids. If DecodeError is raised, no id is recorded."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    take(view, 0, size, size)
    capacity = window_capacity(window)
    begin: cython.longlong = layout.WINDOW_IDS + layout.ID_BYTES * capacity
    mask: cython.longlong = (1 << (2 * capacity).bit_length()) - 1
    w: cython.p_uchar = c.writable(window)
    with cython.nogil:
        _note(p, size, w, begin, mask)


def drop_repeats(sent: BytesLike, window: bytearray) -> bytearray | None:
    """Return a sent batch without the messages whose id repeats an id of the newest messages; None if all ids are new.

    Each message is compared with the preceding messages, up to the capacity of the window. Retained messages of the batch replace
    the oldest messages of the window in this comparison, so an id can also repeat within the batch.

    A message with id 0 has no id and is always new. The window is not changed.
    """
    view = memoryview(sent)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    count: cython.longlong
    with cython.nogil:
        count = _count(p, size)
    if count < 0:
        at = -1 - count
        raise decode_error(faults.MESSAGE_CUT, at, layout.SENT_OVERHEAD, size - at, "a sent batch")
    capacity = window_capacity(window)
    begin: cython.longlong = layout.WINDOW_IDS + layout.ID_BYTES * capacity
    mask: cython.longlong = (1 << (2 * capacity).bit_length()) - 1
    own_slots = 1 << (2 * count).bit_length()
    owned = bytearray(8 * own_slots)
    own_mask: cython.longlong = own_slots - 1
    data = c.new_bytes(size)
    w: cython.p_const_uchar = c.writable(window)
    own: cython.p_uchar = c.writable(owned)
    q: cython.p_uchar = c.writable(data)
    kept: cython.longlong
    with cython.nogil:
        kept = _drop(p, size, w, begin, mask, q, own, own_mask)
    return None if kept == size else bytearray(memoryview(data)[:kept])
