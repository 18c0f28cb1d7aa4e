"""KeyLog: the changes of keys that key updates connect. The changes are retained as long as tombstones.

A row whose key changed can have values from changes under two keys, depending on the order of all changes under both. Thus, the
changes of such keys are logged, with the state of the keys when a key update first connected them. When another change arrives,
the log is replayed (row_merge.replay()), so the order of arrival does not matter. Most tables have few connected keys.

On disk the log is a Delta table next to the tombstones (`_keys`). Its rows hold changes as Arrow IPC bytes, so new columns and
types of the table require no rewrite:

    <the table's columns>   values after the change, for the columns that it carries; always the key columns
    _hs_old.<key columns>   the key before a key update
    _hs_kind                delete, move, upsert
    _hs_sequence, _hs_transaction, _hs_event
    _hs_versions            the columns that the change carries, as in row_versions.py
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from headstream.replicate.apply.moved_keys.logged_rows import LOGGED, stacked
from headstream.replicate.apply.unit_memory import Unit, UnitMemory, take_back
from headstream.replicate.columns.changes import OLD_PREFIX
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.columns.row_merge import Key, KeyEvent
from headstream.replicate.columns.row_versions import UNIFORM_MARK, read_versions
from headstream.replicate.storage.delta_places import Translated

MAX_KEPT: Final = 200_000
"""Maximum number of changes, which take about 2 KB of memory each when a table is open. Above it, the older half is folded
(log_folding.fold_log()); a change that is older than folded changes but arrives later is applied to their result.
"""
_SCHEMA: Final = pa.schema([pa.field("changes", pa.binary())])
_MAX_FILES: Final = 32
"""Number of small files above which the files are merged, since opening a table opens each file."""


class KeyLog(UnitMemory):
    """The logged changes of one table, next to its tombstones."""

    def __init__(self, directory: Path, keys: list[str]) -> None:
        super().__init__()
        self._path = directory / "_keys"
        self._old = directory / "_moves"
        self._keys = keys
        self._most = MAX_KEPT
        self._forget_all()
        with self._translated():
            self._begun = DeltaTable.is_deltatable(str(self._path))
            if self._begun:
                table = DeltaTable(str(self._path))
                self._note_stored(table)
                self._read(table)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self._events)

    @property
    def begun(self) -> bool:
        """Whether the table has had changes that omit columns."""
        return self._begun

    def begin(self) -> None:
        """Record durably that the table has had a change that omits columns."""
        if not self._begun:
            with self._translated():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_deltalake(str(self._path), _SCHEMA.empty_table(), mode="append")
            self._begun = True

    def connected(self, keys: Iterable[Key]) -> set[Key]:
        """Return the logged keys that key updates connect with the given keys, including the given keys."""
        found: set[Key] = set()
        open_keys = [key for key in keys if key in self._by_key]
        while open_keys:
            key = open_keys.pop()
            if key in found:
                continue
            found.add(key)
            for number in self._by_key[key]:
                event = self._events[number]
                open_keys += [other for other in (event.key, event.before) if other is not None and other not in found]
        return found

    def select(self, keys: Iterable[Key]) -> tuple[pa.Table | None, list[int]]:
        """Return all logged rows, and the numbers of the rows that belong to the given keys."""
        numbers = sorted({number for key in keys for number in self._by_key.get(key, [])})
        return (None, []) if self._rows is None else (self._rows, numbers)

    def add(self, rows: pa.Table) -> None:
        """Log changes (in the layout above) that are not yet logged, durably. Call add() before the changes are merged."""
        known = {_identity(self._events[number]) for key in self._touched(rows) for number in self._by_key.get(key, [])}
        fresh = []
        for number, identity in enumerate(self._identities(rows)):
            if identity not in known:
                known.add(identity)
                fresh.append(number)
        if not fresh:
            return
        if len(fresh) < rows.num_rows:
            rows = rows.take(pa.array(fresh, pa.int64()))
        with self._translated():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._begun and self._undecided is None and len(DeltaTable(str(self._path)).file_uris()) > _MAX_FILES:
                self._write_all()
            write_deltalake(str(self._path), _packed(rows), mode="append", commit_properties=self._commit_properties())
            self._begun = True
            self._hold([rows])

    def replace(self, rows: pa.Table | None) -> None:
        """Replace the logged changes by rows in the layout above; None removes all."""
        self._forget_all()
        if rows is not None and rows.num_rows:
            self._hold([rows])
        # Folding keeps at least two rows per connected key, and unfinished transactions.
        self._most = max(MAX_KEPT, len(self._events) + MAX_KEPT // 4)
        with self._translated():
            self._write_all()
        self._undecided = None

    def excess(self) -> str | None:
        """Return the sequence up to which to fold logged changes; None if the log is short."""
        if len(self._events) <= self._most:
            return None
        return sorted(event.sequence for event in self._events)[len(self._events) // 2 - 1]

    def border(self, until: str) -> str:
        """Return the lowest sequence to keep, so that transactions with a change above `until` remain complete."""
        first: dict[str, str] = {}
        for event in self._events:
            first[event.unit] = min(first.get(event.unit, event.sequence), event.sequence)
        border = ""
        for event in sorted(self._events, key=lambda event: event.sequence, reverse=True):
            if event.sequence <= until and event.sequence < border:
                break
            if event.sequence > until or event.sequence >= border:
                border = min(border or event.sequence, first[event.unit])
        return border

    def old_moves(self) -> list[KeyEvent]:
        """Return the key updates that older versions of Headstream stored without values, in another table layout."""
        with self._translated():
            if not DeltaTable.is_deltatable(str(self._old)):
                return []
            rows = DeltaTable(str(self._old)).to_pyarrow_table().to_pylist()
        return [
            KeyEvent(
                "move",
                tuple(row[f"_hs_to.{key}"] for key in self._keys),
                row["_hs_sequence"],
                before=tuple(row[key] for key in self._keys),
            )
            for row in rows
        ]

    def drop_old(self) -> None:
        """Remove the table of old_moves() after its migration."""
        shutil.rmtree(self._old, ignore_errors=True)

    def fit(self, columns: Mapping[str, str]) -> None:
        """Convert dates in keys to the widened type of the table's columns, because a date never equals a timestamp."""
        if self._rows is None:
            return
        fields = {field.name: field for field in self._rows.schema}
        for key in self._keys:
            kind = arrow_type(columns[key]) if key in columns else fields[key].type
            for name in (key, OLD_PREFIX + key):
                if pa.types.is_date(fields[name].type):
                    fields[name] = fields[name].with_type(kind)
        schema = pa.schema(list(fields.values()))
        if schema != self._rows.schema:
            self.replace(self._rows.cast(schema))

    def leave_out(self, names: Sequence[str]) -> None:
        """Record that no logged change carries the given columns, which an older schema has added to the table later."""
        rows = self._rows
        if rows is None or not names:
            return
        whole = pc.binary_join_element_wise(UNIFORM_MARK, rows["_hs_sequence"], "")
        versions = pc.coalesce(rows["_hs_versions"], whole)
        left_out = json.dumps(list(names), ensure_ascii=False)
        place = rows.schema.get_field_index("_hs_versions")
        self.replace(rows.set_column(place, "_hs_versions", pc.binary_join_element_wise(versions, left_out, "\n")))

    def _identities(self, rows: pa.Table) -> Iterator[tuple[Any, ...]]:
        """Iterate over the identities of the rows' events, as _identity() returns them, without reading versions."""
        names = [*self._keys, *(OLD_PREFIX + key for key in self._keys), "_hs_kind", "_hs_sequence"]
        for row in rows.select(names).to_pylist():
            before = tuple(row[OLD_PREFIX + key] for key in self._keys) if row["_hs_kind"] == "move" else None
            yield row["_hs_kind"], tuple(row[key] for key in self._keys), before, row["_hs_sequence"]

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

    def _take_back(self, unit: Unit) -> None:
        self._forget_all()
        with self._translated():
            if DeltaTable.is_deltatable(str(self._path)):  # the append can have failed too
                table = DeltaTable(str(self._path))
                take_back(table, unit)
                self._read(table)

    def _retain(self) -> None:
        with self._translated():
            write_deltalake(str(self._path), _SCHEMA.empty_table(), mode="append")

    def _forget_all(self) -> None:
        self._rows: pa.Table | None = None
        self._events: list[KeyEvent] = []
        self._by_key: dict[Key, list[int]] = {}

    def _read(self, table: DeltaTable) -> None:
        stored = table.to_pyarrow_table()["changes"].to_pylist()
        if stored:
            self._hold([pa.ipc.open_stream(data).read_all() for data in stored])

    def _hold(self, parts: list[pa.Table]) -> None:
        start = len(self._events)
        tables = [part for part in [self._rows, *parts] if part is not None]
        self._rows = stacked(tables)
        self._events += read_events(self._rows.slice(start), self._keys, start)
        for number in range(start, len(self._events)):
            event = self._events[number]
            self._by_key.setdefault(event.key, []).append(number)
            if event.before is not None and event.before != event.key:
                self._by_key.setdefault(event.before, []).append(number)

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return which rows may have a logged key: every value of the row's key occurs in a logged key."""
        found = pa.chunked_array([pa.repeat(bool(self), rows.num_rows)])
        if self._rows is None:
            return found
        for number, name in enumerate(self._keys):
            kind, parts = self._rows.schema.field(name).type, {key[number] for key in self._by_key}
            if rows[name].type == kind:
                known = pc.is_in(rows[name], pa.array(list(parts), kind))
            else:  # the column was widened later, or the rows have an older schema
                known = _is_among(rows[name], pa.array(list(parts), kind))
            found = pc.and_(found, known)
        return found

    def events(self, numbers: Sequence[int]) -> list[KeyEvent]:
        """Return logged changes by number; an event's source is the number of its row in the result of select()."""
        return [self._events[number] for number in numbers]

    def newest(self, keys: Iterable[Key]) -> str:
        """Return the highest sequence among the changes of the given keys."""
        return max((self._events[number].sequence for key in keys for number in self._by_key.get(key, [])), default="")

    def keys(self) -> list[Key]:
        """Return the logged keys."""
        return list(self._by_key)

    def _translated(self) -> Translated:
        return Translated(self._path, "the log of connected keys cannot be read or written")


