"""Converts Kafka's header arrays to header blocks without a Python object per message, as decode_record() does for one record.

    in    lists of (key STRING, value BINARY or null) in Arrow's layout, for example from Spark's Kafka source
    out   (key_length u32 | key | kind u8 | value_length u32 | value)* per message, with the kinds from hs.kinds

hs.id, hs.appended and hs.kinds are not headers of a message, so they are omitted if they are valid. Rare cases have only one
implementation, in codec.kafka, which handles them row by row: records in a convention other than Headstream's, values in hex,
more than 64 headers, reserved headers that repeat or are invalid.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headstream.core.codec.batch.int32_limits import check_blocks
from headstream.core.codec.batch.kafka.values import NAMES
from headstream.core.codec.batch.results import Blocks, VariableColumn
from headstream.core.codec.batch.variable import check_lists, last_offset
from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.kafka.kinds import kind_of, list_entries
    from headstream.core.codec.batch.kafka.roles import find_roles
    from headstream.core.codec.batch.kafka.values import read_text
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.kafka.kinds import kind_of, list_entries
    from cython.cimports.headstream.core.codec.batch.kafka.roles import find_roles
    from cython.cimports.headstream.core.codec.batch.kafka.values import read_text

FALLBACK_ROW: Final = 1
"""The flag of a row that falls back to codec.kafka; its block is empty."""
LOSSY_ROW: Final = 2
"""The flag of a row with headers that a message cannot have; these headers are omitted."""

MAX_HEADERS = cython.declare(cython.longlong, 64)
FALLBACK = cython.declare(cython.longlong, -2)
_GROWTH: Final = 25  # number of bytes of a header in a block, without key and text

PLAIN = cython.declare(cython.int, 0)  # as in roles.py
DROPPED = cython.declare(cython.int, 1)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_header(
    keys: cython.p_const_uchar,
    key: cython.longlong,
    size: cython.longlong,
    kind: cython.int,
    values: cython.p_const_uchar,
    at: cython.longlong,
    value_size: cython.longlong,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write a header from its text and kind, or as raw; return the end position, or FALLBACK."""
    c.store32(q, to, size)
    c.copy(q, to + 4, keys, key, size)
    to += 4 + size
    written: cython.longlong = -1
    if kind == 64 and value_size < 0:
        written = 0
    elif kind > 0:
        written = read_text(kind, values, at, value_size, q, to + 5)
        if written == FALLBACK:
            return FALLBACK
    if written < 0:  # invalid for its kind
        kind = 1
        c.copy(q, to + layout.VALUE_HEAD, values, at, value_size)
        written = value_size
    q[to] = kind
    c.store32(q, to + 1, written)
    return to + 5 + written


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _decode_rows(
    count: cython.longlong,
    lists: cython.p_const_uchar,
    list_validity: cython.p_const_uchar,
    some_null_list: cython.bint,
    key_offsets: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    value_offsets: cython.p_const_uchar,
    values: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    strict: cython.bint,
    names: cython.p_const_uchar,
    roles: cython.p_uchar,
    entries: cython.p_uchar,
    offsets: cython.p_uchar,
    q: cython.p_uchar,
    flags: cython.p_uchar,
) -> cython.longlong:
    """Write one block per record; return the number of dropped headers."""
    dropped: cython.longlong = 0
    to: cython.longlong = 0
    i: cython.longlong
    c.store32(offsets, 0, 0)
    for i in range(count):
        begin: cython.longlong = c.load32(lists, 4 * i)
        end: cython.longlong = c.load32(lists, 4 * (i + 1))
        flags[i] = 0
        if end > begin and not c.is_null(list_validity, some_null_list, i):
            losses: cython.longlong = 0
            at: cython.longlong = FALLBACK
            if end - begin <= MAX_HEADERS:
                at = decode_row(
                    begin,
                    end,
                    key_offsets,
                    keys,
                    value_offsets,
                    values,
                    validity,
                    some_null,
                    strict,
                    names,
                    roles,
                    entries,
                    q,
                    to,
                )
            if at == FALLBACK:
                flags[i] = 1
            else:
                to = at
                while begin < end:
                    begin += 1
                    losses += 1 if roles[end - begin] == DROPPED else 0
                dropped += losses
                flags[i] = 2 if losses > 0 else 0
        c.store32(offsets, 4 * (i + 1), to)
    return dropped


