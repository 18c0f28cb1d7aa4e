"""Header blocks as stored messages without payload: what the kernels that make columns of headers take.

    headers  (key_length u32 | key | kind u8 | value_length u32 | value)*

A reserved header in a block of others is a header as any: one byte of payload keeps `hs.null` from meaning anything, and
an empty key goes before `hs.key`, so that this is not taken for one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headstream.codec.batch.faults import decode_error
from headstream.codec.batch.results import VariedColumn
from headstream.codec.batch.varied import check_varied, last_offset

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.batch.headers import check_block, key_end
    from headstream.codec.uncompiled_primitives import copy, fill, load32, new_bytes, readable, store32, store64_signed, writable
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.batch.headers import check_block, key_end
    from cython.cimports.headstream.codec.primitives import (
        copy,
        fill,
        load32,
        new_bytes,
        readable,
        store32,
        store64_signed,
        writable,
    )

__all__ = ["store_blocks"]

_EMPTY_KEY: Final = b"\x06\0\0\0hs.key\x01\0\0\0\0"
_ROOM: Final = 46 + len(_EMPTY_KEY)
_NOTES: Final = struct.Struct("<4q")


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _store(
    count: cython.longlong,
    offsets: cython.p_const_uchar,
    data: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    empty_key: cython.p_const_uchar,
    q: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Write a message for each block; return how many bytes they have, or a fault."""
    to: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        at: cython.longlong = load32(offsets, 4 * i)
        end: cython.longlong = load32(offsets, 4 * i + 4)
        if some_null and not validity[i >> 3] >> (i & 7) & 1:
            end = at
        fault: cython.longlong = check_block(data, at, end, True, notes)
        if fault < 0:
            store64_signed(notes, 24, i)
            return fault
        extra: cython.longlong = 15 if key_end(data, at, end) > at else 0
        fill(q, to, 0, 37)
        q[to + 8] = 1
        store32(q, to + 37, end - at + extra)
        to += 41
        copy(q, to, empty_key, 0, extra)
        copy(q, to + extra, data, at, end - at)
        to += extra + end - at
        store32(q, to, 1)
        q[to + 4] = 0
        to += 5
    return to


def store_blocks(count: int, blocks: VariedColumn) -> bytearray:
    """Return stored messages with these headers.

    Args:
        count: How many.
        blocks: Header blocks; null for none.

    Raises:
        InvalidInputError: the buffers do not fit each other.
        DecodeError: one is no header block; the text says which, from 0.
    """
    check_varied("headers", blocks, count)
    stored, noted = new_bytes(last_offset(blocks.offsets, count) + _ROOM * count), new_bytes(_NOTES.size)
    offsets_view, data_view, key_view = memoryview(blocks.offsets), memoryview(blocks.data), memoryview(_EMPTY_KEY)
    validity_view = memoryview(b"" if blocks.validity is None else blocks.validity)
    offsets: cython.p_const_uchar = readable(offsets_view)
    data: cython.p_const_uchar = readable(data_view)
    validity: cython.p_const_uchar = readable(validity_view)
    empty_key: cython.p_const_uchar = readable(key_view)
    some_null: cython.bint = blocks.validity is not None
    messages: cython.longlong = count
    q: cython.p_uchar = writable(stored)
    notes: cython.p_uchar = writable(noted)
    size: cython.longlong
    with cython.nogil:
        size = _store(messages, offsets, data, validity, some_null, empty_key, q, notes)
    if size < 0:
        at, need, have, row = _NOTES.unpack(noted)
        raise decode_error(-size, at, need, have, f"headers of row {row}")
    del stored[size:]
    return stored
