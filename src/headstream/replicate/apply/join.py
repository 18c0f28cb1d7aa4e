"""Merges the changes of a bucket of keys with the stored rows of these keys; pure, runs on executors.

    changes -> survey: partial images, changes of key, ranges of keys -> driver
    changes, stored rows -> split: by hash of the key -> changes and stored rows of one bucket
    -> join: placed, one change a key, or joined to the stored row (resolve.py) -> rows of the merge's source

These are the functions that the driver uses. Only keys that changes of key connect are left to it, with all their changes: which
row such a change moves can depend on other buckets and on changes that were logged earlier (key_log.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.fold import FoldReport, FoldTask, divide_by_tombstones
from headstream.replicate.apply.key_ranges import ValueRanges, join_ranges, value_ranges
from headstream.replicate.apply.merge_source import mixed_source, report_source
from headstream.replicate.apply.resolve import Resolved, Resolver
from headstream.replicate.apply.soft import DELETED
from headstream.replicate.apply.state_rows import key_table
from headstream.replicate.columns.changes import OPERATIONS, collapse, has_partial_images, moved_keys
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.key_buckets import divide
from headstream.replicate.columns.loads import Loads
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out, match_keys
from headstream.replicate.storage.places import Place

__all__ = ["MAX_DRIVER_KEYS", "JoinTask", "Joined", "Survey", "join_surveys"]

MAX_DRIVER_KEYS: Final = 20_000
"""Most keys that are left to the driver because changes of key connect them; with more, it gets all changes of the table."""
_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


@dataclass(frozen=True, slots=True)
class Survey:
    """What the driver learns of changes before they are joined.

    Args:
        ranges: The ranges of their keys.
        moved: The keys before and after changes of key; None if there are too many.
        has_partial: Whether some are updates that omit columns.
    """

    ranges: ValueRanges
    moved: pa.Table | None
    has_partial: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """The join of a bucket.

    Args:
        report: What the driver learns of it.
        rows: Rows of the merge's source, JoinTask.row_types.
        deletions: Tombstones to write first: key columns, `_hs_sequence`; None for none.
        left: The changes that the driver must merge, from split().
    """

    report: FoldReport
    rows: pa.Table | None = None
    deletions: pa.Table | None = None
    left: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class JoinTask:
    """The join of one table's changes of one structure to its rows; serializable for executors.

    Args:
        fold: What a fold of the changes needs.
        columns: All of the table's columns, bookkeeping included, and their Spark types.
        ended: As Loads.ends, the texts below which loads have replaced rows.
        soft: Whether deleted rows are marked and stay.
        tracks: Whether the table has had changes that omit columns.
        driver_keys: The keys that changes of key connect: key columns in the table's types; None for none.
    """

    fold: FoldTask
    columns: dict[str, str]
    ended: tuple[str, ...] = ()
    soft: bool = False
    tracks: bool = False
    driver_keys: pa.Table | None = None

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return list(self.fold.metadata.key_columns)

    @property
    def key_types(self) -> dict[str, str]:
        """The key columns and their Spark types."""
        return {key: self.fold.types[key] for key in self.keys}

    @property
    def row_types(self) -> dict[str, str]:
        """The columns of the merge's source and their Spark types."""
        return self.fold.row_types | {"_hs_resolved": "BOOLEAN"}

    @property
    def stored_types(self) -> dict[str, str]:
        """The columns that are read of stored rows, and their Spark types."""
        bookkeeping = ["_hs_sequence", "_hs_versions", *([DELETED] if self.soft else [])]
        return {name: self.columns[name] for name in dict.fromkeys([*self.keys, *self.fold.columns, *bookkeeping])}

    def keys_of(self, changes: pa.Table) -> pa.Table:
        """Return the keys of decoded changes, in the table's types.

        Args:
            changes: Decoded changes.
        """
        return self._own_keys(changes.rename_columns(list(self.fold.names)))

    def survey(self, changes: pa.Table) -> Survey:
        """Return what the driver learns of decoded changes first.

        Args:
            changes: Decoded changes.
        """
        named = changes.rename_columns(list(self.fold.names))
        moved = in_table_types(moved_keys(named, self.keys), self.fold.types)
        ranges = value_ranges(self._own_keys(named), self.keys)
        is_few = moved.num_rows <= MAX_DRIVER_KEYS
        return Survey(ranges, moved if is_few else None, has_partial_images(named, self.fold.metadata))

    def split(self, changes: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
        """Yield the buckets of decoded changes: all changes of a key are in one, and its stored row.

        Args:
            changes: Decoded changes.
            count: Number of buckets.
        """
        named = changes.rename_columns(list(self.fold.names))
        yield from divide(named, self._own_keys(named).columns, count)

    def split_stored(self, rows: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
        """Yield the buckets of stored rows.

        Args:
            rows: The columns of `stored_types`.
            count: Number of buckets.
        """
        rows = in_table_types(rows, self.columns)
        yield from divide(rows, rows.select(self.keys).columns, count)

    def join(self, changes: pa.Table, stored: pa.Table | None) -> Joined:
        """Return the join of one bucket.

        Args:
            changes: All of its changes from split(), in the order of the log.
            stored: Its rows from split_stored(), those with a key of the changes among them; None for none.
        """
        count = changes.num_rows
        if self.fold.left_out is not None:
            changes = leave_out(changes, CHANGE_COORDINATES, self.fold.left_out)
        is_left = self._are_of(changes, self.driver_keys)
        loads = Loads(loads=list(self.fold.loads), settled=self.fold.settled)
        placed = loads.place(changes.filter(pa.array(~is_left)), self.fold.gap_us, keeps_all=self.soft)
        if self.fold.skips_deletes:
            placed = placed.filter(pc.not_equal(placed["_hs_operation"], _DELETE))
        report = FoldReport(count, has_below_first=loads.has_below_first, is_unsettled=loads.settled != self.fold.settled)
        if not placed.num_rows:
            return Joined(report, left=changes.filter(pa.array(is_left)) if is_left.any() else None)
        collapsed = collapse(placed, self.fold.metadata, self.fold.columns, soft=self.soft, tracks=self.tracks)
        if collapsed.events is not None and pc.any(collapsed.events["_hs_moved"]).as_py():
            return Joined(replace(report, needs_driver=True))  # a survey names the keys of all of them
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
            has_deletions=deletions is not None,
            rejected=tuple(collapsed.rejected),
        )
        return Joined(report, rows, deletions, changes.filter(pa.array(is_left)) if is_left.any() else None)

    def _resolve(
        self, plain: pa.Table, events: pa.Table | None, collapsed: Any, stored: _StoredRows
    ) -> tuple[pa.Table, Resolved | None]:
        """Return the changes that are merged as they are, and the resolved rows of the others."""
        tombstones = _KnownTombstones(self.fold.tombstones, self.keys)
        plain, _ = divide_by_tombstones(plain, self.keys, tombstones.rows(plain.schema))
        resolver = Resolver(stored, self.keys, tombstones, None, soft=self.soft)
        places = resolver.find_late(plain, tracks=self.tracks) if plain.num_rows else pa.array([], pa.int64())
        late = plain.take(places)
        plain = plain.filter(pc.invert(pc.is_in(pa.array(np.arange(plain.num_rows)), places)))
        return plain, resolver.resolve(events, late, collapsed, self.ended, tracks=self.tracks)

    def _deletions(self, found: pa.Table | None, resolved: Resolved | None, deferred: pa.Table | None) -> pa.Table | None:
        """Return the tombstones of a bucket, without those of keys that the driver merges; softly deleted rows need none."""
        if self.soft:
            return None
        parts = [] if found is None else [in_table_types(found, self.fold.types)]
        parts += [] if resolved is None else [resolved.deletions.select([*self.keys, "_hs_sequence"])]
        rows = pa.concat_tables(parts) if parts else None
        if rows is not None and deferred is not None:
            rows = match_keys(rows, deferred, without=True)
        return rows if rows is not None and rows.num_rows else None

    def _own_keys(self, named: pa.Table) -> pa.Table:
        return in_table_types(named.select(self.keys), self.fold.types)

    def _are_of(self, changes: pa.Table, keys: pa.Table | None) -> npt.NDArray[np.bool_]:
        """Return which changes have one of some keys."""
        found = np.zeros(changes.num_rows, np.bool_)
        if keys is not None and keys.num_rows:
            numbered = self._own_keys(changes).append_column("_hs_place", pa.array(np.arange(changes.num_rows)))
            found[match_keys(numbered, keys)["_hs_place"].to_numpy()] = True
        return found


class _StoredRows:
    """The stored rows of a bucket, as a resolver reads a table."""

    def __init__(self, rows: pa.Table | None, columns: dict[str, str], read: dict[str, str]) -> None:
        schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in read.items()])
        self._rows = schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)
        self.columns = columns

    @property
    def path(self) -> Place:
        """Not known to a bucket."""
        return Path()

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Not possible: a bucket has rows of some keys."""
        raise AssertionError(where)

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return columns of the rows that have one of some keys."""
        return match_keys(self._rows.select(list(columns)), keys)


