"""Reduces decoded changes of one table to one change per key.

A decoded batch has the columns of the table, in the types of the message's schema, and the bookkeeping of each change:

    _hs_operation   int8     index into OPERATIONS
    _hs_sequence    string   change sequence; "" for a full load
    _hs_columns     binary   column mask, the first eight columns in byte 0; null: every column is present
    _hs_changed     binary   change mask, in the same order; null if unknown
    _hs_transaction string   the transaction's id; null or "" if there is none
    _hs_event       int64    the change's number in its transaction, from 1; null if unknown
    _hs_last_event  bool     whether the change is the last of its transaction; null if unknown
    _hs_logged_us   int64    time at which the log stored the message, microseconds since 1970 UTC
    _hs_old.<key>   <type>   the key column's value before the change; null if unknown
    _hs_topic, _hs_partition, _hs_offset   coordinates in the source

collapse() returns the last change of each key whose changes all carry the complete row, with the table's columns and:

    _hs_operation   int8     as above
    _hs_delete      bool     whether the change deletes the row
    _hs_sequence    string   the change's sequence
    _hs_versions    string   null: every column has this sequence, see row_versions.py

It also returns, unchanged, all changes of keys with changes that omit columns, and of keys that key updates connect.

A table without a key gets the key `_hs_change` (string), which is a change's sequence or a loaded row's coordinates. Each of its
rows is appended once; updates and deletes require the setting `keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import TableMetadata
from headstream.replicate.columns.column_masks import ColumnMasks, ask_masks
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.versions import LATE_MARK, LOAD_MARK

OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "REFRESH")
_INSERT, _UPDATE, _DELETE, _REFRESH = range(4)
RESERVED_PREFIX: Final = "_hs_"
OLD_PREFIX: Final = "_hs_old."
CHANGE_KEY: Final = "_hs_change"

BOOKKEEPING: Final = [
    pa.field("_hs_operation", pa.int8()),
    pa.field("_hs_sequence", pa.string()),
    pa.field("_hs_columns", pa.binary()),
    pa.field("_hs_changed", pa.binary()),
    pa.field("_hs_transaction", pa.string()),
    pa.field("_hs_event", pa.int64()),
    pa.field("_hs_last_event", pa.bool_()),
    pa.field("_hs_logged_us", pa.int64()),
    pa.field("_hs_topic", pa.string()),
    pa.field("_hs_partition", pa.int32()),
    pa.field("_hs_offset", pa.int64()),
]


_NOT_OF_EVENTS: Final = frozenset({"_hs_changed", "_hs_last_event", "_hs_logged_us", "_hs_topic", "_hs_partition", "_hs_offset"})
Asked: TypeAlias = Callable[[pa.Table], pa.ChunkedArray]
"""Marks, among rows with key columns, the rows whose key may need all changes."""


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Changes that were reduced without reading the table.

    Args:
        changes: One change per key: the schema's columns, `_hs_operation`, `_hs_delete`, `_hs_sequence`, `_hs_versions`.
        rejected: Rejected rows: (topic, partition, offset, reason).
        events: All changes of the other keys: the schema's columns, the old key as `_hs_old.<key>`, `_hs_sequence`,
            `_hs_operation`, `_hs_delete`, `_hs_moved` (a key update), `_hs_partial` (columns are omitted), `_hs_columns`,
            `_hs_transaction`, `_hs_event`; None if there are none.
        present: Returns the columns that a change with a column mask carries.
        deletions: The highest deletion of each deleted key: key columns, `_hs_sequence`.
        columns: The table's columns from its source. An insert writes all of these columns, with null if its schema lacks a
            column.
    """

    changes: pa.Table
    count: int
    rejected: list[tuple[str, int, int, str]] = field(default_factory=list)
    events: pa.Table | None = None
    present: Callable[[bytes | None], frozenset[str]] = lambda mask: frozenset()
    deletions: pa.Table | None = None
    columns: tuple[str, ...] = ()


