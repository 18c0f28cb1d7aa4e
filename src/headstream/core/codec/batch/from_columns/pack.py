"""Builds sent messages (layout.py) from columns for Spark jobs and producers: the reverse of columns.py.

First the position and size of each message's value are determined for each column (-1: no value). Then the messages are written
one after another. A key and a null payload become reserved headers.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.buffer import BytesLike
from headstream.errors import HeaderError, InvalidInputError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
    from headstream.core.codec.batch.headers import check_block, key_end, null_end
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout
    from cython.cimports.headstream.core.codec.batch.headers import check_block, key_end, null_end

PLAN_SIZE = cython.declare(cython.longlong, layout.PLAN_BYTES)

# The reserved header of a key, up to the key's length, and the reserved header of a null payload.
_RESERVED: Final = struct.pack("<I6sB", 6, b"hs.key", 1) + struct.pack("<I7sBIB", 7, b"hs.null", 3, 1, 1)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _plan_column(
    plan: cython.p_uchar,
    to: cython.longlong,
    count: cython.longlong,
    offsets: cython.p_const_uchar,
    size: cython.longlong,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Plan a column of `size` bytes; return 0, or a fault if an offset is less than the previous offset or exceeds `size`."""
    i: cython.longlong
    begin: cython.longlong = c.load32(offsets, 0)
    for i in range(count):
        end: cython.longlong = c.load32(offsets, 4 * (i + 1))
        if begin > end or end > size:
            return c.note_fault(notes, faults.OFFSETS, i, begin, end)
        c.store64_signed(plan, to, begin)
        c.store64_signed(plan, to + layout.RUN_END, end - begin)
        if some_null and not validity[i >> 3] >> (i & 7) & 1:
            c.store64_signed(plan, to + layout.RUN_END, -1)
        begin = end
        to += PLAN_SIZE
    return 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _plan_absent(plan: cython.p_uchar, to: cython.longlong, count: cython.longlong, size: cython.longlong) -> cython.void:
    """Plan a missing column: `size` is -1 or 0."""
    _i: cython.longlong
    for _i in range(count):
        c.store64_signed(plan, to, 0)
        c.store64_signed(plan, to + layout.RUN_END, size)
        to += PLAN_SIZE


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _measure(
    plan: cython.p_uchar, count: cython.longlong, blocks: cython.p_const_uchar, notes: cython.p_uchar
) -> cython.longlong:
    """Return the total size of the messages, or a fault in a header block."""
    i: cython.longlong
    total: cython.longlong = 0
    for i in range(count):
        payload_size: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_PAYLOAD_SIZE)
        key_size: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_KEY_SIZE)
        at: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_BLOCK)
        size: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_BLOCK_SIZE)
        found: cython.longlong = check_block(blocks, at, at + size, True, notes)
        if found < 0:
            return found
        if payload_size >= 0:
            if key_size < 0 and key_end(blocks, at, at + size) > at:
                return c.note_fault(notes, faults.RESERVED, i, 0, 0)
            if null_end(blocks, at, at + size, payload_size) > at:
                return c.note_fault(notes, faults.RESERVED, i, 0, 0)
        total += layout.SENT_OVERHEAD + size
        total += payload_size if payload_size >= 0 else layout.NULL_BYTES
        total += layout.KEY_VALUE + key_size if key_size >= 0 else 0
    return total


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write(
    plan: cython.p_const_uchar,
    count: cython.longlong,
    ids: cython.p_const_uchar,
    has_ids: cython.bint,
    payloads: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    blocks: cython.p_const_uchar,
    reserved: cython.p_const_uchar,
    q: cython.p_uchar,
) -> cython.void:
    i: cython.longlong
    to: cython.longlong = 0
    for i in range(count):
        payload_size: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_PAYLOAD_SIZE)
        key_size: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_KEY_SIZE)
        block_size: cython.longlong = c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_BLOCK_SIZE)
        if has_ids:
            c.copy(q, to, ids, layout.ID_BYTES * i, layout.ID_BYTES)
        else:
            c.fill(q, to, 0, layout.ID_BYTES)
        begin: cython.longlong = to + layout.SENT_HEADERS
        to = begin
        if key_size >= 0:
            c.copy(q, to, reserved, 0, layout.KEY_SIZE)
            c.store32(q, to + layout.KEY_SIZE, key_size)
            to += layout.KEY_VALUE
            c.copy(q, to, keys, c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_KEY), key_size)
            to += key_size
        if payload_size < 0:
            c.copy(q, to, reserved, layout.KEY_SIZE, layout.NULL_BYTES)
            to += layout.NULL_BYTES
            payload_size = 0
        c.copy(q, to, blocks, c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_BLOCK), block_size)
        to += block_size
        c.store32(q, begin - 4, to - begin)
        c.store32(q, to, payload_size)
        c.copy(q, to + 4, payloads, c.load64_signed(plan, PLAN_SIZE * i + layout.PLAN_PAYLOAD), payload_size)
        to += 4 + payload_size


_NOTES: Final = struct.Struct("<3q")


