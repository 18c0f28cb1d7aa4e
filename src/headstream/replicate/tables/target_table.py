"""A target table of a running pipeline: its Delta table, change table, tombstones and state.

changes -> positions among the loads -> schema evolution -> one change per key -> merge, in one commit
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.columns.changes import CHANGE_KEY, OPERATIONS, departures
from headstream.replicate.columns.conversion import in_table_types
from headstream.replicate.columns.raw import Coordinates
from headstream.replicate.engines.engine import RowCounts, TableEngine, VectorState
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.schemas.spelling import in_table_spelling
from headstream.replicate.settings.merge_settings import MergeStrategy
from headstream.replicate.settings.table_settings import TableSettings
from headstream.replicate.storage.places import Place
from headstream.replicate.tables.change_table import ChangeTable
from headstream.replicate.tables.maintenance import Schedule
from headstream.replicate.tables.merge_state import Merged, MergeState, by_coordinates
from headstream.replicate.tables.schema_checks import check_partitions, check_schema, open_rows, stop_table
from headstream.replicate.tables.stored_merge import StoredMerge, seen_schema
from headstream.replicate.tables.table_memory import TableMemory, TableState
from headstream.replicate.tables.target_owner import Owner

__all__ = ["Merged", "OpenEngine", "TargetTable", "without_forgotten"]

_LOGGER: Final = logging.getLogger("headstream.replicate")
_FURTHER_SNAPSHOT: Final = (
    "%s has no key, and another snapshot of the table has begun. With PostgreSQL, rows committed before the snapshot are "
    "duplicated unless the replication slot was dropped first: drop slot and offsets, and let the connector take a snapshot"
)

# Changes that can belong to deleted rows whose deletions are forgotten.

_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


def without_forgotten(changes: pa.Table, table: Scd1Table, forgotten: str) -> tuple[pa.Table, dict[Coordinates, str]]:
    """Reject changes that may belong to deleted rows: changes not newer than `forgotten` with keys that the table lacks.

    Returns all other changes, and the rejected coordinates with reasons. The deletion of a key update is applied nevertheless.
    """
    if not forgotten:
        return changes, {}
    deletes = pc.equal(changes["_hs_operation"], _DELETE)
    old = pc.and_not(pc.less_equal(changes["_hs_sequence"], forgotten), deletes).combine_chunks()
    places = pc.indices_nonzero(old).to_pylist()
    if not places:
        return changes, {}
    rows = changes.take(pa.array(places, pa.int64()))
    known = table.find_known(rows) if table.keys[0] in rows.schema.names else set()
    own = in_table_types(rows.select([key for key in table.keys if key in rows.schema.names]), table.columns)
    keys = list(zip(*(column.to_pylist() for column in own.columns), strict=True)) if own.num_columns == len(table.keys) else []
    lost = {place for place, key in zip(places, keys, strict=False) if key not in known}
    reason = f"the change is older than the stored deletions (from {forgotten}), and the table does not contain the row"
    numbers = pa.array(sorted(lost), pa.int64())
    chosen = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).take(numbers).to_pylist()
    rejected = {(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"]): reason for row in chosen}
    kept = changes.filter(pa.array([place not in lost for place in range(changes.num_rows)]))
    return pa.concat_tables([kept, departures(changes.take(numbers), table.keys)]), rejected


OpenEngine: TypeAlias = Callable[[Place, Literal["auto", "deltalake", "spark"], MergeStrategy], TableEngine]
"""Returns the engine for a table's directory or URI, engine setting and merge strategy."""

_FORGETTING_STEPS: Final = 8
"""Tombstones are removed in steps of this fraction (1/n) of the configured time, so they stay at most an eighth longer."""


