"""The state of each table, in a SQLite file of the checkpoint (`tables.sqlite`).

The state is written before the merge that relies on it. A merge that is repeated after a crash reads the state that the first run
wrote, and so has the same result.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headstream.errors import StorageError
from headstream.replicate.apply.evolution import SeenSchema
from headstream.replicate.columns.loads import Loads
from headstream.replicate.columns.raw import Coordinates


@dataclass(slots=True)
class TableState:
    """The state of a table.

    Args:
        newest_deletion: The highest change sequence of the tombstones; "" if there are none.
        forgotten: Tombstones up to this sequence were removed, so an older change for a key that is not in the table may belong
            to a deleted row.
        deletion_times: Ascending (time, `newest_deletion` at that time), for the later removal of tombstones.
        compacted_us: Time of the last compaction, microseconds since 1970 UTC.
        vacuumed_us: Time of the last vacuum, microseconds since 1970 UTC.
        columns: The columns that the source has or had. Other columns of the table do not belong to the pipeline.
        soft: Whether deleted rows are kept and marked; None if an older version wrote the state.
    """

    loads: Loads = field(default_factory=Loads)
    newest_deletion: str = ""
    forgotten: str = ""
    schema: SeenSchema | None = None
    deletion_times: list[tuple[int, str]] = field(default_factory=list)
    compacted_us: int = 0
    vacuumed_us: int = 0
    columns: list[str] = field(default_factory=list)
    soft: bool | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        document = {name: getattr(self, name) for name in ("forgotten", "compacted_us", "vacuumed_us", "columns", "soft")}
        schema = None if self.schema is None else self.schema.to_document()
        deletions = {"buried": self.newest_deletion, "burials": self.deletion_times}
        return {"loads": self.loads.to_document(), "schema": schema} | deletions | document

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> TableState:
        """Return the state from the result of to_document()."""
        schema = None if document["schema"] is None else SeenSchema.from_document(document["schema"])
        deletion_times = [(us, sequence) for us, sequence in document.get("burials", [])]  # not in checkpoints of older versions
        times = {name: document.get(name, 0) for name in ("compacted_us", "vacuumed_us")}
        loads = Loads.from_document(document["loads"])
        columns = document.get("columns", [])
        deletions = document["buried"], document["forgotten"], schema, deletion_times
        return cls(loads, *deletions, **times, columns=columns, soft=document.get("soft"))


class TableMemory:
    """The SQLite file, created if missing; thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rejecting: set[tuple[str, str]] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            # As durable as the tables themselves: a killed process loses nothing.
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS tables (schema TEXT, name TEXT, state TEXT NOT NULL, PRIMARY KEY (schema, name)) "
                "WITHOUT ROWID"
            )
            self._connection.execute(  # one row per unit with rejected changes, for the newest application
                "CREATE TABLE IF NOT EXISTS given_up (schema TEXT, name TEXT, unit TEXT, version INTEGER NOT NULL, "
                "changes TEXT NOT NULL, PRIMARY KEY (schema, name, unit)) WITHOUT ROWID"
            )
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"the state of the tables cannot be opened: {error}", where=str(path)) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def names(self) -> Iterator[tuple[str, str]]:
        """Iterate over the schemas and names of the known tables."""
        with self._lock:
            return iter(self._connection.execute("SELECT schema, name FROM tables ORDER BY schema, name").fetchall())

    def find(self, name: tuple[str, str]) -> TableState:
        """Return the state of a table; for an unknown table, the initial state."""
        try:
            with self._lock:
                row = self._connection.execute("SELECT state FROM tables WHERE schema = ? AND name = ?", name).fetchone()
            return TableState() if row is None else TableState.from_document(json.loads(row[0]))
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"the state of table {'.'.join(name)} cannot be read: {error}", where=str(self._path)) from error

    def given_up(self, name: tuple[str, str], unit: str, version: int) -> dict[Coordinates, str]:
        """Return the changes that a unit's merge has rejected, with reasons."""
        found = self._given_up(name, unit)
        changes = json.loads(found[1]) if found is not None and found[0] == version else []
        return {(topic, partition, offset): reason for topic, partition, offset, reason in changes}

    def give_up(self, name: tuple[str, str], unit: str, version: int, changes: Mapping[Coordinates, str]) -> None:
        """Store the changes that a unit's merge rejects. Call give_up() before the commit."""
        if not changes and self._given_up(name, unit) is None:
            return
        rejected_json = json.dumps([[*coordinates, reason] for coordinates, reason in changes.items()])
        try:
            with self._lock:
                query = "INSERT OR REPLACE INTO given_up VALUES (?, ?, ?, ?, ?)"
                self._connection.execute(query, (*name, unit, version, rejected_json))
                self._rejecting.add(name)
        except sqlite3.Error as error:
            raise StorageError(f"the state of the tables cannot be written: {error}", where=str(self._path)) from error

    def take_rejections(self, name: tuple[str, str]) -> bool:
        """Return whether rejected changes of a table were stored since the last call."""
        with self._lock:
            found = name in self._rejecting
            self._rejecting.discard(name)
        return found

    def _given_up(self, name: tuple[str, str], unit: str) -> tuple[int, str] | None:
        query = "SELECT version, changes FROM given_up WHERE schema = ? AND name = ? AND unit = ?"
        try:
            with self._lock:
                found: tuple[int, str] | None = self._connection.execute(query, (*name, unit)).fetchone()
            return found
        except sqlite3.Error as error:
            raise StorageError(f"the state of the tables cannot be read: {error}", where=str(self._path)) from error

    def keep(self, name: tuple[str, str], state: TableState) -> None:
        """Store the state of a table."""
        try:
            with self._lock:
                self._connection.execute(
                    "INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", (*name, json.dumps(state.to_document()))
                )
        except sqlite3.Error as error:
            raise StorageError(f"the state of the tables cannot be written: {error}", where=str(self._path)) from error
