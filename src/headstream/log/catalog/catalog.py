"""Catalog: streams, topics, partitions and Iggy's groups, in SQLite.

    streams      number | id | name | created_us
    topics       number | stream | id | name | created_us | limits | fsync | its options (model.topology.TopicOptions)
                 | compression | replication
    partitions   topic | number | created_us
    groups       topic | id | name
    states       state_records.py
    commits      commit_records.py
    users, tokens, revoked   accounts.py

`id` is the number that users see: the smallest free id, as in Iggy. Ids are reused after a deletion. `number` names the directory
and is never reused, so that files left by a deleted topic cannot appear in a new topic. A purge gives a topic a new number, and
therefore a new, empty directory. created_us distinguishes a partition from earlier partitions with the same number. The table
`groups` contains only groups that were created explicitly.

The only writer holds the log's lock. Readers, in any process, open the database read-only and check with one cheap query
(data_version) whether their snapshot is current.

Tables and their older versions are in schema.py.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, TopicOptions
from headstream.errors import LogVersionError, PartitionNotFoundError, TopicNotFoundError
from headstream.log.catalog.connection import connect, translated
from headstream.log.catalog.records import NO_LABELS, NO_OPTIONS, GroupRecord, Snapshot, StreamRecord, TopicLabels, TopicRecord
from headstream.log.catalog.schema import SCHEMA, STEPS, VERSION, topic_columns


def topics_of(snapshot: Snapshot) -> Iterator[TopicRecord]:
    """Iterate over the topics of all streams."""
    return (topic for stream in snapshot.values() for topic in stream.topics.values())


def find_topic(snapshot: Snapshot, number: int) -> TopicRecord | None:
    """Return the topic with a number, regardless of its current name, or None."""
    return next((topic for topic in topics_of(snapshot) if topic.number == number), None)


def is_current(snapshot: Snapshot, topic: TopicRecord) -> bool:
    """Return whether a topic is unchanged and not deleted since its record was read."""
    stream = snapshot.get(topic.name.stream)
    return stream is not None and stream.topics.get(topic.name.topic) == topic


def check_exists(snapshot: Snapshot, topic: TopicRecord, partition: int) -> None:
    """Raise TopicNotFoundError or PartitionNotFoundError if a partition was deleted or recreated since its record was read."""
    now = topic if is_current(snapshot, topic) else find_topic(snapshot, topic.number)
    if now is None and topic.name not in (each.name for each in topics_of(snapshot)):
        raise TopicNotFoundError(f"the topic {str(topic.name)!r} was deleted meanwhile", advice="Create the topic first")
    if now is None or not 0 < partition <= now.partitions or now.generation(partition) != topic.generation(partition):
        what = f"partition {partition} of {str(topic.name)!r} was deleted, purged or recreated during the operation"
        raise PartitionNotFoundError(what, advice="Look up the topic again, and retry")


class Catalog:
    """The metadata of one log; thread-safe. A path of None creates a database in memory.

    Attributes:
        known: The snapshot if it is known to be current, else None.
        transactions: Counter that increases before and after each transaction of this object.
    """

    def __init__(self, path: str | None, *, is_writer: bool) -> None:
        self._where = path or "memory"
        self._lock = threading.RLock()
        self.known: Snapshot | None = None
        self.transactions = 0
        self._snapshot: Snapshot | None = None
        self._data_version = -1
        self._is_alone = is_writer
        self._looking: sqlite3.Connection | None = None
        self._looking_lock = threading.Lock()
        with translated(self._where):
            self._connection = connect(path, is_writer=is_writer)
            try:
                self._prepare(path, is_writer=is_writer)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, path: str | None, *, is_writer: bool) -> None:
        version = self._version()
        if version > VERSION:
            raise LogVersionError(
                f"the catalog has version {version}, but this version of Headstream reads versions up to {VERSION}",
                where=self._where,
                advice="Use the Headstream version that wrote the catalog, or a newer version",
            )
        if is_writer:
            self._migrate(version)
            if path is not None:
                self._looking = connect(path, is_writer=True)
                self._looking.execute("PRAGMA query_only = ON")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _migrate(self, version: int) -> None:
        """Create the tables, or migrate tables of an older version."""
        if version == 0:
            self._connection.executescript(SCHEMA)
        else:
            for step in range(version, VERSION):
                self._connection.executescript(STEPS[step])
        self._connection.execute("PRAGMA foreign_keys = ON")

    def snapshot(self) -> Snapshot:
        """Return the current streams and topics."""
        known = self.known
        if known is not None:
            return known
        with self._lock, translated(self._where):
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
            known = self._snapshot
            if known is None or version != self._data_version:
                known = self._read()
                self._cache(known)
                self._data_version = version
            return known

    def _cache(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self.known = snapshot if self._is_alone else None

    @contextmanager
    def reading(self) -> Iterator[int]:
        """Yield the version of the database, which all queries of the body see in one state, whatever other processes write."""
        with self._lock, translated(self._where):
            if self._connection.in_transaction:
                yield self._version()
                return
            try:
                self._connection.execute("BEGIN")
                yield self._version()
            finally:
                self._connection.rollback()

    def _read(self) -> Snapshot:
        with self.reading() as version:
            streams = {
                number: StreamRecord(name, id_, number, created, {})
                for number, id_, name, created in self._connection.execute(
                    "SELECT number, id, name, created_us FROM streams ORDER BY id"
                )
            }
            return self._with_topics(streams.values(), "", version)

    def _refresh(self, known: Snapshot, numbers: Collection[int]) -> Snapshot:
        """Return a snapshot in which the given topics (added, changed or deleted) are updated and other topics are unchanged."""
        if not numbers:
            return known
        others = [
            replace(stream, topics={name: topic for name, topic in stream.topics.items() if topic.number not in numbers})
            for stream in known.values()
        ]
        return self._with_topics(others, f"IN ({', '.join(map(str, numbers))})", self._version())

    def _with_topics(self, streams: Iterable[StreamRecord], which: str, version: int) -> Snapshot:
        """Return streams with their topics and the selected partitions; by default all partitions."""
        # The version is read with every snapshot: a writer may have migrated the database since this reader opened it.
        partitions: dict[int, list[int]] = {}
        query = f"SELECT topic, created_us FROM partitions {which and 'WHERE topic ' + which} ORDER BY topic, number"
        for topic, created in self._connection.execute(query):
            partitions.setdefault(topic, []).append(created)
        groups: dict[int, list[GroupRecord]] = {}
        query = f"SELECT topic, id, name FROM groups {which and 'WHERE topic ' + which} ORDER BY topic, id"
        for topic, *group in self._connection.execute(query) if version > 5 else ():
            groups.setdefault(topic, []).append(GroupRecord(*group))
        found = {stream.number: (stream, dict(stream.topics)) for stream in streams}
        query = f"SELECT number, stream, id, name, created_us, limits, {topic_columns(version)} FROM topics"
        for (
            number,
            stream_number,
            id_,
            name,
            created,
            limits,
            fsync,
            compression,
            replication,
            *options,
        ) in self._connection.execute(f"{query} {which and 'WHERE number ' + which} ORDER BY stream, id"):
            record, topics = found[stream_number]
            places = tuple(partitions.get(number, ()))
            topics[name] = TopicRecord(
                TopicName(record.name, name),
                id_,
                number,
                stream_number,
                created,
                Limits(limits),
                len(places),
                Fsync(fsync),
                partitions_created_us=places,
                options=TopicOptions(*options),
                labels=TopicLabels(compression, replication),
                groups=tuple(groups.get(number, ())),
            )
        return {
            record.name: replace(record, topics=dict(sorted(topics.items(), key=lambda each: each[1].id)))
            for record, topics in found.values()
        }

    # -- changes: within transaction() only -----------------------------------------------------------------

    @contextmanager
    def transaction(self, touched: Collection[int] | None = None) -> Iterator[None]:
        """Apply all changes of the body durably, or no change.

        Args:
            touched: Numbers of the topics that are added, changed or deleted; the body can add numbers. Only these topics are
                then updated in the snapshot, independent of the number of topics. None if the topics are unknown.
        """
        with self._lock, translated(self._where):
            known = self.known
            self.transactions += 1  # before the changes are visible: a reader that sees the changes also sees the new number
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.commit()
            except BaseException:
                self._connection.rollback()
                self._cache(None)
                raise
            else:
                now = None
                try:  # a concurrent send uses the previous snapshot
                    if known is not None:
                        now = self._read() if touched is None else self._refresh(known, touched)
                finally:
                    self._cache(now)
            finally:
                self.transactions += 1

    def insert_stream(self, name: str, created_us: int, id_: int | None = None) -> int:
        """Add a stream, by default with the smallest free id; return its number."""
        id_ = id_ or self._free_id("SELECT id FROM streams ORDER BY id")
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
        options: TopicOptions = NO_OPTIONS,
        labels: TopicLabels = NO_LABELS,
        id_: int | None = None,
    ) -> int:
        """Add a topic with its partitions, by default with the smallest free id; return its number."""
        id_ = id_ or self._free_id("SELECT id FROM topics WHERE stream = ? ORDER BY id", stream_number)
        cursor = self._connection.execute(
            "INSERT INTO topics (stream, id, name, created_us, limits, fsync) VALUES (?, ?, ?, ?, ?, ?)",
            (stream_number, id_, name, created_us, limits.value, fsync.value),
        )
        number = int(cursor.lastrowid or 0)
        self.update_topic(number, options=options, labels=labels)
        self._connection.executemany(
            "INSERT INTO partitions (topic, number, created_us) VALUES (?, ?, ?)",
            [(number, partition, created_us) for partition in range(1, partitions + 1)],
        )
        return number

    def delete_stream(self, number: int) -> None:
        """Delete a stream with its topics."""
        self._connection.execute("DELETE FROM streams WHERE number = ?", (number,))

    def delete_topic(self, number: int) -> None:
        """Delete a topic."""
        self._connection.execute("DELETE FROM topics WHERE number = ?", (number,))

    def renumber_topic(self, number: int, created_us: int) -> int:
        """Assign a new number to a topic, delete its states, and set a new created_us for its partitions; return the number."""
        run = self._connection.execute
        run("PRAGMA defer_foreign_keys = ON")
        run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'topics'")
        new = int(run("SELECT seq FROM sqlite_sequence WHERE name = 'topics'").fetchone()[0])
        run("DELETE FROM states WHERE topic = ?", (number,))
        run("UPDATE topics SET number = ? WHERE number = ?", (new, number))
        run("UPDATE groups SET topic = ? WHERE topic = ?", (new, number))
        run("UPDATE partitions SET topic = ?, created_us = max(?, created_us + 1) WHERE topic = ?", (new, created_us, number))
        return new

    def insert_partitions(self, topic: int, numbers: range, created_us: int) -> None:
        """Add partitions to a topic."""
        rows = [(topic, number, created_us) for number in numbers]
        self._connection.executemany("INSERT INTO partitions (topic, number, created_us) VALUES (?, ?, ?)", rows)

    def delete_partitions(self, topic: int, first: int) -> None:
        """Delete a topic's partitions, starting at a number."""
        self._connection.execute("DELETE FROM partitions WHERE topic = ? AND number >= ?", (topic, first))

    def rename_stream(self, number: int, name: str) -> None:
        """Rename a stream."""
        self._connection.execute("UPDATE streams SET name = ? WHERE number = ?", (name, number))

    def update_topic(
        self, number: int, *, name: str | None = None, options: TopicOptions | None = None, labels: TopicLabels | None = None
    ) -> None:
        """Change a topic's name, options or labels; None leaves them unchanged."""
        values: dict[str, Any] = {} if name is None else {"name": name}
        for given in (options, labels):
            values |= {} if given is None else asdict(given)
        columns = ", ".join(f"{column} = ?" for column in values)
        if values:
            self._connection.execute(f"UPDATE topics SET {columns} WHERE number = ?", (*values.values(), number))

    def insert_group(self, topic: int, name: str, id_: int | None = None) -> int:
        """Add a group to a topic, by default with the smallest free id; return its id."""
        id_ = id_ or self._free_id("SELECT id FROM groups WHERE topic = ? ORDER BY id", topic)
        self._connection.execute("INSERT INTO groups (topic, id, name) VALUES (?, ?, ?)", (topic, id_, name))
        return id_

    def delete_group(self, topic: int, id_: int) -> None:
        """Delete a group."""
        self._connection.execute("DELETE FROM groups WHERE topic = ? AND id = ?", (topic, id_))

    def change(self, statement: str, *parameters: Any) -> None:
        """Run a statement on a table that another module maintains."""
        self._connection.execute(statement, parameters)

    def change_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement on a table that another module maintains, once per row of parameters."""
        self._connection.executemany(statement, rows)

    def select(self, query: str, *parameters: Any, since: int) -> list[Any]:
        """Return rows of another module's table, including uncommitted rows; none if the database version is below `since`."""
        with self._lock, translated(self._where):
            return [] if self._version() < since else self._connection.execute(query, parameters).fetchall()

    def select_committed(self, query: str, *parameters: Any, since: int) -> list[Any]:
        """Return the result of select() for committed data only; does not wait for transactions, since polls use it."""
        if self._looking is None:
            return self.select(query, *parameters, since=since)
        with self._looking_lock, translated(self._where):
            return self._looking.execute(query, parameters).fetchall()

    @property
    def is_writer(self) -> bool:
        """Whether only this object changes the database."""
        return self._is_alone

    def changes(self) -> int:
        """Return a number that differs after each change, by any connection."""
        if self._is_alone:
            return self.transactions
        with self._lock, translated(self._where):
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0]) + self._connection.total_changes

    def find_problems(self) -> list[str]:
        """Return the faults that SQLite finds in the pages and rows of the database; empty if the database is undamaged."""
        with self._lock, translated(self._where):
            found = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check")]
            dangling = [
                f"{row[0]} row {row[1]} lacks its {row[2]} row" for row in self._connection.execute("PRAGMA foreign_key_check")
            ]
        return [problem for problem in found if problem != "ok"] + dangling

    def last_topic_number(self) -> int:
        """Return the last assigned topic number; 0 if no topic was created."""
        with self._lock, translated(self._where):
            row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'topics'").fetchone()
            return 0 if row is None else int(row[0])

    def _free_id(self, query: str, *parameters: Any) -> int:
        free = 1
        for (taken,) in self._connection.execute(query, parameters):
            if taken != free:
                break
            free += 1
        return free

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._cache(None)
            self._connection.close()
        with self._looking_lock:
            if self._looking is not None:
                self._looking.close()
