"""Which data messages have which schema, compiled: in one pass over the ids of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstream.codec.buffer import BytesLike
from headstream.codec.envelope_parts import DATA, Envelopes

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec import avro_codes as codes
    from headstream.codec.uncompiled_primitives import (
        equal,
        load32,
        load64,
        load64_signed,
        mix64,
        new_bytes,
        readable,
        store32,
        store64_signed,
        writable,
    )
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec import avro_codes as codes
    from cython.cimports.headstream.codec.primitives import (
        equal,
        load32,
        load64,
        load64_signed,
        mix64,
        new_bytes,
        readable,
        store32,
        store64_signed,
        writable,
    )

__all__ = ["group_by_schema", "ungrouped_rows"]

NO_GROUP = cython.declare(cython.uint, 0xFFFFFFFF)
# Ids of a batch are few: a look in a table of so many slots saves most of them the dict, which needs them as objects.
# A slot is the id's length, where it is and its group, int64 each.
SEEN_SLOTS = cython.declare(cython.longlong, 256)
SLOT_SIZE = cython.declare(cython.longlong, 24)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _sort_rows(
    numbers: cython.p_const_uchar, count: cython.longlong, groups: cython.longlong, places: cython.p_uchar, order: cython.p_uchar
) -> cython.void:
    """Write the rows of group after group to `order`; `places`, all 0, gets where group n begins and n + 1 after it."""
    number: cython.longlong
    at: cython.longlong
    row: cython.longlong
    for row in range(count):
        number = load32(numbers, row * 4)
        if number != NO_GROUP:
            store64_signed(places, number * 8 + 16, load64_signed(places, number * 8 + 16) + 1)
    for number in range(groups):
        at = load64_signed(places, number * 8 + 8)
        store64_signed(places, number * 8 + 16, load64_signed(places, number * 8 + 16) + at)
    for row in range(count):
        number = load32(numbers, row * 4)
        if number != NO_GROUP:
            at = load64_signed(places, number * 8 + 8)
            store64_signed(order, at * 8, row)
            store64_signed(places, number * 8 + 8, at + 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _slot(p: cython.p_const_uchar, start: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the slot of an id of 8 bytes or more among those that were seen."""
    return (mix64(load64(p, start) ^ mix64(load64(p, end - 8))) & (SEEN_SLOTS - 1)) * SLOT_SIZE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _recall(p: cython.p_const_uchar, start: cython.longlong, end: cython.longlong, seen: cython.p_uchar) -> cython.longlong:
    """Return the group of an id that has been seen lately, or -1."""
    if end - start < 8:
        return -1
    slot: cython.longlong = _slot(p, start, end)
    if load64_signed(seen, slot) == end - start and equal(p, load64_signed(seen, slot + 8), p, start, end - start):
        return load64_signed(seen, slot + 16)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _remember(
    p: cython.p_const_uchar, start: cython.longlong, end: cython.longlong, seen: cython.p_uchar, number: cython.longlong
) -> cython.void:
    """Keep where an id is, and its group, in its slot."""
    if end - start >= 8:
        slot: cython.longlong = _slot(p, start, end)
        store64_signed(seen, slot, end - start)
        store64_signed(seen, slot + 8, start)
        store64_signed(seen, slot + 16, number)


def group_by_schema(envelopes: Envelopes, data: BytesLike) -> dict[bytes, memoryview]:
    """Return which data messages have which schema.

    Args:
        envelopes: What split_envelopes gave.
        data: The data it was given.

    Returns:
        For each messageSchemaId, in the order of their first messages, its messages in their order: int64 each.
        Messages without an id, or with a schema of their own, are left out: see ungrouped_rows.
    """
    view = memoryview(data)
    p: cython.p_const_uchar = readable(view)
    count: cython.longlong = envelopes.count
    forms: cython.p_const_uchar = readable(envelopes.form)
    starts: cython.p_const_uchar = readable(envelopes.id_start)
    ends: cython.p_const_uchar = readable(envelopes.id_end)
    schemas: cython.p_const_uchar = readable(envelopes.schema_start)
    numbers_bytes, order_bytes = new_bytes(count * 4), new_bytes(count * 8)
    seen_bytes = bytearray(SEEN_SLOTS * SLOT_SIZE)
    seen: cython.p_uchar = writable(seen_bytes)
    numbers: cython.p_uchar = writable(numbers_bytes)
    order: cython.p_uchar = writable(order_bytes)
    known: dict[bytes, int] = {}
    number: cython.longlong
    start: cython.longlong
    end: cython.longlong
    row: cython.longlong
    for row in range(count):
        start, end = load64_signed(starts, row * 8), load64_signed(ends, row * 8)
        if forms[row] != codes.FORM_DATA or start < 0 or load64_signed(schemas, row * 8) >= 0:
            store32(numbers, row * 4, NO_GROUP)
            continue
        number = _recall(p, start, end, seen)
        if number < 0:
            number = known.setdefault(bytes(p[start:end]), len(known))
            _remember(p, start, end, seen, number)
        store32(numbers, row * 4, number)
    groups_count: cython.longlong = len(known)
    places_bytes = bytearray((groups_count + 2) * 8)
    places: cython.p_uchar = writable(places_bytes)
    with cython.nogil:
        _sort_rows(numbers, count, groups_count, places, order)
    rows = memoryview(order_bytes).cast("q") if count else memoryview(bytes(8)).cast("q")
    groups: dict[bytes, memoryview] = {}
    for schema_id, number in known.items():
        groups[schema_id] = rows[load64_signed(places, number * 8) : load64_signed(places, number * 8 + 8)]
    return groups


def ungrouped_rows(envelopes: Envelopes) -> list[int]:
    """Return the data messages that group_by_schema leaves out: they must be read one by one.

    Args:
        envelopes: What split_envelopes gave.
    """
    forms, ids, schemas = envelopes.form, envelopes.id_start, envelopes.schema_start
    return [row for row in range(envelopes.count) if forms[row] == DATA and (ids[row] < 0 or schemas[row] >= 0)]