def keys_of(metadata: TableMetadata) -> list[str]:
    """Return the columns that identify a row of the target."""
    return list(metadata.key_columns) or [CHANGE_KEY]


def collapse(
    changes: pa.Table,
    metadata: TableMetadata,
    columns: Iterable[str],
    wanted: Asked | None = None,
    *,
    soft: bool = False,
    tracks: bool = False,
) -> Collapsed:
    """Return the last change of each key whose changes are complete, and all changes of all other keys.

    Args:
        wanted: Marks the keys for which all changes are always needed; None: no key.
        soft: Whether a deleted row keeps its values, so changes before its deletion are needed.
        tracks: Whether to return all changes of a key with several inserts or updates, which can belong to several rows that a
            later key update distinguishes. This also applies if a change omits columns.
    """
    names, columns = [column.name for column in metadata.columns], tuple(columns)
    keys = list(metadata.key_columns)
    if not keys:
        return _collapse_keyless(changes, names, columns)
    for key in keys:  # a before image can contain only the changed key columns
        place = changes.schema.get_field_index(OLD_PREFIX + key)
        old = pc.coalesce(changes[OLD_PREFIX + key], changes[key])
        changes = changes.set_column(place, changes.schema.field(place), old)
    masks = ColumnMasks(metadata)
    moved = key_moved(changes, keys)
    rows = changes.append_column("_hs_partial", _partial_rows(masks, changes)).append_column("_hs_moved", moved)
    rows = rows.append_column("_hs_delete", pc.equal(changes["_hs_operation"], pa.scalar(_DELETE, pa.int8())))
    idle = pc.and_not(_idle_rows(masks, changes), moved)
    if pc.any(idle).as_py():
        rows = rows.filter(pc.invert(idle))
    marks = pc.or_(rows["_hs_partial"], rows["_hs_moved"])
    if not set(names).issuperset(columns):  # the source has dropped a column: updates do not contain it
        marks = pc.or_(marks, _are_updates(rows))
    if wanted is not None:
        marks = pc.or_(marks, wanted(rows))
    if tracks or pc.any(rows["_hs_partial"]).as_py():
        marks = pc.or_(marks, _of_several_upserts(rows, keys))
    rows, events = _divide(rows, keys, marks, soft=soft)
    order = _order(rows)
    ordered = take_rows(rows.select([*keys, "_hs_sequence", "_hs_delete"]), order)
    places = order.take(_by_key(ordered, keys, ("_hs_place", "max"))["_hs_place_max"])
    last = take_rows(rows.select([*names, "_hs_operation", "_hs_delete", "_hs_sequence"]), places)
    last = last.append_column("_hs_versions", pa.nulls(last.num_rows, pa.string()))
    deleted = ordered.filter(ordered["_hs_delete"]).select([*keys, "_hs_sequence"])
    deleted = take_rows(deleted, _by_key(deleted, keys, ("_hs_place", "max"))["_hs_place_max"])
    return Collapsed(last, changes.num_rows, [], events, masks.of, deleted, columns)


def _divide(rows: pa.Table, keys: list[str], marks: pa.ChunkedArray, *, soft: bool) -> tuple[pa.Table, pa.Table | None]:
    """Divide rows by key into keys that need only the last change and keys with a marked row."""
    moved, deletes = rows["_hs_moved"], rows["_hs_delete"]
    deleted_after = soft and pc.any(deletes).as_py() and not pc.all(deletes).as_py()
    if not deleted_after and not pc.any(marks).as_py():
        return rows, None
    marked = rows.select(keys).append_column("_hs_mark", marks).append_column("_hs_delete", deletes)
    left = _departures(rows.filter(moved), keys).select([*keys, "_hs_moved", "_hs_delete"]).rename_columns(marked.schema.names)
    grouped = pa.concat_tables([marked, left])
    groups = _by_key(grouped, keys, ("_hs_mark", "any"), ("_hs_delete", "any"), ("_hs_delete", "all"), ("_hs_place", "list"))
    chosen = groups["_hs_mark_any"]
    if deleted_after:
        chosen = pc.or_(chosen, pc.and_not(groups["_hs_delete_any"], groups["_hs_delete_all"]))
    places = pc.list_flatten(groups.filter(chosen)["_hs_place_list"]).combine_chunks()
    is_event = pc.is_in(pa.array(np.arange(rows.num_rows)), places)
    names = [name for name in rows.schema.names if name not in _NOT_OF_EVENTS]
    return rows.filter(pc.invert(is_event)), rows.filter(is_event).select(names)


