"""The ledger: the states of parked, delayed and dead messages, in a SQLite file of the checkpoint.

The pipeline's own log has the bytes of these messages; the ledger records offsets and the reason for the wait. A parked batch (a
row of the table `parcels`) consists of messages that were parked together for one reason and have consecutive offsets in one
topic. A change of state is one transaction, after the bytes were written to the log and before the next step relies on the state.

    parked      waits for its schema, failing table, transaction or load
    delayed     has waited too long for its schema; released when the schema arrives
    dead        dead-lettered; can be released on request
    called      requested by an operator; released next
    releasing   part of the release with this number; may already be applied to its table
    done        applied, or moved to another topic

Other processes can read the file at any time and add requests (requests.py). ledger_schema.py defines the tables.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from headstream.errors import StorageError
from headstream.replicate.columns.large_values import MAX_UNIT_BYTES
from headstream.replicate.parked.ledger_schema import bring_up, check_version, write_ahead

Table = tuple[str, str]
"""Schema and name of a target table."""
Record: TypeAlias = Callable[[sqlite3.Connection], None]
"""A function that writes to the ledger within its caller's transaction."""

WAITS: Final = "state IN ('parked', 'delayed', 'called', 'releasing')"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedBatch:
    """Messages that were parked or dead-lettered together.

    Args:
        state: One of the states above.
        cause: What the batch waits for: `schema`, `table`, `transaction`, `load` (the log is not yet read up to its REFRESH
            rows); or `message` for invalid messages.
        schema_id: The schema id of the messages, if known and unique.
        table_schema: The schema of the target table, if known.
        reason: Why the messages wait or are dead letters; `several reasons` for a group with too many.
        log_topic: The topic of the messages in the pipeline's own log.
        from_offset: Offset of the first message.
        until_offset: Offset after the last message.
        since_us: Time at which the batch was parked or dead-lettered, microseconds since 1970 UTC.
        release: The release that contains the batch; for a parked batch, the release that its table rejected.
        transaction_key: The transaction that the batch waits for and to which all its messages belong.
        logged_from_us: Time at which the source's log stored the first message, microseconds since 1970 UTC; None if an older
            version parked the batch.
        logged_until_us: Time at which the source's log stored the last message, microseconds since 1970 UTC, or None.
    """

    id: int = 0
    state: str
    cause: str
    schema_id: str | None = None
    table_schema: str | None = None
    table_name: str | None = None
    reason: str | None = None
    log_topic: str
    from_offset: int
    until_offset: int
    size_bytes: int
    since_us: int
    batch: int | None = None
    release: int | None = None
    transaction_key: str | None = None
    logged_from_us: int | None = None
    logged_until_us: int | None = None

    @property
    def count(self) -> int:
        """Number of messages."""
        return self.until_offset - self.from_offset

    @property
    def table(self) -> Table | None:
        """The target table, if known."""
        return None if self.table_schema is None or self.table_name is None else (self.table_schema, self.table_name)


@dataclass(frozen=True, slots=True)
class ParkedTotals:
    """The number of waiting messages, and the time when the oldest was parked, microseconds since 1970 UTC, or None."""

    count: int
    size_bytes: int
    oldest_us: int | None


def no_record(connection: sqlite3.Connection) -> None:
    """Write nothing; used as a Record."""


_MAY_COME_BACK: Final = (
    "state IN ('called', 'parked', 'delayed') AND (cause <> 'transaction' OR state = 'called' "
    "OR transaction_key NOT IN (SELECT key FROM open_transactions))"
)
_COLUMNS: Final = ", ".join(field.name for field in fields(ParkedBatch))
_values_of: Final = attrgetter(*(field.name for field in fields(ParkedBatch)))
_MARKS: Final = ", ".join("?" * len(fields(ParkedBatch)))