def read_events(rows: pa.Table, keys: Sequence[str], first: int = 0) -> list[KeyEvent]:
    """Return rows of the log as events; an event's source is its row number, counted from `first`."""
    names = [*keys, *(OLD_PREFIX + key for key in keys), *(field.name for field in LOGGED)]
    events = []
    for number, row in enumerate(rows.select(names).to_pylist(), first):
        sequence, kind = row["_hs_sequence"], row["_hs_kind"]
        columns, _ = read_versions(row["_hs_versions"], sequence, [], number)
        before = tuple(row[OLD_PREFIX + key] for key in keys) if kind == "move" else None
        key = tuple(row[key] for key in keys)
        events.append(KeyEvent(kind, key, sequence, columns, before, row["_hs_transaction"] or "", row["_hs_event"] or 0))
    return events


def _is_among(values: pa.ChunkedArray, known: pa.Array) -> pa.ChunkedArray:
    """Return which values occur in `known`; one of the two types must hold the values of both."""
    try:
        return pc.is_in(values.cast(known.type), known)
    except pa.ArrowInvalid:  # the values have the wider type
        return pc.is_in(values, known.cast(values.type))


def _identity(event: KeyEvent) -> tuple[Any, ...]:
    return event.kind, event.key, event.before, event.sequence


def _packed(rows: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return pa.table([pa.array([sink.getvalue().to_pybytes()], pa.binary())], schema=_SCHEMA)
