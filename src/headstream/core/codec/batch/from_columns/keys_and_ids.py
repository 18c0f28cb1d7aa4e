"""Computes the partitions of keys, and parses message ids.

hash_keys    keys -> partitions              xxHash32 modulo the partition count; 0 is the last partition, as in Iggy
parse_ids    UUIDs as text -> 16 bytes per id
"""

from __future__ import annotations

from typing import Final

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

MASK32 = cython.declare(cython.ulonglong, 0xFFFF_FFFF)
PRIME1 = cython.declare(cython.ulonglong, 2654435761)
PRIME2 = cython.declare(cython.ulonglong, 2246822519)
PRIME3 = cython.declare(cython.ulonglong, 3266489917)
PRIME4 = cython.declare(cython.ulonglong, 668265263)
PRIME5 = cython.declare(cython.ulonglong, 374761393)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _rotate(x: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return ((x << bits) | (x >> (32 - bits))) & MASK32


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _round(lane: cython.ulonglong, value: cython.ulonglong) -> cython.ulonglong:
    return (_rotate((lane + value * PRIME2) & MASK32, 13) * PRIME1) & MASK32


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _hash32(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.ulonglong:
    """Return the xxHash32 of bytes, with seed 0."""
    end: cython.longlong = at + size
    h: cython.ulonglong = PRIME5
    if size >= 16:
        acc1: cython.ulonglong = (PRIME1 + PRIME2) & MASK32
        acc2: cython.ulonglong = PRIME2
        acc3: cython.ulonglong = 0
        acc4: cython.ulonglong = (MASK32 + 1 - PRIME1) & MASK32
        while at + 16 <= end:
            acc1 = _round(acc1, c.load32(p, at))
            acc2 = _round(acc2, c.load32(p, at + 4))
            acc3 = _round(acc3, c.load32(p, at + 8))
            acc4 = _round(acc4, c.load32(p, at + 12))
            at += 16
        h = (_rotate(acc1, 1) + _rotate(acc2, 7) + _rotate(acc3, 12) + _rotate(acc4, 18)) & MASK32
    h = (h + size) & MASK32
    while at + 4 <= end:
        h = (_rotate((h + ((c.load32(p, at) * PRIME3) & MASK32)) & MASK32, 17) * PRIME4) & MASK32
        at += 4
    while at < end:
        h = (_rotate((h + ((p[at] * PRIME5) & MASK32)) & MASK32, 11) * PRIME1) & MASK32
        at += 1
    h = ((h ^ (h >> 15)) * PRIME2) & MASK32
    h = ((h ^ (h >> 13)) * PRIME3) & MASK32
    return h ^ (h >> 16)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _hash_keys(
    offsets: cython.p_const_uchar,
    data: cython.p_const_uchar,
    size: cython.longlong,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    count: cython.longlong,
    partitions: cython.ulonglong,
    q: cython.p_uchar,
) -> cython.longlong:
    """Write the partition of each key, 0 for null; return -1, or the number of the first key with invalid offsets."""
    i: cython.longlong
    for i in range(count):
        begin: cython.longlong = c.load32(offsets, 4 * i)
        end: cython.longlong = c.load32(offsets, 4 * (i + 1))
        if begin > end or end > size:
            return i
        partition: cython.ulonglong = 0
        if not c.is_null(validity, some_null, i):
            partition = _hash32(data, begin, end - begin) % partitions
            if partition == 0:
                partition = partitions
        c.store32(q, 4 * i, partition)
    return -1


def hash_keys(offsets: BytesLike, data: BytesLike, validity: BytesLike | None, partitions: int) -> bytearray:
    """Return the partition of each key as int32, as partition_of() in model/partitioning.py computes it; 0 for a null key.

    The offsets are int32, one more than there are keys. The validity is a bitmap, lowest bit first; None if no key is null.
    """
    offsets_view, data_view, validity_view = memoryview(offsets), memoryview(data), memoryview(validity or b"")
    count = max(offsets_view.nbytes // 4 - 1, 0)
    if partitions < 1 or (validity is not None and validity_view.nbytes < (count + 7) // 8):
        raise InvalidInputError(f"the validity bitmap is too short for {count} keys, or partitions is below 1")
    result = c.new_bytes(4 * count)
    q: cython.p_uchar = c.writable(result)
    begins: cython.p_const_uchar = c.readable(offsets_view)
    keys: cython.p_const_uchar = c.readable(data_view)
    valid: cython.p_const_uchar = c.readable(validity_view)
    some_null: cython.bint = validity is not None
    size: cython.longlong = data_view.nbytes
    values: cython.longlong = count
    total: cython.ulonglong = partitions
    wrong: cython.longlong
    with cython.nogil:
        wrong = _hash_keys(begins, keys, size, valid, some_null, values, total, q)
    if wrong >= 0:
        raise InvalidInputError(
            f"the offsets of key {wrong} must not decrease, and must not exceed the data size of {size} bytes"
        )
    return result


# -- ids ---------------------------------------------------------------------------------------------------

_DIGITS: Final = bytes(int(chr(code), 16) if chr(code) in "0123456789abcdefABCDEF" else 255 for code in range(256))
_PLACES: Final = bytes((0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _parse_ids(
    offsets: cython.p_const_uchar,
    data: cython.p_const_uchar,
    size: cython.longlong,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    count: cython.longlong,
    digits: cython.p_const_uchar,
    places: cython.p_const_uchar,
    q: cython.p_uchar,
) -> cython.longlong:
    """Write the 16 bytes of each id, zeros for null; return -1, or the number of the first string that is not a UUID."""
    i: cython.longlong
    j: cython.longlong
    for i in range(count):
        c.fill(q, layout.ID_BYTES * i, 0, layout.ID_BYTES)
        if some_null and not validity[i >> 3] >> (i & 7) & 1:
            continue
        at: cython.longlong = c.load32(offsets, 4 * i)
        if at > size or size - at < 36 or c.load32(offsets, 4 * (i + 1)) - at != 36:
            return i
        if data[at + 8] != 45 or data[at + 13] != 45 or data[at + 18] != 45 or data[at + 23] != 45:
            return i
        for j in range(16):
            high: cython.int = digits[data[at + places[j]]]
            low: cython.int = digits[data[at + places[j] + 1]]
            if high > 15 or low > 15:
                return i
            q[16 * i + j] = 16 * high + low
    return -1


def parse_ids(offsets: BytesLike, data: BytesLike, validity: BytesLike | None) -> bytearray | int:
    """Return message ids in stored form, 16 bytes per id, zeros for null; or the number of the first invalid UUID.

    A UUID has 36 characters. Offsets and validity are as in hash_keys()."""
    offsets_view, data_view, validity_view = memoryview(offsets), memoryview(data), memoryview(validity or b"")
    digits_view, places_view = memoryview(_DIGITS), memoryview(_PLACES)
    count = max(offsets_view.nbytes // 4 - 1, 0)
    if validity is not None and validity_view.nbytes < (count + 7) // 8:
        raise InvalidInputError(f"the validity bitmap has fewer bits than the {count} ids need")
    result = c.new_bytes(16 * count)
    q: cython.p_uchar = c.writable(result)
    begins: cython.p_const_uchar = c.readable(offsets_view)
    texts: cython.p_const_uchar = c.readable(data_view)
    valid: cython.p_const_uchar = c.readable(validity_view)
    digits: cython.p_const_uchar = c.readable(digits_view)
    places: cython.p_const_uchar = c.readable(places_view)
    some_null: cython.bint = validity is not None
    size: cython.longlong = data_view.nbytes
    values: cython.longlong = count
    wrong: cython.longlong
    with cython.nogil:
        wrong = _parse_ids(begins, texts, size, valid, some_null, values, digits, places, q)
    return result if wrong < 0 else wrong