def _collapse_keyless(changes: pa.Table, names: list[str], columns: tuple[str, ...]) -> Collapsed:
    """Return the new rows of a table without a key; updates and deletes are rejected."""
    operations = changes["_hs_operation"]
    new = pc.is_in(operations, pa.array([_INSERT, _REFRESH], pa.int8()))
    reason = "the table has no key, so the changed row is unknown; set the table's key columns in `keys`"
    rejected = _coordinates(changes.filter(pc.invert(new)), reason)
    rows = changes.filter(new)
    rows = rows.append_column(CHANGE_KEY, change_keys(rows))
    rows = take_rows(rows, _by_key(rows, [CHANGE_KEY], ("_hs_place", "min"))["_hs_place_min"])
    rows = rows.append_column("_hs_delete", pa.repeat(False, rows.num_rows))
    rows = rows.append_column("_hs_versions", pa.nulls(rows.num_rows, pa.string()))
    result = rows.select([*names, CHANGE_KEY, "_hs_operation", "_hs_delete", "_hs_sequence", "_hs_versions"])
    return Collapsed(result, changes.num_rows, rejected, columns=columns)


def change_keys(changes: pa.Table) -> pa.ChunkedArray:
    """Return the CHANGE_KEY values of changes of a table without a key, with or without positions among the loads."""
    place = [changes["_hs_topic"], *(changes[name].cast(pa.string()) for name in ("_hs_partition", "_hs_offset"))]
    origin = pc.binary_join_element_wise("", *place, LOAD_MARK)
    loaded = pc.equal(changes["_hs_operation"], pa.scalar(_REFRESH, pa.int8()))
    # A repeat can have another position, see loads.py.
    own = pc.replace_substring_regex(changes["_hs_sequence"], f"^.*{LATE_MARK}", "")
    return pc.if_else(loaded, origin, own)


