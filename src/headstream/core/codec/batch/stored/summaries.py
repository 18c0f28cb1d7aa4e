"""Summarizes the headers of stored messages: counts, smallest and largest values, a few distinct values, and a Bloom filter.

A header's value is the value that a filter compares. filter_values.py reads it, in the layout that filter_scan.py shows.

    values   six unused fields | one value per header | for each header: kept values | listed values
    kept     smallest, largest integer | smallest, largest float | smallest, largest string
    listed   up to 64 distinct values
    counts   for each header, as u64: nulls, opaque, false, true, integers, floats, NaNs, strings, listed values
             | the hash of each listed value

A hash is a SipHash-2-4 of 128 bits. The key is HASH_KEY followed by 1 for numbers or 2 for strings (two u64). The hashed bytes
are the bytes of a string, or the first 24 bytes of a number's value. A Bloom filter contains the integers and strings: if low and
high are the halves of the hash, bit (low + i * (high | 1)) modulo the number of bits is set for each i from 0 to hashes - 1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.stored.siphash import siphash
from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import key_end, null_end
    from headstream.core.codec.batch.stored.filter_steps import order_of
    from headstream.core.codec.batch.stored.filter_values import set_headers
    from headstream.core.codec.batch.stored.scan import end_of
    from headstream.core.codec.batch.stored.siphash import siphash128
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import key_end, null_end
    from cython.cimports.headstream.core.codec.batch.stored.filter_steps import order_of
    from cython.cimports.headstream.core.codec.batch.stored.filter_values import set_headers
    from cython.cimports.headstream.core.codec.batch.stored.scan import end_of
    from cython.cimports.headstream.core.codec.batch.stored.siphash import siphash128

MAX_LISTED: Final = 64
"""Maximum number of distinct values of a header that are listed."""

VALUE = cython.declare(cython.longlong, layout.VALUE_BYTES)
FIELDS = cython.declare(cython.longlong, 6)
KEPT = cython.declare(cython.longlong, 6)
LISTED = cython.declare(cython.longlong, 64)
COUNTS = cython.declare(cython.longlong, layout.COUNT_HASHES + 8 * 64)


HASH_KEY = cython.declare(cython.ulonglong, 0x4845_4144_5354_5245)
KEY_OF_NUMBERS = cython.declare(cython.ulonglong, 1)
KEY_OF_TEXTS = cython.declare(cython.ulonglong, 2)

_KEY: Final = 0x4845_4144_5354_5245
_VALUE_BYTES: Final = 32
_COUNTS_BYTES: Final = 72 + 8 * MAX_LISTED
_SLOTS: Final = 6 + MAX_LISTED
_NAME: Final = struct.Struct("<2I")
_HASH: Final = struct.Struct("<2Q")
_COUNTS: Final = struct.Struct("<9Q")
_NOTES: Final = struct.Struct("<3q")
"""Layout of a fault."""

Scalar: TypeAlias = int | float | bytes


class HeaderNames:
    """The headers to summarize, in the form that the kernel reads."""

    __slots__ = ("names", "table")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        table, data = bytearray(), bytearray()
        for name in self.names:
            encoded = name.encode()
            table += _NAME.pack(_NAME.size * len(self.names) + len(data), len(encoded))
            data += encoded
        self.table = bytes(table + data)


@dataclass(frozen=True, slots=True)
class HeaderValues:
    """The summary of one header's values in a range of messages.

    Args:
        nulls_count: Number of messages in which the header is missing or null.
        wholes: The smallest and largest integer, or None.
        listed: The distinct numbers and strings; None if there are more than MAX_LISTED, or if they were not requested.
    """

    nulls_count: int
    opaque_count: int
    false_count: int
    true_count: int
    nan_count: int
    wholes: tuple[int, int] | None
    floats: tuple[float, float] | None
    texts: tuple[bytes, bytes] | None
    listed: tuple[Scalar, ...] | None


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _keep(v: cython.p_uchar, value: cython.longlong, to: cython.longlong) -> cython.void:
    """Copy a value to another position among the values."""
    c.copy(v, to, v, value, VALUE)
    if v[value + layout.VALUE_SOURCE] == 2:  # a string in the value itself
        c.store64(v, to + layout.VALUE_LOW, to + layout.VALUE_TEXT)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _count(s: cython.p_uchar, at: cython.longlong) -> cython.void:
    c.store64(s, at, c.load64(s, at) + 1)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _list(
    p: cython.p_const_uchar,
    q: cython.p_const_uchar,
    v: cython.p_uchar,
    s: cython.p_uchar,
    value: cython.longlong,
    listed: cython.longlong,
    counts: cython.longlong,
    low: cython.ulonglong,
) -> cython.void:
    """Add a value to the listed values, unless it is already listed or the list is full."""
    number: cython.longlong = c.load64_signed(s, counts + layout.COUNT_LISTED)
    j: cython.longlong
    if number > LISTED:
        return
    for j in range(number):
        if c.load64(s, counts + layout.COUNT_HASHES + 8 * j) == low and order_of(p, q, v, value, listed + VALUE * j) == 0:
            return
    if number < LISTED:
        c.store64(s, counts + layout.COUNT_HASHES + 8 * number, low)
        _keep(v, value, listed + VALUE * number)
    c.store64_signed(s, counts + layout.COUNT_LISTED, number + 1)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _note(
    p: cython.p_const_uchar,
    q: cython.p_const_uchar,
    v: cython.p_uchar,
    s: cython.p_uchar,
    b: cython.p_uchar,
    h: cython.p_uchar,
    i: cython.longlong,
    count: cython.longlong,
    bloom_bytes: cython.longlong,
    hashes: cython.longlong,
) -> cython.void:
    """Record the value of header i of `count` headers."""
    value: cython.longlong = (FIELDS + i) * VALUE
    kept: cython.longlong = (FIELDS + count + (KEPT + LISTED) * i) * VALUE
    counts: cython.longlong = COUNTS * i
    listed: cython.longlong = kept + KEPT * VALUE
    kind: cython.int = v[value]
    if kind == layout.NULL:
        _count(s, counts)
        return
    if kind == layout.BOOLEAN:
        _count(s, counts + layout.COUNT_FALSE + 8 * v[value + layout.VALUE_LOW])
        return
    if kind == layout.FLOAT and order_of(p, q, v, value, value) != 0:
        _count(s, counts + layout.COUNT_NANS)
        return
    if kind == layout.WHOLE:
        counts += layout.COUNT_WHOLES
    elif kind == layout.FLOAT:
        counts += layout.COUNT_FLOATS
        kept += 2 * VALUE
    elif kind == layout.TEXT:
        counts += layout.COUNT_TEXTS
        kept += 4 * VALUE
    else:
        _count(s, counts + layout.COUNT_OPAQUE)
        return
    if c.load64(s, counts) == 0:
        _keep(v, value, kept)
        _keep(v, value, kept + VALUE)
    elif order_of(p, q, v, value, kept) < 0:
        _keep(v, value, kept)
    elif order_of(p, q, v, value, kept + VALUE) == 1:
        _keep(v, value, kept + VALUE)
    _count(s, counts)
    if kind != layout.TEXT:
        siphash128(v, value, layout.VALUE_TEXT, HASH_KEY, KEY_OF_NUMBERS, h)
    else:
        begin: cython.longlong = c.load64_signed(v, value + layout.VALUE_LOW)
        text: cython.p_const_uchar = p
        if v[value + layout.VALUE_SOURCE] == 2:
            text = v
        siphash128(text, begin, c.load64_signed(v, value + layout.VALUE_HIGH), HASH_KEY, KEY_OF_TEXTS, h)
    low: cython.ulonglong = c.load64(h, 0)
    step: cython.ulonglong = c.load64(h, layout.SLOT_HASH_HIGH) | 1
    mask: cython.ulonglong = 8 * bloom_bytes - 1
    bit: cython.ulonglong = low
    if kind != layout.FLOAT:
        for _ in range(hashes):
            b[bloom_bytes * i + ((bit & mask) >> 3)] |= 1 << (bit & 7)
            bit += step
    _list(p, q, v, s, value, listed, COUNTS * i, low)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _summarize(
    p: cython.p_const_uchar,
    size: cython.longlong,
    q: cython.p_const_uchar,
    v: cython.p_uchar,
    s: cython.p_uchar,
    b: cython.p_uchar,
    h: cython.p_uchar,
    count: cython.longlong,
    bloom_bytes: cython.longlong,
    hashes: cython.longlong,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Record the headers of messages; return the number of messages, or a fault.

    Pointers: p is the messages, q the names, v the values, s the counts, b the Bloom filters, h a hash.
    """
    at: cython.longlong = 0
    messages: cython.longlong = 0
    fault: cython.longlong
    i: cython.longlong
    while at < size:
        message_end: cython.longlong = end_of(p, at, size, notes)
        if message_end < 0:
            return message_end
        end: cython.longlong = at + layout.HEADERS + c.load32(p, at + layout.HEADERS_SIZE)
        begin: cython.longlong = null_end(p, key_end(p, at + layout.HEADERS, end), end, message_end - end - 4)
        fault = set_headers(v, q, 0, count, p, begin, end, notes)
        if fault < 0:
            return fault
        for i in range(count):
            _note(p, q, v, s, b, h, i, count, bloom_bytes, hashes)
        messages += 1
        at = message_end
    return messages


