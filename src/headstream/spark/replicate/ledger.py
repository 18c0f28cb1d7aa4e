"""The ledger: what the pipeline has set aside and what it has done about it, in one SQLite file of the checkpoint.

The bytes of a message set aside lie in the pipeline's own log; the ledger knows where, and in which of these states
it is. Every change of state is one transaction, made after the log has the bytes and before the next step relies on it.

    parked      waits for its schema
    delayed     has waited too long, and still comes back when the schema does
    releasing   chosen for the release with that number; its table may or may not have it yet
    dead        given up on
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headstream.errors import StorageError

__all__ = ["Ledger", "Parked"]

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS pipeline (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS parked (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    schema_id TEXT NOT NULL, state TEXT NOT NULL, since_us INTEGER NOT NULL,
    log_topic TEXT NOT NULL, log_offset INTEGER NOT NULL, release INTEGER,
    PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS parked_by_state ON parked (state, schema_id);
"""


@dataclass(frozen=True, slots=True)
class Parked:
    """One message that waits for its schema.

    Args:
        topic: Where it came from.
        partition: Where it came from.
        offset: Where it came from.
        schema_id: What it waits for.
        since_us: Since when, microseconds since 1970 UTC.
        log_topic: Where its bytes lie in the pipeline's own log.
        log_offset: Where in that topic.
    """

    topic: str
    partition: int
    offset: int
    schema_id: str
    since_us: int
    log_topic: str
    log_offset: int


class Ledger:
    """The SQLite file.

    Args:
        path: Made where it is missing.

    Raises:
        StorageError: it cannot be opened, or is not a ledger.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # foreachBatch runs on a thread of its own; the pipeline's lock keeps it and the main thread apart
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.executescript(_TABLES)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"the pipeline's ledger cannot be opened: {error}", where=str(path)) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def pipeline_id(self) -> str:
        """The pipeline's identity, made with its checkpoint: tables remember by it what they have applied."""
        present = self._value("id")
        if present is None:
            with self._transaction() as connection:
                connection.execute("INSERT OR IGNORE INTO pipeline VALUES ('id', ?)", (str(uuid.uuid4()),))
            present = self._value("id")
        assert present is not None
        return present

    def counts(self) -> dict[str, int]:
        """Return how many messages are in each state."""
        return dict(self._connection.execute("SELECT state, COUNT(*) FROM parked GROUP BY state"))

    def waiting_ids(self) -> list[str]:
        """Return the schema ids that something waits for."""
        rows = self._connection.execute("SELECT DISTINCT schema_id FROM parked WHERE state IN ('parked', 'delayed')")
        return [schema_id for (schema_id,) in rows]

    def contains(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a message of the source is set aside, or being released."""
        query = "SELECT 1 FROM parked WHERE topic = ? AND partition = ? AND offset = ?"
        return self._connection.execute(query, (topic, partition, offset)).fetchone() is not None

    def park(self, messages: Iterable[Parked]) -> None:
        """Record messages whose bytes are in the log now; those known already stay as they are."""
        rows = [(m.topic, m.partition, m.offset, m.schema_id, "parked", m.since_us, m.log_topic, m.log_offset) for m in messages]
        with self._transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO parked VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", rows)

    def overdue(self, before_us: int) -> list[Parked]:
        """Return parked messages that have waited since before a time, in order of their source."""
        return self._select("state = 'parked' AND since_us <= ?", (before_us,))

    def delay(self, messages: Iterable[Parked]) -> None:
        """Record that messages lie in the delayed topic now (their new place is in them)."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE parked SET state = 'delayed', log_topic = ?, log_offset = ? "
                "WHERE topic = ? AND partition = ? AND offset = ?",
                [(m.log_topic, m.log_offset, m.topic, m.partition, m.offset) for m in messages],
            )

    def forget(self, messages: Iterable[Parked]) -> None:
        """Drop messages that have gone to the dead letter."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM parked WHERE topic = ? AND partition = ? AND offset = ?",
                [(m.topic, m.partition, m.offset) for m in messages],
            )

    def begin_release(self, schema_ids: list[str], count: int) -> int | None:
        """Choose messages that wait for some schemas for a release.

        Args:
            schema_ids: Schemas that have come.
            count: Most messages of one release.

        Returns:
            The release's number, or None where nothing waits for them.
        """
        number = int(self._value("release") or 0) + 1
        marks = ", ".join("?" * len(schema_ids))
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE parked SET state = 'releasing', release = ? WHERE (topic, partition, offset) IN ("
                "SELECT topic, partition, offset FROM parked WHERE state IN ('parked', 'delayed') "
                f"AND schema_id IN ({marks}) ORDER BY topic, partition, offset LIMIT ?)",
                (number, *schema_ids, count),
            ).rowcount
            if changed:
                connection.execute("INSERT OR REPLACE INTO pipeline VALUES ('release', ?)", (str(number),))
        return number if changed else None

    def unfinished_release(self) -> int | None:
        """Return the number of a release that was begun and not finished, if there is one."""
        row = self._connection.execute("SELECT MIN(release) FROM parked WHERE state = 'releasing'").fetchone()
        return None if row is None or row[0] is None else int(row[0])

    def released(self, number: int) -> list[Parked]:
        """Return the messages of a release, in order of their source."""
        return self._select("state = 'releasing' AND release = ?", (number,))

    def finish_release(self, number: int) -> None:
        """Forget the messages of a release: their tables have them."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM parked WHERE state = 'releasing' AND release = ?", (number,))

    def set_mark(self, name: str, value: str) -> None:
        """Remember a text under a name."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO pipeline VALUES (?, ?)", (f"mark.{name}", value))

    def mark(self, name: str) -> str | None:
        """Return the text remembered under a name."""
        return self._value(f"mark.{name}")

    def _value(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM pipeline WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _select(self, where: str, arguments: tuple[object, ...]) -> list[Parked]:
        query = (
            "SELECT topic, partition, offset, schema_id, since_us, log_topic, log_offset FROM parked "
            f"WHERE {where} ORDER BY topic, partition, offset"
        )
        return [Parked(*row) for row in self._connection.execute(query, arguments)]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StorageError(f"the pipeline's ledger cannot be written: {error}", where=str(self._path)) from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
