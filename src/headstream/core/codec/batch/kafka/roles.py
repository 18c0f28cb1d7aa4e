"""Classifies a record's headers as message headers or reserved headers, and finds records that fall back to codec.kafka."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
else:
    from cython.cimports.headstream.core.codec import primitives as c

FALLBACK = cython.declare(cython.longlong, -2)

# The role of a header: a header of the message, or the number of a reserved header.
PLAIN = cython.declare(cython.int, 0)
DROPPED = cython.declare(cython.int, 1)
KINDS = cython.declare(cython.int, 2)
ID = cython.declare(cython.int, 3)
APPENDED = cython.declare(cython.int, 4)
OTHER = cython.declare(cython.int, 5)

HS_KINDS = cython.declare(cython.ulonglong, int.from_bytes(b"hs.kinds", "little"))
HS_STATE = cython.declare(cython.ulonglong, int.from_bytes(b"hs.state", "little"))
ENDS_ID = cython.declare(cython.uint, int.from_bytes(b"s.id", "little"))
ENDS_APPENDED = cython.declare(cython.ulonglong, int.from_bytes(b"appended", "little"))
ENDS_CHECKSUM = cython.declare(cython.ulonglong, int.from_bytes(b"checksum", "little"))

# The first bytes of the keys and values that indicate a record's convention.
SPRING = cython.declare(cython.ulonglong, int.from_bytes(b"spring_j", "little"))
SPRING_DLT = cython.declare(cython.ulonglong, int.from_bytes(b"kafka_dl", "little"))
SPRING_ATTEMPT = cython.declare(cython.ulonglong, int.from_bytes(b"kafka_de", "little"))
CONNECT = cython.declare(cython.ulonglong, int.from_bytes(b"__connec", "little"))
CLOUD_EVENTS = cython.declare(cython.ulonglong, int.from_bytes(b"ce_specv", "little"))
ENVELOPE = cython.declare(cython.ulonglong, int.from_bytes(b'{"schema', "little"))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _own_role(keys: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.int:
    """Return the role of a key that begins with `hs.`; PLAIN for an unknown key."""
    if size == 5 and c.load32(keys, at + 1) == ENDS_ID:
        return ID
    if size == 8 and c.load64(keys, at) == HS_KINDS:
        return KINDS
    if size == 11 and c.load64(keys, at + 3) == ENDS_APPENDED:
        return APPENDED
    if (size == 8 and c.load64(keys, at) == HS_STATE) or (size == 11 and c.load64(keys, at + 3) == ENDS_CHECKSUM):
        return OTHER
    return PLAIN


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_readable(role: cython.int, values: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.bint:
    """Return whether the value is a UUID (for hs.id), a time (hs.appended), or ASCII without hex (hs.kinds)."""
    i: cython.longlong
    if role == OTHER or (role == ID and size != 36) or (role == APPENDED and not 0 < size < 19):
        return False
    for i in range(size):
        byte: cython.uchar = values[at + i]
        if role == KINDS:
            if byte > 127 or byte == 58:
                return False
        elif role == ID and (i == 8 or i == 13 or i == 18 or i == 23):
            if byte != 45:
                return False
        elif not 48 <= byte <= 57 and (role == APPENDED or not 97 <= byte <= 102):
            return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _mark_of(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.int:
    """Return 1 if bytes begin like the marker of a convention, 2 if this marker can occur together with hs.kinds, otherwise 0."""
    if size < 8:
        return 0
    word: cython.ulonglong = c.load64(p, at)
    if word in (SPRING, ENVELOPE):
        return 2
    return 1 if word in (SPRING_DLT, SPRING_ATTEMPT, CONNECT, CLOUD_EVENTS) else 0


def find_roles(
    begin: cython.longlong,
    end: cython.longlong,
    key_offsets: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    value_offsets: cython.p_const_uchar,
    values: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    strict: cython.bint,
    roles: cython.p_uchar,
) -> cython.longlong:
    """Write the role of each header; return the number of hs.kinds, -1 if it is missing, or -2 to fall back to codec.kafka.

    A role is one byte: 0 for a header of the message, 1 for a header that no message can have (`strict`: the result
    is -2), 2 or more for a reserved header.
    """
    kinds: cython.longlong = -1
    seen: cython.int = 0
    marks: cython.int = 0
    j: cython.longlong
    for j in range(begin, end):
        at: cython.longlong = c.load32(key_offsets, 4 * j)
        size: cython.longlong = c.load32(key_offsets, 4 * (j + 1)) - at
        value_at: cython.longlong = c.load32(value_offsets, 4 * j)
        value_size: cython.longlong = c.load32(value_offsets, 4 * (j + 1)) - value_at
        role: cython.int = PLAIN
        if size < 1 or size > 255:
            if strict:
                return FALLBACK
            role = DROPPED
        elif size >= 5 and keys[at] == 104 and keys[at + 1] == 115 and keys[at + 2] == 46:
            role = _own_role(keys, at, size)
            if role != PLAIN:
                if seen >> role & 1 or c.is_null(validity, some_null, j):
                    return FALLBACK
                if not _is_readable(role, values, value_at, value_size):
                    return FALLBACK
                seen |= 1 << role
                kinds = j if role == KINDS else kinds
        else:
            marks |= _mark_of(keys, at, size)
        if role == PLAIN:
            marks |= _mark_of(values, value_at, value_size)
        roles[j - begin] = role
    return FALLBACK if marks > 1 or (marks and kinds < 0) else kinds
