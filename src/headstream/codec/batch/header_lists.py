"""Making lists of the headers of stored messages: buffers laid out as Arrow has them, without a Python object a header.

As an `array` every header stands in its place, its value as the bytes that are stored; as a `map` each key stands
once, in order of the keys, with its last value as a VARIANT. The reserved headers are left out of both.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Literal

from headstream.codec.batch.faults import decode_error
from headstream.codec.batch.results import HeaderLists
from headstream.codec.batch.room import check_column
from headstream.codec.buffer import BytesLike

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.headers import keep_last, list_blocks, list_keys
    from headstream.codec.batch.variant import encode_value
    from headstream.codec.uncompiled_primitives import (
        copy,
        load32,
        load64_signed,
        new_bytes,
        readable,
        store32,
        store64_signed,
        writable,
    )
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.headers import keep_last, list_blocks, list_keys
    from cython.cimports.headstream.codec.batch.variant import encode_value
    from cython.cimports.headstream.codec.primitives import (
        copy,
        load32,
        load64_signed,
        new_bytes,
        readable,
        store32,
        store64_signed,
        writable,
    )

__all__ = ["EMPTY_METADATA", "decode_header_lists"]

EMPTY_METADATA: Final = bytes([0x11, 0, 0])
"""The VARIANT metadata of no keys, which belongs to every value of a map."""
_NOTES: Final = struct.Struct("<7q")
_VALUE_ROOM: Final = 41  # what a VARIANT value can have more than the stored one


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _list_in_order(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, entries: cython.p_uchar
) -> cython.longlong:
    """List the keys of a checked block as they stand; return how many."""
    count: cython.longlong = 0
    while at < end:
        store64_signed(entries, 8 * count, at + 4)
        count += 1
        at += 9 + load32(p, at)
        at += load32(p, at - 4)
    return count


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_lists(
    p: cython.p_const_uchar,
    blocks: cython.p_const_uchar,
    count: cython.longlong,
    as_map: cython.bint,
    offsets: cython.p_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    kinds: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    repeated: cython.p_uchar,
    entries: cython.p_uchar,
) -> cython.longlong:
    """Write the lists of all messages; return how many headers they hold."""
    i: cython.longlong
    j: cython.longlong
    number: cython.longlong = 0
    to_key: cython.longlong = 0
    to_value: cython.longlong = 0
    store32(offsets, 0, 0)
    store32(key_offsets, 0, 0)
    store32(value_offsets, 0, 0)
    for i in range(count):
        begin: cython.longlong = load64_signed(blocks, 16 * i)
        end: cython.longlong = load64_signed(blocks, 16 * i + 8)
        found: cython.longlong = list_keys(p, begin, end, entries)
        kept: cython.longlong = keep_last(p, entries, found)
        repeated[i] = 1 if kept < found else 0
        if not as_map:
            kept = _list_in_order(p, begin, end, entries)
        for j in range(kept):
            key_at: cython.longlong = load64_signed(entries, 8 * j)
            size: cython.longlong = load32(p, key_at - 4)
            kind_at: cython.longlong = key_at + size
            copy(keys, to_key, p, key_at, size)
            to_key += size
            size = load32(p, kind_at + 1)
            kinds[number] = p[kind_at]
            if as_map:
                to_value = encode_value(p[kind_at], p, kind_at + 5, size, values, to_value)
            else:
                copy(values, to_value, p, kind_at + 5, size)
                to_value += size
            number += 1
            store32(key_offsets, 4 * number, to_key)
            store32(value_offsets, 4 * number, to_value)
        store32(offsets, 4 * i + 4, number)
    return number


def decode_header_lists(stored: BytesLike, form: Literal["array", "map"]) -> HeaderLists:
    """Make lists of the headers of stored messages.

    Args:
        stored: Stored messages, back to back, whole.
        form: `array`, every header in its place with its stored bytes; `map`, each key once with its last value as a VARIANT.

    Raises:
        DecodeError: the bytes are not stored messages.
        LimitError: the headers have more bytes than int32 offsets can say.
    """
    view = memoryview(stored)
    p: cython.p_const_uchar = readable(view)
    size: cython.longlong = view.nbytes
    as_map: cython.bint = form == "map"
    noted, listed = new_bytes(_NOTES.size), new_bytes(16 * (size // 45 + 1))
    notes: cython.p_uchar = writable(noted)
    blocks: cython.p_uchar = writable(listed)
    fault: cython.longlong
    with cython.nogil:
        fault = list_blocks(p, size, True, blocks, notes)
    if fault < 0:
        raise decode_error(-fault, *_NOTES.unpack(noted)[:3])
    count, headers, total, most = _NOTES.unpack(noted)[3:]
    room = total + (_VALUE_ROOM * headers if as_map else 0)
    check_column("headers", room)
    lists = HeaderLists(
        offsets=new_bytes(4 * count + 4),
        key_offsets=new_bytes(4 * headers + 4),
        key_data=new_bytes(total),
        kinds=new_bytes(headers),
        value_offsets=new_bytes(4 * headers + 4),
        value_data=new_bytes(room),
        repeated=new_bytes(count),
    )
    held = _fill(p, blocks, count, as_map, lists, new_bytes(16 * most))
    del lists.kinds[held:]
    for offsets, data in ((lists.key_offsets, lists.key_data), (lists.value_offsets, lists.value_data)):
        del offsets[4 * held + 4 :]
        del data[int.from_bytes(offsets[4 * held :], "little") :]
    return lists


@cython.cfunc
def _fill(
    p: cython.p_const_uchar,
    blocks: cython.p_uchar,
    count: cython.longlong,
    as_map: cython.bint,
    lists: HeaderLists,
    scratch: bytearray,
) -> cython.longlong:
    """Write all lists; return how many headers they hold."""
    offsets: cython.p_uchar = writable(lists.offsets)
    key_offsets: cython.p_uchar = writable(lists.key_offsets)
    keys: cython.p_uchar = writable(lists.key_data)
    kinds: cython.p_uchar = writable(lists.kinds)
    value_offsets: cython.p_uchar = writable(lists.value_offsets)
    values: cython.p_uchar = writable(lists.value_data)
    repeated: cython.p_uchar = writable(lists.repeated)
    entries: cython.p_uchar = writable(scratch)
    held: cython.longlong
    with cython.nogil:
        held = _write_lists(p, blocks, count, as_map, offsets, key_offsets, keys, kinds, value_offsets, values, repeated, entries)
    return held
