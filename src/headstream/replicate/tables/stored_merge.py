"""Merges changes on executors: selects the changes to fold or to join to stored rows, and adds the driver's changes.

every row is from one change             fold, if there are only complete images
otherwise, or if a fold is not enough    statistics -> join; the driver merges keys that key updates connect
SCD type 2, table without rows           join without stored rows, unless there are key updates
SCD type 2, other tables                 statistics -> join to stored versions; the driver merges connected keys
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headstream.replicate.apply.evolution import SeenColumn, SeenSchema
from headstream.replicate.apply.on_executors.executor_rows import JoinedChanges
from headstream.replicate.apply.on_executors.fold import FoldReport, FoldTask
from headstream.replicate.apply.on_executors.join import JoinTask
from headstream.replicate.apply.on_executors.keyed_task import MAX_DRIVER_KEYS, KeyStatistics
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges
from headstream.replicate.apply.on_executors.version_join import HistoryTask
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.columns.changes import keys_of
from headstream.replicate.columns.raw import Coordinates
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.engines.key_ranges import literal_ranges, ranges_sql
from headstream.replicate.engines.mapped import translated
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.schemas.spelling import spell_names
from headstream.replicate.tables.merge_state import Merged, MergeState, by_coordinates

_MOST_TOMBSTONES: Final = 500_000
"""Maximum number of tombstones that are sent to executors with a task; if there are more, the driver merges."""


@dataclass(frozen=True, slots=True)
class StoredMerge:
    """A merge of changes on executors; a method returns None if the driver must merge all changes."""

    merges: MergeState
    table: Scd1Table | Scd2Table
    changes: SparkChanges
    names: tuple[str, ...]
    schema: TableSchema
    seen: SeenSchema
    app_id: str
    version: int

    def run(self) -> Merged | None:
        """Merge the changes."""
        if not self.table.engine.takes_frames:
            return None
        applied = self.table.engine.last_applied(self.app_id)
        if applied is not None and applied >= self.version:
            self.merges.follow(self.seen)
            return Merged(RowCounts(), self.merges.given_up(self.app_id, self.version))
        columns = self.merges.known_columns(self.schema.types, self.table)
        with translated(self.table.path, "executors cannot merge the changes"):
            if isinstance(self.table, Scd2Table):
                return self._extend_histories(self.table, columns)
            task = _plan_fold(self.changes, self.names, self.schema, self.table, self.merges, columns)
            if task is None:
                return None
            merged = self._fold(self.table, task) if self.table.is_uniform else None
            return merged or self._join(self.table, task)

    def _fold(self, table: Scd1Table, task: FoldTask) -> Merged | None:
        """Merge complete images, which do not require the table's rows."""
        folded = self.changes.fold(task)
        try:
            if folded.report.needs_driver:
                return None
            self._note_places(folded.report)
            rejected = self._decide(by_coordinates(folded.report.rejected))
            return Merged(table.merge_folded(folded, self.app_id, self.version), rejected, folded.report.left_out)
        finally:
            folded.close()

    def _join(self, table: Scd1Table, task: FoldTask) -> Merged | None:
        """Merge changes that executors join to stored rows; the driver merges keys that key updates connect."""
        ended = [bound for bound, _ in self.merges.state.loads.ends]
        is_soft = self.schema.settings.deletes == "soft"
        planned = _plan_join(self.changes, task, table, ended, soft=is_soft)
        if planned is None:
            return None
        join, key_statistics = planned
        where = " AND ".join(ranges_sql(literal_ranges(key_statistics.ranges)))
        joined = self.changes.join(join, table.engine.frame(list(join.stored_types), where or "TRUE"))
        try:
            if joined.report.needs_driver:
                return None
            self._note_places(joined.report)
            left, own = self._left(joined, keeps_all=is_soft), None
            if left is not None and left.num_rows:
                own = table.collapse(left, self.schema.metadata, task.columns)
            rejected = self._decide({})
            counts = table.merge_joined(joined, own, self.app_id, self.version, ended)
            return Merged(counts, rejected, joined.report.left_out)
        finally:
            joined.close()

    def _extend_histories(self, table: Scd2Table, columns: list[str]) -> Merged | None:
        """Merge changes that executors join to stored versions; the driver merges keys that key updates connect."""
        crossed = table.crossed_keys(MAX_DRIVER_KEYS)
        if crossed is None:
            return None
        task = _plan_history(self.changes, self.names, self.schema, table, self.merges, columns)
        if table.engine.is_empty and not crossed.num_rows:
            merged = self._merge_histories(table, self.changes.join(task, None), "", columns)
            if merged is not None:
                return merged
        key_statistics = self.changes.key_statistics(task)
        if key_statistics.moved is None:
            return None
        if key_statistics.lowest is None:  # all changes are deletions, which the table ignores
            return Merged(RowCounts(), self._decide({}), key_statistics.left_out)
        task = replace(task, driver_keys=pa.concat_tables([crossed, key_statistics.moved]))
        where = table.stored_where(key_statistics.ranges, key_statistics.lowest, task.ended)
        joined = self.changes.join(task, table.engine.frame(list(task.stored_types), where))
        return self._merge_histories(table, joined, key_statistics.lowest, columns)

    def _merge_histories(self, table: Scd2Table, joined: JoinedChanges, lowest: str, columns: Sequence[str]) -> Merged | None:
        """Merge joined changes and changes left to the driver; None if the join turned out to need key statistics."""
        try:
            if joined.report.needs_driver:
                return None
            self._note_places(joined.report)
            left = self._left(joined, keeps_all=True)
            own = None if left is None else read_events(left, self.schema.metadata, columns)
            rejected = self._decide({} if own is None else by_coordinates(own.rejected))
            counts = table.merge_joined(joined, own, lowest, self.app_id, self.version, joined.task.ended)
            return Merged(counts, rejected, joined.report.left_out)
        finally:
            joined.close()

    def _left(self, joined: JoinedChanges, *, keeps_all: bool) -> pa.Table | None:
        """Return the changes left to the driver, with positions; None if there are none."""
        left = joined.left()
        if left is None:
            return None
        self.changes.batch.note_fetched(left.num_rows)
        return self.merges.placed(left, self.schema, keeps_all=keeps_all)

    def _note_places(self, report: FoldReport) -> None:
        """Record the positions that executors have assigned to changes among the loads."""
        self.merges.state.loads.has_below_first |= report.has_below_first
        if report.is_unsettled:
            self.merges.state.loads.settled = ""

    def _decide(self, rejected: dict[Coordinates, str]) -> dict[Coordinates, str]:
        found = self.merges.decide(rejected, self.table, self.app_id, self.version)
        self.merges.follow(self.seen)
        return found


