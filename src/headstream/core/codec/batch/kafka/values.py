"""Converts header values to text in Kafka headers and back. core/codec/kafka/kinds.py describes the format."""

from __future__ import annotations

from typing import Final

from headstream.core.model.header_values import KIND_NAMES

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec import uncompiled_text_primitives as text
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec import text_primitives as text

NAMES: Final = b"".join(
    bytes([code, len(name)]) + name.encode().ljust(8, b"\0") for code, name in sorted(KIND_NAMES.items())
) + bytes(10)
"""The kind names for compiled code: code, length and 8 characters per kind; terminated by code 0."""

FALLBACK = cython.declare(cython.longlong, -2)
INVALID_TEXT = cython.declare(cython.longlong, -1)
MAX_FLOAT_TEXT = cython.declare(cython.longlong, 63)
WORD_TRUE = cython.declare(cython.uint, int.from_bytes(b"true", "little"))
WORD_FALS = cython.declare(cython.uint, int.from_bytes(b"fals", "little"))
NAN32 = cython.declare(cython.uint, 0x7FC00000)
NAN64 = cython.declare(cython.ulonglong, 0x7FF8 << 48)


def kind_code(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, names: cython.p_const_uchar) -> cython.int:
    """Return the code of a kind that hs.kinds names or numbers; 0 if it is invalid."""
    i: cython.longlong = 0
    code: cython.int = 0
    if 0 < size < 4 and 48 <= p[at] <= 57:
        for i in range(size):
            if not 48 <= p[at + i] <= 57:
                return 0
            code = 10 * code + p[at + i] - 48
        return code if code < 256 else 0
    while names[i] != 0:
        if names[i + 1] == size and c.equal(p, at, names, i + 2, size):
            return names[i]
        i += 10
    return 0


def write_kind(kind: cython.int, names: cython.p_const_uchar, q: cython.p_uchar, to: cython.longlong) -> cython.longlong:
    """Write a kind in the form of hs.kinds, at most 8 bytes; return the end position."""
    i: cython.longlong = 0
    while names[i] != 0:
        if names[i] == kind:
            c.copy(q, to, names, i + 2, names[i + 1])
            return to + names[i + 1]
        i += 10
    if kind > 99:
        q[to] = 48 + kind // 100
        to += 1
    if kind > 9:
        q[to] = 48 + kind // 10 % 10
        to += 1
    q[to] = 48 + kind % 10
    return to + 1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _digits_end(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the end position of the digits at a position."""
    while at < end and 48 <= p[at] <= 57:
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_whole(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.bint:
    """Return whether a string matches -?(0|[1-9][0-9]{0,38})."""
    end: cython.longlong = at + size
    if at < end and p[at] == 45:
        at += 1
    if at == end or end - at > 39 or (p[at] == 48 and end - at > 1):
        return False
    return _digits_end(p, at, end) == end


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_float(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.bint:
    """Return whether a string matches -?(inf|nan|[0-9]+([.][0-9]+)?(e[+-]?[0-9]{1,3})?)."""
    end: cython.longlong = at + size
    begin: cython.longlong
    if at < end and p[at] == 45:
        at += 1
    if end - at == 3 and p[at] == 105:
        return p[at + 1] == 110 and p[at + 2] == 102
    if end - at == 3 and p[at] == 110:
        return p[at + 1] == 97 and p[at + 2] == 110
    begin = at
    at = _digits_end(p, at, end)
    if at == begin:
        return False
    if at < end and p[at] == 46:
        begin = at + 1
        at = _digits_end(p, begin, end)
        if at == begin:
            return False
    if at == end:
        return True
    if p[at] != 101:
        return False
    at += 1
    if at < end and (p[at] == 43 or p[at] == 45):
        at += 1
    return 1 <= end - at <= 3 and _digits_end(p, at, end) == end


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _read_char(
    p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write the UTF-16 code unit of a one-character string; return 2, or INVALID_TEXT."""
    unit: cython.uint = p[at] if size > 0 else 0
    if size == 2:
        unit = (unit & 0x1F) << 6 | p[at + 1] & 0x3F
    elif size == 3:
        unit = (unit & 0x0F) << 12 | (p[at + 1] & 0x3F) << 6 | p[at + 2] & 0x3F
    lead: cython.uint = p[at] if size > 0 else 0
    width: cython.longlong = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 0
    if size != width or c.utf8_size(p, at, size) < size:
        return INVALID_TEXT
    c.store16(q, to, unit)
    return 2


def read_text(
    kind: cython.int, p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write the value that a header's text represents; return its size, -1 for invalid text, -2 if too long for this kernel.

    For an unknown kind the text is copied unchanged. The output has space for the size of the text plus 16 bytes.
    """
    width: cython.longlong = c.kind_width(kind)
    if kind == 2 and c.utf8_size(p, at, size) < size:
        return INVALID_TEXT
    if width < 0:
        c.copy(q, to, p, at, size)
        return size
    if kind == 3:
        if (size != 4 or c.load32(p, at) != WORD_TRUE) and (size != 5 or c.load32(p, at) != WORD_FALS or p[at + 4] != 101):
            return INVALID_TEXT
        q[to] = 1 if size == 4 else 0
        return 1
    if kind == 65:
        return _read_char(p, at, size, q, to)
    if kind == 14 or kind == 15:
        if not _is_float(p, at, size):
            return INVALID_TEXT
        if size > MAX_FLOAT_TEXT:
            return FALLBACK
        value: cython.double = text.parse_float(p, at, size)
        if kind == 14 and text.is_beyond_float32(value):
            return INVALID_TEXT
        if kind == 14:
            c.store_float32(q, to, value)
        else:
            c.store_float64(q, to, value)
        return width
    if kind == 64 or not _is_whole(p, at, size) or not text.parse_whole(q, to, p, at, size, width, kind < 9):
        return INVALID_TEXT
    return width


def write_text(
    kind: cython.int, p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong, q: cython.p_uchar, to: cython.longlong
) -> cython.longlong:
    """Write a checked non-null value as text; return the text's size, or -2 if the text would not decode to the same value.

    For an unknown kind the value is copied unchanged. The output has space for the size of the value plus 40 bytes.
    """
    unit: cython.uint
    if c.kind_width(kind) < 0:
        c.copy(q, to, p, at, size)
        return size
    if kind == 3:
        store_word: cython.uint = WORD_TRUE if p[at] == 1 else WORD_FALS
        c.store32(q, to, store_word)
        q[to + 4] = 101
        return 4 if p[at] == 1 else 5
    if kind == 65:
        unit = c.load16(p, at)
        if 0xD800 <= unit <= 0xDFFF:
            return FALLBACK
        if unit < 0x80:
            q[to] = unit
            return 1
        if unit < 0x800:
            q[to] = 0xC0 | unit >> 6
            q[to + 1] = 0x80 | unit & 0x3F
            return 2
        q[to] = 0xE0 | unit >> 12
        q[to + 1] = 0x80 | unit >> 6 & 0x3F
        q[to + 2] = 0x80 | unit & 0x3F
        return 3
    if kind == 14 or kind == 15:
        value: cython.double = c.load_float32(p, at) if kind == 14 else text.load_float64(p, at)
        if value != value and (c.load32(p, at) != NAN32 if kind == 14 else c.load64(p, at) != NAN64):
            return FALLBACK
        return text.write_float(q, to, value)
    return text.write_whole(q, to, p, at, size, kind < 9)
