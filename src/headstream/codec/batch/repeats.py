"""Dropping messages whose ids were there before: the ids of the newest messages, in a table of fixed size.

    window   capacity u64 | noted u64 | seed u64 | reserved u64 | ring | slots
    ring     the ids of the newest `capacity` messages, u128 each; the id of message n of all that were noted is at n % capacity
    slots    u32 each, twice as many as ids or more: the ring's place + 1 of the id that hashes there, 0 where it is free

Collisions go to the next free slot, and a slot that becomes free is filled from behind, so nothing is ever rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstream.codec.batch.faults import decode_error
from headstream.codec.batch.scan import take
from headstream.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.faults import MESSAGE_CUT
    from headstream.codec.uncompiled_primitives import (
        copy,
        load32,
        load64,
        mix64,
        new_bytes,
        readable,
        store32,
        store64,
        writable,
    )
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.faults import MESSAGE_CUT
    from cython.cimports.headstream.codec.primitives import (
        copy,
        load32,
        load64,
        mix64,
        new_bytes,
        readable,
        store32,
        store64,
        writable,
    )

__all__ = ["drop_repeats", "new_id_window", "note_ids", "window_capacity"]

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
    """Return the number of the slot that leads to an id, or -1 - n of the free slot n that it would get.

    Args:
        ids: The bytes that ids lie in.
        ring: Where the first of them lies.
        slots: The bytes that slots lie in.
        begin: Where the first slot lies.
        mask: How many slots there are, less one.
        scale: The bytes from one id to the next: a slot holds 1 + the number of its id.
        seed: Of the hash.
        low: The id's low half.
        high: The id's high half.
    """
    i: cython.longlong = mix64(low ^ mix64(high ^ seed)) & mask
    value: cython.longlong = load32(slots, begin + 4 * i)
    at: cython.longlong
    while value != 0:
        at = ring + (value - 1) * scale
        if load64(ids, at) == low and load64(ids, at + 8) == high:
            return i
        i = (i + 1) & mask
        value = load32(slots, begin + 4 * i)
    return -1 - i


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _free_slot(
    w: cython.p_uchar, begin: cython.longlong, mask: cython.longlong, seed: cython.ulonglong, i: cython.longlong
) -> cython.void:
    """Free a slot, and fill it with one behind it that would be looked for here."""
    j: cython.longlong = i
    at: cython.longlong
    home: cython.longlong
    value: cython.longlong
    while True:
        j = (j + 1) & mask
        value = load32(w, begin + 4 * j)
        if value == 0:
            break
        at = HEAD + (value - 1) * ID
        home = mix64(load64(w, at) ^ mix64(load64(w, at + 8) ^ seed)) & mask
        if ((j - home) & mask) >= ((j - i) & mask):
            store32(w, begin + 4 * i, value)
            i = j
    store32(w, begin + 4 * i, 0)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _note(
    p: cython.p_const_uchar, size: cython.longlong, w: cython.p_uchar, begin: cython.longlong, mask: cython.longlong
) -> cython.void:
    """Note the ids of whole stored messages in place of the oldest."""
    at: cython.longlong = 0
    capacity: cython.longlong = load64(w, 0)
    noted: cython.longlong = load64(w, 8)
    seed: cython.ulonglong = load64(w, 16)
    place: cython.longlong
    slot: cython.longlong
    while at < size:
        place = noted % capacity
        if noted >= capacity:
            old: cython.longlong = HEAD + place * ID
            slot = _slot_of(w, HEAD, w, begin, mask, ID, seed, load64(w, old), load64(w, old + 8))
            if slot >= 0 and load32(w, begin + 4 * slot) == place + 1:
                _free_slot(w, begin, mask, seed, slot)
        slot = _slot_of(w, HEAD, w, begin, mask, ID, seed, load64(p, at + 17), load64(p, at + 25))
        copy(w, HEAD + place * ID, p, at + 17, 16)
        store32(w, begin + 4 * (slot if slot >= 0 else -1 - slot), place + 1)
        noted += 1
        at += 41 + load32(p, at + 37)
        at += 4 + load32(p, at)
    store64(w, 8, noted)


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
    """Copy the messages whose ids are new, in pieces as long as can be; return the end of the copy.

    Each is compared with the newest messages before it, those of its own batch among them: as if it were sent alone.
    """
    at: cython.longlong = 0
    to: cython.longlong = 0
    start: cython.longlong = 0
    end: cython.longlong
    slot: cython.longlong
    seed: cython.ulonglong = load64(w, 16)
    capacity: cython.longlong = load64(w, 0)
    newest: cython.longlong = load64(w, 8) - 1
    numbers: cython.longlong = 4 * (own_mask + 1)
    kept: cython.longlong = 0
    is_repeat: cython.bint
    while at < size:
        low: cython.ulonglong = load64(p, at)
        high: cython.ulonglong = load64(p, at + 8)
        end = at + 20 + load32(p, at + 16)
        end += 4 + load32(p, end)
        is_repeat = False
        if low != 0 or high != 0:
            # An id's slot here holds where its message begins, + 1; and behind all slots, how many were kept before that.
            slot = _slot_of(p, 0, own, 0, own_mask, 1, seed, low, high)
            if slot >= 0:
                is_repeat = kept - load32(own, numbers + 4 * slot) <= capacity
            else:
                place: cython.longlong = _slot_of(w, HEAD, w, begin, mask, ID, seed, low, high)
                if place >= 0:
                    is_repeat = (newest - (load32(w, begin + 4 * place) - 1)) % capacity + kept < capacity
                slot = -1 - slot
            if not is_repeat:
                store32(own, 4 * slot, at + 1)
                store32(own, numbers + 4 * slot, kept)
        kept += not is_repeat
        if is_repeat:
            copy(q, to, p, start, at - start)
            to += at - start
            start = end
        at = end
    if start > 0:  # else all are new, and nobody looks at the copy
        copy(q, to, p, start, at - start)
    return to + at - start


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _count(p: cython.p_const_uchar, size: cython.longlong) -> cython.longlong:
    """Return how many messages a sent batch holds, or -1 - the byte position of one that is cut short."""
    at: cython.longlong = 0
    end: cython.longlong
    count: cython.longlong = 0
    while at < size:
        if size - at < 24:
            return -1 - at
        end = at + 20 + load32(p, at + 16)
        if size - end < 4:
            return -1 - at
        end += 4 + load32(p, end)
        if end > size:
            return -1 - at
        at = end
        count += 1
    return count


def new_id_window(capacity: int, seed: bytes) -> bytearray:
    """Return a window that remembers no id yet.

    Args:
        capacity: How many ids it remembers, 1 or more.
        seed: 8 random bytes or more, so that nobody can choose ids that collide.
    """
    slots = 1 << (2 * capacity).bit_length()
    window = bytearray(32 + 16 * capacity + 4 * slots)
    window[:8] = capacity.to_bytes(8, "little")
    window[16:24] = seed[:8]
    return window


def window_capacity(window: bytearray) -> int:
    """Return how many ids a window remembers."""
    capacity = int.from_bytes(window[:8], "little")
    if len(window) != 32 + 16 * capacity + (4 << (2 * capacity).bit_length()) or capacity < 1:
        raise InvalidInputError(f"{len(window)} bytes are no window of {capacity} ids", advice="Use new_id_window()")
    return capacity


def note_ids(stored: BytesLike, window: bytearray) -> None:
    """Remember the ids of messages in place of the oldest.

    Args:
        stored: Stored messages, back to back, newer than all that were noted before.
        window: As new_id_window() makes it.

    Raises:
        DecodeError: a message is cut short; nothing was noted.
    """
    view = memoryview(stored)
    p: cython.p_const_uchar = readable(view)
    size: cython.longlong = view.nbytes
    take(view, 0, size, size)
    capacity = window_capacity(window)
    begin: cython.longlong = 32 + 16 * capacity
    mask: cython.longlong = (1 << (2 * capacity).bit_length()) - 1
    w: cython.p_uchar = writable(window)
    with cython.nogil:
        _note(p, size, w, begin, mask)


def drop_repeats(sent: BytesLike, window: bytearray) -> bytearray | None:
    """Return a sent batch without the messages whose ids are those of the newest messages before them; None if all are new.

    How many those are is the window's capacity, message by message: what is kept of the batch takes the place of the oldest
    that are remembered, and an id that comes a second time in it is a repeat as long as it is among the newest.

    A message without an id, which is one of 0, is always new. Nothing is noted.

    Args:
        sent: Sent messages, back to back.
        window: The ids that are remembered.

    Raises:
        DecodeError: a message is cut short.
    """
    view = memoryview(sent)
    p: cython.p_const_uchar = readable(view)
    size: cython.longlong = view.nbytes
    count: cython.longlong
    with cython.nogil:
        count = _count(p, size)
    if count < 0:
        at = -1 - count
        raise decode_error(MESSAGE_CUT, at, 24, size - at, "a sent batch")
    capacity = window_capacity(window)
    begin: cython.longlong = 32 + 16 * capacity
    mask: cython.longlong = (1 << (2 * capacity).bit_length()) - 1
    own_slots = 1 << (2 * count).bit_length()
    owned = bytearray(8 * own_slots)
    own_mask: cython.longlong = own_slots - 1
    data = new_bytes(size)
    w: cython.p_const_uchar = writable(window)
    own: cython.p_uchar = writable(owned)
    q: cython.p_uchar = writable(data)
    kept: cython.longlong
    with cython.nogil:
        kept = _drop(p, size, w, begin, mask, q, own, own_mask)
    return None if kept == size else bytearray(memoryview(data)[:kept])