def pack(
    payload_offsets: BytesLike,
    payload_data: BytesLike,
    *,
    key_offsets: BytesLike | None = None,
    key_data: BytesLike | None = None,
    key_validity: BytesLike | None = None,
    payload_validity: BytesLike | None = None,
    headers_offsets: BytesLike | None = None,
    headers_data: BytesLike | None = None,
    ids: BytesLike | None = None,
) -> bytearray:
    """Build sent messages from columns in Arrow's layout, little-endian.

    Args:
        payload_offsets: int32, one more than there are messages; empty if there are no messages.
        key_offsets: int32; None if no message has a key.
        key_validity: Bitmap of keys that are not null, lowest bit first; None if no key is null.
        payload_validity: Bitmap of payloads that are not null; None if no payload is null.
        headers_offsets: int32; None if no message has headers.
        headers_data: Header blocks as sent, without reserved headers; pack() adds reserved headers for keys and null payloads.
        ids: 16 bytes per message, as stored; if None, the log generates ids.

    Raises:
        InvalidInputError: the buffers are inconsistent.
        DecodeError: a header block is malformed; its byte position refers to headers_data.
        HeaderError: a header block begins with a reserved header.
    """
    count = max(memoryview(payload_offsets).nbytes // 4 - 1, 0)
    planned, noted = c.new_bytes(PLAN_SIZE * count), c.new_bytes(_NOTES.size)
    _plan(planned, layout.PLAN_PAYLOAD, count, "payload", payload_offsets, payload_data, payload_validity)
    _plan(planned, layout.PLAN_KEY, count, "key", key_offsets, key_data, key_validity)
    _plan(planned, layout.PLAN_BLOCK, count, "headers", headers_offsets, headers_data, None)
    payload_view, key_view, block_view, id_view = (_view(data) for data in (payload_data, key_data, headers_data, ids))
    if ids is not None and id_view.nbytes != layout.ID_BYTES * count:
        raise InvalidInputError(f"{count} messages need {layout.ID_BYTES * count} bytes of ids, not {id_view.nbytes}")
    reserved_view = memoryview(_RESERVED)
    plan: cython.p_uchar = c.writable(planned)
    notes: cython.p_uchar = c.writable(noted)
    payloads: cython.p_const_uchar = c.readable(payload_view)
    keys: cython.p_const_uchar = c.readable(key_view)
    blocks: cython.p_const_uchar = c.readable(block_view)
    id_bytes: cython.p_const_uchar = c.readable(id_view)
    reserved: cython.p_const_uchar = c.readable(reserved_view)
    messages: cython.longlong = count
    has_ids: cython.bint = ids is not None
    total: cython.longlong
    with cython.nogil:
        total = _measure(plan, messages, blocks, notes)
    if total < 0:
        _raise(-total, noted)
    sent = c.new_bytes(total)
    q: cython.p_uchar = c.writable(sent)
    with cython.nogil:
        _write(plan, messages, id_bytes, has_ids, payloads, keys, blocks, reserved, q)
    return sent


def _view(data: BytesLike | None) -> memoryview:
    return memoryview(b"" if data is None else data)


def _plan(
    planned: bytearray,
    field: int,
    count: int,
    name: str,
    offsets: BytesLike | None,
    data: BytesLike | None,
    validity: BytesLike | None,
) -> None:
    """Plan one column, which can be missing."""
    noted = c.new_bytes(_NOTES.size)
    plan: cython.p_uchar = c.writable(planned)
    notes: cython.p_uchar = c.writable(noted)
    to: cython.longlong = field
    messages: cython.longlong = count
    if offsets is None or count == 0:
        _plan_absent(plan, to, messages, -1 if field == layout.PLAN_KEY else 0)
        return
    offsets_view, data_view, validity_view = _view(offsets), _view(data), _view(validity)
    some_null: cython.bint = validity is not None
    if offsets_view.nbytes != 4 * count + 4:
        raise InvalidInputError(f"{count} messages need {4 * count + 4} bytes of {name} offsets, not {offsets_view.nbytes}")
    if validity is not None and validity_view.nbytes < (count + 7) // 8:
        raise InvalidInputError(f"{count} messages need a {name} validity bitmap of {count} bits, not {8 * validity_view.nbytes}")
    size: cython.longlong = data_view.nbytes
    begins: cython.p_const_uchar = c.readable(offsets_view)
    valid: cython.p_const_uchar = c.readable(validity_view)
    fault: cython.longlong
    with cython.nogil:
        fault = _plan_column(plan, to, messages, begins, size, valid, some_null, notes)
    if fault < 0:
        i, begin, end = _NOTES.unpack(noted)
        what = f"the {name} of message {i} would be bytes {begin} to {end} of {data_view.nbytes}"
        raise InvalidInputError(what, advice="Offsets must not decrease, and must not exceed the data size")


def _raise(code: int, noted: bytearray) -> NoReturn:
    """Raise the error for a fault that _measure() recorded."""
    at, need, have = _NOTES.unpack(noted)
    if code == faults.RESERVED:
        raise HeaderError(
            f"the headers of message {at} begin with a reserved header", advice="Pass keys and null payloads in their columns"
        )
    raise decode_error(code, at, need, have, "headers_data")
