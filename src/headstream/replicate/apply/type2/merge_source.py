"""The source rows of a merge into a table of SCD type 2, from changes and stored versions; no I/O, also used on executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.type2.replay import (
    SequenceEvent,
    Version,
    close_again,
    reopen,
    replay,
    stored_events,
    stored_version,
)
from headstream.replicate.apply.type2.rows import commit_times, divide
from headstream.replicate.columns.changes import RESERVED_PREFIX
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.row_merge import Key
from headstream.replicate.columns.versions import ABSENT_VERSION, version_of

STORED: Final = ["_hs_valid_from", "_hs_valid_to", "_hs_deleted", "_hs_versions"]
"""Bookkeeping columns to read of stored versions, in addition to the key columns or all columns of the source."""
CLOSE, WRITE, REMOVE = range(3)
ACTION: Final = "_hs_action"
"""Column with the merge's action on a version: CLOSE, WRITE or REMOVE."""
_DERIVED: Final = frozenset({"_hs_valid_from_time", "_hs_valid_to_time", "_hs_current"})
"""The columns derived from the sequences."""

PlaceDepartures: TypeAlias = Callable[[Key, dict[str, SequenceEvent]], None]
"""Moves the departures of a key, in the key's events by sequence, to the sequences at which they take effect."""


@dataclass(frozen=True, slots=True)
class Histories:
    """The histories of one table's rows.

    Args:
        soft: Whether a deletion opens a version marked as deleted; otherwise it leaves no open version.
    """

    table_columns: Mapping[str, str]
    keys: Sequence[str]
    soft: bool = False
    ends: Sequence[str] = ()

    @property
    def columns(self) -> dict[str, str]:
        """The table's columns from its source, and their Spark types."""
        return {name: kind for name, kind in self.table_columns.items() if not name.startswith(RESERVED_PREFIX)}

    @property
    def source_types(self) -> dict[str, str]:
        """The columns of the merge's source and their Spark types."""
        return {**self.table_columns, ACTION: "TINYINT"}

    def source(
        self,
        rows: pa.Table,
        stored: pa.Table,
        read_whole: Callable[[pa.Table], pa.Table],
        present: Callable[[bytes | None], frozenset[str]],
        *,
        crossed: pa.Table | None = None,
        place: PlaceDepartures | None = None,
    ) -> pa.Table:
        """Return the source rows of the merge: versions to close, to write and to remove.

        Args:
            rows: Rows as in Events.rows, in the table's types.
            stored: Versions of the rows' keys with the key columns and STORED; see divide().
            read_whole: Returns the versions of given keys, with all columns of the source and STORED.
            present: See Events.present.
            crossed: Changes, not in `rows`, of keys whose histories must be replayed, or None.
        """
        history = divide(stored, rows, list(self.keys), soft=self.soft, ends=self.ends)
        again = take_rows(rows, history.replayed)
        again = again if crossed is None else pa.concat_tables([again, crossed])
        parts = [
            self._opened(take_rows(rows, history.opened), history.valid_to),
            self._closed(take_rows(stored, history.closed), history.closed_to),
            self.replayed(self._by_key(again), lambda: read_whole(again), present, place),
        ]
        return pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])

    def replayed(
        self,
        changes: Mapping[Key, list[dict[str, Any]]],
        read_whole: Callable[[], pa.Table],
        present: Callable[[bytes | None], frozenset[str]],
        place: PlaceDepartures | None = None,
    ) -> pa.Table:
        """Return the source rows of the merge that result when histories are replayed.

        Args:
            read_whole: Returns the versions of the keys, with all columns of the source and STORED.
            place: Moves departures; None if no departure can follow another row's arrival.
        """
        columns = list(self.columns)
        found: list[dict[str, Any]] = []
        if changes:
            stored: dict[Key, list[Version]] = {}
            rows = read_whole()
            for row in rows.take(pc.sort_indices(rows["_hs_valid_from"])).to_pylist():
                stored.setdefault(self.key(row), []).append(stored_version(row, columns))
            for key, of_key in changes.items():
                replayed = self._replay_key(key, stored.get(key, []), of_key, present, place)
                found += _differences(stored.get(key, []), replayed, columns)
        schema = pa.schema([field for field in self._source_schema() if field.name not in _DERIVED])
        table = pa.Table.from_pylist(found, schema)
        return self._source(table, table[ACTION], {name: table[name] for name in STORED})

    def key(self, row: Mapping[str, Any]) -> Key:
        """Return the key of a row."""
        return tuple(row[name] for name in self.keys)

    def _source_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in self.source_types.items()])

    def _source(self, rows: pa.Table, action: int | pa.Array, bookkeeping: Mapping[str, pa.Array]) -> pa.Table:
        """Return the merge's source rows: missing columns are null, and times are derived from sequences."""
        given = {name: rows[name] for name in rows.schema.names if not name.startswith(RESERVED_PREFIX)} | dict(bookkeeping)
        given["_hs_valid_from_time"] = commit_times(_array(given["_hs_valid_from"]))
        given["_hs_valid_to_time"] = commit_times(_array(given["_hs_valid_to"]))
        given["_hs_current"] = pc.is_null(given["_hs_valid_to"])
        given[ACTION] = pa.repeat(pa.scalar(action, pa.int8()), rows.num_rows) if isinstance(action, int) else action
        schema = self._source_schema()
        return pa.table([given.get(name, pa.nulls(rows.num_rows, schema.field(name).type)) for name in schema.names], schema)

    def _opened(self, rows: pa.Table, valid_to: pa.Array) -> pa.Table:
        there = pa.repeat(False, rows.num_rows)
        given = {"_hs_valid_from": rows["_hs_sequence"], "_hs_valid_to": valid_to, "_hs_deleted": there}
        return self._source(rows, WRITE, given)

    def _closed(self, stored: pa.Table, valid_to: pa.Array) -> pa.Table:
        keys = stored.select(list(self.keys))
        return self._source(keys, CLOSE, {"_hs_valid_from": stored["_hs_valid_from"], "_hs_valid_to": valid_to})

    def _by_key(self, rows: pa.Table) -> dict[Key, list[dict[str, Any]]]:
        order = [(name, "ascending") for name in (*self.keys, "_hs_sequence")]
        return {key: list(group) for key, group in groupby(rows.take(pc.sort_indices(rows, order)).to_pylist(), self.key)}

    def _replay_key(
        self,
        key: Key,
        stored: list[Version],
        changes: list[dict[str, Any]],
        present: Callable[[bytes | None], frozenset[str]],
        place: PlaceDepartures | None,
    ) -> list[Version]:
        columns = list(self.columns)
        reopened = reopen(stored, self.ends)
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
        if place is not None:
            place(key, known)
        replayed = replay(
            (known[sequence] for sequence in sorted(known)), columns, list(self.keys), soft=self.soft, ends=self.ends
        )
        return close_again(replayed, self.ends)


def _array(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _differences(stored: list[Version], replayed: list[Version], columns: list[str]) -> list[dict[str, Any]]:
    """Return the merge's source rows that turn one key's stored versions into the replayed versions."""
    before = {version.valid_from: version for version in stored}
    after = {version.valid_from: version for version in replayed}
    rows = [_row(version, columns, WRITE) for at, version in after.items() if not _is_same(before.get(at), version)]
    return rows + [_row(version, columns, REMOVE) for at, version in before.items() if at not in after]


def _is_same(stored: Version | None, replayed: Version) -> bool:
    """Return whether a version equals the stored version; a column that was added later is null and has no version."""
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
        ACTION: action,
    }
