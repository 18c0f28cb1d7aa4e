"""Converts header blocks (headers.py) to stored messages, the input of the kernels that make columns from headers.

Reserved headers in these blocks are treated as ordinary headers: a payload of one byte disables the meaning of `hs.null`, and an
empty key before `hs.key` disables the meaning of `hs.key`.
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.batch.variable import check_variable, last_offset

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import check_block, key_end
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import check_block, key_end

_EMPTY_KEY: Final = b"\x06\0\0\0hs.key\x01\0\0\0\0"
_GROWTH: Final = 46 + len(_EMPTY_KEY)
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
    """Write one message per block; return the total size in bytes, or a fault."""
    to: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        at: cython.longlong = c.load32(offsets, 4 * i)
        end: cython.longlong = c.load32(offsets, 4 * (i + 1))
        if some_null and not validity[i >> 3] >> (i & 7) & 1:
            end = at
        fault: cython.longlong = check_block(data, at, end, True, notes)
        if fault < 0:
            c.store64_signed(notes, layout.NOTED_COUNT, i)
            return fault
        extra: cython.longlong = 15 if key_end(data, at, end) > at else 0
        c.fill(q, to, 0, layout.HEADERS_SIZE)
        q[to + layout.STATE] = 1
        c.store32(q, to + layout.HEADERS_SIZE, end - at + extra)
        to += layout.HEADERS
        c.copy(q, to, empty_key, 0, extra)
        c.copy(q, to + extra, data, at, end - at)
        to += extra + end - at
        c.store32(q, to, 1)
        q[to + 4] = 0
        to += 5
    return to


def store_blocks(count: int, blocks: VariableColumn) -> bytearray:
    """Return one stored message per block or null; DecodeError names the number, from 0, of a malformed block."""
    check_variable("headers", blocks, count)
    stored, noted = c.new_bytes(last_offset(blocks.offsets, count) + _GROWTH * count), c.new_bytes(_NOTES.size)
    offsets_view, data_view, key_view = memoryview(blocks.offsets), memoryview(blocks.data), memoryview(_EMPTY_KEY)
    validity_view = memoryview(b"" if blocks.validity is None else blocks.validity)
    offsets: cython.p_const_uchar = c.readable(offsets_view)
    data: cython.p_const_uchar = c.readable(data_view)
    validity: cython.p_const_uchar = c.readable(validity_view)
    empty_key: cython.p_const_uchar = c.readable(key_view)
    some_null: cython.bint = blocks.validity is not None
    messages: cython.longlong = count
    q: cython.p_uchar = c.writable(stored)
    notes: cython.p_uchar = c.writable(noted)
    size: cython.longlong
    with cython.nogil:
        size = _store(messages, offsets, data, validity, some_null, empty_key, q, notes)
    if size < 0:
        at, need, have, row = _NOTES.unpack(noted)
        raise decode_error(-size, at, need, have, f"headers of row {row}")
    del stored[size:]
    return stored
