"""Converts stored messages (layout.py) to columns, buffers in Arrow's layout, without a Python object per message.

The first pass checks every length, and records where each message begins and the sizes of the columns. Then each group of columns
is written in a separate pass. The reserved headers `hs.key` and `hs.null` become the key and the null payload; all other headers
become one column, in the requested form.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.int32_limits import check_column
from headstream.core.codec.batch.results import Columns
from headstream.core.codec.buffer import BytesLike
from headstream.errors import InvalidOptionError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
    from headstream.core.codec.batch.headers import check_block, keep_last, key_end, list_keys, null_end
    from headstream.core.codec.batch.to_columns.variant import encode_keys, encode_object
    from headstream.core.codec.uncompiled_checksums import copy_crc32
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout
    from cython.cimports.headstream.core.codec.batch.headers import check_block, keep_last, key_end, list_keys, null_end
    from cython.cimports.headstream.core.codec.batch.to_columns.variant import encode_keys, encode_object
    from cython.cimports.headstream.core.codec.checksums import copy_crc32

HeadersForm = Literal["none", "binary", "variant"]
"""The form of a message's headers: omitted, the block as stored, or a VARIANT."""

# The positions of the sums in the notes of _measure(), after a fault.
COUNT = cython.declare(cython.longlong, 24)
PAYLOAD_BYTES = cython.declare(cython.longlong, 32)
BLOCK_BYTES = cython.declare(cython.longlong, 40)
HEADERS = cython.declare(cython.longlong, 48)
MOST_HEADERS = cython.declare(cython.longlong, 56)
KEY_BYTES = cython.declare(cython.longlong, 64)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _measure(
    p: cython.p_const_uchar, size: cython.longlong, values: cython.bint, starts: cython.p_uchar, notes: cython.p_uchar
) -> cython.longlong:
    """Record where each message begins, and the totals that determine the sizes of the columns; return 0 or a fault."""
    at: cython.longlong = 0
    count: cython.longlong = 0
    payload_bytes: cython.longlong = 0
    block_bytes: cython.longlong = 0
    headers: cython.longlong = 0
    most_headers: cython.longlong = 0
    key_bytes: cython.longlong = 0
    while at < size:
        if size - at < layout.OVERHEAD:
            return c.note_fault(notes, faults.MESSAGE_CUT, at, layout.OVERHEAD, size - at)
        c.store64_signed(starts, 8 * count, at)
        length: cython.longlong = c.load32(p, at + layout.HEADERS_SIZE)
        at += layout.HEADERS
        if size - at - 4 < length:
            return c.note_fault(notes, faults.HEADERS_CUT, at, length + 4, size - at)
        if length > 0:
            found: cython.longlong = check_block(p, at, at + length, values, notes)
            if found < 0:
                return found
            headers += found
            most_headers = found if found > most_headers else most_headers
            found = key_end(p, at, at + length) - at
            key_bytes += found - 15 if found > 0 else 0
        block_bytes += length
        at += length + 4
        length = c.load32(p, at - 4)
        if size - at < length:
            return c.note_fault(notes, faults.PAYLOAD_CUT, at, length, size - at)
        payload_bytes += length
        at += length
        count += 1
    c.store64_signed(notes, COUNT, count)
    c.store64_signed(notes, PAYLOAD_BYTES, payload_bytes)
    c.store64_signed(notes, BLOCK_BYTES, block_bytes)
    c.store64_signed(notes, HEADERS, headers)
    c.store64_signed(notes, MOST_HEADERS, most_headers)
    c.store64_signed(notes, KEY_BYTES, key_bytes)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_numbers(
    p: cython.p_const_uchar,
    starts: cython.p_const_uchar,
    count: cython.longlong,
    offset: cython.p_uchar,
    timestamp: cython.p_uchar,
    state: cython.p_uchar,
    checksum: cython.p_uchar,
) -> cython.void:
    """Write the fixed-width columns."""
    i: cython.longlong
    for i in range(count):
        at: cython.longlong = c.load64_signed(starts, 8 * i)
        c.store64(offset, 8 * i, c.load64(p, at))
        state[i] = p[at + layout.STATE]
        c.store64(timestamp, 8 * i, c.load64(p, at + layout.TIMESTAMP))
        c.store32(checksum, 4 * i, c.load32(p, at + layout.CHECKSUM))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_ids(p: cython.p_const_uchar, starts: cython.p_const_uchar, count: cython.longlong, ids: cython.p_uchar) -> cython.void:
    i: cython.longlong
    for i in range(count):
        c.store_uuid(ids, 36 * i, p, c.load64_signed(starts, 8 * i) + layout.ID)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_keys(
    p: cython.p_const_uchar,
    starts: cython.p_const_uchar,
    count: cython.longlong,
    offsets: cython.p_uchar,
    data: cython.p_uchar,
    validity: cython.p_uchar,
) -> cython.longlong:
    """Write the key column; return the number of messages with a key."""
    i: cython.longlong
    to: cython.longlong = 0
    present: cython.longlong = 0
    c.store32(offsets, 0, 0)
    for i in range(count):
        at: cython.longlong = c.load64_signed(starts, 8 * i) + layout.HEADERS
        end: cython.longlong = key_end(p, at, at + c.load32(p, at - 4))
        if end > at:
            c.copy(data, to, p, at + layout.KEY_VALUE, end - at - layout.KEY_VALUE)
            to += end - at - 15
            validity[i >> 3] |= 1 << (i & 7)
            present += 1
        c.store32(offsets, 4 * (i + 1), to)
    return present


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_payloads(
    p: cython.p_const_uchar,
    starts: cython.p_const_uchar,
    count: cython.longlong,
    verify: cython.bint,
    offsets: cython.p_uchar,
    data: cython.p_uchar,
    validity: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Write the payload column; return the number of payloads that are not null, or a fault."""
    i: cython.longlong
    to: cython.longlong = 0
    present: cython.longlong = 0
    c.store32(offsets, 0, 0)
    for i in range(count):
        start: cython.longlong = c.load64_signed(starts, 8 * i)
        end: cython.longlong = start + layout.HEADERS + c.load32(p, start + layout.HEADERS_SIZE)
        size: cython.longlong = c.load32(p, end)
        if verify and copy_crc32(data, to, p, end + 4, size) != c.load32(p, start + layout.CHECKSUM):
            return c.note_fault(notes, faults.CHECKSUM, start, size, 0)
        if not verify:
            c.copy(data, to, p, end + 4, size)
        begin: cython.longlong = key_end(p, start + layout.HEADERS, end)
        if null_end(p, begin, end, size) == begin:
            validity[i >> 3] |= 1 << (i & 7)
            present += 1
        to += size
        c.store32(offsets, 4 * (i + 1), to)
    return present


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_headers(
    p: cython.p_const_uchar,
    starts: cython.p_const_uchar,
    count: cython.longlong,
    as_variant: cython.bint,
    offsets: cython.p_uchar,
    data: cython.p_uchar,
    metadata_offsets: cython.p_uchar,
    metadata: cython.p_uchar,
    repeated: cython.p_uchar,
    entries: cython.p_uchar,
) -> cython.void:
    """Write the header column, as blocks or as VARIANT values with metadata."""
    i: cython.longlong
    to: cython.longlong = 0
    metadata_to: cython.longlong = 0
    c.store32(offsets, 0, 0)
    if as_variant:
        c.store32(metadata_offsets, 0, 0)
    for i in range(count):
        at: cython.longlong = c.load64_signed(starts, 8 * i) + layout.HEADERS
        end: cython.longlong = at + c.load32(p, at - 4)
        at = null_end(p, key_end(p, at, end), end, c.load32(p, end))
        found: cython.longlong = list_keys(p, at, end, entries)
        kept: cython.longlong = keep_last(p, entries, found)
        repeated[i] = 1 if kept < found else 0
        if as_variant:
            to = encode_object(p, entries, kept, data, to)
            metadata_to = encode_keys(p, entries, kept, metadata, metadata_to)
            c.store32(metadata_offsets, 4 * (i + 1), metadata_to)
        else:
            c.copy(data, to, p, at, end - at)
            to += end - at
        c.store32(offsets, 4 * (i + 1), to)


_NOTES: Final = struct.Struct("<9q")
_INT32: Final = struct.Struct("<i")


def decode_columns(stored: BytesLike, *, headers: HeadersForm = "variant", ids: bool = True, verify: bool = False) -> Columns:
    """Make columns from stored messages.

    Args:
        headers: The form of the headers: `none` for no column; `binary` for the blocks as stored, of which only the lengths are
            checked; `variant` for VARIANT values with the last value of each key.
        verify: Whether to compare each payload with its checksum.
    """
    if headers not in ("none", "binary", "variant"):
        raise InvalidOptionError(f"headers must be none, binary or variant, not {headers!r}")
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    values: cython.bint = headers == "variant"
    noted, begun = c.new_bytes(_NOTES.size), c.new_bytes(8 * (size // layout.OVERHEAD + 1))
    notes: cython.p_uchar = c.writable(noted)
    starts: cython.p_uchar = c.writable(begun)
    fault: cython.longlong
    with cython.nogil:
        fault = _measure(p, size, values, starts, notes)
    if fault < 0:
        raise decode_error(-fault, *_NOTES.unpack(noted)[:3])
    count, payload_bytes, block_bytes, found, most, key_bytes = _NOTES.unpack(noted)[3:]
    capacity = block_bytes + 9 * count + (50 * found if values else 0)
    for name, column_bytes in (("payload", payload_bytes), ("id", 36 * count), ("headers", capacity)):
        check_column(name, column_bytes)
    columns = Columns(
        count=count,
        offset=c.new_bytes(8 * count),
        timestamp=c.new_bytes(8 * count),
        state=c.new_bytes(count),
        checksum=c.new_bytes(4 * count),
        id_data=c.new_bytes(36 * count) if ids else None,
        key_offsets=c.new_bytes(4 * count + 4),
        key_data=c.new_bytes(key_bytes),
        key_validity=bytearray((count + 7) // 8),
        payload_offsets=c.new_bytes(4 * count + 4),
        payload_data=c.new_bytes(payload_bytes),
        payload_validity=bytearray((count + 7) // 8),
        headers_offsets=c.new_bytes(4 * count + 4) if headers != "none" else None,
        headers_data=c.new_bytes(capacity) if headers != "none" else None,
        metadata_offsets=c.new_bytes(4 * count + 4) if values else None,
        metadata_data=c.new_bytes(block_bytes + 9 * count) if values else None,
        repeated=c.new_bytes(count) if headers != "none" else None,
    )
    _fill(p, starts, columns, verify, notes, noted)
    if headers != "none":
        _fill_headers(p, starts, columns, c.new_bytes(16 * most))
        _trim(columns.headers_offsets, columns.headers_data)
        _trim(columns.metadata_offsets, columns.metadata_data)
    return columns


def _trim(offsets: bytearray | None, data: bytearray | None) -> None:
    """Remove the unused bytes at the end of a column's data."""
    if offsets is not None and data is not None:
        del data[_INT32.unpack_from(offsets, len(offsets) - 4)[0] :]


@cython.cfunc
def _fill(
    p: cython.p_const_uchar,
    starts: cython.p_uchar,
    columns: Columns,
    verify: cython.bint,
    notes: cython.p_uchar,
    noted: bytearray,
) -> object:
    """Write all columns except header columns."""
    count: cython.longlong = columns.count
    offset: cython.p_uchar = c.writable(columns.offset)
    timestamp: cython.p_uchar = c.writable(columns.timestamp)
    state: cython.p_uchar = c.writable(columns.state)
    checksum: cython.p_uchar = c.writable(columns.checksum)
    key_offsets: cython.p_uchar = c.writable(columns.key_offsets)
    key_data: cython.p_uchar = c.writable(columns.key_data)
    key_validity: cython.p_uchar = c.writable(columns.key_validity or noted)
    payload_offsets: cython.p_uchar = c.writable(columns.payload_offsets)
    payload_data: cython.p_uchar = c.writable(columns.payload_data)
    payload_validity: cython.p_uchar = c.writable(columns.payload_validity or noted)
    present_keys: cython.longlong
    present: cython.longlong
    with cython.nogil:
        _write_numbers(p, starts, count, offset, timestamp, state, checksum)
        present_keys = _write_keys(p, starts, count, key_offsets, key_data, key_validity)
        present = _write_payloads(p, starts, count, verify, payload_offsets, payload_data, payload_validity, notes)
    if present < 0:
        at = _NOTES.unpack(noted)[0]
        raise decode_error(-present, at, 0, 0, f"the message at offset {c.load64(p, at)}")
    if columns.id_data is not None:
        ids: cython.p_uchar = c.writable(columns.id_data)
        with cython.nogil:
            _write_ids(p, starts, count, ids)
    if present_keys == count:
        columns.key_validity = None
    if present == count:
        columns.payload_validity = None
    return None


@cython.cfunc
def _fill_headers(p: cython.p_const_uchar, starts: cython.p_uchar, columns: Columns, listed: bytearray) -> object:
    count: cython.longlong = columns.count
    as_variant: cython.bint = columns.metadata_offsets is not None
    offsets: cython.p_uchar = c.writable(columns.headers_offsets or listed)
    data: cython.p_uchar = c.writable(columns.headers_data or listed)
    metadata_offsets: cython.p_uchar = c.writable(columns.metadata_offsets or listed)
    metadata: cython.p_uchar = c.writable(columns.metadata_data or listed)
    repeated: cython.p_uchar = c.writable(columns.repeated or listed)
    entries: cython.p_uchar = c.writable(listed)
    with cython.nogil:
        _write_headers(p, starts, count, as_variant, offsets, data, metadata_offsets, metadata, repeated, entries)
    return None