def _plan_fold(
    changes: SparkChanges, names: Sequence[str], schema: TableSchema, table: Scd1Table, merges: MergeState, columns: Sequence[str]
) -> FoldTask | None:
    """Return the task that folds changes of a table in which every row is from one change; None if the driver must fold."""
    statistics, state = changes.statistics, merges.state
    loads = state.loads.loads
    # Changes logged before a load began are positioned below the load's floor, and the load's rows above it; see loads.py.
    is_placed = statistics.has_loads or (bool(loads) and statistics.first_logged_us < loads[-1].begun_us)
    lowest = "" if is_placed else statistics.least or ""
    if state.forgotten and lowest <= state.forgotten:
        return None
    tombstones = table.tombstones_above(lowest, _MOST_TOMBSTONES)
    if tombstones is None:
        return None
    return FoldTask(
        tuple(names),
        schema.metadata,
        tuple(columns),
        table.columns,
        tuple(loads),
        state.loads.settled,
        merges.gap_us,
        schema.settings.deletes == "skip",
        tombstones if tombstones.num_rows else None,
        changes.batch.left_out,
    )


def _plan_join(
    changes: SparkChanges, task: FoldTask, table: Scd1Table, ended: Sequence[str], *, soft: bool
) -> tuple[JoinTask, KeyStatistics] | None:
    """Return the task that joins changes to the table's rows, and the key statistics; None if the driver must join."""
    logged = table.logged_keys(MAX_DRIVER_KEYS) if task.metadata.key_columns else None
    if logged is None:
        return None
    join = JoinTask(task, table.engine.columns, tuple(ended), soft)
    key_statistics = changes.key_statistics(join)
    if key_statistics.moved is None:
        return None
    if key_statistics.has_partial:
        table.begin_tracking()
    return replace(join, tracks=table.tracks, driver_keys=pa.concat_tables([logged, key_statistics.moved])), key_statistics


def _plan_history(
    changes: SparkChanges, names: Sequence[str], schema: TableSchema, table: Scd2Table, merges: MergeState, columns: Sequence[str]
) -> HistoryTask:
    """Return the task that joins all changes to the table's versions."""
    loads, settings = merges.state.loads, schema.settings
    task = FoldTask(
        tuple(names),
        schema.metadata,
        tuple(columns),
        table.columns,
        tuple(loads.loads),
        loads.settled,
        merges.gap_us,
        settings.deletes == "skip",
        left_out=changes.batch.left_out,
    )
    places = tuple(place for _, place in loads.ends)
    return HistoryTask(task, table.engine.columns, places, settings.deletes == "soft")


def seen_schema(schema: TableSchema, keys: Sequence[str]) -> SeenSchema:
    """Return a schema in the format of the table's state, with the table's spelling of keys."""
    columns = {
        column.name: SeenColumn(column.ordinal, schema.types[column.name], column.nullable) for column in schema.metadata.columns
    }
    return SeenSchema(schema.metadata.lineage.table_version, tuple(spell_names(keys_of(schema.metadata), keys)), columns)
