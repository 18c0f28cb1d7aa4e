"""Every version of a table's rows (SCD type 2): read the stored versions of the changed keys, extend their histories, merge.

One commit a micro-batch: versions that it closes, opens, splits and removes become visible together. scd2_rows.py describes
the table's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.engine import MergedTable, RowCounts, TableEngine
from headstream.replicate.apply.key_log import KeyLog
from headstream.replicate.apply.key_ranges import key_ranges, ranges_sql
from headstream.replicate.apply.plan import MergePlan, quote_name, quote_text
from headstream.replicate.apply.scd1 import fit_columns
from headstream.replicate.apply.scd2_events import Events
from headstream.replicate.apply.scd2_loads import BOOKKEEPING, carries_over, closings, keys_carried_over
from headstream.replicate.apply.scd2_moves import crossings, keep_moves, place_departures
from headstream.replicate.apply.scd2_replay import (
    SequenceEvent,
    Version,
    close_again,
    reopen,
    replay,
    stored_events,
    stored_version,
)
from headstream.replicate.apply.scd2_rows import HISTORY_COLUMNS, commit_times, divide
from headstream.replicate.apply.state_rows import key_table
from headstream.replicate.columns.changes import RESERVED_PREFIX
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.raw import match_keys
from headstream.replicate.columns.row_merge import Key
from headstream.replicate.columns.versions import ABSENT_VERSION, VERSION_CHARACTERS, version_of

__all__ = ["Scd2Table"]

_STORED: Final = ["_hs_valid_from", "_hs_valid_to", "_hs_deleted", "_hs_versions"]
_CLOSE, _WRITE, _REMOVE = range(3)
_ACTION: Final = "_hs_action"
_CLOSING: Final = ("`_hs_valid_to`", "`_hs_valid_to_time`", "`_hs_current`")
"""What closing a version changes."""
_DERIVED: Final = frozenset({"_hs_valid_from_time", "_hs_valid_to_time", "_hs_current"})
"""The columns derived from the sequences."""


class Scd2Table(MergedTable):
    """One target table.

    Args:
        engine: Reads and writes it.
        keys: Its primary key.
        partition_by: Columns that its files are partitioned by, in addition to `_hs_current`, when it is created.
        soft: Whether a deletion opens a version marked as deleted; otherwise it leaves no open version.
        memory: The directory of the log of key changes; None: next to the table.
    """

    def __init__(
        self,
        engine: TableEngine,
        keys: list[str],
        partition_by: Sequence[str] = (),
        *,
        soft: bool = False,
        memory: Path | None = None,
    ) -> None:
        super().__init__(engine, keys)
        if memory is None:
            assert isinstance(engine.path, Path), "what is remembered of a table in a store is in the checkpoint"
            memory = engine.path.parent / f"{engine.path.name}.keys"
        self._log = KeyLog(memory, keys)
        self._partition_by = partition_by
        self._soft = soft
        self._ends: Sequence[str] = ()
        self._over = ""

    def prepare(self, schema: Mapping[str, str], *, older: bool = False) -> None:
        """Create the table, or extend its columns to fit a schema.

        Args:
            schema: Column names and Spark types of the changes.
            older: Whether the table has followed a newer schema, so that its rows do not carry the columns it lacks.

        Raises:
            SchemaError: a column's types in table and schema cannot be reconciled.
            StorageError: the table cannot be written.
        """
        if not self.engine.columns:
            # Open versions in files of their own: appends do not read the closed ones.
            self.engine.create({**schema, **HISTORY_COLUMNS}, ["_hs_current", *self._partition_by])
            return
        count = len(self.columns)
        if fit_columns(self.engine, self.columns, schema) and older:
            own = f"rpad(_hs_valid_from, {VERSION_CHARACTERS}, '-')"
            self.engine.update({"_hs_versions": f"repeat({own}, {count})"}, "_hs_versions IS NULL AND NOT _hs_deleted")

    def merge(self, events: Events, app_id: str, version: int, ends: Sequence[str] = ()) -> RowCounts:
        """Merge events in one commit that records (app_id, version); does nothing if that commit exists.

        Args:
            events: The events of rows.
            app_id: Identifies the unit that is applied.
            version: Number of this application; it increases.
            ends: As Loads.ends, the places.

        Raises:
            StorageError: the table cannot be written.
        """
        applied = self.engine.last_applied(app_id)
        if not events.rows.num_rows or (applied is not None and applied >= version):
            return RowCounts()
        rows = in_table_types(events.rows, self.columns)
        types = {name: arrow_type(kind) for name, kind in self.columns.items()}
        keep_moves(self._log, events.moves, self.keys, types)
        self._ends = ends
        rows, crossed = self._crossed(rows)
        lowest = self._lowest(rows, crossed)
        stored = self._read(rows, [*self.keys, *_STORED], lowest)
        history = divide(stored, rows, self.keys, soft=self._soft, ends=ends)
        replayed = pa.concat_tables([rows.take(history.replayed), crossed])
        parts = [
            self._opened(rows.take(history.opened), history.valid_to),
            self._closed(stored.take(history.closed), history.closed_to),
            self._replayed(self._by_key(replayed), replayed, events.present, lowest),
        ]
        source = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])
        if not source.num_rows:
            return RowCounts()
        counts = self.engine.merge(self._plan(source, lowest), source, app_id, version)
        excess = self._log.excess()
        if excess is not None:
            self.forget(excess)
        return counts

    def forget(self, until: str, *, vanished: bool = False) -> None:
        """Remove changes of key up to a sequence from the log of key changes.

        Args:
            until: The highest sequence to remove.
            vanished: As in type 1; a history keeps its versions.

        Raises:
            StorageError: the log cannot be written.
        """
        rows, _ = self._log.select(())
        border = self._log.border(until)
        if rows is not None:
            self._log.replace(rows.filter(pc.greater_equal(rows["_hs_sequence"], border)) if border else None)

    def _crossed(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Divide changes into those of most keys, and those of keys at which rows departed after others had arrived."""
        if not self._log:
            return rows, rows.slice(0, 0)
        candidates = np.flatnonzero(self._log.mask(rows).to_numpy())
        keys = [self._key(row) for row in rows.select(self.keys).take(pa.array(candidates)).to_pylist()]
        known = {key: bool(crossings(self._log, key)) for key in set(keys)}
        crossed = np.zeros(rows.num_rows, np.bool_)
        crossed[candidates] = [known[key] for key in keys]
        return rows.filter(pa.array(~crossed)), rows.filter(pa.array(crossed))

    def _lowest(self, rows: pa.Table, crossed: pa.Table) -> str:
        """Return the lowest sequence that changes affect."""
        lowest: list[str] = [pc.min(part["_hs_sequence"]).as_py() for part in (rows, crossed) if part.num_rows]
        for row in crossed.select(self.keys).to_pylist():
            lowest += [moves[0].sequence for moves in crossings(self._log, self._key(row))]
        return min(lowest)

    def end_loads(self, ends: Sequence[tuple[str, str]], known: Sequence[str], app_id: str, version: int) -> RowCounts:
        """Close versions of rows that ended loads did not contain. Idempotent; forget_ended() is to be called later.

        Before the load was known, a departure can have moved a row that it does not contain, and an update can have taken columns
        of one: these histories are replayed.

        Args:
            ends: As Loads.ends; the loads that have ended since the last call.
            known: The places at which any ended load closes versions.
            app_id: Identifies the commit that replays histories.
            version: Number of this application; it increases.

        Raises:
            StorageError: the table or its log of key changes cannot be written.
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
            source = self._replayed({key: [] for key in again}, asked, lambda mask: frozenset(), lowest)
            if source.num_rows:
                merged = self.engine.merge(self._plan(source, lowest), source, app_id, version)
                counts = RowCounts(merged.inserted, counts.updated + merged.updated, merged.deleted)
        self._over = ends[-1][0]
        return counts

    def forget_ended(self) -> None:
        """Forget the changes of key that ended loads make obsolete; to be called when no message of the table waits.

        Rows of a load that had waited are merged after the load has ended, and which departure takes them depends on the
        changes of key around them.

        Raises:
            StorageError: the log cannot be written.
        """
        if self._over:
            self.forget(self._over)
            self._over = ""

    def _where(self, rows: pa.Table, lowest: str, alias: str = "") -> str:
        """Return the condition for versions that changes can affect: of their keys' range, and not closed before."""
        where = ranges_sql(key_ranges(rows, self.keys), alias)
        ends = [f"{alias}_hs_valid_to = {quote_text(end)}" for end in self._ends if end < lowest]
        wanted = [f"{alias}_hs_current", f"{alias}_hs_valid_to >= {quote_text(lowest)}", *ends]
        return " AND ".join([f"({' OR '.join(wanted)})", *where])

    def _read(self, rows: pa.Table, columns: list[str], lowest: str) -> pa.Table:
        """Return the stored versions of the rows' keys that changes from a sequence on can affect."""
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
        found = self.engine.read(columns, self._where(rows, lowest))
        return match_keys(found, rows.select(self.keys))

    def _source_schema(self) -> pa.Schema:
        types = {**self.engine.columns, _ACTION: "TINYINT"}
        return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in types.items()])

    def _source(self, rows: pa.Table, action: int | pa.Array, bookkeeping: Mapping[str, pa.Array]) -> pa.Table:
        """Return the merge's rows: missing columns are null, and times are derived from sequences."""
        given = {name: rows[name] for name in rows.schema.names if not name.startswith(RESERVED_PREFIX)} | dict(bookkeeping)
        given["_hs_valid_from_time"] = commit_times(_array(given["_hs_valid_from"]))
        given["_hs_valid_to_time"] = commit_times(_array(given["_hs_valid_to"]))
        given["_hs_current"] = pc.is_null(given["_hs_valid_to"])
        given[_ACTION] = pa.repeat(pa.scalar(action, pa.int8()), rows.num_rows) if isinstance(action, int) else action
        schema = self._source_schema()
        return pa.table([given.get(name, pa.nulls(rows.num_rows, schema.field(name).type)) for name in schema.names], schema)

    def _opened(self, rows: pa.Table, valid_to: pa.Array) -> pa.Table:
        there = pa.repeat(False, rows.num_rows)
        given = {"_hs_valid_from": rows["_hs_sequence"], "_hs_valid_to": valid_to, "_hs_deleted": there}
        return self._source(rows, _WRITE, given)

    def _closed(self, stored: pa.Table, valid_to: pa.Array) -> pa.Table:
        keys = stored.select(self.keys)
        return self._source(keys, _CLOSE, {"_hs_valid_from": stored["_hs_valid_from"], "_hs_valid_to": valid_to})

    def _replayed(
        self,
        changes: Mapping[Key, list[dict[str, Any]]],
        keys: pa.Table,
        present: Callable[[bytes | None], frozenset[str]],
        lowest: str,
    ) -> pa.Table:
        """Return the rows that change in the table when histories are replayed.

        Args:
            changes: The changes of each key in order; can be empty.
            keys: Rows that have these keys.
            present: As Events.present.
            lowest: The lowest sequence that changes affect.
        """
        columns = list(self.columns)
        found: list[dict[str, Any]] = []
        if changes:
            stored: dict[Key, list[Version]] = {}
            rows = self._read(keys, [*columns, *_STORED], lowest)
            for row in rows.take(pc.sort_indices(rows["_hs_valid_from"])).to_pylist():
                stored.setdefault(self._key(row), []).append(stored_version(row, columns))
            for key, of_key in changes.items():
                replayed = self._replay_key(key, stored.get(key, []), of_key, present, columns)
                found += _differences(stored.get(key, []), replayed, columns)
        schema = pa.schema([field for field in self._source_schema() if field.name not in _DERIVED])
        table = pa.Table.from_pylist(found, schema)
        return self._source(table, table[_ACTION], {name: table[name] for name in _STORED})

    def _key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in self.keys)

    def _by_key(self, rows: pa.Table) -> dict[Key, list[dict[str, Any]]]:
        order = [(name, "ascending") for name in (*self.keys, "_hs_sequence")]
        return {key: list(group) for key, group in groupby(rows.take(pc.sort_indices(rows, order)).to_pylist(), self._key)}

    def _replay_key(
        self,
        key: Key,
        stored: list[Version],
        changes: list[dict[str, Any]],
        present: Callable[[bytes | None], frozenset[str]],
        columns: list[str],
    ) -> list[Version]:
        reopened = reopen(stored, self._ends)
        known = {event.sequence: event for event in stored_events(reopened)}
        for change in changes:
            sequence, partial = change["_hs_sequence"], change["_hs_partial"]
            names = present(change["_hs_columns"]) if partial else columns
            event = SequenceEvent(
                sequence,
                deletes=change["_hs_delete"],
                upserts=not change["_hs_delete"],
                values={name: change.get(name) for name in names},
            )
            if sequence in known:
                known[sequence].add(event)
            else:
                known[sequence] = event
        if key in self._log:
            place_departures(known, dict(zip(self.keys, key, strict=True)), crossings(self._log, key), self._ends)
        replayed = replay((known[sequence] for sequence in sorted(known)), columns, self.keys, soft=self._soft, ends=self._ends)
        return close_again(replayed, self._ends)

    def _plan(self, source: pa.Table, lowest: str) -> MergePlan:
        quoted = [quote_name(name) for name in self.engine.columns]
        same = [f"t.{quote_name(name)} = s.{quote_name(name)}" for name in (*self.keys, "_hs_valid_from")]
        update = {
            name: f"s.{name}" if name in _CLOSING else f"CASE WHEN s.{_ACTION} = {_CLOSE} THEN t.{name} ELSE s.{name} END"
            for name in quoted
        }
        removes = pc.any(pc.equal(source[_ACTION], _REMOVE)).as_py()
        return MergePlan(
            predicate=" AND ".join([*same, self._where(source, lowest, "t.")]),
            delete_when=f"s.{_ACTION} = {_REMOVE}" if removes else None,
            update_when=f"s.{_ACTION} <> {_REMOVE}",
            update=update,
            insert_when=f"s.{_ACTION} = {_WRITE}",
            insert={name: f"s.{name}" for name in quoted},
        )


