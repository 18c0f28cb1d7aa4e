"""Changes of one table, decoded, down to one change a key.

A decoded batch has the table's own columns first, in their own types, then the bookkeeping of each change:

    _hs_operation   int8     index into OPERATIONS
    _hs_sequence    string   change sequence; "" for a full load
    _hs_columns     binary   column mask, byte 0 the first eight columns; null: every column is present
    _hs_changed     binary   change mask, in the same order; null where it is not told
    _hs_transaction string   the transaction's id; null or "" where there is none
    _hs_event       int64    the change's number in its transaction, from 1; null where it is not told
    _hs_last_event  bool     whether it is the transaction's last one; null where it is not told
    _hs_logged_us   int64    when the log took the message, microseconds since 1970 UTC
    _hs_old.<key>   <type>   the key column's value before the change, null where it is not told
    _hs_topic, _hs_partition, _hs_offset   where it came from

collapse() gives the table's columns and, of each key's changes, what they come to:

    _hs_delete      bool     the key's last change deletes it
    _hs_sequence    string   the last change's sequence
    _hs_versions    string   null: every column is of that sequence; else the version of each column, see versions.py

A table without a key has one of its own, `_hs_change` (string): a change's sequence, or where a loaded row came from. Its
rows are appended, each once; whoever wants updates and deletes of such a table names its key columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.replicate import TableMetadata
from headstream.spark.replicate.column_masks import ColumnMasks, ask_masks
from headstream.spark.replicate.folding import Fold, Key, Move, fold_changes
from headstream.spark.replicate.versions import LATE_MARK, LOAD_MARK

__all__ = ["BOOKKEEPING", "CHANGE_KEY", "OLD_PREFIX", "OPERATIONS", "RESERVED_PREFIX", "Collapsed", "collapse", "keys_of"]

OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "REFRESH")
_INSERT, _UPDATE, _DELETE, _REFRESH = range(4)
RESERVED_PREFIX: Final = "_hs_"
OLD_PREFIX: Final = "_hs_old."
CHANGE_KEY: Final = "_hs_change"
"""Types that a change mask never speaks of."""

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


FindRows: TypeAlias = Callable[[list[Key]], Mapping[Key, dict[str, Any]]]
"""Keys -> the rows that a table has of them, as they are before a merge."""


@dataclass(frozen=True, slots=True)
class Collapsed:
    """One change a key.

    Args:
        changes: The table's columns, `_hs_delete`, `_hs_sequence`, `_hs_versions`.
        count: Changes that went in.
        partial: Whether any row has versions of its own for its columns.
        rejected: Rows that cannot be applied: (topic, partition, offset, reason).
        moves: Changes of key that did not carry every column: what comes late for the key before belongs to the one after.
    """

    changes: pa.Table
    count: int
    partial: bool
    rejected: list[tuple[str, int, int, str]]
    moves: list[Move]


def keys_of(metadata: TableMetadata) -> list[str]:
    """Return the columns that identify a row of the target."""
    return list(metadata.key_columns) or [CHANGE_KEY]


def collapse(changes: pa.Table, metadata: TableMetadata, columns: list[str], find_rows: FindRows = lambda keys: {}) -> Collapsed:
    """Return what many changes of one table come to: the last one of each key, key changes split, absent columns kept absent.

    Args:
        changes: Decoded changes, in any order, repeats allowed.
        metadata: The columns and keys of the schema they were decoded by.
        columns: The target table's columns in its own order, which `_hs_versions` follows; those of the schema are among them.
        find_rows: Reads the table's rows, for changes of key that do not carry every column.
    """
    names = [column.name for column in metadata.columns]
    keys = list(metadata.key_columns)
    if not keys:
        return _collapse_keyless(changes, names)
    for key in keys:  # a before image may tell only those key columns that changed
        place = changes.schema.get_field_index(OLD_PREFIX + key)
        old = pc.coalesce(changes[OLD_PREFIX + key], changes[key])
        changes = changes.set_column(place, changes.schema.field(place), old)
    masks = ColumnMasks(metadata)
    partial = _partial_rows(masks, changes)
    moved = _key_moved(changes, keys)
    rows = changes.append_column("_hs_partial", partial).append_column("_hs_moved", pc.and_(moved, partial))
    rows = rows.append_column("_hs_delete", pc.equal(changes["_hs_operation"], pa.scalar(_DELETE, pa.int8())))
    idle = pc.and_not(_idle_rows(masks, changes), moved)
    if pc.any(idle).as_py():
        rows, moved = rows.filter(pc.invert(idle)), moved.filter(pc.invert(idle))
    rows = pa.concat_tables([rows, _departures(rows.filter(moved), keys)])
    bookkeeping = ["_hs_delete", "_hs_sequence", "_hs_columns", "_hs_partial", "_hs_moved", *(OLD_PREFIX + key for key in keys)]
    ordered = _ordered(rows.select([*names, *bookkeeping]))
    if pc.any(ordered["_hs_partial"]).as_py():
        result, moves = _fold_partial(ordered, keys, Fold(keys, columns, masks.of), find_rows)
        has_versions = result["_hs_versions"].null_count < result.num_rows
        return Collapsed(result, changes.num_rows, has_versions, [], moves)
    last = ordered.take(_by_key(ordered, keys, ("_hs_place", "max"))["_hs_place_max"])
    last = last.append_column("_hs_versions", pa.nulls(last.num_rows, pa.string()))
    return Collapsed(last.select([*names, "_hs_delete", "_hs_sequence", "_hs_versions"]), changes.num_rows, False, [], [])


def _collapse_keyless(changes: pa.Table, names: list[str]) -> Collapsed:
    """Return the new rows of a table that has no key; what would have to find a row is refused."""
    operations = changes["_hs_operation"]
    new = pc.is_in(operations, pa.array([_INSERT, _REFRESH], pa.int8()))
    reason = "the table has no key, so the row that is changed is not known; name its key columns in `keys`"
    rejected = _coordinates(changes.filter(pc.invert(new)), reason)
    rows = changes.filter(new)
    place = [rows["_hs_topic"], *(rows[name].cast(pa.string()) for name in ("_hs_partition", "_hs_offset"))]
    origin = pc.binary_join_element_wise("", *place, LOAD_MARK)
    loaded = pc.equal(rows["_hs_operation"], pa.scalar(_REFRESH, pa.int8()))
    own = pc.replace_substring_regex(rows["_hs_sequence"], f"^.*{LATE_MARK}", "")  # a repeat may have another place, see loads.py
    rows = rows.append_column(CHANGE_KEY, pc.if_else(loaded, origin, own))
    rows = rows.take(_by_key(rows, [CHANGE_KEY], ("_hs_place", "min"))["_hs_place_min"])
    rows = rows.append_column("_hs_delete", pa.repeat(False, rows.num_rows))
    rows = rows.append_column("_hs_versions", pa.nulls(rows.num_rows, pa.string()))
    result = rows.select([*names, CHANGE_KEY, "_hs_delete", "_hs_sequence", "_hs_versions"])
    return Collapsed(result, changes.num_rows, False, rejected, [])


def _coordinates(changes: pa.Table, reason: str) -> list[tuple[str, int, int, str]]:
    found = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).to_pylist()
    return [(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"], reason) for row in found]


def _key_moved(changes: pa.Table, keys: list[str]) -> pa.ChunkedArray:
    """Say which rows are updates whose key was another one before."""
    is_update = pc.equal(changes["_hs_operation"], pa.scalar(_UPDATE, pa.int8()))
    moved = pa.chunked_array([pa.repeat(False, changes.num_rows)])
    for key in keys:
        moved = pc.or_(moved, pc.fill_null(pc.not_equal(changes[key], changes[OLD_PREFIX + key]), False))
    return pc.and_(is_update, moved)


def _departures(moved: pa.Table, keys: list[str]) -> pa.Table:
    """Return, for updates that changed their key, the deletion of the old key at the same sequence."""
    for key in keys:
        moved = moved.set_column(moved.schema.get_field_index(key), moved.schema.field(key), moved[OLD_PREFIX + key])
    index = moved.schema.get_field_index("_hs_delete")
    return moved.set_column(index, "_hs_delete", pa.chunked_array([pa.repeat(True, moved.num_rows)]))


def _ordered(rows: pa.Table) -> pa.Table:
    """Return rows in the order they take effect: by sequence; at one sequence an upsert comes after a delete.

    Of two that are alike in both the one that came first is last, and so the one that counts, as it is when they come apart.
    """
    backwards = pa.array(np.arange(rows.num_rows - 1, -1, -1))
    told = rows.select(["_hs_sequence", "_hs_delete"]).take(backwards)
    order = pc.sort_indices(told, [("_hs_sequence", "ascending"), ("_hs_delete", "descending")])
    return rows.take(backwards.take(order))


def _by_key(ordered: pa.Table, keys: list[str], *aggregations: tuple[str, str]) -> pa.Table:
    """Group ordered rows by key; `_hs_place` is a row's place in that order."""
    place = pa.chunked_array([pa.array(range(ordered.num_rows), pa.int64())])
    return ordered.append_column("_hs_place", place).group_by(keys, use_threads=False).aggregate(list(aggregations))


