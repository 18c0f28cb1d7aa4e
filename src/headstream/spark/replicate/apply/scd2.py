"""Every version of a table's rows (SCD type 2): read what is stored of the keys that changed, tell their histories on, merge.

One commit a micro-batch: what it closes, opens, splits and takes back becomes visible together. See scd2_rows.py for what
stands in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.spark.replicate.apply.engine import Counts, TableEngine
from headstream.spark.replicate.apply.key_log import KeyLog
from headstream.spark.replicate.apply.key_ranges import key_ranges, ranges_sql
from headstream.spark.replicate.apply.plan import MergePlan, quote_name, quote_text
from headstream.spark.replicate.apply.scd1 import fit_columns, in_table_types
from headstream.spark.replicate.apply.scd2_events import Events
from headstream.spark.replicate.apply.scd2_moves import crossings, keep_moves, place_departures
from headstream.spark.replicate.apply.scd2_replay import Event, Version, replay, stored_events, stored_version
from headstream.spark.replicate.apply.scd2_rows import HISTORY_COLUMNS, commit_times, divide
from headstream.spark.replicate.changes import RESERVED_PREFIX
from headstream.spark.replicate.conversion import arrow_type
from headstream.spark.replicate.row_merge import Key
from headstream.spark.replicate.versions import VERSION_CHARACTERS, version_of

__all__ = ["Scd2Table"]

_STORED: Final = ["_hs_valid_from", "_hs_valid_to", "_hs_deleted", "_hs_versions"]
_CLOSE, _WRITE, _REMOVE = range(3)
_ACTION: Final = "_hs_action"
_CLOSING: Final = ("`_hs_valid_to`", "`_hs_valid_to_time`", "`_hs_current`")
"""What closing a version changes."""
_DERIVED: Final = frozenset({"_hs_valid_from_time", "_hs_valid_to_time", "_hs_current"})
"""What is told from the sequences."""


class Scd2Table:
    """One target table.

    Args:
        engine: What reads and writes it.
        keys: Its primary key.
        partition_by: Columns that its files are partitioned by beside `_hs_current`, when it is made.
        soft: Whether a deletion opens a version that says so, in place of leaving nothing open.
        memory: The directory for what is remembered of changes of key; None: beside the table.
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
        self.keys = keys
        self._log = KeyLog(engine.path.parent / f"{engine.path.name}.keys" if memory is None else memory, keys)
        self._engine = engine
        self._partition_by = partition_by
        self._soft = soft

    @property
    def path(self) -> Path:
        """Its directory."""
        return self._engine.path

    @property
    def columns(self) -> dict[str, str]:
        """The table's own columns and their Spark types, in its order; empty before it is made."""
        return {name: kind for name, kind in self._engine.columns.items() if not name.startswith(RESERVED_PREFIX)}

    @property
    def engine(self) -> TableEngine:
        """What reads and writes it."""
        return self._engine

    def prepare(self, schema: Mapping[str, str], *, older: bool = False) -> None:
        """Make the table, or make its columns fit a schema.

        Args:
            schema: Column names and Spark types that changes come in.
            older: Whether the table has followed a newer schema, so that its rows do not carry the columns it lacks.

        Raises:
            SchemaError: a column's types in table and schema cannot be reconciled.
            StorageError: the table cannot be written.
        """
        if not self._engine.columns:
            # Open versions in files of their own: closed ones, however many, need not be read to write on.
            self._engine.create({**schema, **HISTORY_COLUMNS}, ["_hs_current", *self._partition_by])
            return
        count = len(self.columns)
        if fit_columns(self._engine, self.columns, schema) and older:
            own = f"rpad(_hs_valid_from, {VERSION_CHARACTERS}, '-')"
            self._engine.update({"_hs_versions": f"repeat({own}, {count})"}, "_hs_versions IS NULL AND NOT _hs_deleted")

    def merge(self, events: Events, app_id: str, version: int) -> Counts:
        """Merge events in one commit that remembers (app_id, version); nothing where it is there already.

        Raises:
            StorageError: the table cannot be written.
        """
        applied = self._engine.last_applied(app_id)
        if not events.rows.num_rows or (applied is not None and applied >= version):
            return Counts()
        rows = in_table_types(events.rows, self.columns)
        types = {name: arrow_type(kind) for name, kind in self.columns.items()}
        keep_moves(self._log, events.moves, self.keys, types)
        rows, crossed = self._crossed(rows)
        lowest = self._lowest(rows, crossed)
        stored = self._read(rows, [*self.keys, *_STORED], lowest)
        history = divide(stored, rows, self.keys, soft=self._soft)
        parts = [
            self._opened(rows.take(history.opened), history.valid_to),
            self._closed(stored.take(history.closed), history.closed_to),
            self._retold(pa.concat_tables([rows.take(history.retold), crossed]), events, lowest),
        ]
        source = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])
        if not source.num_rows:
            return Counts()
        return self._engine.merge(self._plan(source, lowest), source, app_id, version)

    def forget(self, until: str, *, vanished: bool = False) -> None:
        """Forget changes of key up to a sequence.

        Args:
            until: The highest sequence to forget.
            vanished: As in type 1; a history keeps what it came to.

        Raises:
            StorageError: they cannot be written.
        """
        rows, _ = self._log.select(())
        if rows is not None:
            self._log.replace(rows.filter(pc.greater(rows["_hs_sequence"], until)))

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
        """Return the lowest sequence that changes have to do with."""
        lowest: list[str] = [pc.min(part["_hs_sequence"]).as_py() for part in (rows, crossed) if part.num_rows]
        for row in crossed.select(self.keys).to_pylist():
            lowest += [moves[0].sequence for moves in crossings(self._log, self._key(row))]
        return min(lowest)

    def remove_until(self, sequence: str, at: str) -> Counts:
        """Close the open versions that nothing newer than a sequence has opened: a full load that is over did not bring them.

        Args:
            sequence: Highest sequence of what may be gone.
            at: Sequence that closes them, above that one.

        Raises:
            StorageError: the table cannot be written.
        """
        time = commit_times(pa.array([at]))[0].as_py()
        closing = {"_hs_valid_to": quote_text(at), "_hs_current": "false"}
        if time is not None:
            closing["_hs_valid_to_time"] = f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        where = f"_hs_current AND NOT _hs_deleted AND _hs_valid_from <= {quote_text(sequence)}"
        return Counts(updated=self._engine.update(closing, where))

    def _where(self, rows: pa.Table, lowest: str, alias: str = "") -> str:
        """Return the condition for versions that changes can have to do with: of their keys' range, and not ended before."""
        where = ranges_sql(key_ranges(rows, self.keys), alias)
        return " AND ".join([f"({alias}_hs_current OR {alias}_hs_valid_to >= {quote_text(lowest)})", *where])

    def _read(self, rows: pa.Table, columns: list[str], lowest: str) -> pa.Table:
        found = self._engine.read(columns, self._where(rows, lowest))
        wanted = rows.select(self.keys).group_by(self.keys).aggregate([])
        numbered = found.select(self.keys).append_column("_hs_row", pa.array(np.arange(found.num_rows)))
        return found.take(numbered.join(wanted, self.keys, join_type="left semi")["_hs_row"].sort())

    def _source_schema(self) -> pa.Schema:
        types = {**self._engine.columns, _ACTION: "TINYINT"}
        return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in types.items()])

    def _source(self, rows: pa.Table, action: int | pa.Array, bookkeeping: Mapping[str, pa.Array]) -> pa.Table:
        """Return the merge's rows: what is not given is null, and times are told from sequences."""
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

    def _retold(self, rows: pa.Table, events: Events, lowest: str) -> pa.Table:
        """Return what telling histories again changes in the table."""
        columns = list(self.columns)
        found: list[dict[str, Any]] = []
        if rows.num_rows:
            stored: dict[tuple[Any, ...], list[Version]] = {}
            present = self._read(rows, [*columns, *_STORED], lowest)
            present = present.take(pc.sort_indices(present["_hs_valid_from"]))
            for row in present.to_pylist():
                stored.setdefault(self._key(row), []).append(stored_version(row, columns))
            for key, changes in self._by_key(rows):
                told = self._tell(key, stored.get(key, []), changes, events, columns)
                found += _differences(stored.get(key, []), told, columns)
        schema = pa.schema([field for field in self._source_schema() if field.name not in _DERIVED])
        table = pa.Table.from_pylist(found, schema)
        return self._source(table, table[_ACTION], {name: table[name] for name in _STORED})

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.keys)

    def _by_key(self, rows: pa.Table) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
        order = [(name, "ascending") for name in (*self.keys, "_hs_sequence")]
        return ((key, list(group)) for key, group in groupby(rows.take(pc.sort_indices(rows, order)).to_pylist(), self._key))

    def _tell(
        self, key: Key, stored: list[Version], changes: list[dict[str, Any]], events: Events, columns: list[str]
    ) -> list[Version]:
        known = {event.sequence: event for event in stored_events(stored)}
        for change in changes:
            sequence, partial = change["_hs_sequence"], change["_hs_partial"]
            names = events.present(change["_hs_columns"]) if partial else columns
            event = Event(
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
            place_departures(known, key, crossings(self._log, key))
        return replay((known[sequence] for sequence in sorted(known)), columns, self.keys, soft=self._soft)

    def _plan(self, source: pa.Table, lowest: str) -> MergePlan:
        quoted = [quote_name(name) for name in self._engine.columns]
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


def _differences(stored: list[Version], told: list[Version], columns: list[str]) -> list[dict[str, Any]]:
    """Return the merge's rows that make one key's stored versions those that its history comes to."""
    before = {version.valid_from: version for version in stored}
    after = {version.valid_from: version for version in told}
    rows = [_row(version, columns, _WRITE) for at, version in after.items() if before.get(at) != version]
    return rows + [_row(version, columns, _REMOVE) for at, version in before.items() if at not in after]


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
