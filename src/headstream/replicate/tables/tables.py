"""The target tables of a pipeline: opens the Delta tables and merges decoded changes into them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import HeadstreamError, SchemaChangeError
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges, join_stored
from headstream.replicate.checkpoint.checkpoint_store import CheckpointStore, LocalCheckpointStore
from headstream.replicate.codec import TableMetadata
from headstream.replicate.columns.change_statistics import StoredChanges
from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.key_buckets import divide_changes
from headstream.replicate.columns.loads import TableNotice
from headstream.replicate.columns.raw import Coordinates
from headstream.replicate.engines.engine import RowCounts, VectorState
from headstream.replicate.engines.guarded import GuardedEngine
from headstream.replicate.engines.job_labels import LabelJobs, no_labels
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.settings.config import LOAD_GAP_US, ReplicateConfig
from headstream.replicate.storage.places import Place
from headstream.replicate.tables.maintenance import Schedule
from headstream.replicate.tables.table_memory import TableMemory
from headstream.replicate.tables.table_places import place_table, table_path
from headstream.replicate.tables.target_owner import Owner
from headstream.replicate.tables.target_table import OpenEngine, TargetTable

__all__ = ["Applied", "TargetTables", "table_path"]

_THREADS: Final = 4
"""Number of tables merged concurrently: the engine releases the interpreter's lock, and merges wait for the disk."""

_REFRESH: Final = pa.scalar(OPERATIONS.index("REFRESH"), pa.int8())

_UNITS: Final = {"batch": "micro-batch", "release": "release"}
"""The last part of a unit's name -> name for messages."""

TABLES_NAME: Final = "tables.sqlite"

Name: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Applied:
    """The result of applying a batch of changes.

    Args:
        rejected: Coordinates of changes that cannot be applied -> reason.
        failed: (schema, table) -> reason why the table did not apply all changes of the unit. The same changes can be applied
            again, with any unit and version: no change is lost or applied twice.
        held: Schema ids of the changes that a failed table did not apply.
        fatal: An error that, by the settings, stops the pipeline.
    """

    counts: dict[Name, RowCounts] = field(default_factory=dict)
    changes: int = 0
    merges: int = 0
    rejected: dict[Coordinates, str] = field(default_factory=dict)
    failed: dict[Name, HeadstreamError] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    fatal: HeadstreamError | None = None

    def add(self, other: Applied) -> None:
        """Add the result of applying other changes."""
        for table, counts in other.counts.items():
            self.counts[table] = self.counts.get(table, RowCounts()) + counts
        self.changes += other.changes
        self.merges += other.merges
        self.rejected |= other.rejected
        self.failed |= other.failed
        self.held |= other.held
        self.fatal = self.fatal or other.fatal