def _array(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _differences(stored: list[Version], replayed: list[Version], columns: list[str]) -> list[dict[str, Any]]:
    """Return the merge's rows that turn one key's stored versions into the replayed ones."""
    before = {version.valid_from: version for version in stored}
    after = {version.valid_from: version for version in replayed}
    rows = [_row(version, columns, _WRITE) for at, version in after.items() if not _is_same(before.get(at), version)]
    return rows + [_row(version, columns, _REMOVE) for at, version in before.items() if at not in after]


def _is_same(stored: Version | None, replayed: Version) -> bool:
    """Return whether a version equals the stored one; a column added since then is null and has no version."""
    if stored is None or replace(stored, versions=replayed.versions) != replayed:
        return False
    unknown = {name for name, at in stored.versions.items() if at == ABSENT_VERSION and replayed.values[name] is None}
    return all(at == replayed.versions[name] for name, at in stored.versions.items() if name not in unknown)


def _row(version: Version, columns: list[str], action: int) -> dict[str, Any]:
    uniform = version_of(version.valid_from)
    is_uniform = version.deleted or all(version.versions[name] == uniform for name in columns)
    return {
        **version.values,
        "_hs_valid_from": version.valid_from,
        "_hs_valid_to": version.valid_to,
        "_hs_deleted": version.deleted,
        "_hs_versions": None if is_uniform else "".join(version.versions[name] for name in columns),
        _ACTION: action,
    }
