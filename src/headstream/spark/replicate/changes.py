"""Changes of one table, decoded, down to one change a key.

A decoded batch has the table's own columns first, in their own types, then the bookkeeping of each change:

    _hs_operation   int8     index into OPERATIONS
    _hs_sequence    string   change sequence; "" for a full load
    _hs_columns     binary   column mask, byte 0 the first eight columns; null: every column is present
    _hs_old.<key>   <type>   the key column's value before the change, null where it is not told
    _hs_topic, _hs_partition, _hs_offset   where it came from

collapse() gives the table's columns and, of each key's changes, what they come to:

    _hs_delete      bool     the key's last change deletes it
    _hs_sequence    string   the last change's sequence
    _hs_versions    string   null: every column is of that sequence; else the version of each column, see versions.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.replicate import TableMetadata, decode_mask
from headstream.spark.replicate.versions import ABSENT_VERSION, version_of

__all__ = ["BOOKKEEPING", "OLD_PREFIX", "OPERATIONS", "RESERVED_PREFIX", "Collapsed", "collapse"]

OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "REFRESH")
_INSERT, _UPDATE, _DELETE, _REFRESH = range(4)
RESERVED_PREFIX: Final = "_hs_"
OLD_PREFIX: Final = "_hs_old."

BOOKKEEPING: Final = [
    pa.field("_hs_operation", pa.int8()),
    pa.field("_hs_sequence", pa.string()),
    pa.field("_hs_columns", pa.binary()),
    pa.field("_hs_topic", pa.string()),
    pa.field("_hs_partition", pa.int32()),
    pa.field("_hs_offset", pa.int64()),
]


@dataclass(frozen=True, slots=True)
class Collapsed:
    """One change a key.

    Args:
        changes: The table's columns, `_hs_delete`, `_hs_sequence`, `_hs_versions`.
        count: Changes that went in.
        partial: Whether any row has versions of its own for its columns.
        rejected: Rows that cannot be applied: (topic, partition, offset, reason).
    """

    changes: pa.Table
    count: int
    partial: bool
    rejected: list[tuple[str, int, int, str]]


def collapse(changes: pa.Table, metadata: TableMetadata, columns: list[str]) -> Collapsed:
    """Return what many changes of one table come to: the last one of each key, key changes split, absent columns kept absent.

    Args:
        changes: Decoded changes, in any order, repeats allowed.
        metadata: The columns and keys of the schema they were decoded by.
        columns: The target table's columns in its own order, which `_hs_versions` follows; those of the schema are among them.
    """
    names = [column.name for column in metadata.columns]
    keys = list(metadata.key_columns)
    masks = _PresentColumns(metadata)
    partial = masks.partial_rows(changes)
    moved = _key_moved(changes, keys)
    bare = pc.and_(moved, partial)
    rejected = _coordinates(changes.filter(bare), "a change of key that does not carry every column")
    rows = changes.append_column("_hs_partial", partial).append_column(
        "_hs_delete", pc.equal(changes["_hs_operation"], pa.scalar(_DELETE, pa.int8()))
    )
    departures = _departures(rows.filter(pc.and_not(moved, bare)), keys)
    rows = pa.concat_tables([rows.filter(pc.invert(bare)), departures])
    ordered = _ordered(rows.select([*names, "_hs_delete", "_hs_sequence", "_hs_columns", "_hs_partial"]))
    if pc.any(ordered["_hs_partial"]).as_py():
        result = _fold_partial(ordered, keys, columns, masks)
        has_versions = result["_hs_versions"].null_count < result.num_rows
        return Collapsed(result, changes.num_rows, has_versions, rejected)
    last = ordered.take(_by_key(ordered, keys, ("_hs_place", "max"))["_hs_place_max"])
    last = last.append_column("_hs_versions", pa.nulls(last.num_rows, pa.string()))
    return Collapsed(last.select([*names, "_hs_delete", "_hs_sequence", "_hs_versions"]), changes.num_rows, False, rejected)


def _coordinates(changes: pa.Table, reason: str) -> list[tuple[str, int, int, str]]:
    found = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).to_pylist()
    return [(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"], reason) for row in found]


def _key_moved(changes: pa.Table, keys: list[str]) -> pa.ChunkedArray:
    """Say which rows are updates whose key was another one before."""
    is_update = pc.equal(changes["_hs_operation"], pa.scalar(_UPDATE, pa.int8()))
    moved = pa.chunked_array([pa.repeat(False, changes.num_rows)])
    told = pa.chunked_array([pa.repeat(True, changes.num_rows)])
    for key in keys:
        old = changes[OLD_PREFIX + key]
        moved = pc.or_(moved, pc.fill_null(pc.not_equal(changes[key], old), False))
        told = pc.and_(told, pc.is_valid(old))
    return pc.and_(is_update, pc.and_(moved, told))


def _departures(moved: pa.Table, keys: list[str]) -> pa.Table:
    """Return, for updates that changed their key, the deletion of the old key at the same sequence."""
    for key in keys:
        moved = moved.set_column(moved.schema.get_field_index(key), moved.schema.field(key), moved[OLD_PREFIX + key])
    index = moved.schema.get_field_index("_hs_delete")
    return moved.set_column(index, "_hs_delete", pa.chunked_array([pa.repeat(True, moved.num_rows)]))


def _ordered(rows: pa.Table) -> pa.Table:
    """Return rows in the order they take effect: by sequence; at one sequence an upsert comes after a delete."""
    return rows.take(pc.sort_indices(rows, [("_hs_sequence", "ascending"), ("_hs_delete", "descending")]))


def _by_key(ordered: pa.Table, keys: list[str], *aggregations: tuple[str, str]) -> pa.Table:
    """Group ordered rows by key; `_hs_place` is a row's place in that order."""
    place = pa.chunked_array([pa.array(range(ordered.num_rows), pa.int64())])
    return ordered.append_column("_hs_place", place).group_by(keys, use_threads=False).aggregate(list(aggregations))


