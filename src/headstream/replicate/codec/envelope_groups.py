"""Groups data messages by schema in one pass over the ids of a batch, compiled."""

from __future__ import annotations

from headstream.core.codec.buffer import BytesLike
from headstream.replicate.codec.envelope_parts import DATA, Envelopes

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.replicate.codec.avro import codes
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.replicate.codec.avro import codes

NO_GROUP = cython.declare(cython.uint, 0xFFFFFFFF)
# A batch has few distinct ids: a table with this many slots avoids most dict lookups, which need Python objects.
# A slot has three int64: the id's length, position and group.
SEEN_SLOTS = cython.declare(cython.longlong, 256)
SLOT_SIZE = cython.declare(cython.longlong, 24)
SLOT_PLACE = cython.declare(cython.longlong, 8)
SLOT_GROUP = cython.declare(cython.longlong, 16)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _sort_rows(
    numbers: cython.p_const_uchar, count: cython.longlong, groups: cython.longlong, places: cython.p_uchar, order: cython.p_uchar
) -> cython.void:
    """Write the rows to `order`, group by group; write the start of group n to entry n of `places`, which must be all 0."""
    number: cython.longlong
    at: cython.longlong
    row: cython.longlong
    for row in range(count):
        number = c.load32(numbers, row * 4)
        if number != NO_GROUP:
            c.store64_signed(places, (number + 2) * 8, c.load64_signed(places, (number + 2) * 8) + 1)
    for number in range(groups):
        at = c.load64_signed(places, (number + 1) * 8)
        c.store64_signed(places, (number + 2) * 8, c.load64_signed(places, (number + 2) * 8) + at)
    for row in range(count):
        number = c.load32(numbers, row * 4)
        if number != NO_GROUP:
            at = c.load64_signed(places, (number + 1) * 8)
            c.store64_signed(order, at * 8, row)
            c.store64_signed(places, (number + 1) * 8, at + 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _slot(p: cython.p_const_uchar, start: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the slot of an id of 8 bytes or more in the table of seen ids."""
    return (c.mix64(c.load64(p, start) ^ c.mix64(c.load64(p, end - 8))) & (SEEN_SLOTS - 1)) * SLOT_SIZE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _recall(p: cython.p_const_uchar, start: cython.longlong, end: cython.longlong, seen: cython.p_uchar) -> cython.longlong:
    """Return the group of a recently seen id, or -1."""
    if end - start < 8:
        return -1
    slot: cython.longlong = _slot(p, start, end)
    if c.load64_signed(seen, slot) == end - start and c.equal(p, c.load64_signed(seen, slot + SLOT_PLACE), p, start, end - start):
        return c.load64_signed(seen, slot + SLOT_GROUP)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _remember(
    p: cython.p_const_uchar, start: cython.longlong, end: cython.longlong, seen: cython.p_uchar, number: cython.longlong
) -> cython.void:
    """Store an id's position and group in its slot."""
    if end - start >= 8:
        slot: cython.longlong = _slot(p, start, end)
        c.store64_signed(seen, slot, end - start)
        c.store64_signed(seen, slot + SLOT_PLACE, start)
        c.store64_signed(seen, slot + SLOT_GROUP, number)


def group_by_schema(envelopes: Envelopes, data: BytesLike) -> dict[bytes, memoryview]:
    """Return the row numbers (int64) of each messageSchemaId's data messages, in the order of the first messages.

    Messages without an id or with an embedded schema are not included; see ungrouped_rows().
    """
    view = memoryview(data)
    p: cython.p_const_uchar = c.readable(view)
    count: cython.longlong = envelopes.count
    forms: cython.p_const_uchar = c.readable(envelopes.form)
    starts: cython.p_const_uchar = c.readable(envelopes.id_start)
    ends: cython.p_const_uchar = c.readable(envelopes.id_end)
    schemas: cython.p_const_uchar = c.readable(envelopes.schema_start)
    numbers_bytes, order_bytes = c.new_bytes(count * 4), c.new_bytes(count * 8)
    seen_bytes = bytearray(SEEN_SLOTS * SLOT_SIZE)
    seen: cython.p_uchar = c.writable(seen_bytes)
    numbers: cython.p_uchar = c.writable(numbers_bytes)
    order: cython.p_uchar = c.writable(order_bytes)
    known: dict[bytes, int] = {}
    number: cython.longlong
    start: cython.longlong
    end: cython.longlong
    row: cython.longlong
    for row in range(count):
        start, end = c.load64_signed(starts, row * 8), c.load64_signed(ends, row * 8)
        if forms[row] != codes.FORM_DATA or start < 0 or c.load64_signed(schemas, row * 8) >= 0:
            c.store32(numbers, row * 4, NO_GROUP)
            continue
        number = _recall(p, start, end, seen)
        if number < 0:
            number = known.setdefault(bytes(p[start:end]), len(known))
            _remember(p, start, end, seen, number)
        c.store32(numbers, row * 4, number)
    groups_count: cython.longlong = len(known)
    places_bytes = bytearray((groups_count + 2) * 8)
    places: cython.p_uchar = c.writable(places_bytes)
    with cython.nogil:
        _sort_rows(numbers, count, groups_count, places, order)
    rows = memoryview(order_bytes).cast("q") if count else memoryview(bytes(8)).cast("q")
    groups: dict[bytes, memoryview] = {}
    for schema_id, number in known.items():
        groups[schema_id] = rows[c.load64_signed(places, number * 8) : c.load64_signed(places, (number + 1) * 8)]
    return groups


def ungrouped_rows(envelopes: Envelopes) -> list[int]:
    """Return the data messages that group_by_schema() does not include; they are decoded one by one."""
    forms, ids, schemas = envelopes.form, envelopes.id_start, envelopes.schema_start
    return [row for row in range(envelopes.count) if forms[row] == DATA and (ids[row] < 0 or schemas[row] >= 0)]
