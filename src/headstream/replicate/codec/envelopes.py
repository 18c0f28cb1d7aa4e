"""Finds the parts of many Replicate envelopes, compiled, without a Python object per message.

codec.envelope describes the layout of an envelope. Positions count from the start of the data of all messages; a missing part has
the position -1.
"""

from __future__ import annotations

from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec.avro.reader import MAX_MAP_ENTRIES as _MAX_MAP_ENTRIES
from headstream.replicate.codec.envelope import decode_envelope
from headstream.replicate.codec.envelope_groups import group_by_schema, ungrouped_rows
from headstream.replicate.codec.envelope_parts import BROKEN, DATA, JSON, METADATA, NEITHER, REGISTRY, UNKNOWN, Envelopes

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.replicate.codec.avro import codes
    from headstream.replicate.codec.avro.uncompiled_primitives import varint_stop, varint_value
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.replicate.codec.avro import codes
    from cython.cimports.headstream.replicate.codec.avro.primitives import varint_stop, varint_value

__all__ = [
    "BROKEN",
    "DATA",
    "JSON",
    "METADATA",
    "NEITHER",
    "REGISTRY",
    "UNKNOWN",
    "Envelopes",
    "group_by_schema",
    "split_envelopes",
    "ungrouped_rows",
]

MAGIC_HEAD = cython.declare(cython.uint, 0x534D7461)  # "atMS" as a little-endian number
MAX_MAP_ENTRIES = cython.declare(cython.longlong, _MAX_MAP_ENTRIES)
# Number of int64 arrays: for each of the four parts, its starts and its ends.
PARTS = cython.declare(cython.longlong, 8)
ID = cython.declare(cython.longlong, 0)
SCHEMA = cython.declare(cython.longlong, 2)
PAYLOAD = cython.declare(cython.longlong, 4)
HEADERS = cython.declare(cython.longlong, 6)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _text_end(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, checked: cython.bint) -> cython.longlong:
    """Return the position after a string or bytes, or -1; `checked` requires valid UTF-8."""
    start: cython.longlong = varint_stop(p, at, end)
    if start < 0:
        return -1
    size: cython.longlong = varint_value(p, at, start)
    if size < 0 or size > end - start or (checked and c.utf8_size(p, start, size) != size):
        return -1
    return start + size


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _map_end(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, keys: cython.p_uchar) -> cython.longlong:
    """Return the position after a map of strings, or -1; `keys` has space for the positions of all keys."""
    found: cython.longlong = 0
    stop: cython.longlong
    block: cython.longlong
    index: cython.longlong
    key: cython.longlong
    while True:
        stop = varint_stop(p, at, end)
        if stop < 0:
            return -1
        block = varint_value(p, at, stop)
        at = stop
        if block == 0:
            return at
        if block < 0:
            stop = varint_stop(p, at, end)
            if stop < 0 or block < -MAX_MAP_ENTRIES:
                return -1
            if varint_value(p, at, stop) < 0 or varint_value(p, at, stop) > end - stop:
                return -1
            at = stop
            block = -block
        if block > MAX_MAP_ENTRIES - found:
            return -1
        while block > 0:
            stop = _text_end(p, at, end, True)
            if stop < 0:
                return -1
            at = varint_stop(p, at, end)
            for index in range(found):
                key = c.load64_signed(keys, index * 16)
                if c.load64_signed(keys, index * 16 + 8) == stop - at and c.equal(p, key, p, at, stop - at):
                    return -1
            c.store64_signed(keys, found * 16, at)
            c.store64_signed(keys, found * 16 + 8, stop - at)
            found += 1
            at = _text_end(p, stop, end, True)
            if at < 0:
                return -1
            block -= 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _note(
    parts: cython.p_uchar,
    count: cython.longlong,
    part: cython.longlong,
    row: cython.longlong,
    at: cython.longlong,
    end: cython.longlong,
) -> cython.void:
    """Record the start and end of a part of a message."""
    c.store64_signed(parts, (part * count + row) * 8, at)
    c.store64_signed(parts, ((part + 1) * count + row) * 8, end)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _split_avro(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    parts: cython.p_uchar,
    count: cython.longlong,
    row: cython.longlong,
    keys: cython.p_uchar,
) -> cython.uchar:
    """Record the parts of an envelope, beginning at its type; return the form."""
    stop: cython.longlong = _text_end(p, at, end, False)
    if stop < 0:
        return codes.FORM_BROKEN
    size: cython.longlong = varint_value(p, at, varint_stop(p, at, end))
    form: cython.uchar = codes.FORM_UNKNOWN
    if size == 2 and p[stop - 2] == 77 and p[stop - 1] == 68:  # MD
        form = codes.FORM_METADATA
    elif size == 2 and p[stop - 2] == 68 and p[stop - 1] == 84:  # DT
        form = codes.FORM_DATA
    else:
        return form
    part: cython.longlong
    place: cython.longlong
    branch: cython.longlong
    for place in range(3):
        part = HEADERS if place == 0 else ID if place == 1 else SCHEMA
        at = varint_stop(p, stop, end)
        if at < 0:
            return codes.FORM_BROKEN
        branch = varint_value(p, stop, at)
        stop = at
        if branch == 1:
            stop = _map_end(p, at, end, keys) if place == 0 else _text_end(p, at, end, True)
            if stop < 0:
                return codes.FORM_BROKEN
            _note(parts, count, part, row, at if place == 0 else varint_stop(p, at, end), stop)
        elif branch != 0:
            return codes.FORM_BROKEN
    if _text_end(p, stop, end, False) != end:
        return codes.FORM_BROKEN
    _note(parts, count, PAYLOAD, row, varint_stop(p, stop, end), end)
    return form


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _split(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    parts: cython.p_uchar,
    count: cython.longlong,
    row: cython.longlong,
    keys: cython.p_uchar,
) -> cython.uchar:
    """Record the parts of one message; return the form."""
    form: cython.uchar = codes.FORM_NEITHER
    start: cython.longlong = at
    part: cython.longlong
    if end - at >= 5 and c.load32(p, at) == MAGIC_HEAD and p[at + 4] == 71:
        form = _split_avro(p, at + 5, end, parts, count, row, keys)
        if form == codes.FORM_BROKEN:
            for part in range(0, PARTS, 2):
                _note(parts, count, part, row, -1, -1)
    elif end - at >= 5 and p[at] == 0:
        form = codes.FORM_REGISTRY
        _note(parts, count, PAYLOAD, row, at + 5, end)
    else:
        while at < end and p[at] in (9, 10, 13, 32):
            at += 1
        if at < end and p[at] == 123:
            form = codes.FORM_JSON
            _note(parts, count, PAYLOAD, row, start, end)
    return form


