"""Catalog: streams, topics and partitions, in SQLite.

    streams      number | id | name | created_us
    topics       number | stream | id | name | created_us | limits
    partitions   topic | number | created_us

`id` is what users see: the smallest that is free, as in Iggy, so it is given again after a deletion. `number` names the
directory and is never given again: what is left of a deleted topic cannot turn up in a new one.

The one writer holds the log's lock. Readers, in any process, open the database read-only and look with one cheap
question (data_version) whether what they know still holds.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from headstream.errors import CorruptLogError, LogVersionError, StorageError
from headstream.model.identifiers import TopicName
from headstream.model.topology import Limits

__all__ = ["Catalog", "Snapshot", "StreamRecord", "TopicRecord"]

_VERSION: Final = 1
_BUSY_SECONDS: Final = 10.0
_SCHEMA: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE IF NOT EXISTS streams (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    created_us INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS topics (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL REFERENCES streams (number) ON DELETE CASCADE,
    id INTEGER NOT NULL, name TEXT NOT NULL, created_us INTEGER NOT NULL, limits TEXT NOT NULL,
    UNIQUE (stream, id), UNIQUE (stream, name));
CREATE TABLE IF NOT EXISTS partitions (
    topic INTEGER NOT NULL REFERENCES topics (number) ON DELETE CASCADE, number INTEGER NOT NULL,
    created_us INTEGER NOT NULL, PRIMARY KEY (topic, number)) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic as the catalog has it; `number` and `stream_number` name its directory."""

    name: TopicName
    id: int
    number: int
    stream_number: int
    created_us: int
    limits: Limits
    partitions: int


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream as the catalog has it, with its topics by name, in the order of their ids."""

    name: str
    id: int
    number: int
    created_us: int
    topics: Mapping[str, TopicRecord]


Snapshot = Mapping[str, StreamRecord]
"""All streams by name, in the order of their ids, as of one moment."""


class Catalog:
    """The metadata of one log; any thread.

    Args:
        path: The database's path, or None for one in memory.
        is_writer: Whether to open it for writing, and make what is missing.

    Raises:
        CorruptLogError: the file is no such database.
        LogVersionError: a newer Headstream made it.
        StorageError: the system refused.
    """

    def __init__(self, path: str | None, *, is_writer: bool) -> None:
        self._where = path or "memory"
        self._lock = threading.RLock()
        self._snapshot: Snapshot | None = None
        self._data_version = -1
        with self._translated():
            self._connection = _connect(path, is_writer=is_writer)
            if is_writer:
                self._connection.executescript(_SCHEMA)
                self._connection.execute("PRAGMA foreign_keys = ON")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        self._is_alone = is_writer
        if version > _VERSION:
            raise LogVersionError(
                f"the catalog has version {version}, this Headstream knows {_VERSION}",
                where=self._where,
                advice="Use the Headstream that wrote it, or a newer one",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StorageError(
                f"the catalog cannot be used: {error}",
                where=self._where,
                advice="See that the file and its directory can be read and written by this user, and that there is room",
            ) from error
        except sqlite3.DatabaseError as error:
            raise CorruptLogError(
                f"the catalog is damaged: {error}",
                where=self._where,
                advice="Restore the file from a copy; the messages beside it are not touched by this",
            ) from error

    def snapshot(self) -> Snapshot:
        """Return all streams and topics as they are now."""
        known = self._snapshot
        if known is not None and self._is_alone:
            return known
        with self._lock, self._translated():
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
            if self._snapshot is None or version != self._data_version:
                self._snapshot = self._read()
                self._data_version = version
            return self._snapshot

    def _read(self) -> Snapshot:
        partitions = dict(self._connection.execute("SELECT topic, count(*) FROM partitions GROUP BY topic"))
        streams: dict[int, tuple[StreamRecord, dict[str, TopicRecord]]] = {}
        for number, id_, name, created in self._connection.execute(
            "SELECT number, id, name, created_us FROM streams ORDER BY id"
        ):
            topics: dict[str, TopicRecord] = {}
            streams[number] = StreamRecord(name, id_, number, created, topics), topics
        for number, stream, id_, name, created, limits in self._connection.execute(
            "SELECT number, stream, id, name, created_us, limits FROM topics ORDER BY stream, id"
        ):
            record, topics = streams[stream]
            full_name = TopicName(record.name, name)
            topics[name] = TopicRecord(full_name, id_, number, stream, created, Limits(limits), partitions.get(number, 0))
        return {record.name: record for record, _ in streams.values()}

    # -- changes: within transaction() only -----------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes of the body, durably, or none of them."""
        with self._lock, self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.rollback()
                raise
            else:
                self._connection.commit()
            finally:
                self._snapshot = None

    def insert_stream(self, name: str, created_us: int) -> int:
        """Add a stream and return its number."""
        id_ = self._free_id("SELECT id FROM streams ORDER BY id")
        cursor = self._connection.execute("INSERT INTO streams (id, name, created_us) VALUES (?, ?, ?)", (id_, name, created_us))
        return int(cursor.lastrowid or 0)

    def insert_topic(self, stream_number: int, name: str, partitions: int, limits: Limits, created_us: int) -> int:
        """Add a topic with its partitions and return its number."""
        id_ = self._free_id("SELECT id FROM topics WHERE stream = ? ORDER BY id", stream_number)
        cursor = self._connection.execute(
            "INSERT INTO topics (stream, id, name, created_us, limits) VALUES (?, ?, ?, ?, ?)",
            (stream_number, id_, name, created_us, limits.value),
        )
        number = int(cursor.lastrowid or 0)
        self._connection.executemany(
            "INSERT INTO partitions (topic, number, created_us) VALUES (?, ?, ?)",
            [(number, partition, created_us) for partition in range(1, partitions + 1)],
        )
        return number

    def delete_stream(self, number: int) -> None:
        """Take a stream out, with its topics."""
        self._connection.execute("DELETE FROM streams WHERE number = ?", (number,))

    def delete_topic(self, number: int) -> None:
        """Take a topic out."""
        self._connection.execute("DELETE FROM topics WHERE number = ?", (number,))

    def _free_id(self, query: str, *parameters: Any) -> int:
        free = 1
        for (taken,) in self._connection.execute(query, parameters):
            if taken != free:
                break
            free += 1
        return free

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._connection.close()


def _connect(path: str | None, *, is_writer: bool) -> sqlite3.Connection:
    if path is None:
        return _open(":memory:", uri=False)
    if is_writer:
        return _open(path, uri=False)
    address = f"file:{quote(path)}?mode=ro"
    try:
        connection = _open(address, uri=True)
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        # Read-only, SQLite needs the files of shared memory that only a writable directory can have. Where there is no
        # write-ahead log either, nobody is writing, and the file can be read as it lies.
        if Path(f"{path}-wal").exists():
            raise
        return _open(f"{address}&immutable=1", uri=True)
    return connection


def _open(address: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(address, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri)