def decode_row(
    begin: cython.longlong,
    end: cython.longlong,
    key_offsets: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    value_offsets: cython.p_const_uchar,
    values: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    strict: cython.bint,
    names: cython.p_const_uchar,
    roles: cython.p_uchar,
    entries: cython.p_uchar,
    q: cython.p_uchar,
    to: cython.longlong,
) -> cython.longlong:
    """Write the block of one record; return the end position, or FALLBACK."""
    kinds: cython.longlong = find_roles(begin, end, key_offsets, keys, value_offsets, values, validity, some_null, strict, roles)
    count: cython.longlong = 0
    j: cython.longlong
    if kinds == FALLBACK:
        return FALLBACK
    if kinds >= 0:
        count = list_entries(values, c.load32(value_offsets, 4 * kinds), c.load32(value_offsets, 4 * (kinds + 1)), entries)
    if count == FALLBACK:
        return FALLBACK
    for j in range(begin, end):
        if roles[j - begin] == PLAIN:
            key: cython.longlong = c.load32(key_offsets, 4 * j)
            size: cython.longlong = c.load32(key_offsets, 4 * (j + 1)) - key
            at: cython.longlong = c.load32(value_offsets, 4 * j)
            value_size: cython.longlong = c.load32(value_offsets, 4 * (j + 1)) - at
            kind: cython.int = 64
            if c.is_null(validity, some_null, j):
                value_size = -1
            else:
                kind = kind_of(j, begin, end, key_offsets, keys, roles, values, entries, count, names)
            to = _write_header(keys, key, size, kind, values, at, value_size, q, to)
            if to == FALLBACK:
                return FALLBACK
    return to


class KafkaDecoded(NamedTuple):
    """Header blocks converted from Kafka's headers.

    Args:
        flags: One byte per record: 0, FALLBACK_ROW or LOSSY_ROW.
        dropped_count: Number of headers dropped because their key is empty or longer than 255 bytes.
    """

    blocks: Blocks
    flags: bytearray
    dropped_count: int


def decode_kafka_headers(
    count: int, lists: VariableColumn, keys: VariableColumn, values: VariableColumn, *, strict: bool = False
) -> KafkaDecoded:
    """Convert Kafka's headers to header blocks; the lists consist of offsets into the key (UTF-8) and value columns.

    If `strict` is set, records with headers that a message cannot have fall back to codec.kafka, which rejects these headers.
    """
    headers = check_lists(count, lists, keys, values)
    key_bytes, value_bytes = last_offset(keys.offsets, headers), last_offset(values.offsets, headers)
    capacity = key_bytes + value_bytes + _GROWTH * headers
    check_blocks(capacity)
    placed, data, flagged = c.new_bytes(4 * count + 4), c.new_bytes(capacity), c.new_bytes(count)
    dropped = _fill(count, (lists, keys, values), strict, placed, data, flagged)
    del data[last_offset(placed, count) :]
    return KafkaDecoded(Blocks(placed, data), flagged, dropped)


def _view(data: BytesLike | None) -> memoryview:
    return memoryview(b"" if data is None else data)


def _fill(
    messages: int,
    headers: tuple[VariableColumn, VariableColumn, VariableColumn],
    is_strict: bool,
    placed: bytearray,
    target: bytearray,
    flagged: bytearray,
) -> int:
    """Write all blocks; return the number of dropped headers."""
    lists_column, keys_column, values_column = headers
    lists_view, list_validity_view = memoryview(lists_column.offsets), _view(lists_column.validity)
    key_offsets_view, keys_view = memoryview(keys_column.offsets), memoryview(keys_column.data)
    value_offsets_view, values_view = memoryview(values_column.offsets), memoryview(values_column.data)
    validity_view, names_view = _view(values_column.validity), memoryview(NAMES)
    listed, sorted_out = c.new_bytes(40 * MAX_HEADERS), c.new_bytes(MAX_HEADERS)
    lists: cython.p_const_uchar = c.readable(lists_view)
    list_validity: cython.p_const_uchar = c.readable(list_validity_view)
    key_offsets: cython.p_const_uchar = c.readable(key_offsets_view)
    keys: cython.p_const_uchar = c.readable(keys_view)
    value_offsets: cython.p_const_uchar = c.readable(value_offsets_view)
    values: cython.p_const_uchar = c.readable(values_view)
    validity: cython.p_const_uchar = c.readable(validity_view)
    names: cython.p_const_uchar = c.readable(names_view)
    roles: cython.p_uchar = c.writable(sorted_out)
    entries: cython.p_uchar = c.writable(listed)
    offsets: cython.p_uchar = c.writable(placed)
    q: cython.p_uchar = c.writable(target)
    flags: cython.p_uchar = c.writable(flagged)
    some_null_list: cython.bint = lists_column.validity is not None
    some_null: cython.bint = values_column.validity is not None
    strict: cython.bint = is_strict
    count: cython.longlong = messages
    dropped: cython.longlong
    with cython.nogil:
        dropped = _decode_rows(
            count, lists, list_validity, some_null_list, key_offsets, keys, value_offsets, values, validity, some_null,
            strict, names, roles, entries, offsets, q, flags,
        )  # fmt: skip
    return dropped
