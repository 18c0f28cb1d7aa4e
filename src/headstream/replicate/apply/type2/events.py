"""Converts decoded changes of one table to events of row histories: splits key updates and skips changes without effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import TableMetadata
from headstream.replicate.columns.changes import OLD_PREFIX, OPERATIONS, key_moved
from headstream.replicate.columns.column_masks import ColumnMasks, ask_masks

_UPDATE: Final = pa.scalar(OPERATIONS.index("UPDATE"), pa.int8())
_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


@dataclass(frozen=True, slots=True)
class Events:
    """Row events.

    Args:
        rows: The schema's columns, `_hs_sequence`, `_hs_delete`, `_hs_partial` (an upsert that omits columns of the table) and
            `_hs_columns` (the column mask).
        present: Returns the names of the carried columns for a column mask.
        rejected: Changes that cannot be applied: (topic, partition, offset, reason).
        moves: The key updates: key columns, `_hs_old.<key columns>`, `_hs_sequence`, `_hs_transaction`, `_hs_event`.
    """

    rows: pa.Table
    count: int
    present: Callable[[bytes | None], frozenset[str]]
    rejected: list[tuple[str, int, int, str]]
    moves: pa.Table | None = None


def read_events(changes: pa.Table, metadata: TableMetadata, columns: Iterable[str]) -> Events:
    """Convert decoded changes to events. The changes can be in any order and can repeat."""
    keys = list(metadata.key_columns)
    present = ColumnMasks(metadata)
    updates = pc.equal(changes["_hs_operation"], _UPDATE)
    moved = key_moved(changes, keys)
    left_out = present.leaves_out(changes["_hs_columns"])
    partial = pc.and_(updates, left_out)
    if not present.all.issuperset(columns):  # the source has dropped a column: an update does not carry it
        partial = updates
    rows = changes.append_column("_hs_partial", partial).append_column("_hs_delete", pc.equal(changes["_hs_operation"], _DELETE))
    bare = pc.and_(moved, left_out)
    departing = rows.filter(pc.and_not(moved, bare))
    idle = pc.and_not(pc.and_(updates, _changes_nothing(present, changes)), moved)
    stays = pc.invert(pc.or_(idle, bare))
    found = pa.concat_tables([rows.filter(stays), _departures(departing, keys)])
    names = [column.name for column in metadata.columns]
    omitting = changes.filter(bare).select(["_hs_topic", "_hs_partition", "_hs_offset"]).to_pylist()
    reason = "a change of key that omits columns: the history of its new key cannot be rebuilt"
    rejected = [(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"], reason) for row in omitting]
    found = found.select([*names, "_hs_sequence", "_hs_delete", "_hs_partial", "_hs_columns"])
    names = [*keys, *(OLD_PREFIX + key for key in keys), "_hs_sequence", "_hs_transaction", "_hs_event"]
    return Events(found, changes.num_rows, present.of, rejected, _with_old_keys(departing, keys).select(names))


def _with_old_keys(moved: pa.Table, keys: list[str]) -> pa.Table:
    """Return key updates with all columns of the old key."""
    for key in keys:
        place = moved.schema.get_field_index(OLD_PREFIX + key)
        moved = moved.set_column(place, moved.schema.field(place), pc.coalesce(moved[OLD_PREFIX + key], moved[key]))
    return moved


def _departures(moved: pa.Table, keys: list[str]) -> pa.Table:
    """Return the deletions of the old keys of key updates, at the same sequences."""
    moved = _with_old_keys(moved, keys)
    for key in keys:
        moved = moved.set_column(moved.schema.get_field_index(key), moved.schema.field(key), moved[OLD_PREFIX + key])
    for name, value in (("_hs_delete", True), ("_hs_partial", False)):
        place = moved.schema.get_field_index(name)
        moved = moved.set_column(place, moved.schema.field(place), pa.chunked_array([pa.repeat(value, moved.num_rows)]))
    return moved


def _changes_nothing(masks: ColumnMasks, changes: pa.Table) -> pa.ChunkedArray:
    """Return which changes have an empty change mask; all False if the table has large objects, which change masks omit."""
    if masks.lobs or "_hs_changed" not in changes.schema.names:
        return pa.chunked_array([pa.repeat(False, changes.num_rows)])
    return ask_masks(changes["_hs_changed"], lambda mask: bool(mask) and not any(mask or b""))