class TargetTables:
    """All tables that a pipeline writes.

    Args:
        checkpoint: Directory of the tables' state: `tombstones/` and `tables.sqlite`.
        owner: The pipeline; tables of other pipelines are rejected. None disables the check.
        checkpoint_store: Stores the state on which a table's commit relies; None: the state stays only in `checkpoint`.
        label_jobs: Labels the Spark jobs of a table's steps, and can record the result of a merge.
    """

    def __init__(
        self,
        directory: Place,
        checkpoint: Path,
        open_engine: OpenEngine,
        *,
        load_gap_us: int = LOAD_GAP_US,
        change_tables: Place | None = None,
        owner: Owner | None = None,
        checkpoint_store: CheckpointStore | None = None,
        label_jobs: LabelJobs = no_labels,
    ) -> None:
        self._checkpoint = checkpoint
        self._checkpoint_store = LocalCheckpointStore() if checkpoint_store is None else checkpoint_store
        self._directory = directory
        self._tombstones = checkpoint / "tombstones"
        self._memory = TableMemory(checkpoint / TABLES_NAME)
        self._open_engine = open_engine
        self._load_gap_us = load_gap_us
        self._change_tables = change_tables
        self._owner = owner
        self._open: dict[Name, TargetTable] = {}
        self._touched: set[Name] = set()
        self._label_jobs = label_jobs
        self._lock = threading.Lock()

    @classmethod
    def of(
        cls,
        config: ReplicateConfig,
        open_engine: OpenEngine,
        pipeline: str,
        checkpoint_store: CheckpointStore | None = None,
        label_jobs: LabelJobs = no_labels,
    ) -> TargetTables:
        """Return the tables of a pipeline, given its identity."""
        return cls(
            config.tables,
            config.state_directory,
            open_engine,
            load_gap_us=config.load_gap_us,
            change_tables=config.change_tables,
            owner=Owner(pipeline, config.checkpoint, config.take_over),
            checkpoint_store=checkpoint_store,
            label_jobs=label_jobs,
        )

    def close(self) -> None:
        """Close the open files."""
        self._memory.close()

    def observe(
        self,
        changes: Mapping[str, Sequence[pa.RecordBatch]],
        schemas: Mapping[str, TableSchema],
        read_until_us: int,
        stored: Mapping[str, StoredChanges] | None = None,
    ) -> dict[Name, int]:
        """Detect full loads in decoded changes, including changes of failing tables.

        Args:
            read_until_us: All changes logged before this time, microseconds since 1970 UTC, are in this or an earlier call.

        Returns:
            Table with REFRESH rows in the changes -> the log time from which the load of these rows is undecided.
        """
        tables: dict[Name, list[pa.Table]] = {}
        for schema_id, batches in changes.items():
            if any(batch.num_rows for batch in batches):
                tables.setdefault(schemas[schema_id].table, []).append(pa.Table.from_batches(batches))
        for schema_id, found in (stored or {}).items():
            tables.setdefault(schemas[schema_id].table, []).append(found.statistics.trace)
        opened = {name: self._table(name) for name in tables}
        return {name: table.placed_until_us for name, table in opened.items() if table.observe(tables[name], read_until_us)}

    def apply(
        self,
        changes: Mapping[str, Sequence[pa.RecordBatch]],
        schemas: Mapping[str, TableSchema],
        unit: str,
        version: int,
        *,
        repeated: bool = False,
        is_observed: bool = False,
        stored: Mapping[str, StoredChanges] | None = None,
    ) -> Applied:
        """Merge decoded changes into their tables, with one commit per table and structure; each commit records unit and version.

        Tables are merged concurrently. A failing table does not affect other tables; see Applied.failed.

        Args:
            unit: Name of the unit, the same in a rerun after a restart.
            version: Number of the unit; must increase.
            repeated: Whether changes may already be applied, by another unit or an earlier run of this unit.
            is_observed: Whether the changes were passed to observe(); otherwise they are treated as all changes logged until now.
            stored: Schema id -> more changes, stored on executors, that were passed to observe().
        """
        present = [schema_id for schema_id, batches in changes.items() if any(batch.num_rows for batch in batches)]
        tables: dict[Name, dict[str, list[str]]] = {}
        for schema_id in dict.fromkeys([*(stored or ()), *present]):
            structures = tables.setdefault(schemas[schema_id].table, {})
            structures.setdefault(_structure(schemas[schema_id].metadata), []).append(schema_id)

        of_unit = f"{_UNITS.get(unit.rpartition('/')[2], unit)} {version}"

        def apply_table(name: Name) -> Applied:
            with self._label_jobs(f"{_show(name)}: merge, {of_unit}") as span:
                done = self._apply_table(name, tables[name], changes, stored or {}, schemas, unit, version, is_observed, repeated)
                if span is not None:
                    span.end(done)
                return done

        applied = Applied()
        if len(tables) == 1:
            return apply_table(next(iter(tables)))
        with ThreadPoolExecutor(_THREADS, "headstream-merge") as threads:
            for part in threads.map(apply_table, sorted(tables)):
                applied.add(part)
        return applied

    def _apply_table(
        self,
        name: Name,
        structures: Mapping[str, list[str]],
        changes: Mapping[str, Sequence[pa.RecordBatch]],
        stored: Mapping[str, StoredChanges],
        schemas: Mapping[str, TableSchema],
        unit: str,
        version: int,
        is_observed: bool,
        repeated: bool,
    ) -> Applied:
        """Merge the changes of one table, one structure after another."""
        # Older versions first, so that dropped and added columns end as in the newest schema.
        ordered = sorted(structures.items(), key=lambda item: (schemas[item[1][0]].metadata.lineage.table_version, item[0]))
        groups = [_group(ids, changes, stored) for _, ids in ordered]
        applied = Applied()
        self._touched.add(name)
        waiting = {schema_id for _, ids in ordered for schema_id in ids}
        try:
            table = self._table(name)
            if not is_observed:
                table.observe([group for group in groups if isinstance(group, pa.Table)])
            has_loads = any(_has_loads(group) for group in groups)
            for (structure, ids), group in zip(ordered, groups, strict=True):
                try:
                    for part, rows in divide_changes(group) if isinstance(group, pa.Table) else [("", group)]:
                        again = repeated or part != ""  # a rerun can divide the changes into other parts
                        merged = table.merge(rows, schemas[ids[0]], f"{unit}/{structure}{part}", version, repeated=again)
                        applied.add(Applied({name: merged.counts}, rows.num_rows - merged.left_out, 1, merged.rejected))
                except SchemaChangeError as error:
                    applied.failed[name] = error
                    applied.fatal = applied.fatal or (error if error.stops else None)
                    continue
                waiting -= set(ids)
            if not has_loads:
                applied.add(Applied({name: table.remove_vanished_rows()}))
        except HeadstreamError as error:
            applied.failed[name] = error
        applied.held = waiting
        return applied

    def take_touched(self) -> set[Name]:
        """Return the tables that may have received new versions since the last call."""
        found = set(self._touched)
        self._touched -= found
        return found

    def names(self) -> list[Name]:
        """Return the schemas and names of the tables that have been written."""
        return list(self._memory.names())

    def remove_vanished_rows(self, held_tables: Container[Name] = ()) -> Applied:
        """Remove the rows that ended loads did not contain. Called when no data arrives and at the end of a run."""
        applied = Applied()
        is_saved = False
        for name in self._memory.names():
            if name in held_tables:
                continue
            try:
                table = self._table(name)
                if not table.has_ended_load:
                    continue
                if not is_saved:
                    self._checkpoint_store.save()  # saves which loads have ended and how far the log has been read
                    is_saved = True
                with self._label_jobs(f"{_show(name)}: end of a load"):
                    counts = table.remove_vanished_rows()
                self._touched |= {name} if counts != RowCounts() else set()
            except HeadstreamError as error:
                applied.failed[name] = error
            else:
                if counts != RowCounts():
                    applied.add(Applied({name: counts}))
        return applied

    def begin_load(self, schema: str, table: str, at_us: int) -> bool:
        """Begin a full load of a table: REFRESH rows logged at or after a time replace the existing rows.

        A load also begins without this call if its first row is logged more than `load_gap_us` after a change.

        Args:
            at_us: The time, microseconds since 1970 UTC; the load replaces changes up to the highest change logged earlier.

        Returns:
            Whether the load begins; False if rows logged since this time were already applied as part of an earlier load.
        """
        return self._table((schema, table)).begin_load(at_us)

    def note(self, notices: Iterable[TableNotice]) -> None:
        """Record truncations, and first and last rows of loads, from messages of the source; repeated calls have no effect.

        Rows that were logged at the same time in other partitions belong to the same load.
        """
        for schema, name, kind, sequence, logged_us in notices:
            table = self._table((schema, name))
            if kind == "truncated":
                table.truncate(sequence, logged_us)
            else:
                table.mark_load(logged_us, is_last=kind == "loaded")

    def end_load(self, schema: str, table: str) -> None:
        """End a table's load before the next change ends it; remove_vanished_rows() then removes rows missing from the load."""
        self._table((schema, table)).end_load()

    def vectors(self) -> dict[Name, VectorState]:
        """Return the deletion-vector state of merged tables that have deletion vectors, or whose settings enable them."""
        with self._lock:
            opened = dict(self._open)
        return {name: state for name, table in opened.items() if (state := table.vectors) is not None}

    def maintain(
        self, name: Name, schedule: Schedule, now_us: int, *, may_forget: bool, may_vacuum: Callable[[], bool] = lambda: True
    ) -> bool:
        """Run the maintenance steps that are due for a table; return whether a step was due.

        A late change that is older than the remembered deletions, with a key that is not in the table, is dead-lettered.

        Args:
            may_forget: Whether deletions can be forgotten; False while older changes wait.
            may_vacuum: Returns whether files can be deleted; otherwise the step remains due.
        """
        with self._label_jobs(f"{_show(name)}: maintenance"):
            worked = self._table(name).maintain(schedule, now_us, may_forget=may_forget, may_vacuum=may_vacuum)
        self._touched |= {name} if worked else set()
        return worked

    def _table(self, name: Name) -> TargetTable:
        with self._lock:
            if name not in self._open:
                paths = place_table(self._directory, *name), place_table(self._tombstones, *name)
                changes = None if self._change_tables is None else place_table(self._change_tables, *name)
                opener = self._guarded(name, paths[1])
                self._open[name] = TargetTable(name, *paths, self._memory, opener, self._load_gap_us, changes, self._owner)
            return self._open[name]

    def _guarded(self, name: Name, tombstones: Path) -> OpenEngine:
        """Return a function that opens a table's engine, which saves the checkpoint before each commit."""
        if isinstance(self._checkpoint_store, LocalCheckpointStore):
            return self._open_engine
        below = tombstones.relative_to(self._checkpoint).as_posix()

        def publish() -> None:
            self._checkpoint_store.publish([below, TABLES_NAME] if self._memory.take_rejections(name) else [below])

        return lambda path, *settings: GuardedEngine(self._open_engine(path, *settings), publish)


