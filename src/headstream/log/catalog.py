"""Catalog: streams, topics and partitions, in SQLite.

    streams      number | id | name | created_us
    topics       number | stream | id | name | created_us | limits | fsync | retention_us | retention_bytes
    partitions   topic | number | created_us
    states       topic | partition | offset | state | reason | author | changed_us | is_pending

`id` is what users see: the smallest that is free, as in Iggy, so it is given again after a deletion. `number` names the
directory and is never given again: what is left of a deleted topic cannot turn up in a new one.
A purge gives a topic a new number, and with it a new, empty directory. A partition's created_us tells it from an
earlier one of its number. A row of states that is pending is an intent: see states.py.

The one writer holds the log's lock. Readers, in any process, open the database read-only and look with one cheap
question (data_version) whether what they know still holds.

Version 1 had no `fsync`: a writer adds it, and until then readers take its topics' policy to be `interval`. Version 2
had neither states nor retention: until a writer adds them there are none.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from headstream.errors import CorruptLogError, DiskFullError, LogVersionError, StorageError
from headstream.model.identifiers import TopicName
from headstream.model.message import StateChange
from headstream.model.topology import Fsync, Limits

__all__ = ["Catalog", "Snapshot", "StreamRecord", "TopicRecord"]

_VERSION: Final = 3
_BUSY_SECONDS: Final = 10.0
_STATES: Final = """
CREATE TABLE IF NOT EXISTS states (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, state INTEGER NOT NULL,
    reason TEXT NOT NULL, author TEXT NOT NULL, changed_us INTEGER NOT NULL, is_pending INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, offset),
    FOREIGN KEY (topic, partition) REFERENCES partitions (topic, number) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pending_states ON states (topic, partition, offset) WHERE is_pending;