def summarize_headers(
    stored: BytesLike, wanted: HeaderNames, lists: Sequence[bool], blooms: bytearray, hashes: int
) -> tuple[int, list[HeaderValues]]:
    """Return the number of messages, and the summary of each requested header.

    Args:
        lists: For each header, whether to list its distinct values.
        blooms: Contiguous Bloom filters of the headers, to which values are added; the size of each filter is a power of two.
        hashes: Number of bits that are set in a Bloom filter per value.
    """
    names = wanted.names
    view = memoryview(stored).cast("B") if memoryview(stored).nbytes else memoryview(b"\0")[:0]
    if not view.nbytes:
        return 0, []
    scratch = c.new_bytes(_VALUE_BYTES * (6 + len(names) * (1 + _SLOTS)))
    counted = c.new_bytes(_COUNTS_BYTES * len(names))
    noted, hashed = c.new_bytes(_NOTES.size), c.new_bytes(_HASH.size)
    scratch[:], counted[:], noted[:] = bytes(len(scratch)), bytes(len(counted)), bytes(len(noted))
    for number, is_listed in enumerate(lists):
        if not is_listed:
            counted[_COUNTS_BYTES * number + layout.COUNT_LISTED] = MAX_LISTED + 1
    table = memoryview(wanted.table)
    p: cython.p_const_uchar = c.readable(view)
    q: cython.p_const_uchar = c.readable(table)
    v: cython.p_uchar = c.writable(scratch)
    s: cython.p_uchar = c.writable(counted)
    b: cython.p_uchar = c.writable(blooms)
    h: cython.p_uchar = c.writable(hashed)
    notes: cython.p_uchar = c.writable(noted)
    size: cython.longlong = view.nbytes
    count: cython.longlong = len(names)
    bloom_bytes: cython.longlong = len(blooms) // len(names)
    bits: cython.longlong = hashes
    messages: cython.longlong
    with cython.nogil:
        messages = _summarize(p, size, q, v, s, b, h, count, bloom_bytes, bits, notes)
    if messages < 0:
        raise decode_error(-messages, *_NOTES.unpack(noted))
    return messages, [_values_of(number, len(names), view, scratch, counted) for number in range(len(names))]