class Ledger:
    """The SQLite file; thread-safe.

    Args:
        path: The file, created if missing, except with read_only.
        read_only: Whether to open the ledger only for reading, while another process may be running the pipeline.

    Raises:
        LogVersionError: a newer version of Headstream created the file; with read_only, also an older version.
        StorageError: the file cannot be opened or is not a ledger.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._lock = threading.RLock()
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            place = f"{path.resolve().as_uri()}?mode=ro" if read_only else str(path)
            self._connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False, uri=read_only, timeout=30)
            try:
                if read_only:
                    check_version(self._connection, str(path))
                else:
                    write_ahead(self._connection)
                    self._connection.execute("PRAGMA synchronous=FULL")
                    bring_up(self._connection, str(path))
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise StorageError(
                f"the pipeline's ledger cannot be opened: {error}",
                where=str(path),
                advice="Check that this is the checkpoint of a pipeline that has run" if read_only else None,
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def pipeline_id(self) -> str:
        """The pipeline's identity, created with the checkpoint, under which tables record applied batches."""
        present = self._value("id")
        if present is None:
            with self.transaction() as connection:
                connection.execute("INSERT OR IGNORE INTO pipeline VALUES ('id', ?)", (str(uuid.uuid4()),))
            present = self._value("id")
        assert present is not None
        return present

    def add(
        self,
        parked_batches: Iterable[ParkedBatch],
        *,
        done: Sequence[int] = (),
        marks: Mapping[str, str] | None = None,
        also: Record = no_record,
    ) -> None:
        """Record parked batches whose bytes are already in the log.

        Args:
            parked_batches: New batches, with id 0.
            marks: Strings to store in the same transaction, as with set_mark().
        """
        rows = list(parked_batches)
        with self.transaction() as connection:
            insert_parked_batches(connection, rows)
            connection.executemany("INSERT OR REPLACE INTO pipeline VALUES (?, ?)", _named(marks))
            connection.executemany(
                "UPDATE parcels SET state = 'done', release = NULL WHERE id = ?", [(number,) for number in done]
            )
            also(connection)

    def parked_batches(self, *states: str) -> list[ParkedBatch]:
        """Return the parked batches in the given states, the oldest first."""
        marks = ", ".join("?" * len(states))
        return self._select(f"state IN ({marks})", states)

    def parked_batches_of(self, batch: int) -> list[ParkedBatch]:
        """Return the batches, in any state, that a micro-batch has parked or dead-lettered."""
        return self._select("batch = ?", (batch,))

    def forget_done(self, retained: Collection[int] = ()) -> None:
        """Remove parked batches that are done, except batches of the micro-batches `retained`."""
        places = ", ".join("?" * len(retained))
        with self.transaction() as connection:
            connection.execute(
                f"DELETE FROM parcels WHERE state = 'done' AND COALESCE(batch, -1) NOT IN ({places})", tuple(retained)
            )

    def counts(self) -> dict[str, int]:
        """Return the number of messages in each state."""
        query = "SELECT state, SUM(until_offset - from_offset) FROM parcels WHERE state <> 'done' GROUP BY state"
        return dict(self._all(query))

    def waiting(self, cause: str | None = None) -> ParkedTotals:
        """Return the totals of waiting messages in any state, for one cause or for all causes."""
        query = f"SELECT TOTAL(until_offset - from_offset), TOTAL(size_bytes), MIN(since_us) FROM parcels WHERE {WAITS}"
        ((count, size_bytes, oldest_us),) = self._all(f"{query} AND cause = COALESCE(?, cause)", (cause,))
        return ParkedTotals(int(count), int(size_bytes), oldest_us)

    def waiting_ids(self) -> list[str]:
        """Return the schema ids that messages wait for."""
        query = "SELECT DISTINCT schema_id FROM parcels WHERE state IN ('parked', 'delayed') AND cause = 'schema'"
        return [schema_id for (schema_id,) in self._all(query)]

    def waiting_tables(self) -> set[Table]:
        """Return the tables that messages wait for."""
        query = "SELECT DISTINCT table_schema, table_name FROM parcels WHERE state = 'parked' AND cause = 'table'"
        return set(self._all(query))

    def tables_waited_for(self, transactions_before_us: int) -> set[Table | None]:
        """Return the tables of all waiting messages; includes None if the table of a message is unknown.

        Args:
            transactions_before_us: Messages that wait for their transaction are included if parked at or before this time.
        """
        query = (
            "SELECT DISTINCT cause IN ('table', 'transaction', 'load'), table_schema, table_name FROM parcels "
            f"WHERE {WAITS} AND (cause <> 'transaction' OR since_us <= ?)"
        )
        found = self._all(query, (transactions_before_us,))
        return {(schema, name) if is_table else None for is_table, schema, name in found}

    def begin_release(
        self,
        schema_ids: Iterable[str],
        tables: Iterable[Table],
        count: int,
        read_until_us: int = 0,
        size_bytes: int = MAX_UNIT_BYTES,
    ) -> int | None:
        """Select parked batches for a release, closed transactions first, then the oldest; return the release's number, or None.

        Args:
            count: Maximum number of messages of one release; a larger parked batch or transaction is released completely and
                separately.
            size_bytes: Maximum size of one release, bytes, with the same exception as for `count`.
            read_until_us: The log time before which all messages are read; REFRESH rows that wait for this time are released.
        """
        ids, ready = set(schema_ids), set(tables)
        bundles: dict[Hashable, list[ParkedBatch]] = {}
        failing = self.waiting_tables() - ready
        for parked_batch in self._select(_MAY_COME_BACK, ()):
            if parked_batch.cause == "transaction" and parked_batch.state != "called" and parked_batch.table in failing:
                continue  # the rest of its transaction waits for the table, and is released with it
            wanted = ready if parked_batch.cause == "table" else ids
            is_ready = (parked_batch.table if parked_batch.cause == "table" else parked_batch.schema_id) in wanted
            if parked_batch.cause == "load":
                is_ready = (parked_batch.logged_until_us or 0) < read_until_us
            if is_ready or parked_batch.state == "called" or parked_batch.cause == "transaction":
                bundles.setdefault(_bundle_of(parked_batch), []).append(parked_batch)
        chosen: list[ParkedBatch] = []
        chosen_count = chosen_bytes = 0
        for bundle in sorted(bundles.values(), key=_age):
            more = sum(parked_batch.count for parked_batch in bundle)
            more_bytes = sum(parked_batch.size_bytes for parked_batch in bundle)
            if chosen and (chosen_count + more > count or chosen_bytes + more_bytes > size_bytes):
                break
            chosen += bundle
            chosen_count, chosen_bytes = chosen_count + more, chosen_bytes + more_bytes
        if not chosen:
            return None
        number = int(self._value("release") or 0) + 1
        with self.transaction() as connection:
            connection.executemany(
                "UPDATE parcels SET state = 'releasing', release = ? WHERE id = ?",
                [(number, parked_batch.id) for parked_batch in chosen],
            )
            connection.execute("INSERT OR REPLACE INTO pipeline VALUES ('release', ?)", (str(number),))
        return number

    def unfinished_release(self) -> int | None:
        """Return the number of an unfinished release, or None."""
        ((number,),) = self._all("SELECT MIN(release) FROM parcels WHERE state = 'releasing'")
        return None if number is None else int(number)

    def released(self, number: int) -> list[ParkedBatch]:
        """Return the parked batches of a release, the oldest first."""
        return self._select("state = 'releasing' AND release = ?", (number,))

    def finish_release(
        self, number: int, again: Iterable[ParkedBatch] = (), marks: Mapping[str, str] | None = None, also: Record = no_record
    ) -> None:
        """End a release that has been applied to its tables.

        Args:
            again: Batches to park again: batches of the release that wait for another cause, and new batches with id 0 whose
                bytes are in the log.
        """
        parked_batches = list(again)
        with self.transaction() as connection:
            connection.executemany(
                "UPDATE parcels SET state = 'parked', cause = ?, transaction_key = ?, release = ?, "
                "table_schema = ?, table_name = ?, reason = ? WHERE id = ?",
                [
                    (p.cause, p.transaction_key, p.release, p.table_schema, p.table_name, p.reason, p.id)
                    for p in parked_batches
                    if p.id
                ],
            )
            insert_parked_batches(connection, (p for p in parked_batches if not p.id))
            connection.executemany("INSERT OR REPLACE INTO pipeline VALUES (?, ?)", _named(marks))
            connection.execute("UPDATE parcels SET state = 'done' WHERE state = 'releasing' AND release = ?", (number,))
            also(connection)

    def set_mark(self, name: str, value: str) -> None:
        """Store a string under a name."""
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO pipeline VALUES (?, ?)", (f"mark.{name}", value))

    def mark(self, name: str) -> str | None:
        """Return the string stored under a name, or None."""
        return self._value(f"mark.{name}")

    def rows(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query, for modules with their own tables in this file."""
        return self._all(query, arguments)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection; its writes are committed when the block ends, or rolled back on an error."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise StorageError(f"the pipeline's ledger cannot be written: {error}", where=str(self._path)) from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _value(self, name: str) -> str | None:
        found = self._all("SELECT value FROM pipeline WHERE name = ?", (name,))
        return str(found[0][0]) if found else None

    def _select(self, where: str, arguments: Sequence[object]) -> list[ParkedBatch]:
        names = [field.name for field in fields(ParkedBatch)]
        rows = self._all(f"SELECT {_COLUMNS} FROM parcels WHERE {where} ORDER BY id", arguments)
        return [ParkedBatch(**dict(zip(names, row, strict=True))) for row in rows]

    def _all(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
        try:
            with self._lock:
                return self._connection.execute(query, tuple(arguments)).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"the pipeline's ledger cannot be read: {error}", where=str(self._path)) from error


def insert_parked_batches(connection: sqlite3.Connection, parked_batches: Iterable[ParkedBatch]) -> None:
    """Add parked batches with new ids, within a transaction of the ledger."""
    rows = [(None, *_values_of(parked_batch)[1:]) for parked_batch in parked_batches]
    connection.executemany(f"INSERT INTO parcels ({_COLUMNS}) VALUES ({_MARKS})", rows)


def _bundle_of(parked_batch: ParkedBatch) -> Hashable:
    """Return a key that is equal for parked batches to release together: of one transaction, or of one unit rejected by a table.

    The unit is a release, or a micro-batch, which parks all rejected messages at the same time.
    """
    if parked_batch.transaction_key is not None:
        return parked_batch.transaction_key
    unit = ("batch", parked_batch.since_us) if parked_batch.release is None else ("release", parked_batch.release)
    return parked_batch.id if parked_batch.cause != "table" else (parked_batch.table, unit)


def _age(bundle: list[ParkedBatch]) -> tuple[bool, int]:
    """Return a sort key that puts transactions first, then the oldest batches. Batches that were parked again have new ids."""
    return bundle[0].cause != "transaction", min(parked_batch.since_us for parked_batch in bundle)


def _named(marks: Mapping[str, str] | None) -> list[tuple[str, str]]:
    return [(f"mark.{name}", value) for name, value in (marks or {}).items()]