def split_envelopes(offsets: BytesLike, data: BytesLike) -> Envelopes:
    """Find the parts of many messages.

    Args:
        offsets: Start of each message in `data`, and end of the last message: int32, as in Arrow.

    Returns:
        The form of each message, and the positions of its parts. The payload of a JSON message is the entire message; in registry
        framing the payload begins after 5 bytes.

    Raises:
        InvalidInputError: the offsets are not int32, are outside the data, or are not in order.
    """
    offsets_view, view = memoryview(offsets), memoryview(data)
    if offsets_view.nbytes % 4:
        raise InvalidInputError("offsets must be a buffer of int32")
    bounds: cython.p_const_uchar = c.readable(offsets_view)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    count: cython.longlong = max(offsets_view.nbytes // 4 - 1, 0)
    forms_bytes, parts_bytes, keys_bytes = c.new_bytes(count), c.new_bytes(count * PARTS * 8), c.new_bytes(MAX_MAP_ENTRIES * 16)
    forms: cython.p_uchar = c.writable(forms_bytes)
    parts: cython.p_uchar = c.writable(parts_bytes)
    keys: cython.p_uchar = c.writable(keys_bytes)
    row: cython.longlong = 0
    bad: cython.longlong = 0
    at: cython.longlong
    end: cython.longlong
    with cython.nogil:
        c.fill(parts, 0, 0xFF, count * PARTS * 8)
        while row < count:
            at = c.load32(bounds, row * 4)
            end = c.load32(bounds, row * 4 + 4)
            if at > end or end > size:
                break
            forms[row] = _split(p, at, end, parts, count, row, keys)
            bad += forms[row] in (codes.FORM_NEITHER, codes.FORM_BROKEN, codes.FORM_UNKNOWN)
            row += 1
    if row < count:
        raise InvalidInputError(f"message {row} is not within the {size} bytes of data", where="offsets")
    faults: dict[int, DecodeError] = {}
    if bad:
        for row in range(count):
            if forms[row] in (codes.FORM_NEITHER, codes.FORM_BROKEN, codes.FORM_UNKNOWN):
                faults[row] = _explain(bytes(p[c.load32(bounds, row * 4) : c.load32(bounds, row * 4 + 4)]))
    return Envelopes(count, forms_bytes, parts_bytes, faults)


def _explain(message: bytes) -> DecodeError:
    """Return the error that decode_envelope() raises for a message."""
    try:
        decode_envelope(message)
    except DecodeError as error:
        return error
    return DecodeError("the envelope is invalid", 0)