class _PresentColumns:
    """Which of a table's columns a mask says are present; masks repeat, so each is read once."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._names = {column.ordinal: column.name for column in metadata.columns}
        self._known: dict[bytes, frozenset[str]] = {}
        self.all = frozenset(self._names.values())

    def of(self, mask: bytes | None) -> frozenset[str]:
        """Return the names of the present columns; None and an empty mask mean every column."""
        if not mask:
            return self.all
        if mask not in self._known:
            self._known[mask] = frozenset(self._names[o] for o in decode_mask(mask) if o in self._names)
        return self._known[mask]

    def partial_rows(self, changes: pa.Table) -> pa.ChunkedArray:
        """Say which rows are updates that leave a column out. An insert or full load is whole: its row did not exist."""
        masks = changes["_hs_columns"].combine_chunks().dictionary_encode()
        is_part = pa.array([self.of(mask) != self.all for mask in masks.dictionary.to_pylist()], pa.bool_())
        partial = pc.fill_null(pc.take(is_part, masks.indices), False)
        is_update = pc.equal(changes["_hs_operation"], pa.scalar(_UPDATE, pa.int8()))
        return pc.and_(is_update, pa.chunked_array([partial], pa.bool_()))


def _fold_partial(ordered: pa.Table, keys: list[str], columns: list[str], masks: _PresentColumns) -> pa.Table:
    """Return one row a key: the last one, or for keys that have partial changes what their changes come to."""
    groups = _by_key(ordered, keys, ("_hs_place", "max"), ("_hs_place", "list"), ("_hs_partial", "any"))
    whole = groups.filter(pc.invert(groups["_hs_partial_any"]))
    last = ordered.take(whole["_hs_place_max"])
    last = last.append_column("_hs_versions", pa.nulls(last.num_rows, pa.string()))
    names = [name for name in columns if name in ordered.schema.names]
    result_columns = [*names, "_hs_delete", "_hs_sequence", "_hs_versions"]
    last = last.select(result_columns)
    places = groups.filter(groups["_hs_partial_any"])["_hs_place_list"].to_pylist()
    folded = [_fold(ordered.take(sorted(group)).to_pylist(), columns, masks) for group in places]
    rows = [{name: row[name] for name in result_columns} for row in folded]
    return pa.concat_tables([last, pa.Table.from_pylist(rows, schema=last.schema)])


def _fold(changes: list[dict[str, Any]], columns: list[str], masks: _PresentColumns) -> dict[str, Any]:
    """Return one row for the changes of one key, in order: each column as the last change that carries it has it."""
    result: dict[str, Any] = dict.fromkeys(columns)
    versions = dict.fromkeys(columns, ABSENT_VERSION)
    for change in changes:
        version = version_of(change["_hs_sequence"])
        whole = change["_hs_delete"] or not change["_hs_partial"]
        for name in masks.all if whole else masks.of(change["_hs_columns"]):
            result[name], versions[name] = change[name], version
        result["_hs_delete"], result["_hs_sequence"] = change["_hs_delete"], change["_hs_sequence"]
    level = version_of(result["_hs_sequence"])
    uniform = result["_hs_delete"] or all(versions[name] == level for name in masks.all)
    result["_hs_versions"] = None if uniform else "".join(versions[name] for name in columns)
    return result
