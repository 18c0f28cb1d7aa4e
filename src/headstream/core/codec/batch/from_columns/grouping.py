"""Sorts sent messages into batches.

group_sent    makes the messages of each group contiguous, and keeps their order within the group
cut_sent      returns the first messages that fit into one batch
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headstream.core.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout


class Grouped(NamedTuple):
    """Sent messages sorted by group, with the number of bytes and of messages of each group."""

    data: bytearray
    sizes: tuple[int, ...]
    counts: tuple[int, ...]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _message_end(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.longlong:
    """Return the end position of a sent message, or -1 if it is truncated."""
    if size - at < layout.SENT_OVERHEAD:
        return -1
    end: cython.longlong = at + layout.SENT_OVERHEAD + c.load32(p, at + layout.SENT_HEADERS_SIZE)
    if end > size:
        return -1
    end += c.load32(p, end - 4)
    return end if end <= size else -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _count_groups(
    p: cython.p_const_uchar,
    size: cython.longlong,
    targets: cython.p_const_uchar,
    count: cython.longlong,
    groups: cython.longlong,
    totals: cython.p_uchar,
) -> cython.longlong:
    """Count the bytes and messages of each group; return -1, or the number of the first invalid message."""
    at: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        end: cython.longlong = _message_end(p, at, size)
        group: cython.longlong = c.load32(targets, 4 * i)
        if end < 0 or group >= groups:
            return i
        c.store64_signed(totals, layout.RUN_BYTES * group, c.load64_signed(totals, layout.RUN_BYTES * group) + end - at)
        c.store64_signed(
            totals,
            layout.RUN_BYTES * group + layout.RUN_END,
            c.load64_signed(totals, layout.RUN_BYTES * group + layout.RUN_END) + 1,
        )
        at = end
    return -1 if at == size else count


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _scatter(
    p: cython.p_const_uchar, size: cython.longlong, targets: cython.p_const_uchar, places: cython.p_uchar, q: cython.p_uchar
) -> cython.void:
    """Append each message to its group."""
    at: cython.longlong = 0
    i: cython.longlong = 0
    while at < size:
        end: cython.longlong = _message_end(p, at, size)
        group: cython.longlong = c.load32(targets, 4 * i)
        to: cython.longlong = c.load64_signed(places, 8 * group)
        c.copy(q, to, p, at, end - at)
        c.store64_signed(places, 8 * group, to + end - at)
        at = end
        i += 1


def group_sent(sent: BytesLike, targets: BytesLike, groups: int) -> Grouped:
    """Sort sent messages by group (int32 per message, 0 to groups - 1); messages of the same group keep their order."""
    sent_view, targets_view = memoryview(sent), memoryview(targets)
    summed = bytearray(16 * groups)
    p: cython.p_const_uchar = c.readable(sent_view)
    group_of: cython.p_const_uchar = c.readable(targets_view)
    totals: cython.p_uchar = c.writable(summed)
    size: cython.longlong = sent_view.nbytes
    count: cython.longlong = targets_view.nbytes // 4
    limit: cython.longlong = groups
    wrong: cython.longlong
    with cython.nogil:
        wrong = _count_groups(p, size, group_of, count, limit, totals)
    if wrong >= 0:
        raise InvalidInputError(f"message {wrong} of {count} is cut short, or its group is not a number from 0 to {groups - 1}")
    pairs = list(struct.iter_unpack("<2q", summed))
    sizes = tuple(pair[0] for pair in pairs)
    begins, at = [], 0
    for each in sizes:
        begins.append(at)
        at += each
    placed = bytearray(struct.pack(f"<{groups}q", *begins))
    result = c.new_bytes(size)
    places: cython.p_uchar = c.writable(placed)
    q: cython.p_uchar = c.writable(result)
    with cython.nogil:
        _scatter(p, size, group_of, places, q)
    return Grouped(result, sizes, tuple(pair[1] for pair in pairs))


# -- cutting -----------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """The messages of one batch, which are the first messages of a longer sequence; `end` is their end position."""

    end: int
    messages_count: int


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _sum_values(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the total size of a header block's values, or -1 if the block is invalid."""
    total: cython.longlong = 0
    while at < end:
        if end - at < 9:
            return -1
        at += 9 + c.load32(p, at)
        if at > end:
            return -1
        value: cython.longlong = c.load32(p, at - 4)
        total += value
        at += value
    return total if at == end else -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _cut(
    p: cython.p_const_uchar,
    size: cython.longlong,
    max_bytes: cython.longlong,
    max_values: cython.longlong,
    max_payloads: cython.longlong,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Record the end of the messages that fit into a batch, at least one message, and return their number."""
    at: cython.longlong = 0
    count: cython.longlong = 0
    values: cython.longlong = 0
    payloads: cython.longlong = 0
    while at < size:
        end: cython.longlong = _message_end(p, at, size)
        if end < 0:
            break
        headers_end: cython.longlong = at + layout.SENT_HEADERS + c.load32(p, at + layout.SENT_HEADERS_SIZE)
        if max_values >= 0:
            size_of_values: cython.longlong = _sum_values(p, at + layout.SENT_HEADERS, headers_end)
            if size_of_values < 0:
                break
            values += size_of_values
            payloads += end - headers_end - 4
            if count > 0 and (values > max_values or payloads > max_payloads):
                break
        if count > 0 and end > max_bytes:
            break
        at = end
        count += 1
    c.store64_signed(notes, 0, at)
    return count


def cut_sent(sent: BytesLike, max_bytes: int, max_values: int = -1, max_payloads: int = -1) -> Cut:
    """Return the first of the checked sent messages that fit into one batch, at least one message.

    `max_values` limits the total size of header values, and `max_payloads` the total size of payloads, bytes; -1 disables both.
    """
    view = memoryview(sent)
    noted = bytearray(8)
    p: cython.p_const_uchar = c.readable(view)
    notes: cython.p_uchar = c.writable(noted)
    size: cython.longlong = view.nbytes
    most: cython.longlong = max_bytes
    most_values: cython.longlong = max_values
    most_payloads: cython.longlong = max_payloads
    count: cython.longlong
    with cython.nogil:
        count = _cut(p, size, most, most_values, most_payloads, notes)
    if count == 0 and size > 0:
        raise InvalidInputError(f"the first sent message ({size} bytes in all) or its header block is cut short")
    return Cut(int.from_bytes(noted, "little"), count)
