"""Merges the changes of a bucket of keys with the stored versions of these keys (SCD type 2) on executors; no I/O.

    changes -> statistics: key updates, key ranges, lowest position -> driver
    changes, stored versions -> split: by hash of the key -> one bucket -> join: rows of the merge's source

The driver uses the same functions (type2/events.py, type2/merge_source.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.on_executors.fold import FoldReport
from headstream.replicate.apply.on_executors.keyed_task import Joined, KeyedTask, KeyStatistics
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge_source import ACTION, REMOVE, STORED, Histories
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out, match_keys
from headstream.replicate.engines.key_ranges import value_ranges

_REMOVE: Final = pa.scalar(REMOVE, pa.int8())


@dataclass(frozen=True, slots=True)
class HistoryTask(KeyedTask):
    """Joins changes to the versions of a table of SCD type 2."""

    @property
    def row_types(self) -> dict[str, str]:
        """The columns of the merge's source and their Spark types."""
        return self._histories.source_types

    @property
    def stored_types(self) -> dict[str, str]:
        """The columns to read of stored versions, and their Spark types."""
        return {name: self.columns[name] for name in (*self._histories.columns, *STORED)}

    @property
    def _histories(self) -> Histories:
        return Histories(self.columns, self.keys, self.soft, self.ended)

    def _key_statistics(self, named: pa.Table) -> KeyStatistics:
        placed, _ = self._place(named, keeps_all=True)
        return replace(KeyedTask._key_statistics(self, named), lowest=pc.min(placed["_hs_sequence"]).as_py())

    def join(self, changes: pa.Table, stored: pa.Table | None) -> Joined:
        """Return the join of one bucket. `changes` are in log order; `stored` are the versions that the changes can affect."""
        count = changes.num_rows
        if self.fold.left_out is not None:
            changes = leave_out(changes, CHANGE_COORDINATES, self.fold.left_out)
        left_out = count - changes.num_rows
        is_left = self._are_of(changes, self.driver_keys)
        left = changes.filter(pa.array(is_left)) if is_left.any() else None
        placed, loads = self._place(changes.filter(pa.array(~is_left)), keeps_all=True)
        is_unsettled = loads.settled != self.fold.settled
        report = FoldReport(count, has_below_first=loads.has_below_first, is_unsettled=is_unsettled, left_out=left_out)
        events = read_events(placed, self.fold.metadata, self.fold.columns)
        if events.rejected or (events.moves is not None and events.moves.num_rows):
            return Joined(replace(report, needs_driver=True))  # the driver gets these keys from key statistics
        if not events.rows.num_rows:
            return Joined(report, left=left)
        rows = in_table_types(events.rows, self._histories.columns)
        schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in self.stored_types.items()])
        versions = schema.empty_table() if stored is None else stored.select(schema.names).cast(schema)
        source = self._histories.source(rows, versions, lambda keys: match_keys(versions, keys.select(self.keys)), events.present)
        found = report_versions(count, source, self.keys)
        found = replace(found, has_below_first=report.has_below_first, is_unsettled=is_unsettled, left_out=left_out)
        return Joined(found, source, None, left)


def report_versions(count: int, rows: pa.Table, keys: Sequence[str]) -> FoldReport:
    """Return the report for the plan of a merge into a table of SCD type 2."""
    removes = pc.sum(pc.equal(rows[ACTION], _REMOVE)).as_py() or 0
    return FoldReport(count, rows.num_rows, removes, ranges=value_ranges(rows, keys))