def _idle_rows(masks: ColumnMasks, changes: pa.Table) -> pa.ChunkedArray:
    """Say which rows are updates that changed nothing: no bit in the change mask, which tells of no large object."""
    idle = ask_masks(changes["_hs_changed"], lambda mask: mask is not None and len(mask) > 0 and not any(mask))
    if masks.lobs:
        idle = pc.and_(idle, ask_masks(changes["_hs_columns"], lambda mask: masks.lobs.isdisjoint(masks.of(mask))))
    return pc.and_(_are_updates(changes), idle)


def _partial_rows(masks: ColumnMasks, changes: pa.Table) -> pa.ChunkedArray:
    """Say which rows are updates that leave a column out. An insert or full load is whole: its row did not exist."""
    return pc.and_(_are_updates(changes), masks.leaves_out(changes["_hs_columns"]))


def _are_updates(changes: pa.Table) -> pa.ChunkedArray:
    return pc.equal(changes["_hs_operation"], pa.scalar(_UPDATE, pa.int8()))


def _fold_partial(ordered: pa.Table, keys: list[str], fold: Fold, find_rows: FindRows) -> tuple[pa.Table, list[Move]]:
    """Return one row a key: the last one, or for keys that have partial changes what their changes come to."""
    groups = _by_key(ordered, keys, ("_hs_place", "max"), ("_hs_place", "list"), ("_hs_partial", "any"))
    last = ordered.take(groups.filter(pc.invert(groups["_hs_partial_any"]))["_hs_place_max"])
    last = last.append_column("_hs_versions", pa.nulls(last.num_rows, pa.string()))
    names = [name for name in fold.columns if name in ordered.schema.names]
    result_columns = [*names, "_hs_delete", "_hs_sequence", "_hs_versions"]
    last = last.select(result_columns)
    places = pc.list_flatten(groups.filter(groups["_hs_partial_any"])["_hs_place_list"])
    changes = ordered.take(places.take(pc.sort_indices(places))).to_pylist()
    moves = [
        Move(tuple(change[OLD_PREFIX + key] for key in keys), tuple(change[key] for key in keys), change["_hs_sequence"])
        for change in changes
        if change["_hs_moved"] and not change["_hs_delete"]
    ]
    folded = fold_changes(changes, fold, OLD_PREFIX, find_rows([move.before for move in moves]) if moves else {})
    rows = [{name: row[name] for name in result_columns} for row in folded]
    return pa.concat_tables([last, pa.Table.from_pylist(rows, schema=last.schema)]), moves