class _KnownTombstones:
    """The tombstones that can be above a change of a bucket."""

    def __init__(self, rows: pa.Table | None, keys: list[str]) -> None:
        self._rows = rows
        self._keys = keys

    def rows(self, types: pa.Schema) -> pa.Table:
        """Return key columns, of the types given, and `_hs_deletion`."""
        schema = pa.schema([*(types.field(key) for key in self._keys), pa.field("_hs_deletion", pa.string())])
        return schema.empty_table() if self._rows is None else self._rows.select(schema.names).cast(schema)

    def find(self, rows: pa.Table) -> pa.Table:
        """Return those of the rows' keys that are above the lowest of the rows."""
        found = self.rows(rows.schema)
        lowest = pc.min(rows["_hs_sequence"]).as_py()
        if lowest is None:
            return found.slice(0, 0)
        return match_keys(found.filter(pc.greater(found["_hs_deletion"], lowest)), rows.select(self._keys))


def join_surveys(parts: Iterable[Survey]) -> Survey:
    """Return the survey of all changes of which some parts have given ones, one or more."""
    found = list(parts)
    moved = [part.moved for part in found if part.moved is not None]
    is_few = len(moved) == len(found) and sum(part.num_rows for part in moved) <= MAX_DRIVER_KEYS
    return Survey(
        join_ranges(part.ranges for part in found),
        pa.concat_tables(moved) if is_few else None,
        any(part.has_partial for part in found),
    )
