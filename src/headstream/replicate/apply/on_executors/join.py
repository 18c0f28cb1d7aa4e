"""Merges the changes of a bucket of keys with the stored rows of these keys (SCD type 1) on executors; no I/O.

    changes -> statistics: partial images, key updates, key ranges -> driver
    changes, stored rows -> split: by hash of the key -> changes and stored rows of one bucket
    -> join: positioned, one change per key, or joined to the stored row (resolve.py) -> rows of the merge's source

The driver uses the same functions. Only keys that key updates connect are left to the driver (keyed_task.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.on_executors.fold import FoldReport, divide_by_tombstones
from headstream.replicate.apply.on_executors.keyed_task import Joined, KeyedTask
from headstream.replicate.apply.type1.merge_source import mixed_source, report_source
from headstream.replicate.apply.type1.resolve import Resolved, Resolver
from headstream.replicate.apply.type1.state_rows import key_table
from headstream.replicate.columns.changes import collapse
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out, match_keys
from headstream.replicate.engines.plan import DELETED
from headstream.replicate.storage.places import Place


@dataclass(frozen=True, slots=True)
class JoinTask(KeyedTask):
    """Joins changes to the rows of a table of SCD type 1. `tracks`: whether the table has had changes that omit columns."""

    tracks: bool = False

    @property
    def row_types(self) -> dict[str, str]:
        """The columns of the merge's source and their Spark types."""
        return self.fold.row_types | {"_hs_resolved": "BOOLEAN"}

    @property
    def stored_types(self) -> dict[str, str]:
        """The columns to read of stored rows, and their Spark types."""
        bookkeeping = ["_hs_sequence", "_hs_versions", *([DELETED] if self.soft else [])]
        return {name: self.columns[name] for name in dict.fromkeys([*self.keys, *self.fold.columns, *bookkeeping])}

    def join(self, changes: pa.Table, stored: pa.Table | None) -> Joined:
        """Return the join of one bucket: `changes` in log order, and the `stored` rows from split_stored(), or None."""
        count = changes.num_rows
        if self.fold.left_out is not None:
            changes = leave_out(changes, CHANGE_COORDINATES, self.fold.left_out)
        left_out = count - changes.num_rows
        is_left = self._are_of(changes, self.driver_keys)
        placed, loads = self._place(changes.filter(pa.array(~is_left)), keeps_all=self.soft)
        is_unsettled = loads.settled != self.fold.settled
        report = FoldReport(count, has_below_first=loads.has_below_first, is_unsettled=is_unsettled, left_out=left_out)
        if not placed.num_rows:
            return Joined(report, left=changes.filter(pa.array(is_left)) if is_left.any() else None)
        collapsed = collapse(placed, self.fold.metadata, self.fold.columns, soft=self.soft, tracks=self.tracks)
        if collapsed.events is not None and pc.any(collapsed.events["_hs_moved"]).as_py():
            return Joined(replace(report, needs_driver=True))  # the driver gets these keys from key statistics
        types = self.fold.types
        events = None if collapsed.events is None else in_table_types(collapsed.events, types)
        plain = in_table_types(collapsed.changes, types)
        plain, resolved = self._resolve(plain, events, collapsed, _StoredRows(stored, self.columns, self.stored_types))
        deferred = None
        if resolved is not None and resolved.deferred:
            arrow_types = {key: arrow_type(kind) for key, kind in self.key_types.items()}
            deferred = key_table(resolved.deferred, self.keys, arrow_types)
            is_left |= self._are_of(changes, deferred)
        plain = plain.drop_columns(["_hs_operation"])
        rows = mixed_source(plain, resolved, self.fold.columns, types, list(self.row_types), soft=self.soft)
        deletions = self._deletions(collapsed.deletions, resolved, deferred)
        found = report_source(count, rows, self.keys)
        report = replace(
            found,
            has_below_first=report.has_below_first,
            is_unsettled=report.is_unsettled,
            left_out=left_out,
            has_deletions=deletions is not None,
            rejected=tuple(collapsed.rejected),
        )
        return Joined(report, rows, deletions, changes.filter(pa.array(is_left)) if is_left.any() else None)

    def _resolve(
        self, plain: pa.Table, events: pa.Table | None, collapsed: Any, stored: _StoredRows
    ) -> tuple[pa.Table, Resolved | None]:
        """Return the changes that are merged as received, and the resolved rows of all other changes."""
        tombstones = _KnownTombstones(self.fold.tombstones, self.keys)
        plain, _ = divide_by_tombstones(plain, self.keys, tombstones.rows(plain.schema))
        resolver = Resolver(stored, self.keys, tombstones, None, soft=self.soft)
        places = resolver.find_late(plain, tracks=self.tracks) if plain.num_rows else pa.array([], pa.int64())
        late = take_rows(plain, places)
        plain = plain.filter(pc.invert(pc.is_in(pa.array(np.arange(plain.num_rows)), places)))
        return plain, resolver.resolve(events, late, collapsed, self.ended, tracks=self.tracks)

    def _deletions(self, found: pa.Table | None, resolved: Resolved | None, deferred: pa.Table | None) -> pa.Table | None:
        """Return the tombstones of a bucket, without keys that the driver merges; softly deleted rows need no tombstones."""
        if self.soft:
            return None
        parts = [] if found is None else [in_table_types(found, self.fold.types)]
        parts += [] if resolved is None else [resolved.deletions.select([*self.keys, "_hs_sequence"])]
        rows = pa.concat_tables(parts) if parts else None
        if rows is not None and deferred is not None:
            rows = match_keys(rows, deferred, without=True)
        return rows if rows is not None and rows.num_rows else None


class _StoredRows:
    """The stored rows of a bucket, with the interface of a table for a resolver."""

    def __init__(self, rows: pa.Table | None, columns: dict[str, str], read: dict[str, str]) -> None:
        schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in read.items()])
        self._rows = schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)
        self.columns = columns

    @property
    def path(self) -> Place:
        """Not available: a bucket has no path."""
        return Path()

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Not available: a bucket can only return rows by key."""
        raise AssertionError(where)

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return the given columns of the rows with one of the given keys."""
        return match_keys(self._rows.select(list(columns)), keys)


class _KnownTombstones:
    """The tombstones that can be above a change of a bucket."""

    def __init__(self, rows: pa.Table | None, keys: list[str]) -> None:
        self._rows = rows
        self._keys = keys

    def rows(self, types: pa.Schema) -> pa.Table:
        """Return the key columns, in the given types, and `_hs_deletion`."""
        schema = pa.schema([*(types.field(key) for key in self._keys), pa.field("_hs_deletion", pa.string())])
        return schema.empty_table() if self._rows is None else self._rows.select(schema.names).cast(schema)

    def find(self, rows: pa.Table) -> pa.Table:
        """Return the tombstones of the rows' keys that are above the lowest row."""
        found = self.rows(rows.schema)
        lowest = pc.min(rows["_hs_sequence"]).as_py()
        if lowest is None:
            return found.slice(0, 0)
        return match_keys(found.filter(pc.greater(found["_hs_deletion"], lowest)), rows.select(self._keys))
