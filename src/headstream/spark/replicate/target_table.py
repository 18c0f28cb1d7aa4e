"""One target table while a pipeline runs: its Delta table, its change table, its tombstones, and what is remembered of it.

changes -> placed among the loads -> schema followed -> one change a key -> merged, in one commit
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaChangeError, SchemaError
from headstream.spark.replicate.apply.engine import Counts, TableEngine
from headstream.spark.replicate.apply.evolution import SeenColumn, SeenSchema, compare_schemas
from headstream.spark.replicate.apply.scd1 import Scd1Table
from headstream.spark.replicate.apply.scd2 import Scd2Table
from headstream.spark.replicate.apply.scd2_events import read_events
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.change_table import ChangeTable
from headstream.spark.replicate.changes import CHANGE_KEY, OPERATIONS, departures, keys_of
from headstream.spark.replicate.maintenance import Schedule
from headstream.spark.replicate.raw import Coordinates
from headstream.spark.replicate.schemas import TableSchema
from headstream.spark.replicate.spelling import in_table_spelling, spell_names
from headstream.spark.replicate.table_memory import TableMemory
from headstream.spark.replicate.table_settings import TableSettings
from headstream.spark.replicate.target_owner import Owner
from headstream.spark.replicate.versions import LOAD_TIME_CHARACTERS

__all__ = ["Merged", "OpenEngine", "TargetTable"]

OpenEngine: TypeAlias = Callable[[Path, Literal["auto", "deltalake", "spark"]], TableEngine]
"""A table's directory and what is to run its merges -> its engine."""

