"""Converts header blocks to Kafka's header arrays without a Python object per message, as encode_record() does for one message.

    in    (key_length u32 | key | kind u8 | value_length u32 | value)* per message
    out   lists of (key STRING, value BINARY or null) in Arrow's layout; if a header is typed, hs.kinds is last in its list

Rare cases have only one implementation, in codec.kafka, which handles them row by row: reserved names and invalid blocks (both
are rejected), values that hs.kinds contains in hex, names that Spring writes as bytes, more than 64 headers.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headstream.core.codec.batch.int32_limits import check_blocks
from headstream.core.codec.batch.kafka.values import NAMES
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.batch.variable import check_variable, last_offset

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import check_block
    from headstream.core.codec.batch.kafka.values import write_kind, write_text
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import check_block
    from cython.cimports.headstream.core.codec.batch.kafka.values import write_kind, write_text

MAX_HEADERS = cython.declare(cython.longlong, 64)
_MIN_HEADER: Final = 10
_NOTES: Final = struct.Struct("<6q")  # a fault, then the ends of headers, keys and values

# The byte positions of these ends in the notes.
HEADERS = cython.declare(cython.longlong, 24)
KEY_BYTES = cython.declare(cython.longlong, 32)
VALUE_BYTES = cython.declare(cython.longlong, 40)

HS_KINDS = cython.declare(cython.ulonglong, int.from_bytes(b"hs.kinds", "little"))
HS_TIME = cython.declare(cython.ulonglong, int.from_bytes(b"hs.times", "little"))
STAMP = cython.declare(cython.uint, int.from_bytes(b"tamp", "little"))
SPRING_DLT = cython.declare(cython.ulonglong, int.from_bytes(b"kafka_dl", "little"))
SPRING_ATTEMPT = cython.declare(cython.ulonglong, int.from_bytes(b"kafka_de", "little"))


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _needs_fallback(p: cython.p_const_uchar, at: cython.longlong, size: cython.longlong) -> cython.bint:
    """Return whether a key is reserved or may be a key that Spring writes as bytes."""
    if size > 2 and p[at] == 104 and p[at + 1] == 115 and p[at + 2] == 46:
        return size != 12 or c.load64(p, at) != HS_TIME or c.load32(p, at + 8) != STAMP
    return size > 8 and c.load64(p, at) in (SPRING_DLT, SPRING_ATTEMPT)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_key(p: cython.p_const_uchar, at: cython.longlong, q: cython.p_uchar, to: cython.longlong) -> cython.longlong:
    """Percent-encode and write a key; return the end position."""
    i: cython.longlong
    for i in range(at, at + c.load32(p, at - 4)):
        byte: cython.int = p[i]
        if 97 <= byte <= 122 or 65 <= byte <= 90 or 48 <= byte <= 57 or byte == 45 or byte == 46 or byte == 95 or byte == 126:
            q[to] = byte
            to += 1
        else:
            high: cython.int = byte >> 4
            low: cython.int = byte & 15
            q[to] = 37
            q[to + 1] = 48 + high if high < 10 else 55 + high
            q[to + 2] = 48 + low if low < 10 else 55 + low
            to += 3
    return to


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_kinds(
    p: cython.p_const_uchar,
    entries: cython.p_const_uchar,
    count: cython.longlong,
    names: cython.p_const_uchar,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write the value of hs.kinds; return the end position, which is `to` if no header is typed."""
    begin: cython.longlong = to
    i: cython.longlong
    j: cython.longlong
    for j in range(count):
        key: cython.longlong = c.load64_signed(entries, 8 * j)
        is_written: cython.bint = False
        for i in range(j):
            is_written = is_written or c.compare_keys(p, c.load64_signed(entries, 8 * i), key) == 0
        is_typed: cython.bint = False
        for i in range(j, count if not is_written else j):
            at: cython.longlong = c.load64_signed(entries, 8 * i)
            kind: cython.int = p[at + c.load32(p, at - 4)]
            is_typed = is_typed or (kind != 1 and kind != 64 and c.compare_keys(p, at, key) == 0)
        if is_typed:
            if to > begin:
                q[to] = 38
                to += 1
            to = _write_key(p, key, q, to)
            q[to] = 61
            for i in range(j, count):
                at = c.load64_signed(entries, 8 * i)
                if c.compare_keys(p, at, key) == 0:
                    if i > j:
                        q[to] = 44
                    to = write_kind(p[at + c.load32(p, at - 4)], names, q, to + 1)
    return to