def _values_of(number: int, count: int, stored: memoryview, scratch: bytearray, counted: bytearray) -> HeaderValues:
    nulls, opaque, false, true, wholes, floats, nans, texts, listed = _COUNTS.unpack_from(counted, _COUNTS_BYTES * number)
    first = _VALUE_BYTES * (6 + count + _SLOTS * number)

    def take(slot: int) -> Scalar:
        return _take(stored, scratch, first + _VALUE_BYTES * slot)

    return HeaderValues(
        nulls,
        opaque,
        false,
        true,
        nans,
        (take(0), take(1)) if wholes else None,  # type: ignore[arg-type]  # the kernel puts each type in its place
        (take(2), take(3)) if floats else None,  # type: ignore[arg-type]
        (take(4), take(5)) if texts else None,  # type: ignore[arg-type]
        tuple(take(6 + slot) for slot in range(listed)) if listed <= MAX_LISTED else None,
    )


_WHOLE: Final = struct.Struct("<2B6x2Q")
_FLOAT: Final = struct.Struct("<8xd")
_TEXT: Final = struct.Struct("<3B5x2Q")


def _take(stored: memoryview, scratch: bytearray, at: int) -> Scalar:
    """Return the value at a byte position of the values."""
    kind = scratch[at]
    if kind == 1:
        _, is_negative, low, high = _WHOLE.unpack_from(scratch, at)
        whole: int = high << 64 | low
        return -whole if is_negative else whole
    if kind == 2:
        number: float = _FLOAT.unpack_from(scratch, at)[0]
        return number
    _, _, source, begin, size = _TEXT.unpack_from(scratch, at)
    return bytes(scratch[begin : begin + size] if source == 2 else stored[begin : begin + size])


def hash_value(data: BytesLike, *, is_text: bool) -> tuple[int, int]:
    """Return both halves of the hash of a string, or of a number's first 24 bytes in the layout of filter_scan.py."""
    low, high = _HASH.unpack(siphash(data, _HASH.pack(_KEY, 2 if is_text else 1)))
    return low, high
