"""The changes of the keys that changes of key connect, kept as long as deletions are remembered.

A row whose key changed has its columns from two keys, and which ones depends on the order of all their changes. So the changes
of such keys are kept, beside what was known of the keys when they were connected first, and are told anew whenever another one
comes (row_merge.replay()); what they come to is then a function of their set. Few keys are connected in most tables.

On disk it is a Delta table beside the tombstones (`_keys`) whose rows hold changes as Arrow IPC bytes, so that it follows a
table's columns and their types without being rewritten:

    <the table's columns>   values after the change, of the columns that it carries; key columns always
    _hs_old.<key columns>   the key before a change of key
    _hs_kind                delete, move, upsert
    _hs_sequence, _hs_transaction, _hs_event
    _hs_versions            which columns it carries, as in row_versions.py
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from headstream.spark.replicate.apply.deltalake import Translated
from headstream.spark.replicate.changes import OLD_PREFIX
from headstream.spark.replicate.row_merge import Event, Key
from headstream.spark.replicate.row_versions import read_versions

__all__ = ["LOGGED", "MAX_KEPT", "KeyLog", "read_events", "stacked"]

LOGGED: Final = [
    pa.field("_hs_kind", pa.string()),
    pa.field("_hs_sequence", pa.string()),
    pa.field("_hs_transaction", pa.string()),
    pa.field("_hs_event", pa.int64()),
    pa.field("_hs_versions", pa.string()),
]
MAX_KEPT: Final = 200_000
"""Changes that are kept: they are held in memory, about 2 KB each, and are read when a table is opened. The older half of more
is put together: a change that comes later and is older than those is applied to the rows as they are now."""
_SCHEMA: Final = pa.schema([pa.field("changes", pa.binary())])
_MAX_FILES: Final = 32
"""Small files that are put together: each is opened when the table is."""


class KeyLog:
    """The kept changes of one table.

    Args:
        directory: The directory of the table's tombstones.
        keys: The table's key columns.
    """

    def __init__(self, directory: Path, keys: list[str]) -> None:
        self._path = directory / "_keys"
        self._old = directory / "_moves"
        self._keys = keys
        self._rows: pa.Table | None = None
        self._events: list[Event] = []
        self._by_key: dict[Key, list[int]] = {}
        with self._translated():
            if DeltaTable.is_deltatable(str(self._path)):
                stored = DeltaTable(str(self._path)).to_pyarrow_table()["changes"].to_pylist()
                if stored:
                    self._hold([pa.ipc.open_stream(data).read_all() for data in stored])

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self._events)

    def connected(self, keys: Iterable[Key]) -> set[Key]:
        """Return the keys that changes of key connect with some keys, those included that are kept themselves."""
        found: set[Key] = set()
        open_keys = [key for key in keys if key in self._by_key]
        while open_keys:
            key = open_keys.pop()
            if key in found:
                continue
            found.add(key)
            for place in self._by_key[key]:
                event = self._events[place]
                open_keys += [other for other in (event.key, event.before) if other is not None and other not in found]
        return found

    def select(self, keys: Iterable[Key]) -> tuple[pa.Table | None, list[int]]:
        """Return the kept rows and the numbers of those of some keys."""
        places = sorted({place for key in keys for place in self._by_key.get(key, [])})
        return (None, []) if self._rows is None else (self._rows, places)

    def add(self, rows: pa.Table) -> None:
        """Keep changes, durably; those that are kept already are passed over. Must be done before they are merged.

        Args:
            rows: As the table's head says.
        """
        known = {_identity(self._events[place]) for key in self._touched(rows) for place in self._by_key.get(key, [])}
        fresh = []
        for place, event in enumerate(read_events(rows, self._keys)):
            if _identity(event) not in known:
                known.add(_identity(event))
                fresh.append(place)
        if not fresh:
            return
        rows = rows.take(pa.array(fresh, pa.int64()))
        with self._translated():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_deltalake(str(self._path), _packed(rows), mode="append")
            self._hold([rows])
            if len(DeltaTable(str(self._path)).file_uris()) > _MAX_FILES:
                self._write_all()

    def replace(self, rows: pa.Table | None) -> None:
        """Keep other changes in place of those that are kept.

        Args:
            rows: As the table's head says; None for none.
        """
        self._rows, self._events, self._by_key = None, [], {}
        if rows is not None and rows.num_rows:
            self._hold([rows])
        with self._translated():
            self._write_all()

    def old_moves(self) -> list[Event]:
        """Return the changes of key that older versions of Headstream kept, without values, in a table of another form."""
        with self._translated():
            if not DeltaTable.is_deltatable(str(self._old)):
                return []
            rows = DeltaTable(str(self._old)).to_pyarrow_table().to_pylist()
        return [
            Event(
                "move",
                tuple(row[f"_hs_to.{key}"] for key in self._keys),
                row["_hs_sequence"],
                before=tuple(row[key] for key in self._keys),
            )
            for row in rows
        ]

    def drop_old(self) -> None:
        """Remove what old_moves() returns, which is kept here now."""
        shutil.rmtree(self._old, ignore_errors=True)

    def _touched(self, rows: pa.Table) -> set[Key]:
        names = [*self._keys, *(OLD_PREFIX + key for key in self._keys)]
        found = rows.select(names).to_pylist()
        keys = {tuple(row[name] for name in self._keys) for row in found}
        return keys | {tuple(row[OLD_PREFIX + name] for name in self._keys) for row in found}

    def _write_all(self) -> None:
        if not DeltaTable.is_deltatable(str(self._path)) and self._rows is None:
            return
        packed = _SCHEMA.empty_table() if self._rows is None else _packed(self._rows)
        write_deltalake(str(self._path), packed, mode="overwrite")
        DeltaTable(str(self._path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def _hold(self, parts: list[pa.Table]) -> None:
        start = len(self._events)
        tables = [part for part in [self._rows, *parts] if part is not None]
        self._rows = stacked(tables)
        self._events += read_events(self._rows.slice(start), self._keys, start)
        for place in range(start, len(self._events)):
            event = self._events[place]
            self._by_key.setdefault(event.key, []).append(place)
            if event.before is not None and event.before != event.key:
                self._by_key.setdefault(event.before, []).append(place)

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """Say of rows with key columns which may have a kept key: every part of theirs is a part of one."""
        found = pa.chunked_array([pa.repeat(bool(self), rows.num_rows)])
        if self._rows is None:
            return found
        for place, name in enumerate(self._keys):
            kind, parts = self._rows.schema.field(name).type, {key[place] for key in self._by_key}
            if rows[name].type == kind:
                known = pc.is_in(rows[name], pa.array(list(parts), kind))
            else:  # the column has grown since, or is of an older schema
                known = pa.chunked_array([pa.array([value in parts for value in rows[name].to_pylist()], pa.bool_())])
            found = pc.and_(found, known)
        return found

    def events(self, places: Sequence[int]) -> list[Event]:
        """Return kept changes by their numbers; their sources are the numbers of the rows that select() returns."""
        return [self._events[place] for place in places]

    def newest(self, keys: Iterable[Key]) -> str:
        """Return the highest place among the changes of some keys."""
        return max((self._events[place].sequence for key in keys for place in self._by_key.get(key, [])), default="")

    def keys(self) -> list[Key]:
        """Return the keys whose changes are kept."""
        return list(self._by_key)

    def _translated(self) -> Translated:
        return Translated(self._path, "the changes of rows with other keys cannot be read or written")


def read_events(rows: pa.Table, keys: Sequence[str], first: int = 0) -> list[Event]:
    """Return rows of the log as events.

    Args:
        rows: As the head of this file says.
        keys: The key columns.
        first: The number of the first row: a row's number is the source of what its event writes.
    """
    names = [*keys, *(OLD_PREFIX + key for key in keys), *(field.name for field in LOGGED)]
    events = []
    for number, row in enumerate(rows.select(names).to_pylist(), first):
        sequence, kind = row["_hs_sequence"], row["_hs_kind"]
        columns, _ = read_versions(row["_hs_versions"], sequence, [], number)
        before = tuple(row[OLD_PREFIX + key] for key in keys) if kind == "move" else None
        key = tuple(row[key] for key in keys)
        events.append(Event(kind, key, sequence, columns, before, row["_hs_transaction"] or "", row["_hs_event"] or 0))
    return events


def stacked(tables: Sequence[pa.Table], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Return rows of several tables in one; null where a table lacks a column.

    Args:
        tables: Whose columns of one name fit into one type.
        types: The types of columns; of others that of the last table that has the column.
    """
    known = types or {}
    fields = {field.name: pa.field(field.name, known.get(field.name, field.type)) for table in tables for field in table.schema}
    schema = pa.schema(list(fields.values()))
    parts = []
    for table in tables:
        present = set(table.schema.names)
        columns = [table[name] if name in present else pa.nulls(table.num_rows, field.type) for name, field in fields.items()]
        parts.append(pa.table(columns, names=list(fields)).cast(schema))
    return pa.concat_tables(parts)


def _identity(event: Event) -> tuple[Any, ...]:
    return event.kind, event.key, event.before, event.sequence


def _packed(rows: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return pa.table([pa.array([sink.getvalue().to_pybytes()], pa.binary())], schema=_SCHEMA)