"""
_SCHEMA: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS streams (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    created_us INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS topics (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL REFERENCES streams (number) ON DELETE CASCADE,
    id INTEGER NOT NULL, name TEXT NOT NULL, created_us INTEGER NOT NULL, limits TEXT NOT NULL,
    fsync TEXT NOT NULL DEFAULT 'interval', retention_us INTEGER, retention_bytes INTEGER,
    UNIQUE (stream, id), UNIQUE (stream, name));
CREATE TABLE IF NOT EXISTS partitions (
    topic INTEGER NOT NULL REFERENCES topics (number) ON DELETE CASCADE, number INTEGER NOT NULL,
    created_us INTEGER NOT NULL, PRIMARY KEY (topic, number)) WITHOUT ROWID;
{_STATES}
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_STEPS: Final = {
    1: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN fsync TEXT NOT NULL DEFAULT 'interval'; PRAGMA user_version = 2; COMMIT;",
    2: "BEGIN IMMEDIATE; ALTER TABLE topics ADD COLUMN retention_us INTEGER; "
    f"ALTER TABLE topics ADD COLUMN retention_bytes INTEGER; {_STATES} PRAGMA user_version = 3; COMMIT;",
}
"""From each older version to the next."""


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
    fsync: Fsync
    partitions_created_us: tuple[int, ...] = ()
    retention_us: int | None = None
    retention_bytes: int | None = None

    def generation(self, partition: int) -> int:
        """Return the number that tells a partition from what had its name before a purge or a deletion."""
        return self.partitions_created_us[partition - 1] if partition <= len(self.partitions_created_us) else 0


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
            version = self._version()
        self._is_alone = is_writer
        if version > _VERSION:
            self._connection.close()
            raise LogVersionError(
                f"the catalog has version {version}, this Headstream knows {_VERSION}",
                where=self._where,
                advice="Use the Headstream that wrote it, or a newer one",
            )
        if is_writer:
            with self._translated():
                self._bring_up(version)

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _bring_up(self, version: int) -> None:
        """Make the tables, or change those of an older version into today's."""
        if version == 0:
            self._connection.executescript(_SCHEMA)
        else:
            for step in range(version, _VERSION):
                self._connection.executescript(_STEPS[step])
        self._connection.execute("PRAGMA foreign_keys = ON")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            kind = DiskFullError if error.sqlite_errorcode == sqlite3.SQLITE_FULL else StorageError
            raise kind(
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
        version = self._version()  # a writer may have brought it up since this reader opened it
        partitions: dict[int, list[int]] = {}
        for topic, created in self._connection.execute("SELECT topic, created_us FROM partitions ORDER BY topic, number"):
            partitions.setdefault(topic, []).append(created)
        streams: dict[int, tuple[StreamRecord, dict[str, TopicRecord]]] = {}
        for number, id_, name, created in self._connection.execute(
            "SELECT number, id, name, created_us FROM streams ORDER BY id"
        ):
            topics: dict[str, TopicRecord] = {}
            streams[number] = StreamRecord(name, id_, number, created, topics), topics
        columns = "fsync" if version > 1 else "'interval'"
        columns += ", retention_us, retention_bytes" if version > 2 else ", NULL, NULL"
        for number, stream, id_, name, created, limits, fsync, age_us, size_bytes in self._connection.execute(
            f"SELECT number, stream, id, name, created_us, limits, {columns} FROM topics ORDER BY stream, id"
        ):
            record, topics = streams[stream]
            places = tuple(partitions.get(number, ()))
            topics[name] = TopicRecord(
                TopicName(record.name, name),
                id_,
                number,
                stream,
                created,
                Limits(limits),
                len(places),
                Fsync(fsync),
                partitions_created_us=places,
                retention_us=age_us,
                retention_bytes=size_bytes,
            )
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

    def insert_topic(
        self,
        stream_number: int,
        name: str,
        partitions: int,
        limits: Limits,
        created_us: int,
        fsync: Fsync = Fsync.INTERVAL,
    ) -> int:
        """Add a topic with its partitions and return its number."""
        id_ = self._free_id("SELECT id FROM topics WHERE stream = ? ORDER BY id", stream_number)
        cursor = self._connection.execute(
            "INSERT INTO topics (stream, id, name, created_us, limits, fsync) VALUES (?, ?, ?, ?, ?, ?)",
            (stream_number, id_, name, created_us, limits.value, fsync.value),
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

    def renumber_topic(self, number: int, created_us: int) -> int:
        """Give a topic a new number, without messages' states, and its partitions a new beginning; return the number."""
        run = self._connection.execute
        run("PRAGMA defer_foreign_keys = ON")
        run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'topics'")
        new = int(run("SELECT seq FROM sqlite_sequence WHERE name = 'topics'").fetchone()[0])
        run("DELETE FROM states WHERE topic = ?", (number,))
        run("UPDATE topics SET number = ? WHERE number = ?", (new, number))
        run("UPDATE partitions SET topic = ?, created_us = max(?, created_us + 1) WHERE topic = ?", (new, created_us, number))
        return new

    def insert_partitions(self, topic: int, numbers: range, created_us: int) -> None:
        """Add partitions to a topic."""
        rows = [(topic, number, created_us) for number in numbers]
        self._connection.executemany("INSERT INTO partitions (topic, number, created_us) VALUES (?, ?, ?)", rows)

    def delete_partitions(self, topic: int, first: int) -> None:
        """Take a topic's partitions out, from a number on."""
        self._connection.execute("DELETE FROM partitions WHERE topic = ? AND number >= ?", (topic, first))

    def set_retention(self, topic: int, age_us: int | None, size_bytes: int | None) -> None:
        """Say what a topic keeps."""
        self._connection.execute(
            "UPDATE topics SET retention_us = ?, retention_bytes = ? WHERE number = ?", (age_us, size_bytes, topic)
        )

    def put_states(self, topic: int, partition: int, changes: Iterable[StateChange]) -> None:
        """Record what the states of messages are about to be."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
            [(topic, partition, each.offset, each.state, each.reason, each.by, each.changed_us) for each in changes],
        )

    def settle_states(self, topic: int, partition: int, offsets: Iterable[int], available: int) -> None:
        """Record that messages have the states that were recorded; those that are available need no row."""
        places = [(topic, partition, offset) for offset in offsets]
        place = "topic = ? AND partition = ? AND offset = ?"
        self._connection.executemany(f"UPDATE states SET is_pending = 0 WHERE {place}", places)
        self._connection.executemany(f"DELETE FROM states WHERE {place} AND state = {int(available)}", places)

    def forget_states(self, topic: int, partition: int, until_offset: int) -> None:
        """Forget the states of messages before an offset, which are dropped."""
        self._connection.execute(
            "DELETE FROM states WHERE topic = ? AND partition = ? AND offset < ?", (topic, partition, until_offset)
        )

    # -- states of messages: any time ------------------------------------------------------------------------

    def states(self, topic: int, partition: int) -> list[StateChange]:
        """Return every message of a partition that is not available, pending ones included, by offset."""
        with self._lock, self._translated():
            if self._version() < 3:
                return []
            query = "SELECT offset, state, reason, author, changed_us FROM states WHERE topic = ? AND partition = ?"
            return [StateChange(*row) for row in self._connection.execute(f"{query} ORDER BY offset", (topic, partition))]

    def pending_states(self) -> list[tuple[int, int, int, int]]:
        """Return every change of state that may not have been made: topic, partition, offset, state."""
        with self._lock, self._translated():
            query = "SELECT topic, partition, offset, state FROM states WHERE is_pending ORDER BY topic, partition, offset"
            return list(self._connection.execute(query))

    def changes(self) -> int:
        """Return a number that is another one after each change by another connection, and each of this one."""
        with self._lock, self._translated():
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0]) + self._connection.total_changes

    def find_problems(self) -> list[str]:
        """Return what SQLite finds wrong with the database, page by page and row by row; nothing where it is sound."""
        with self._lock, self._translated():
            found = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check")]
            dangling = [
                f"row {row[1]} of {row[0]} names no {row[2]}" for row in self._connection.execute("PRAGMA foreign_key_check")
            ]
        return [problem for problem in found if problem != "ok"] + dangling

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
