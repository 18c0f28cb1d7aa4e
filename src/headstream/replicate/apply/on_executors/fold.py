"""Folds a table's changes by key on the executors that decoded them, with the functions of the driver; no I/O.

    changes -> split: by hash of the key, into a chosen number of buckets -> the changes of one bucket, in the order of the log
    -> fold: positioned among the loads -> one change per key -> filtered by tombstones -> rows of the merge's source

A bucket has all changes of its keys, so folding each bucket equals folding all changes. Only a key update, a partial image or a
dropped column needs more than its key's bucket. The fold reports these cases, and the driver then folds the table's changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import TableMetadata
from headstream.replicate.columns.changes import CHANGE_KEY, OPERATIONS, change_keys, collapse, keys_of
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.key_buckets import divide
from headstream.replicate.columns.loads import Load, Loads
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out
from headstream.replicate.columns.versions import LOAD_MARK, LOAD_TIME_CHARACTERS
from headstream.replicate.engines.key_ranges import ValueRanges, join_ranges, value_ranges

_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


@dataclass(frozen=True, slots=True)
class FoldReport:
    """The report of a fold to the driver.

    Args:
        has_below_first: Whether late changes were positioned below the first load.
        needs_driver: Whether the driver must fold the changes; if so, there are no rows.
        is_unsettled: Whether changes are positioned below the end of a load that was already settled; see Loads.place().
    """

    changes: int = 0
    rows: int = 0
    deletes: int = 0
    has_deletions: bool = False
    has_loads: bool = False
    ranges: ValueRanges = field(default_factory=dict)
    rejected: tuple[tuple[str, int, int, str], ...] = ()
    has_below_first: bool = False
    needs_driver: bool = False
    has_versions: bool = False
    is_unsettled: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Folded:
    """The fold of a bucket: rows of the merge's source, and the highest deletion of each deleted key."""

    report: FoldReport
    rows: pa.Table | None = None
    deletions: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class FoldTask:
    """Folds one table's changes of one structure; serializable for executors.

    Args:
        names: The columns of decoded changes, with the table's spelling.
        metadata: The columns and keys of the changes' schema, with the table's spelling.
        settled: Rows with a position below this string have been removed by a load.
        tombstones: The key columns and `_hs_deletion` of tombstones that can be newer than a change, or None.
    """

    names: tuple[str, ...]
    metadata: TableMetadata
    columns: tuple[str, ...]
    types: dict[str, str]
    loads: tuple[Load, ...] = ()
    settled: str = ""
    gap_us: int = 0
    skips_deletes: bool = False
    tombstones: pa.Table | None = None
    left_out: pa.Table | None = None

    @property
    def table(self) -> str:
        """Schema and name of the source table, for errors."""
        return self.metadata.lineage.qualified_name

    @property
    def row_types(self) -> dict[str, str]:
        """The columns of folded rows and their Spark types."""
        names = [column.name for column in self.metadata.columns]
        names += [name for name in self.columns if name not in names]
        own = {CHANGE_KEY: "STRING"} if not self.metadata.key_columns else {}
        bookkeeping = {"_hs_delete": "BOOLEAN", "_hs_sequence": "STRING", "_hs_versions": "STRING"}
        return {name: self.types[name] for name in names} | own | bookkeeping

    def split(self, changes: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
        """Divide decoded changes into buckets; all changes of a key are in the same bucket."""
        named = changes.rename_columns(list(self.names))
        keys = [named[key] for key in self.metadata.key_columns]
        yield from divide(named, keys or [change_keys(named)], count)

    def fold(self, changes: pa.Table) -> Folded:
        """Return the fold of one bucket, given all changes of the bucket from split(), in log order."""
        count = changes.num_rows
        if self.left_out is not None:
            changes = leave_out(changes, CHANGE_COORDINATES, self.left_out)
        left_out = count - changes.num_rows
        loads = Loads(loads=list(self.loads), settled=self.settled)
        placed = loads.place(changes, self.gap_us)
        if self.skips_deletes:
            placed = placed.filter(pc.not_equal(placed["_hs_operation"], _DELETE))
        if not placed.num_rows:
            return Folded(FoldReport(count, has_below_first=loads.has_below_first, left_out=left_out))
        collapsed = collapse(placed, self.metadata, self.columns)
        if collapsed.events is not None:
            return Folded(FoldReport(count, needs_driver=True))
        rows = in_table_types(collapsed.changes, self.types)
        keys = keys_of(self.metadata)
        if self.tombstones is not None:
            rows, _ = divide_by_tombstones(rows, keys, self.tombstones)
        deletions = None if collapsed.deletions is None else in_table_types(collapsed.deletions, self.types)
        report = FoldReport(
            count,
            rows.num_rows,
            pc.sum(rows["_hs_delete"]).as_py() or 0,
            deletions is not None and deletions.num_rows > 0,
            has_loads(rows),
            value_ranges(rows, keys),
            tuple(collapsed.rejected),
            loads.has_below_first,
            left_out=left_out,
        )
        return Folded(report, complete_columns(rows, self.columns, self.types).select(list(self.row_types)), deletions)


def join_reports(parts: Sequence[FoldReport]) -> FoldReport:
    """Return the joint report of several buckets."""
    return FoldReport(
        sum(part.changes for part in parts),
        sum(part.rows for part in parts),
        sum(part.deletes for part in parts),
        any(part.has_deletions for part in parts),
        any(part.has_loads for part in parts),
        join_ranges(part.ranges for part in parts),
        tuple(rejected for part in parts for rejected in part.rejected),
        any(part.has_below_first for part in parts),
        any(part.needs_driver for part in parts),
        any(part.has_versions for part in parts),
        any(part.is_unsettled for part in parts),
        sum(part.left_out for part in parts),
    )


def complete_columns(rows: pa.Table, columns: Sequence[str], types: Mapping[str, str]) -> pa.Table:
    """Return inserts and deletions with null in the columns that their schema lacks."""
    present = set(rows.schema.names)
    for name in columns:
        if name not in present:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, arrow_type(types[name])))
    return rows


def divide_by_tombstones(changes: pa.Table, keys: list[str], tombstones: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Divide changes, one per key, into changes to apply and upserts older than their key's tombstone (`_hs_deletion`)."""
    nothing = changes.slice(0, 0)
    if not tombstones.num_rows:
        return changes, nothing
    tombstones = tombstones.cast(pa.schema([*(changes.schema.field(key) for key in keys), pa.field("_hs_deletion", pa.string())]))
    numbers = pa.array(np.arange(changes.num_rows))
    numbered = changes.select([*keys, "_hs_sequence", "_hs_delete"]).append_column("_hs_place", numbers)
    found = numbered.join(tombstones, keys, join_type="inner")
    is_late = pc.and_not(pc.less(found["_hs_sequence"], found["_hs_deletion"]), found["_hs_delete"])
    is_lost = pc.is_in(numbers, found.filter(is_late)["_hs_place"].combine_chunks())
    return changes.filter(pc.invert(is_lost)), changes.filter(is_lost)


def has_loads(rows: pa.Table) -> bool:
    """Return whether rows include positioned rows of full loads."""
    marks = pc.utf8_slice_codeunits(rows["_hs_sequence"], -LOAD_TIME_CHARACTERS - 1, -LOAD_TIME_CHARACTERS)
    return bool(pc.any(pc.equal(marks, LOAD_MARK)).as_py())