class TargetTable:
    """A target table; without an owner, the pipeline that writes the table is not checked."""

    def __init__(
        self,
        name: tuple[str, str],
        path: Place,
        tombstones: Path,
        memory: TableMemory,
        open_engine: OpenEngine,
        load_gap_us: int,
        changes: Place | None = None,
        owner: Owner | None = None,
    ) -> None:
        self._name = name
        self._owner = owner
        self._path = path
        self._tombstones_path = tombstones
        self._open_engine = open_engine
        self._merges = MergeState(name, memory, load_gap_us, self._changes_engine)
        self._table: Scd1Table | Scd2Table | None = None
        self._settings: TableSettings | None = None
        self._tombstones: Tombstones | None = None
        self._changes = None if changes is None else ChangeTable(changes, self._open_changes)

    def observe(self, groups: list[pa.Table], read_until_us: int | None = None) -> bool:
        """Detect full loads in a batch's changes; return whether the changes include rows of a load.

        Args:
            read_until_us: All changes of the table logged before this time are in this or an earlier call; None: all changes,
                for callers without log times.
        """
        sequences = pa.concat_tables([group.select(["_hs_operation", "_hs_sequence", "_hs_logged_us"]) for group in groups])
        if read_until_us is None:
            read_until_us = (pc.max(sequences["_hs_logged_us"]).as_py() or 0) + 1
        has_loads = self._state.loads.observe(sequences, read_until_us, self._merges.gap_us)
        self._merges.keep()
        return has_loads

    @property
    def placed_until_us(self) -> int:
        """The log time from which the load of a REFRESH row is undecided until more of the log is read."""
        return self._state.loads.read_until_us

    def merge(
        self, changes: pa.Table | SparkChanges, schema: TableSchema, app_id: str, version: int, *, repeated: bool = False
    ) -> Merged:
        """Merge changes of one structure in one commit that records (app_id, version). If the commit exists, do nothing.

        The changes are then appended to the table's change table, if there is one, in a commit with the same record.

        Args:
            changes: Decoded changes that were passed to observe(); changes on executors are merged there if possible.
            repeated: Whether changes may already be applied by another unit.

        Raises:
            SchemaChangeError: the table does not follow the schema.
            ReplicateError: another pipeline writes the table.
            StorageError: the table cannot be written.
        """
        changes_of_it = self._changes if schema.settings.changes else None
        self._claim(self._path, changes_of_it)
        given = changes.num_rows
        if isinstance(changes, SparkChanges) and changes.is_at_hand:
            changes = changes.fetch()
        left_out = given - changes.num_rows
        merged = self._merge(changes, schema, app_id, version)
        if changes_of_it is not None:
            changes_of_it.append(changes, schema, merged.rejected, app_id, version, repeated=repeated)
            self._claim(self._path, changes_of_it)
        return replace(merged, left_out=merged.left_out + left_out)

    def _claim(self, path: Place, changes: ChangeTable | None) -> None:
        if self._owner is not None:
            self._owner.claim(path)
            if changes is not None:
                self._owner.claim(changes.path)

    def _merge(self, changes: pa.Table | SparkChanges, schema: TableSchema, app_id: str, version: int) -> Merged:
        last = self._state.schema
        seen = seen_schema(schema, () if last is None else last.keys)
        check_schema(self._name, self._state.schema, seen, schema.settings)
        table = self._opened(list(seen.keys), schema.settings)
        stored, changes = (None, changes) if isinstance(changes, pa.Table) else (changes, schema.changes.empty_table())
        changes, schema = in_table_spelling(changes, schema, table.columns)
        check_partitions(self._name, schema.types, schema.settings, is_new=not table.columns)
        try:
            table.prepare(schema.types, older=self._state.schema is not None and seen.version < self._state.schema.version)
        except SchemaError as error:
            raise stop_table(self._name, error.what, error.advice, stops=False) from None
        self._claim(self._path, None)  # a new table belongs to this or to a faster pipeline
        self._state.soft = schema.settings.deletes == "soft"
        if stored is not None:
            names = tuple(changes.schema.names)
            merged = StoredMerge(self._merges, table, stored, names, schema, seen, app_id, version).run()
            if merged is not None:
                self._note_deletions()
                return merged
            changes = stored.fetch().rename_columns(changes.schema.names)
        left_out = 0 if stored is None else stored.num_rows - changes.num_rows
        keeps_all = schema.settings.deletes == "soft" or isinstance(table, Scd2Table)  # vanished rows stay and are marked
        placed = self._merges.placed(changes, schema, keeps_all=keeps_all)
        if isinstance(table, Scd2Table):
            self._merges.follow(seen)
            events = read_events(placed, schema.metadata, self._merges.known_columns(schema.types, table))
            rejected = self._merges.decide(by_coordinates(events.rejected), table, app_id, version)
            return Merged(table.merge(events, app_id, version, [end for _, end in self._state.loads.ends]), rejected, left_out)
        placed, rejected = without_forgotten(placed, table, self._state.forgotten)
        collapsed = table.collapse(placed, schema.metadata, self._merges.known_columns(schema.types, table))
        rejected = self._merges.decide(rejected | by_coordinates(collapsed.rejected), table, app_id, version)
        self._merges.follow(seen)
        counts = table.merge(collapsed, app_id, version, [bound for bound, _ in self._state.loads.ends])
        self._note_deletions()
        return Merged(counts, rejected, left_out)

    def _note_deletions(self) -> None:
        assert self._tombstones is not None
        if self._tombstones.highest > self._state.newest_deletion:
            # After the tombstones: a recorded deletion without its tombstone is treated as lost.
            self._state.newest_deletion = self._tombstones.highest
            self._merges.keep()

    @property
    def _state(self) -> TableState:
        return self._merges.state

    def _changes_engine(self) -> TableEngine | None:
        return None if self._changes is None or not self._changes.engine.columns else self._changes.engine

    @property
    def has_ended_load(self) -> bool:
        """Whether remove_vanished_rows() has rows to remove."""
        return self._state.loads.vanished is not None and self._state.schema is not None

    def remove_vanished_rows(self) -> RowCounts:
        """Remove the rows that an ended load did not contain, and the state that the load makes obsolete."""
        bound = self._state.loads.vanished
        if bound is None or self._state.schema is None:
            return RowCounts()
        self._claim(self._path, None)
        table = self._opened(list(self._state.schema.keys))
        ends = self._state.loads.ends
        ended = [end for end in ends if end[0] > self._state.loads.settled]
        commit = f"{'.'.join(self._name)}/loads", self._state.loads.end_number
        if isinstance(table, Scd2Table):
            counts = table.end_loads(ended, [at for _, at in ends], *commit)
        else:
            columns = self._merges.known_columns(self._state.schema.columns, table)
            # One by one if deleted rows stay, because a row keeps no values across the end of a load.
            bounds = [bound for bound, _ in ended] if self._state.soft else [bound]
            counts = sum((table.end_load(bound, columns, *commit) for bound in bounds), RowCounts())
        self._state.loads.mark_vanished_removed()
        self._merges.keep()
        return counts

    def begin_load(self, at_us: int) -> bool:
        """Begin a full load at a time, microseconds since 1970 UTC; return whether this was possible."""
        begins = self._state.loads.begin(at_us)
        self._merges.keep()
        return begins

    def truncate(self, sequence: str, logged_us: int) -> None:
        """Record that the source was truncated at a sequence; remove_vanished_rows() removes the rows up to this sequence."""
        self._state.loads.truncate(sequence, logged_us)
        self._merges.keep()

    def mark_load(self, at_us: int, *, is_last: bool) -> None:
        """Record the log time of the first or last row of a load, microseconds since 1970 UTC."""
        if is_last:
            self._state.loads.mark_last(at_us)
        elif self._state.loads.mark_first(at_us) and self._state.schema is not None and CHANGE_KEY in self._state.schema.keys:
            _LOGGER.warning(_FURTHER_SNAPSHOT, ".".join(self._name))
        self._merges.keep()

    def end_load(self) -> None:
        """End the newest load; remove_vanished_rows() then removes the rows that the load did not contain."""
        self._state.loads.end()
        self._merges.keep()

    @property
    def vectors(self) -> VectorState | None:
        """The table's deletion vectors, available after a merge."""
        return None if self._table is None else self._table.engine.vectors

    def maintain(self, schedule: Schedule, now_us: int, *, may_forget: bool, may_vacuum: Callable[[], bool]) -> bool:
        """Run the maintenance steps that are due; return whether a step was due.

        A step is recorded as done before it runs, so a failed step is repeated when it is due again.

        Args:
            may_forget: Whether deletions can be forgotten; False while older changes wait that may belong to deleted rows.
            may_vacuum: Returns whether files can be deleted; otherwise the step remains due.

        Raises:
            StorageError: the table or its tombstones cannot be written.
        """
        if self._state.schema is None:
            return False
        self._claim(self._path, self._changes)
        keys = list(self._state.schema.keys)
        if may_forget and self._table is not None:
            self._opened(keys).forget_ended()
        worked = may_forget and self._forget(schedule.tombstones_kept_us, now_us, keys)
        # The clustering is known after the first changes; before the first changes, there is nothing to compact.
        if self._settings is not None and schedule.is_due(schedule.compact_every_us, self._state.compacted_us, now_us):
            self._state.compacted_us, worked = now_us, True
            self._merges.keep()
            self._opened(keys).engine.compact(self._settings.cluster_by)
            if self._changes is not None and self._settings.changes:
                self._changes.engine.compact()
        elif self._table is not None and self._table.engine.fold():
            worked = True
        if schedule.is_due(schedule.vacuum_every_us, self._state.vacuumed_us, now_us) and may_vacuum():
            self._state.vacuumed_us, worked = now_us, True
            self._merges.keep()
            self._opened(keys).engine.vacuum(schedule.vacuum_kept_us)
            if self._changes is not None and self._changes.engine.columns:
                self._changes.engine.vacuum(schedule.vacuum_kept_us)
        return worked

    def _forget(self, kept_us: int | None, now_us: int, keys: list[str]) -> bool:
        """Remove the tombstones that were recorded before a time; return whether there were such tombstones."""
        if kept_us is None:
            return False
        state = self._state
        if state.newest_deletion > max((sequence for _, sequence in state.deletion_times), default=state.forgotten) and (
            not state.deletion_times or now_us - state.deletion_times[-1][0] >= kept_us // _FORGETTING_STEPS
        ):
            state.deletion_times.append((now_us, state.newest_deletion))
            self._merges.keep()
        over = [sequence for us, sequence in state.deletion_times if us <= now_us - kept_us]
        if not over:
            return False
        state.deletion_times = state.deletion_times[len(over) :]
        state.forgotten = max(state.forgotten, over[-1])
        self._merges.keep()  # first: a deletion without its tombstone would be treated as lost
        self._opened(keys).forget(over[-1])
        return True

    def _opened(self, keys: list[str], settings: TableSettings | None = None) -> Scd1Table | Scd2Table:
        """Open the table by its settings or, without settings, by its state or stored rows; reverts a failed merge's appends."""
        if self._table is not None and settings in (None, self._settings):
            self._table.decide()
            return self._table
        if self._tombstones is None:
            self._tombstones = Tombstones(self._tombstones_path, keys)
            if self._tombstones.highest < self._state.newest_deletion:  # deleted manually, or lost
                self._state.forgotten = max(self._state.forgotten, self._state.newest_deletion)
                self._merges.keep()
        # Without settings, do not enable features that the table's readers must support.
        strategy: MergeStrategy = "rewrite" if settings is None else settings.merge_strategy
        engine = self._open_engine(self._path, (settings or TableSettings()).engine, strategy)
        self._table = open_rows(self._name, engine, keys, settings, self._tombstones, was_soft=self._state.soft)
        self._settings = settings
        self._table.decide()
        return self._table

    def _open_changes(self, path: Place) -> TableEngine:
        return self._open_engine(path, "auto" if self._settings is None else self._settings.engine, "rewrite")