_BURIALS: Final = 8
"""Steps in which deletions are forgotten: they are remembered for an eighth longer than is asked for, at most."""
_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())
_ANEW: Final = "Load the table again into an empty directory, or set its scd_type back"


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging changes did: rows counted, and the changes that cannot be applied with their reasons."""

    counts: Counts
    rejected: dict[Coordinates, str]


class TargetTable:
    """One table.

    Args:
        name: Source schema and table.
        path: Its Delta table.
        tombstones: Where its deletions are remembered.
        memory: What is remembered of it.
        open_engine: Opens its Delta table.
        load_gap_us: As loads.LOAD_GAP_US.
        changes: Its change table; None for none.
        owner: The pipeline that writes it; None where that is not looked at.
    """

    def __init__(
        self,
        name: tuple[str, str],
        path: Path,
        tombstones: Path,
        memory: TableMemory,
        open_engine: OpenEngine,
        load_gap_us: int,
        changes: Path | None = None,
        owner: Owner | None = None,
    ) -> None:
        self._name = name
        self._owner = owner
        self._path = path
        self._tombstones_path = tombstones
        self._memory = memory
        self._open_engine = open_engine
        self._load_gap_us = load_gap_us
        self._state = memory.find(name)
        self._table: Scd1Table | Scd2Table | None = None
        self._settings: TableSettings | None = None
        self._tombstones: Tombstones | None = None
        self._changes = None if changes is None else ChangeTable(changes, self._open_changes)

    def learn(self, groups: list[pa.Table], read_until_us: int | None = None) -> bool:
        """Learn which loads there are from a batch's changes; return whether rows of a load are among them.

        Args:
            groups: Decoded changes.
            read_until_us: All of the table's changes logged before this time have been learned, with these; None: of any
                time, for callers that have no others.
        """
        told = pa.concat_tables([group.select(["_hs_operation", "_hs_sequence", "_hs_logged_us"]) for group in groups])
        if read_until_us is None:
            read_until_us = (pc.max(told["_hs_logged_us"]).as_py() or 0) + 1
        has_loads = self._state.loads.learn(told, read_until_us, self._load_gap_us)
        self._keep()
        return has_loads

    @property
    def placed_until_us(self) -> int:
        """The log time from which on the load of a REFRESH row is not known before more of the log has been read."""
        return self._state.loads.read_until_us

    def merge(self, changes: pa.Table, schema: TableSchema, app_id: str, version: int, *, repeated: bool = False) -> Merged:
        """Merge changes of one structure in one commit that remembers (app_id, version); nothing where it is there already.

        Where the table has a change table, they are appended to it next, which is remembered in the same way.

        Args:
            changes: Decoded changes that learn() has seen.
            schema: What they were decoded by.
            app_id: Names what is applied.
            version: Number of this application, rising.
            repeated: Whether some of the changes may have been applied by another unit.

        Raises:
            SchemaChangeError: the table does not follow the schema.
            ReplicateError: another pipeline writes the table.
            StorageError: the table cannot be written.
        """
        changes_of_it = self._changes if schema.settings.changes else None
        self._claim(self._path, changes_of_it)
        merged = self._merge(changes, schema, app_id, version)
        if changes_of_it is not None:
            changes_of_it.append(changes, schema, merged.rejected, app_id, version, repeated=repeated)
            self._claim(self._path, changes_of_it)
        return merged

    def _claim(self, path: Path, changes: ChangeTable | None) -> None:
        if self._owner is not None:
            self._owner.claim(path)
            if changes is not None:
                self._owner.claim(changes.path)

    def _merge(self, changes: pa.Table, schema: TableSchema, app_id: str, version: int) -> Merged:
        last = self._state.schema
        seen = _seen_schema(schema, () if last is None else last.keys)
        self._check_schema(seen, schema.settings)
        table = self._opened(list(seen.keys), schema.settings)
        changes, schema = in_table_spelling(changes, schema, table.columns)
        try:
            table.prepare(schema.types, older=self._state.schema is not None and seen.version < self._state.schema.version)
        except SchemaError as error:
            raise self._stop(error.what, error.advice, stops=False) from None
        self._claim(self._path, None)  # made just now, it is ours; or that of one who was quicker
        keeps_all = schema.settings.deletes == "soft" or isinstance(table, Scd2Table)  # what vanished is there, marked
        placed = self._state.loads.place(changes, self._load_gap_us, keeps_all=keeps_all)
        if schema.settings.deletes == "skip":
            placed = placed.filter(pc.not_equal(placed["_hs_operation"], _DELETE))
        if isinstance(table, Scd2Table):
            self._follow(seen)
            events = read_events(placed, schema.metadata, self._known_columns(schema, table))
            rejected = self._decide(_by_coordinates(events.rejected), table, app_id, version)
            return Merged(table.merge(events, app_id, version), rejected)
        placed, rejected = self._without_forgotten(placed, table)
        collapsed = table.collapse(placed, schema.metadata, self._known_columns(schema, table))
        rejected = self._decide(rejected | _by_coordinates(collapsed.rejected), table, app_id, version)
        self._follow(seen)
        counts = table.merge(collapsed, app_id, version)
        assert self._tombstones is not None
        if self._tombstones.highest > self._state.buried:
            # Afterwards: what is said to be buried and is not found counts as lost.
            self._state.buried = self._tombstones.highest
            self._keep()
        return Merged(counts, rejected)

    def _decide(
        self, rejected: dict[Coordinates, str], table: Scd1Table | Scd2Table, app_id: str, version: int
    ) -> dict[Coordinates, str]:
        """Return what is given up: what was when the unit was applied, if it was; rows and deletions are others since."""
        changes_of_it = () if self._changes is None or not self._changes.engine.columns else (self._changes.engine,)
        for engine in (table.engine, *changes_of_it):
            applied = engine.last_applied(app_id)
            if applied is not None and applied >= version:
                return self._memory.given_up(self._name, app_id, version)
        self._memory.give_up(self._name, app_id, version, rejected)
        return rejected

    def _known_columns(self, schema: TableSchema, table: Scd1Table | Scd2Table) -> list[str]:
        """Return the table's columns that its source has, or has had; the others are not the pipeline's to write."""
        known = {*self._state.columns, *schema.types}
        if self._state.schema is not None:
            known |= self._state.schema.columns.keys()
        if len(known) > len(self._state.columns):
            self._state.columns = sorted(known)
            self._keep()
        return [name for name in table.columns if name in known]

    def _follow(self, seen: SeenSchema) -> None:
        if self._state.schema is None or seen.version >= self._state.schema.version:
            self._state.schema = seen
        self._keep()

    def settle(self) -> Counts:
        """Remove the rows that a load which is over did not bring, and what need not be remembered since."""
        bound = self._state.loads.vanished
        if bound is None or self._state.schema is None:
            return Counts()
        self._claim(self._path, None)
        table = self._opened(list(self._state.schema.keys))
        if isinstance(table, Scd2Table):
            counts = table.remove_until(bound, f"{bound}{self._state.loads.loads[-1].begun_us:0{LOAD_TIME_CHARACTERS}d}")
        else:
            counts = table.remove_until(bound)
        self._state.loads.settle()
        self._keep()
        table.forget(bound, vanished=True)
        return counts

    def begin_load(self, at_us: int) -> bool:
        """Say that a full load begins at a time, microseconds since 1970 UTC; return whether it does."""
        begins = self._state.loads.begin(at_us)
        self._keep()
        return begins

    def end_load(self) -> None:
        """Say that the newest load is over: settle() removes the rows that it did not bring."""
        self._state.loads.end()
        self._keep()

    def maintain(self, schedule: Schedule, now_us: int, *, may_forget: bool) -> bool:
        """Care for the table as far as it is time; return whether there was anything to do.

        Each step counts as done before it is: one that fails is for the next time.

        Args:
            schedule: What is done how often.
            now_us: The time, microseconds since 1970 UTC.
            may_forget: Whether deletions may be forgotten; not while older changes wait that may be of deleted rows.

        Raises:
            StorageError: the table, or its deletions, cannot be written.
        """
        if self._state.schema is None:
            return False
        self._claim(self._path, self._changes)
        keys = list(self._state.schema.keys)
        worked = may_forget and self._forget(schedule.tombstones_kept_us, now_us, keys)
        # How it is clustered is known once changes have come; before, there is nothing new to put together either.
        if self._settings is not None and schedule.is_due(schedule.compact_every_us, self._state.compacted_us, now_us):
            self._state.compacted_us, worked = now_us, True
            self._keep()
            self._opened(keys).engine.compact(self._settings.cluster_by)
            if self._changes is not None and self._settings.changes:
                self._changes.engine.compact()
        if schedule.is_due(schedule.vacuum_every_us, self._state.vacuumed_us, now_us):
            self._state.vacuumed_us, worked = now_us, True
            self._keep()
            self._opened(keys).engine.vacuum(schedule.vacuum_kept_us)
            if self._changes is not None and self._changes.engine.columns:
                self._changes.engine.vacuum(schedule.vacuum_kept_us)
        return worked

    def _forget(self, kept_us: int | None, now_us: int, keys: list[str]) -> bool:
        """Forget the deletions that were recorded longer ago than a time; return whether there were any."""
        if kept_us is None:
            return False
        state = self._state
        if state.buried > max((sequence for _, sequence in state.burials), default=state.forgotten) and (
            not state.burials or now_us - state.burials[-1][0] >= kept_us // _BURIALS
        ):
            state.burials.append((now_us, state.buried))
            self._keep()
        over = [sequence for us, sequence in state.burials if us <= now_us - kept_us]
        if not over:
            return False
        state.burials = state.burials[len(over) :]
        state.forgotten = max(state.forgotten, over[-1])
        self._keep()  # first: what is forgotten must not be taken for what never was
        self._opened(keys).forget(over[-1])
        return True

    def _keep(self) -> None:
        self._memory.keep(self._name, self._state)

    def _opened(self, keys: list[str], settings: TableSettings | None = None) -> Scd1Table | Scd2Table:
        """Return the table, opened as its settings say; without settings as it was, or as what is there says."""
        if self._table is not None and settings in (None, self._settings):
            return self._table
        if self._tombstones is None:
            self._tombstones = Tombstones(self._tombstones_path, keys)
            if self._tombstones.highest < self._state.buried:  # dropped by hand, or lost
                self._state.forgotten = max(self._state.forgotten, self._state.buried)
                self._keep()
        self._table = self._open_as(keys, settings or TableSettings())
        self._settings = settings
        return self._table

    def _open_changes(self, path: Path) -> TableEngine:
        return self._open_engine(path, "auto" if self._settings is None else self._settings.engine)

    def _open_as(self, keys: list[str], settings: TableSettings) -> Scd1Table | Scd2Table:
        engine = self._open_engine(self._path, settings.engine)
        has_history = "_hs_valid_from" in engine.columns
        soft = settings.deletes == "soft"
        if not has_history and (engine.columns or settings.scd_type == 1):
            if settings.scd_type == 2:
                raise self._stop("the table has rows as they are (SCD type 1), and type 2 is asked for", _ANEW, stops=False)
            assert self._tombstones is not None
            return Scd1Table(engine, keys, self._tombstones, soft=soft, partition_by=settings.partition_by)
        if settings.scd_type == 1 and settings != TableSettings():
            raise self._stop("the table has every version of its rows (SCD type 2), and type 1 is asked for", _ANEW, stops=False)
        if keys == [CHANGE_KEY]:
            raise self._stop("the table has no key, so its rows have no history", "Name its key columns in `keys`", stops=False)
        return Scd2Table(engine, keys, settings.partition_by, soft=soft, memory=self._tombstones_path)

    def _check_schema(self, seen: SeenSchema, settings: TableSettings) -> None:
        """Refuse what the settings, or the table's rows, do not allow to follow."""
        last = self._state.schema
        if last is None:
            return
        if last.keys != seen.keys:
            was, now = (", ".join(keys) for keys in (last.keys, seen.keys))
            advice = "Name `keys` that stay the same, or load the table again into an empty directory"
            stops = settings.on_key_changed == "fail"
            raise self._stop(f"the primary key was {was} and is now {now}", advice, stops=stops)
        if seen.version < last.version:
            return
        for difference in compare_schemas(last, seen):
            policy = getattr(settings, difference.kind)
            if policy != "evolve":
                advice = f"Set {difference.kind} to evolve for this table when its target may follow"
                raise self._stop(f"{difference.what}, and {difference.kind} is {policy}", advice, stops=policy == "fail")

    def _stop(self, what: str, advice: str | None, *, stops: bool) -> SchemaChangeError:
        return SchemaChangeError(what, where=f"table {'.'.join(self._name)}", advice=advice, stops=stops)

    def _without_forgotten(self, changes: pa.Table, table: Scd1Table) -> tuple[pa.Table, dict[Coordinates, str]]:
        """Give up changes that may be of deleted rows: older than the tombstones kept, and for keys that are not there.

        Of a change of key the departure takes effect nevertheless: whatever came of the row, it is not at the key before.
        """
        if not self._state.forgotten:
            return changes, {}
        deletes = pc.equal(changes["_hs_operation"], _DELETE)
        old = pc.and_not(pc.less_equal(changes["_hs_sequence"], self._state.forgotten), deletes).combine_chunks()
        places = pc.indices_nonzero(old).to_pylist()
        if not places:
            return changes, {}
        rows = changes.take(pa.array(places, pa.int64()))
        known = table.find_known(rows) if table.keys[0] in rows.schema.names else set()
        columns = [rows[key].to_pylist() for key in table.keys if key in rows.schema.names]
        keys = list(zip(*columns, strict=True)) if len(columns) == len(table.keys) else []
        lost = {place for place, key in zip(places, keys, strict=False) if key not in known}
        reason = f"older than the deletions that are remembered (from {self._state.forgotten}), and its row is not there"
        numbers = pa.array(sorted(lost), pa.int64())
        told = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).take(numbers).to_pylist()
        rejected = {(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"]): reason for row in told}
        kept = changes.filter(pa.array([place not in lost for place in range(changes.num_rows)]))
        return pa.concat_tables([kept, departures(changes.take(numbers), table.keys)]), rejected


def _by_coordinates(rejected: Iterable[tuple[str, int, int, str]]) -> dict[Coordinates, str]:
    return {(topic, partition, offset): reason for topic, partition, offset, reason in rejected}


def _seen_schema(schema: TableSchema, keys: Sequence[str]) -> SeenSchema:
    """Return a schema as it is remembered; its keys as the table spells them."""
    columns = {
        column.name: SeenColumn(column.ordinal, schema.types[column.name], column.nullable) for column in schema.metadata.columns
    }
    return SeenSchema(schema.metadata.lineage.table_version, tuple(spell_names(keys_of(schema.metadata), keys)), columns)