def _group(
    schema_ids: list[str], changes: Mapping[str, Sequence[pa.RecordBatch]], stored: Mapping[str, StoredChanges]
) -> pa.Table | SparkChanges:
    """Return the changes of schemas with the same structure; the changes are on executors, unless some are in the driver."""
    kept = [stored[schema_id] for schema_id in schema_ids if schema_id in stored]
    local = [batch for schema_id in schema_ids for batch in changes.get(schema_id, ())]
    on_executors = [part for part in kept if isinstance(part, SparkChanges)]
    if on_executors and len(on_executors) == len(kept) and not local:
        return join_stored(on_executors)
    return pa.concat_tables([*(part.fetch() for part in kept), *([pa.Table.from_batches(local)] if local else [])])


def _has_loads(group: pa.Table | SparkChanges) -> bool:
    if isinstance(group, SparkChanges):
        return group.statistics.has_loads
    return bool(pc.any(pc.equal(group["_hs_operation"], _REFRESH)).as_py())


def _show(name: Name) -> str:
    return ".".join(filter(None, name))


def _structure(metadata: TableMetadata) -> str:
    """Return a string that is equal for schemas whose rows can be merged together: same columns, types and keys."""
    columns = [[c.name, c.ordinal, c.type, c.precision, c.scale, c.primary_key_position] for c in metadata.columns]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]
