"""The target tables of a pipeline: which Delta table a source table is, and decoded changes into them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.replicate import TableMetadata
from headstream.errors import HeadstreamError, SchemaChangeError
from headstream.spark.replicate.apply.engine import Counts
from headstream.spark.replicate.changes import OPERATIONS
from headstream.spark.replicate.config import ReplicateConfig
from headstream.spark.replicate.loads import LOAD_GAP_US
from headstream.spark.replicate.maintenance import Schedule
from headstream.spark.replicate.raw import Coordinates
from headstream.spark.replicate.schemas import TableSchema
from headstream.spark.replicate.table_memory import TableMemory
from headstream.spark.replicate.table_places import place_table, table_path
from headstream.spark.replicate.target_owner import Owner
from headstream.spark.replicate.target_table import OpenEngine, TargetTable

__all__ = ["Applied", "TargetTables", "table_path"]

_THREADS: Final = 4
"""Tables merged at a time: the engine works outside the interpreter's lock, and each merge waits for the disk in between."""

_REFRESH: Final = pa.scalar(OPERATIONS.index("REFRESH"), pa.int8())

Name: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Applied:
    """What applying a batch of changes did.

    Args:
        counts: (schema, table) -> rows inserted, updated and deleted.
        changes: How many changes went in.
        merges: How many merges that took.
        rejected: Coordinates of changes that cannot be applied -> the reason.
        failed: (schema, table) -> why the table took none, or not all, of this unit's changes. Nothing is lost and
            nothing is applied twice when the same changes are applied again, under any unit and version.
        held: The schema ids whose changes a failed table did not take.
        fatal: An error that the settings say the pipeline must stop at.
    """

    counts: dict[Name, Counts] = field(default_factory=dict)
    changes: int = 0
    merges: int = 0
    rejected: dict[Coordinates, str] = field(default_factory=dict)
    failed: dict[Name, HeadstreamError] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    fatal: HeadstreamError | None = None

    def add(self, other: Applied) -> None:
        """Add what applying other changes did."""
        for table, counts in other.counts.items():
            self.counts[table] = self.counts.get(table, Counts()) + counts
        self.changes += other.changes
        self.merges += other.merges
        self.rejected |= other.rejected
        self.failed |= other.failed
        self.held |= other.held
        self.fatal = self.fatal or other.fatal