def _coordinates(changes: pa.Table, reason: str) -> list[tuple[str, int, int, str]]:
    found = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).to_pylist()
    return [(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"], reason) for row in found]


def key_moved(changes: pa.Table, keys: list[str]) -> pa.ChunkedArray:
    """Return which decoded changes are key updates; a before image can contain only the changed key columns."""
    is_update = pc.equal(changes["_hs_operation"], pa.scalar(_UPDATE, pa.int8()))
    moved = pa.chunked_array([pa.repeat(False, changes.num_rows)])
    for key in keys:
        moved = pc.or_(moved, pc.fill_null(pc.not_equal(changes[key], changes[OLD_PREFIX + key]), False))
    return pc.and_(is_update, moved)


def departures(changes: pa.Table, keys: list[str]) -> pa.Table:
    """Return the deletions of the old keys of decoded key updates."""
    if not changes.num_rows or any(OLD_PREFIX + key not in changes.schema.names for key in keys):
        return changes.slice(0, 0)
    moved = changes.filter(key_moved(changes, keys))
    for key in keys:
        place = moved.schema.get_field_index(key)
        moved = moved.set_column(place, moved.schema.field(place), pc.coalesce(moved[OLD_PREFIX + key], moved[key]))
    place = moved.schema.get_field_index("_hs_operation")
    return moved.set_column(place, moved.schema.field(place), pa.array([_DELETE] * moved.num_rows, pa.int8()))


def moved_keys(changes: pa.Table, keys: list[str]) -> pa.Table:
    """Return the old and new keys of decoded key updates."""
    left = departures(changes, keys).select(keys)
    return pa.concat_tables([left, changes.filter(key_moved(changes, keys)).select(keys)]) if left.num_rows else left


def has_partial_images(changes: pa.Table, metadata: TableMetadata) -> bool:
    """Return whether any decoded change is an update that omits columns."""
    return bool(pc.any(_partial_rows(ColumnMasks(metadata), changes)).as_py())


def _of_several_upserts(rows: pa.Table, keys: list[str]) -> pa.ChunkedArray:
    """Mark the rows whose key has several different inserts or updates."""
    upserts = rows.select([*keys, "_hs_sequence"]).filter(pc.invert(rows["_hs_delete"]))
    counts = _by_key(upserts, keys, ("_hs_sequence", "count_distinct"))
    several = counts.filter(pc.greater(counts["_hs_sequence_count_distinct"], 1)).select(keys)
    if not several.num_rows:
        return pa.chunked_array([pa.repeat(False, rows.num_rows)])
    numbered = rows.select(keys).append_column("_hs_place", pa.array(np.arange(rows.num_rows)))
    found = numbered.join(several, keys, join_type="left semi")["_hs_place"]
    return pc.is_in(pa.chunked_array([pa.array(np.arange(rows.num_rows))]), found.combine_chunks())


def _departures(moved: pa.Table, keys: list[str]) -> pa.Table:
    """Return the deletions of the old keys of key updates, at the same sequences."""
    for key in keys:
        moved = moved.set_column(moved.schema.get_field_index(key), moved.schema.field(key), moved[OLD_PREFIX + key])
    index = moved.schema.get_field_index("_hs_delete")
    return moved.set_column(index, "_hs_delete", pa.chunked_array([pa.repeat(True, moved.num_rows)]))


def _order(rows: pa.Table) -> pa.Array:
    """Return row numbers in the order in which rows take effect: by sequence; at the same sequence, a delete precedes an upsert.

    Of two otherwise equal changes, the change received first is sorted last and takes effect, as it would in two batches.
    """
    backwards = pa.array(np.arange(rows.num_rows - 1, -1, -1))
    chosen = rows.select(["_hs_sequence", "_hs_delete"]).take(backwards)
    order = pc.sort_indices(chosen, [("_hs_sequence", "ascending"), ("_hs_delete", "descending")])
    return backwards.take(order)


def _by_key(ordered: pa.Table, keys: list[str], *aggregations: tuple[str, str]) -> pa.Table:
    """Group ordered rows by key; `_hs_place` is a row's position."""
    place = pa.chunked_array([pa.array(np.arange(ordered.num_rows))])
    return ordered.append_column("_hs_place", place).group_by(keys, use_threads=False).aggregate(list(aggregations))


def _idle_rows(masks: ColumnMasks, changes: pa.Table) -> pa.ChunkedArray:
    """Mark updates that change nothing: their change mask, which does not include large objects, has no bit set."""
    idle = ask_masks(changes["_hs_changed"], lambda mask: mask is not None and len(mask) > 0 and not any(mask))
    if masks.lobs:
        idle = pc.and_(idle, ask_masks(changes["_hs_columns"], lambda mask: masks.lobs.isdisjoint(masks.of(mask))))
    return pc.and_(_are_updates(changes), idle)


def _partial_rows(masks: ColumnMasks, changes: pa.Table) -> pa.ChunkedArray:
    """Mark the updates that omit a column. An insert or a row of a full load is complete, because the row did not exist."""
    return pc.and_(_are_updates(changes), masks.leaves_out(changes["_hs_columns"]))


def _are_updates(changes: pa.Table) -> pa.ChunkedArray:
    return pc.equal(changes["_hs_operation"], pa.scalar(_UPDATE, pa.int8()))
