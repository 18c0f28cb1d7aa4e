"""Parses hs.kinds in a kernel. core/codec/kafka/kinds.py describes the format."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.kafka.values import kind_code
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.kafka.values import kind_code

MAX_ENTRIES = cython.declare(cython.longlong, 64)
ENTRY_BYTES = cython.declare(cython.longlong, layout.KINDS_BYTES)
FALLBACK = cython.declare(cython.longlong, -2)


def list_entries(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, entries: cython.p_uchar) -> cython.longlong:
    """List the entries of hs.kinds; return their number, or -2 if there are more than 64.

    A listed entry has 40 bytes: start and end of its key, start and end of its kinds, and the number of kinds.
    """
    count: cython.longlong = 0
    while at <= end:
        begin: cython.longlong = at
        equals: cython.longlong = -1
        kinds: cython.longlong = 1
        while at < end and p[at] != 38:
            if equals < 0 and p[at] == 61:
                equals = at
            elif equals >= 0 and p[at] == 44:
                kinds += 1
            at += 1
        if equals >= 0:
            if count == MAX_ENTRIES:
                return FALLBACK
            c.store64_signed(entries, ENTRY_BYTES * count, begin)
            c.store64_signed(entries, ENTRY_BYTES * count + layout.KINDS_EQUALS, equals)
            c.store64_signed(entries, ENTRY_BYTES * count + layout.KINDS_BEGIN, equals + 1)
            c.store64_signed(entries, ENTRY_BYTES * count + layout.KINDS_END, at)
            c.store64_signed(entries, ENTRY_BYTES * count + layout.KINDS_COUNT, kinds)
            count += 1
        at += 1
    return count


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _digit(byte: cython.int) -> cython.int:
    """Return the value of a hexadecimal digit, or -1."""
    if 48 <= byte <= 57:
        return byte - 48
    if 97 <= byte <= 102:
        return byte - 87
    return byte - 55 if 65 <= byte <= 70 else -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_key(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    keys: cython.p_const_uchar,
    key: cython.longlong,
    size: cython.longlong,
) -> cython.bint:
    """Return whether a percent-encoded key equals a key."""
    key_end: cython.longlong = key + size
    if end - at < size:
        return False
    while at < end:
        byte: cython.int = p[at]
        if byte == 37 and end - at > 2 and _digit(p[at + 1]) >= 0 and _digit(p[at + 2]) >= 0:
            byte = 16 * _digit(p[at + 1]) + _digit(p[at + 2])
            at += 2
        if key == key_end or keys[key] != byte:
            return False
        at += 1
        key += 1
    return key == key_end


def kind_of(
    j: cython.longlong,
    begin: cython.longlong,
    end: cython.longlong,
    key_offsets: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    roles: cython.p_uchar,
    text: cython.p_const_uchar,
    entries: cython.p_uchar,
    count: cython.longlong,
    names: cython.p_const_uchar,
) -> cython.int:
    """Return the kind of header `j` of a record in hs.kinds, or 0 if there is none; `names` is values.NAMES.

    The role of a header that belongs to the message is 0.
    """
    key: cython.longlong = c.load32(key_offsets, 4 * j)
    size: cython.longlong = c.load32(key_offsets, 4 * (j + 1)) - key
    entry: cython.longlong = ENTRY_BYTES * (count - 1)
    while entry >= 0 and not _is_key(
        text, c.load64_signed(entries, entry), c.load64_signed(entries, entry + layout.KINDS_EQUALS), keys, key, size
    ):  # of several entries with the same key, the last is used
        entry -= ENTRY_BYTES
    if entry < 0:
        return 0
    place: cython.longlong = 0
    same: cython.longlong = 0
    i: cython.longlong
    for i in range(begin, end):
        at: cython.longlong = c.load32(key_offsets, 4 * i)
        if roles[i - begin] == 0 and c.load32(key_offsets, 4 * (i + 1)) - at == size and c.equal(keys, at, keys, key, size):
            same += 1
            place += 1 if i < j else 0
    if same != c.load64_signed(entries, entry + layout.KINDS_COUNT):
        return 0
    at = c.load64_signed(entries, entry + layout.KINDS_BEGIN)
    until: cython.longlong = c.load64_signed(entries, entry + layout.KINDS_END)
    while place > 0:
        place -= 1 if text[at] == 44 else 0
        at += 1
    stop: cython.longlong = at
    while stop < until and text[stop] != 44:
        stop += 1
    return kind_code(text, at, stop - at, names)