class TargetTables:
    """Every table that a pipeline writes.

    Args:
        directory: Where they are.
        checkpoint: Where what must be known of them is: `tombstones/` and `tables.sqlite`.
        open_engine: Opens their Delta tables.
        load_gap_us: As loads.LOAD_GAP_US.
        change_tables: Where their change tables are; None for none.
        owner: The pipeline; tables that another one writes are refused. None where that is not looked at.
    """

    def __init__(
        self,
        directory: Path,
        checkpoint: Path,
        open_engine: OpenEngine,
        *,
        load_gap_us: int = LOAD_GAP_US,
        change_tables: Path | None = None,
        owner: Owner | None = None,
    ) -> None:
        self._directory = directory
        self._tombstones = checkpoint / "tombstones"
        self._memory = TableMemory(checkpoint / "tables.sqlite")
        self._open_engine = open_engine
        self._load_gap_us = load_gap_us
        self._change_tables = change_tables
        self._owner = owner
        self._open: dict[Name, TargetTable] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, config: ReplicateConfig, open_engine: OpenEngine, pipeline: str) -> TargetTables:
        """Return the tables of a pipeline, given its identity."""
        return cls(
            config.tables,
            config.checkpoint,
            open_engine,
            load_gap_us=config.load_gap_us,
            change_tables=config.change_tables,
            owner=Owner(pipeline, config.checkpoint, config.take_over),
        )

    def close(self) -> None:
        """Close what is open."""
        self._memory.close()

    def learn(
        self,
        changes: Mapping[str, list[pa.RecordBatch]],
        schemas: Mapping[str, TableSchema],
        read_until_us: int,
    ) -> dict[Name, int]:
        """Learn which loads there are from decoded changes, also of tables that take none at the moment.

        Args:
            changes: Schema id -> decoded changes.
            schemas: Schema id -> the schema.
            read_until_us: All changes that were logged before this time have been learned, with these, microseconds since
                1970 UTC.

        Returns:
            Table of which REFRESH rows are among them -> the log time from which on their load is not known yet.
        """
        tables: dict[Name, list[pa.Table]] = {}
        for schema_id, batches in changes.items():
            if any(batch.num_rows for batch in batches):
                tables.setdefault(schemas[schema_id].table, []).append(pa.Table.from_batches(batches))
        opened = {name: self._table(name) for name in tables}
        return {name: table.placed_until_us for name, table in opened.items() if table.learn(tables[name], read_until_us)}

    def apply(
        self,
        changes: Mapping[str, list[pa.RecordBatch]],
        schemas: Mapping[str, TableSchema],
        unit: str,
        version: int,
        *,
        repeated: bool = False,
        is_learned: bool = False,
    ) -> Applied:
        """Merge decoded changes into their tables: one commit a table and structure, which remembers unit and version.

        Tables are merged side by side; one that fails does not keep the others from going on, see Applied.failed.

        Args:
            changes: Schema id -> decoded changes.
            schemas: Schema id -> the schema.
            unit: Names what is applied, the same when it is applied again after a restart.
            version: Number of this application, rising within the unit.
            repeated: Whether some of the changes may have been applied by another unit, or by an earlier run of this one.
            is_learned: Whether learn() has seen the changes; else they are taken for all that were logged until now.
        """
        tables: dict[Name, dict[str, list[str]]] = {}
        for schema_id, batches in changes.items():
            if any(batch.num_rows for batch in batches):
                structures = tables.setdefault(schemas[schema_id].table, {})
                structures.setdefault(_structure(schemas[schema_id].metadata), []).append(schema_id)

        def apply_table(name: Name) -> Applied:
            return self._apply_table(name, tables[name], changes, schemas, unit, version, is_learned, repeated)

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
        changes: Mapping[str, list[pa.RecordBatch]],
        schemas: Mapping[str, TableSchema],
        unit: str,
        version: int,
        is_learned: bool,
        repeated: bool,
    ) -> Applied:
        """Merge the changes of one table, one structure after the other."""
        # Older versions first, so that a column dropped and a column added end as the newest schema has them.
        ordered = sorted(structures.items(), key=lambda item: (schemas[item[1][0]].metadata.lineage.table_version, item[0]))
        groups = [pa.Table.from_batches([b for schema_id in ids for b in changes[schema_id]]) for _, ids in ordered]
        applied = Applied()
        waiting = {schema_id for _, ids in ordered for schema_id in ids}
        try:
            table = self._table(name)
            if not is_learned:
                table.learn(groups)
            has_loads = any(pc.any(pc.equal(group["_hs_operation"], _REFRESH)).as_py() for group in groups)
            for (structure, ids), group in zip(ordered, groups, strict=True):
                try:
                    merged = table.merge(group, schemas[ids[0]], f"{unit}/{structure}", version, repeated=repeated)
                except SchemaChangeError as error:
                    applied.failed[name] = error
                    applied.fatal = applied.fatal or (error if error.stops else None)
                    continue
                applied.add(Applied({name: merged.counts}, group.num_rows, 1, merged.rejected))
                waiting -= set(ids)
            if not has_loads:
                applied.add(Applied({name: table.settle()}))
        except HeadstreamError as error:
            applied.failed[name] = error
        applied.held = waiting
        return applied

    def names(self) -> list[Name]:
        """Return the schemas and names of the tables that have been written."""
        return list(self._memory.names())

    def settle(self, resting: Container[Name] = ()) -> Applied:
        """Remove what loads that are over did not bring; to be called when no data comes, and at the end of a run.

        Args:
            resting: Tables that are not to be tried.
        """
        applied = Applied()
        for name in self._memory.names():
            if name in resting:
                continue
            try:
                counts = self._table(name).settle()
            except HeadstreamError as error:
                applied.failed[name] = error
            else:
                if counts != Counts():
                    applied.add(Applied({name: counts}))
        return applied

    def begin_load(self, schema: str, table: str, at_us: int) -> bool:
        """Say that a full load of a table begins: its REFRESH rows that are logged from then on replace what is there.

        The load's first row says so too, as long as it is logged more than `load_gap_us` after a change.

        Args:
            schema: The source schema.
            table: The source table.
            at_us: When, microseconds since 1970 UTC; the highest change logged until then is what the load replaces.

        Returns:
            Whether a load begins then; not where rows that were logged since have been applied as those of an earlier load.
        """
        return self._table((schema, table)).begin_load(at_us)

    def end_load(self, schema: str, table: str) -> None:
        """Say that a table's load is over, which otherwise its next change says: settle() removes the rows it did not bring."""
        self._table((schema, table)).end_load()

    def maintain(self, name: Name, schedule: Schedule, now_us: int, *, may_forget: bool) -> bool:
        """Care for a table as far as it is time; return whether there was anything to do.

        A change that is older than the deletions remembered, comes after all and is for a key that is not in the table is
        given up with that reason.

        Args:
            name: Schema and name.
            schedule: What is done how often.
            now_us: The time, microseconds since 1970 UTC.
            may_forget: Whether deletions may be forgotten: not while older changes wait.

        Raises:
            StorageError: the table cannot be written.
        """
        return self._table(name).maintain(schedule, now_us, may_forget=may_forget)

    def _table(self, name: Name) -> TargetTable:
        with self._lock:
            if name not in self._open:
                paths = place_table(self._directory, *name), place_table(self._tombstones, *name)
                changes = None if self._change_tables is None else place_table(self._change_tables, *name)
                self._open[name] = TargetTable(
                    name, *paths, self._memory, self._open_engine, self._load_gap_us, changes, self._owner
                )
            return self._open[name]


def _structure(metadata: TableMetadata) -> str:
    """Return a text that two schemas share when their rows can be merged as one: same columns, types and keys."""
    columns = [[c.name, c.ordinal, c.type, c.precision, c.scale, c.primary_key_position] for c in metadata.columns]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]
