"""Every version of a table's rows (SCD type 2): reads the stored versions of changed keys, and merges the extended histories.

Each micro-batch makes one commit, so the versions that it closes, opens, splits and removes become visible together. rows.py
describes the table's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.on_executors.executor_rows import JoinedChanges
from headstream.replicate.apply.on_executors.fold import join_reports
from headstream.replicate.apply.on_executors.version_join import report_versions
from headstream.replicate.apply.type1.merge import fit_columns
from headstream.replicate.apply.type1.state_rows import key_table
from headstream.replicate.apply.type2.events import Events
from headstream.replicate.apply.type2.merge_source import ACTION, CLOSE, REMOVE, STORED, WRITE, Histories
from headstream.replicate.apply.type2.moves import crossed_keys, crossings, keep_moves, place_departures
from headstream.replicate.apply.type2.replay import SequenceEvent
from headstream.replicate.apply.type2.rows import HISTORY_COLUMNS, commit_times
from headstream.replicate.apply.unit_memory import RememberedTable
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.raw import match_keys
from headstream.replicate.columns.row_merge import Key
from headstream.replicate.columns.versions import ABSENT_VERSION, AGAIN_MARK, LOAD_MARK, VERSION_CHARACTERS
from headstream.replicate.engines.engine import RowCounts, TableEngine
from headstream.replicate.engines.key_ranges import ValueRanges, literal_ranges, ranges_sql, value_ranges
from headstream.replicate.engines.plan import MergePlan, quote_name, quote_text

# Versions that full loads close in tables of SCD type 2.
#
# A load ends the rows that it does not contain. A version from before the load is closed at the position at which the load
# ends rows, unless a later change has closed it. A version that a later change opens has no values from before the load.

BOOKKEEPING: Final = ["_hs_valid_from", "_hs_versions"]
"""The columns that keys_carried_over() reads, with the key columns."""


def closings(ends: Sequence[tuple[str, str]]) -> tuple[Mapping[str, str], str]:
    """Return SQL that closes each version from before a load, unless a later change or a row of the load has closed it.

    Returns an expression per changed column, and the condition for the rows to change.
    """
    cases, wanted = dict.fromkeys(("_hs_valid_to", "_hs_valid_to_time"), ""), []
    for bound, end in ends:
        later = f"(_hs_valid_to LIKE '%{LOAD_MARK}%' AND _hs_valid_to >= {quote_text(bound[: -len(LOAD_MARK)] + AGAIN_MARK)})"
        where = f"_hs_valid_from < {quote_text(bound)} AND (_hs_current OR {later})"
        wanted.append(f"({where})")
        time = commit_times(pa.array([end]))[0].as_py()
        at = "NULL" if time is None else f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        for name, value in (("_hs_valid_to", quote_text(end)), ("_hs_valid_to_time", at)):
            cases[name] += f" WHEN {where} THEN {value}"
    closing = {name: f"CASE{case} ELSE {name} END" for name, case in cases.items()} | {"_hs_current": "false"}
    return closing, f"NOT _hs_deleted AND ({' OR '.join(wanted)})"


def carries_over(ends: Sequence[tuple[str, str]]) -> str:
    """Return an SQL condition for versions that begin after the first load and have columns of several changes."""
    return f"_hs_versions IS NOT NULL AND NOT _hs_deleted AND _hs_valid_from > {quote_text(min(end for _, end in ends))}"


def keys_carried_over(rows: pa.Table, keys: Sequence[str], ends: Sequence[tuple[str, str]]) -> list[Key]:
    """Return the keys of versions that begin after a load and have values from before the load; `rows` satisfy carries_over()."""
    found: dict[Key, None] = {}
    places = [end for _, end in ends]
    for row in rows.to_pylist():
        text = row["_hs_versions"]
        versions = {text[at : at + VERSION_CHARACTERS] for at in range(0, len(text), VERSION_CHARACTERS)} - {ABSENT_VERSION}
        oldest = min(versions, default=row["_hs_valid_from"])
        if any(oldest < end < row["_hs_valid_from"] for end in places):
            found[tuple(row[key] for key in keys)] = None
    return list(found)


_CLOSING: Final = ("`_hs_valid_to`", "`_hs_valid_to_time`", "`_hs_current`")
"""The columns that closing a version changes."""


class Scd2Table(RememberedTable):
    """A target table of SCD type 2.

    Args:
        soft: Whether a deletion opens a version marked as deleted; otherwise it leaves no open version.
        memory: The directory of the key-update log; None: next to the table.
    """

    def __init__(
        self,
        engine: TableEngine,
        keys: list[str],
        partition_by: Sequence[str] = (),
        *,
        soft: bool = False,
        mapped: bool = False,
        memory: Path | None = None,
    ) -> None:
        if memory is None:
            assert isinstance(engine.path, Path), "a table in an object store needs a memory directory in the checkpoint"
            memory = engine.path.parent / f"{engine.path.name}.keys"
        self._log = KeyLog(memory, keys)
        super().__init__(engine, keys, self._log)
        self._partition_by = partition_by
        self._soft = soft
        self._mapped = mapped
        self._ends: Sequence[str] = ()
        self._over = ""

    def prepare(self, schema: Mapping[str, str], *, older: bool = False) -> None:
        """Create the table, or extend its columns to fit a schema.

        Args:
            older: Whether the table has already followed a newer schema, so its rows do not carry columns that this schema adds.
        """
        if not self.engine.columns:
            # Open versions are in separate files, so appends do not read closed versions.
            self.engine.create({**schema, **HISTORY_COLUMNS}, ["_hs_current", *self._partition_by], mapped=self._mapped)
            return
        count = len(self.columns)
        added = fit_columns(self.engine, self.columns, schema)
        self._log.fit(self.columns)
        if added and older:
            own = f"rpad(_hs_valid_from, {VERSION_CHARACTERS}, '-')"
            self.engine.update({"_hs_versions": f"repeat({own}, {count})"}, "_hs_versions IS NULL AND NOT _hs_deleted")

    def merge(self, events: Events, app_id: str, version: int, ends: Sequence[str] = ()) -> RowCounts:
        """Merge events in one commit that records (app_id, version). If the commit exists, do nothing."""
        applied = self.engine.last_applied(app_id)
        if not events.rows.num_rows or (applied is not None and applied >= version):
            return RowCounts()
        self._ends = ends

        def merge() -> RowCounts:
            source, lowest = self._source(events)
            if not source.num_rows:
                return RowCounts()
            return self._write(source, self._plan_for(source, lowest), app_id, version)

        return self._merge_unit(app_id, version, merge)

    def merge_joined(
        self, joined: JoinedChanges, own: Events | None, lowest: str, app_id: str, version: int, ends: Sequence[str] = ()
    ) -> RowCounts:
        """Merge changes that executors have joined to stored versions, and changes left to the driver, in one commit.

        Args:
            own: The events of the changes left to the driver, or None.
        """
        self._ends = ends

        def merge() -> RowCounts:
            rows, reports, affected = None, [joined.report], lowest
            if own is not None and own.rows.num_rows:
                rows, own_lowest = self._source(own)
                affected = min(lowest, own_lowest)
                reports.append(report_versions(0, rows, self.keys))
            report = join_reports(reports)
            if not report.rows:
                return RowCounts()
            plan = self._plan(report.ranges, affected, removes=report.deletes > 0)
            return self._write(joined.rows(rows), plan, app_id, version)

        return self._merge_unit(app_id, version, merge)

    def crossed_keys(self, most: int) -> pa.Table | None:
        """Return the keys with a departure after another row's arrival (moves.py); None if there are more than `most`."""
        keys = crossed_keys(self._log)
        return None if len(keys) > most else key_table(keys, self.keys, {key: arrow_type(self.columns[key]) for key in self.keys})

    def stored_where(self, ranges: ValueRanges, lowest: str, ends: Sequence[str]) -> str:
        """Return the SQL condition for stored versions that can be affected by changes from a sequence, with these key ranges."""
        self._ends = ends
        before = ", ".join(quote_text(end) for end in ends if end < lowest)
        if before:  # see _read()
            where = " AND ".join([f"_hs_valid_to IN ({before})", *ranges_sql(literal_ranges(ranges))])
            found = self.engine.read(["_hs_valid_to"], where)
            lowest = pc.min(found["_hs_valid_to"]).as_py() or lowest
        return self._where(ranges, lowest)

    def _source(self, events: Events) -> tuple[pa.Table, str]:
        """Return the source rows of the merge for one or more events, and the lowest sequence that the events affect."""
        rows = in_table_types(events.rows, self.columns)
        keep_moves(self._log, events.moves, self.keys, {name: arrow_type(kind) for name, kind in self.columns.items()})
        rows, crossed = self._crossed(rows)
        lowest = self._lowest(rows, crossed)
        stored = self._read(rows, [*self.keys, *STORED], lowest)
        source = self._histories.source(
            rows,
            stored,
            lambda keys: self._read(keys, [*self.columns, *STORED], lowest),
            events.present,
            crossed=crossed,
            place=self._place,
        )
        return source, lowest

    def _write(self, source: pa.Table | DataFrame, plan: MergePlan, app_id: str, version: int) -> RowCounts:
        counts = self.engine.merge(plan, source, app_id, version)
        excess = self._log.excess()
        if excess is not None:
            self.forget(excess)
        return counts

    @property
    def _histories(self) -> Histories:
        return Histories(self.engine.columns, self.keys, self._soft, self._ends)

    def _place(self, key: Key, known: dict[str, SequenceEvent]) -> None:
        if key in self._log:
            place_departures(known, dict(zip(self.keys, key, strict=True)), crossings(self._log, key), self._ends)

    def forget(self, until: str, *, vanished: bool = False) -> None:
        """Remove key updates up to the sequence `until` from the log; `vanished` is ignored: a history keeps its versions."""
        rows, _ = self._log.select(())
        border = self._log.border(until)
        if rows is not None:
            self._log.replace(rows.filter(pc.greater_equal(rows["_hs_sequence"], border)) if border else None)

    def _crossed(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Divide changes into changes of ordinary keys, and changes of keys with a departure after another row's arrival."""
        if not self._log:
            return rows, rows.slice(0, 0)
        candidates = np.flatnonzero(self._log.mask(rows).to_numpy())
        keys = [self._histories.key(row) for row in rows.select(self.keys).take(pa.array(candidates)).to_pylist()]
        known = {key: bool(crossings(self._log, key)) for key in set(keys)}
        crossed = np.zeros(rows.num_rows, np.bool_)
        crossed[candidates] = [known[key] for key in keys]
        return rows.filter(pa.array(~crossed)), rows.filter(pa.array(crossed))

    def _lowest(self, rows: pa.Table, crossed: pa.Table) -> str:
        """Return the lowest sequence that changes affect."""
        lowest: list[str] = [pc.min(part["_hs_sequence"]).as_py() for part in (rows, crossed) if part.num_rows]
        for row in crossed.select(self.keys).to_pylist():
            lowest += [moves[0].sequence for moves in crossings(self._log, self._histories.key(row))]
        return min(lowest)

    def end_loads(self, ends: Sequence[tuple[str, str]], known: Sequence[str], app_id: str, version: int) -> RowCounts:
        """Close versions of rows that ended loads did not contain. Idempotent. Call forget_ended() later.

        Before the load was known, a departure can have moved a row that the load does not contain, or an update can have taken
        columns from that row. These histories are replayed.

        Args:
            known: The positions at which ended loads close versions.
        """
        counts = RowCounts(updated=self.engine.update(*closings(ends)))
        self._ends = known
        logged = self._log.keys()
        moved = [key for key in logged if crossings(self._log, key)]
        lowest = min([ends[0][1], *(crossings(self._log, key)[0][0].sequence for key in moved)])
        partly = self.engine.read([*self.keys, *BOOKKEEPING], carries_over(ends))
        again = {*moved, *keys_carried_over(partly, self.keys, ends)}
        if again:
            types = {name: arrow_type(kind) for name, kind in self.columns.items()}
            asked = key_table(again, self.keys, types)
            source = self._histories.replayed(
                {key: [] for key in again},
                lambda: self._read(asked, [*self.columns, *STORED], lowest),
                lambda mask: frozenset(),
                self._place,
            )
            if source.num_rows:
                merged = self.engine.merge(self._plan_for(source, lowest), source, app_id, version)
                counts = RowCounts(merged.inserted, counts.updated + merged.updated, merged.deleted)
        self._over = ends[-1][0]
        return counts

    def forget_ended(self) -> None:
        """Remove the key updates that ended loads make obsolete. Call forget_ended() when no message of the table is parked.

        Parked rows of a load are merged after the load has ended, and key updates determine which departure takes each of these
        rows.
        """
        if self._over:
            self.forget(self._over)
            self._over = ""

    def _where(self, ranges: ValueRanges, lowest: str, alias: str = "") -> str:
        """Return the SQL condition for versions that are in the key ranges and were not closed before the lowest sequence."""
        where = ranges_sql(literal_ranges(ranges), alias)
        ends = [f"{alias}_hs_valid_to = {quote_text(end)}" for end in self._ends if end < lowest]
        wanted = [f"{alias}_hs_current", f"{alias}_hs_valid_to >= {quote_text(lowest)}", *ends]
        return " AND ".join([f"({' OR '.join(wanted)})", *where])

    def _read(self, rows: pa.Table, columns: list[str], lowest: str) -> pa.Table:
        """Return the stored versions of the rows' keys that changes at or above the sequence `lowest` can affect."""
        found = self._read_since(rows, columns, lowest)
        ended = pc.is_in(found["_hs_valid_to"], pa.array([end for end in self._ends if end < lowest], pa.string()))
        if not pc.any(ended).as_py():
            return found
        # Whether a version that a load has closed can be reopened depends on the version after it.
        since = pc.min(found["_hs_valid_to"].filter(ended)).as_py()
        reopened = found.filter(ended).select(self.keys)
        others = match_keys(found, reopened, without=True)
        return pa.concat_tables([others, self._read_since(reopened, columns, since)])

    def _read_since(self, rows: pa.Table, columns: list[str], lowest: str) -> pa.Table:
        found = self.engine.read(columns, self._where(value_ranges(rows, self.keys), lowest))
        return match_keys(found, rows.select(self.keys))

    def _plan_for(self, source: pa.Table, lowest: str) -> MergePlan:
        report = report_versions(0, source, self.keys)
        return self._plan(report.ranges, lowest, removes=report.deletes > 0)

    def _plan(self, ranges: ValueRanges, lowest: str, *, removes: bool) -> MergePlan:
        quoted = [quote_name(name) for name in self.engine.columns]
        update = {
            name: f"s.{name}" if name in _CLOSING else f"CASE WHEN s.{ACTION} = {CLOSE} THEN t.{name} ELSE s.{name} END"
            for name in quoted
        }
        return MergePlan(
            match=(*self.keys, "_hs_valid_from"),
            where=[self._where(ranges, lowest, "t.")],
            delete_when=f"s.{ACTION} = {REMOVE}" if removes else None,
            update_when=f"s.{ACTION} <> {REMOVE}",
            update=update,
            insert_when=f"s.{ACTION} = {WRITE}",
            insert={name: f"s.{name}" for name in quoted},
        )
