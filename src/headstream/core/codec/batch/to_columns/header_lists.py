"""Converts the headers of stored messages to lists, buffers in Arrow's layout, without a Python object per header.

An `array` has every header in order, with the value's bytes as stored. A `map` has each key once, sorted, with its last value as
a VARIANT. Both forms omit the reserved headers.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.int32_limits import check_column
from headstream.core.codec.batch.results import HeaderLists
from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import keep_last, list_blocks, list_keys
    from headstream.core.codec.batch.to_columns.variant import encode_value
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import keep_last, list_blocks, list_keys
    from cython.cimports.headstream.core.codec.batch.to_columns.variant import encode_value

EMPTY_METADATA: Final = bytes([0x11, 0, 0])
"""The VARIANT metadata of an empty key list, which all values of a map share."""
_NOTES: Final = struct.Struct("<7q")
_VALUE_GROWTH: Final = 41  # maximum number of bytes by which a VARIANT value exceeds the stored value


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _list_in_order(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, entries: cython.p_uchar
) -> cython.longlong:
    """List the keys of a checked block in order; return the number of keys."""
    count: cython.longlong = 0
    while at < end:
        c.store64_signed(entries, 8 * count, at + 4)
        count += 1
        at += 9 + c.load32(p, at)
        at += c.load32(p, at - 4)
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
    """Write the lists of all messages; return the total number of headers."""
    i: cython.longlong
    j: cython.longlong
    number: cython.longlong = 0
    to_key: cython.longlong = 0
    to_value: cython.longlong = 0
    c.store32(offsets, 0, 0)
    c.store32(key_offsets, 0, 0)
    c.store32(value_offsets, 0, 0)
    for i in range(count):
        begin: cython.longlong = c.load64_signed(blocks, layout.RUN_BYTES * i)
        end: cython.longlong = c.load64_signed(blocks, layout.RUN_BYTES * i + layout.RUN_END)
        found: cython.longlong = list_keys(p, begin, end, entries)
        kept: cython.longlong = keep_last(p, entries, found)
        repeated[i] = 1 if kept < found else 0
        if not as_map:
            kept = _list_in_order(p, begin, end, entries)
        for j in range(kept):
            key_at: cython.longlong = c.load64_signed(entries, 8 * j)
            size: cython.longlong = c.load32(p, key_at - 4)
            kind_at: cython.longlong = key_at + size
            c.copy(keys, to_key, p, key_at, size)
            to_key += size
            size = c.load32(p, kind_at + 1)
            kinds[number] = p[kind_at]
            if as_map:
                to_value = encode_value(p[kind_at], p, kind_at + layout.VALUE_HEAD, size, values, to_value)
            else:
                c.copy(values, to_value, p, kind_at + layout.VALUE_HEAD, size)
                to_value += size
            number += 1
            c.store32(key_offsets, 4 * number, to_key)
            c.store32(value_offsets, 4 * number, to_value)
        c.store32(offsets, 4 * (i + 1), number)
    return number


def decode_header_lists(stored: BytesLike, form: Literal["array", "map"]) -> HeaderLists:
    """Convert the headers of stored messages to lists; LimitError if they exceed the range of int32 offsets."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    as_map: cython.bint = form == "map"
    noted, listed = c.new_bytes(_NOTES.size), c.new_bytes(16 * (size // layout.OVERHEAD + 1))
    notes: cython.p_uchar = c.writable(noted)
    blocks: cython.p_uchar = c.writable(listed)
    fault: cython.longlong
    with cython.nogil:
        fault = list_blocks(p, size, True, blocks, notes)
    if fault < 0:
        raise decode_error(-fault, *_NOTES.unpack(noted)[:3])
    count, headers, total, most = _NOTES.unpack(noted)[3:]
    capacity = total + (_VALUE_GROWTH * headers if as_map else 0)
    check_column("headers", capacity)
    lists = HeaderLists(
        offsets=c.new_bytes(4 * count + 4),
        key_offsets=c.new_bytes(4 * headers + 4),
        key_data=c.new_bytes(total),
        kinds=c.new_bytes(headers),
        value_offsets=c.new_bytes(4 * headers + 4),
        value_data=c.new_bytes(capacity),
        repeated=c.new_bytes(count),
    )
    held = _fill(p, blocks, count, as_map, lists, c.new_bytes(16 * most))
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
    """Write all lists; return the number of their headers."""
    offsets: cython.p_uchar = c.writable(lists.offsets)
    key_offsets: cython.p_uchar = c.writable(lists.key_offsets)
    keys: cython.p_uchar = c.writable(lists.key_data)
    kinds: cython.p_uchar = c.writable(lists.kinds)
    value_offsets: cython.p_uchar = c.writable(lists.value_offsets)
    values: cython.p_uchar = c.writable(lists.value_data)
    repeated: cython.p_uchar = c.writable(lists.repeated)
    entries: cython.p_uchar = c.writable(scratch)
    held: cython.longlong
    with cython.nogil:
        held = _write_lists(p, blocks, count, as_map, offsets, key_offsets, keys, kinds, value_offsets, values, repeated, entries)
    return held