def encode_row(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    names: cython.p_const_uchar,
    entries: cython.p_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.bint:
    """Write the headers of one block, and record the end of each column; return whether the row falls back to codec.kafka."""
    number: cython.longlong = c.load64_signed(notes, HEADERS)
    to_key: cython.longlong = c.load64_signed(notes, KEY_BYTES)
    to: cython.longlong = c.load64_signed(notes, VALUE_BYTES)
    count: cython.longlong = check_block(p, at, end, True, notes)
    if not 0 <= count <= MAX_HEADERS:
        return True
    i: cython.longlong
    for i in range(count):
        size: cython.longlong = c.load32(p, at)
        at += 4
        if _needs_fallback(p, at, size):
            return True
        c.store64_signed(entries, 8 * i, at)
        c.copy(keys, to_key, p, at, size)
        to_key += size
        at += size + 5
        kind: cython.int = p[at - layout.VALUE_HEAD]
        size = c.load32(p, at - 4)
        validity[number >> 3] |= 1 << (number & 7)
        if kind == 64:
            validity[number >> 3] ^= 1 << (number & 7)
        else:
            written: cython.longlong = write_text(kind, p, at, size, values, to)
            if written < 0:
                return True
            to += written
        at += size
        number += 1
        c.store32(key_offsets, 4 * number, to_key)
        c.store32(value_offsets, 4 * number, to)
    kinds_end: cython.longlong = _write_kinds(p, entries, count, names, values, to)
    if kinds_end > to:
        c.store64(keys, to_key, HS_KINDS)
        to_key += 8
        to = kinds_end
        validity[number >> 3] |= 1 << (number & 7)
        number += 1
        c.store32(key_offsets, 4 * number, to_key)
        c.store32(value_offsets, 4 * number, to)
    c.store64_signed(notes, HEADERS, number)
    c.store64_signed(notes, KEY_BYTES, to_key)
    c.store64_signed(notes, VALUE_BYTES, to)
    return False


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _encode_rows(
    count: cython.longlong,
    offsets: cython.p_const_uchar,
    p: cython.p_const_uchar,
    block_validity: cython.p_const_uchar,
    some_null: cython.bint,
    names: cython.p_const_uchar,
    entries: cython.p_uchar,
    lists: cython.p_uchar,
    key_offsets: cython.p_uchar,
    keys: cython.p_uchar,
    value_offsets: cython.p_uchar,
    values: cython.p_uchar,
    validity: cython.p_uchar,
    flags: cython.p_uchar,
    notes: cython.p_uchar,
) -> cython.void:
    """Write the headers of all blocks, and record the end of each column."""
    i: cython.longlong
    c.store32(lists, 0, 0)
    c.store32(key_offsets, 0, 0)
    c.store32(value_offsets, 0, 0)
    for i in range(count):
        at: cython.longlong = c.load32(offsets, 4 * i)
        end: cython.longlong = c.load32(offsets, 4 * (i + 1))
        flags[i] = 0
        if some_null and not block_validity[i >> 3] >> (i & 7) & 1:
            end = at
        if encode_row(p, at, end, names, entries, key_offsets, keys, value_offsets, values, validity, notes):
            flags[i] = 1
        c.store32(lists, 4 * (i + 1), c.load64_signed(notes, HEADERS))


class KafkaEncoded(NamedTuple):
    """Kafka's headers of many records, in Arrow's layout.

    The offsets of the lists are int32. A record with flag 1 has an empty list here and falls back to codec.kafka.
    """

    lists: bytearray
    keys: VariableColumn
    values: VariableColumn
    header_count: int
    flags: bytearray


def encode_kafka_headers(count: int, blocks: VariableColumn) -> KafkaEncoded:
    """Convert header blocks or nulls to Kafka's headers; LimitError if the headers could exceed the range of int32 offsets."""
    check_variable("headers", blocks, count)
    total = last_offset(blocks.offsets, count)
    headers = total // _MIN_HEADER + count  # including one hs.kinds per record
    capacity = 4 * total + 52 * headers
    check_blocks(capacity)
    lists, flags, noted = c.new_bytes(4 * count + 4), c.new_bytes(count), bytearray(_NOTES.size)
    keys = VariableColumn(c.new_bytes(4 * headers + 4), c.new_bytes(total + 8 * count))
    values = VariableColumn(c.new_bytes(4 * headers + 4), c.new_bytes(capacity), bytearray(headers // 8 + 1))
    _fill(count, blocks, lists, keys, values, flags, noted)
    made, key_bytes, value_bytes = _NOTES.unpack(noted)[3:]
    return KafkaEncoded(
        lists,
        VariableColumn(memoryview(keys.offsets)[: 4 * made + 4], memoryview(keys.data)[:key_bytes]),
        VariableColumn(memoryview(values.offsets)[: 4 * made + 4], memoryview(values.data)[:value_bytes], values.validity),
        made,
        flags,
    )


def _fill(
    messages: int,
    blocks: VariableColumn,
    listed: bytearray,
    keys_made: VariableColumn,
    values_made: VariableColumn,
    flagged: bytearray,
    noted: bytearray,
) -> None:
    offsets_view, data_view = memoryview(blocks.offsets), memoryview(blocks.data)
    block_validity_view = memoryview(b"" if blocks.validity is None else blocks.validity)
    names_view, sorted_out = memoryview(NAMES), c.new_bytes(8 * MAX_HEADERS)
    targets = [memoryview(b"" if each is None else each) for each in (*keys_made[:2], *values_made)]
    offsets: cython.p_const_uchar = c.readable(offsets_view)
    p: cython.p_const_uchar = c.readable(data_view)
    block_validity: cython.p_const_uchar = c.readable(block_validity_view)
    names: cython.p_const_uchar = c.readable(names_view)
    entries: cython.p_uchar = c.writable(sorted_out)
    lists: cython.p_uchar = c.writable(listed)
    key_offsets: cython.p_uchar = c.changeable(targets[0])
    keys: cython.p_uchar = c.changeable(targets[1])
    value_offsets: cython.p_uchar = c.changeable(targets[2])
    values: cython.p_uchar = c.changeable(targets[3])
    validity: cython.p_uchar = c.changeable(targets[4])
    flags: cython.p_uchar = c.writable(flagged)
    notes: cython.p_uchar = c.writable(noted)
    some_null: cython.bint = blocks.validity is not None
    count: cython.longlong = messages
    with cython.nogil:
        _encode_rows(
            count, offsets, p, block_validity, some_null, names, entries, lists, key_offsets, keys, value_offsets, values,
            validity, flags, notes,
        )  # fmt: skip
