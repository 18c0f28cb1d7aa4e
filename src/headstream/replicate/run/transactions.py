"""Holds the changes of incomplete transactions; when a transaction is complete, each table gets its changes in one unit.

    open      some events, numbered from 1 to the number of the last event, are missing
    closed    all events have been read, or the transaction was applied incomplete; later events are repeats

Reading a message of any table marks its event as read, unless the message waits for its schema or is a dead letter. A unit
with a complete transaction applies the transaction. Otherwise the unit's part of the transaction is parked. The ledger's
transaction that parks the last part also closes the transaction, and the next release has all parts. Transactions can be
applied in any order, since changes older than their row are ignored; so no transaction waits for another transaction.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import ReplicateError
from headstream.replicate.apply.on_executors.waiting_changes import OfTransactions
from headstream.replicate.columns.raw import TRANSACTION, change_coordinates
from headstream.replicate.decoding.transaction_events import (
    EVENTS_SCHEMA,
    Ranges,
    SeenEvents,
    add_numbers,
    change_events,
    changes_of,
    divide_events,
    first_gap,
    is_whole,
)
from headstream.replicate.parked.ledger import WAITS, Ledger, Table
from headstream.replicate.parked.parking import Held
from headstream.replicate.run.decoded_storage import leave_out_stored, on_executors
from headstream.replicate.run.unit import PipelineContext, Unit

KEPT_CLOSED: Final = 1_000_000
"""Maximum number of stored closed transactions. A repeated event of a removed transaction would wait for all other events."""
KEPT_EMPTY: Final = 100_000
"""Maximum number of stored open transactions without waiting changes, whose known events belong to other tables."""
_AT_ONCE: Final = 500
_INCOMPLETE: Final = "its transaction is incomplete"
_ALARM_EVERY_US: Final = 60_000_000
_HAS_PARKED_BATCHES: Final = f"EXISTS (SELECT 1 FROM parcels WHERE transaction_key = key AND {WAITS})"
_LOGGER: Final = logging.getLogger("headstream.replicate")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One incomplete transaction.

    Args:
        key: Server, task and id of the transaction.
        last_event: Number of the last event, if known.
        since_us: Time at which the first event was read, microseconds since 1970 UTC.
    """

    key: str
    last_event: int | None
    events: Ranges
    since_us: int
    waits: bool

    def describe(self) -> str:
        """Return a description of the missing events."""
        gap = first_gap(self.events)
        if self.last_event is None and gap > self.events[-1][1]:
            return f"the last event of {self.key} has not arrived, after {self.events[-1][1]} events"
        return f"event {gap} of {self.key} has not arrived, but event {self.events[-1][1]} has"


@dataclass(frozen=True, slots=True)
class _States:
    """The states of transactions after a unit: open and closed transactions, and the keys of waiting transactions."""

    opened: list[OpenTransaction]
    closed: list[str]
    waiting: set[str]

    def record(self, connection: sqlite3.Connection) -> None:
        """Write the states, in the ledger's transaction that records the held changes."""
        connection.executemany(
            "INSERT INTO open_transactions (key, last_event, events, since_us) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET last_event = excluded.last_event, events = excluded.events",
            [(one.key, one.last_event, json.dumps(one.events), one.since_us) for one in self.opened],
        )
        if self.opened:
            connection.execute(
                f"DELETE FROM open_transactions WHERE key IN (SELECT key FROM open_transactions WHERE NOT {_HAS_PARKED_BATCHES} "
                f"ORDER BY since_us DESC LIMIT -1 OFFSET {KEPT_EMPTY})"
            )
        _close(connection, self.closed)


class Transactions:
    """The transactions of a pipeline; without `atomic`, no change waits for its transaction."""

    def __init__(self, context: PipelineContext) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._decoder = context.decoder
        self._summary = context.summary
        self._now_us = context.clock_us
        self._began_us = context.clock_us()
        self._alarmed_us: int | None = None
        self._has_warned_of_unnumbered = False
        if not self._config.atomic:  # this releases the changes held by an earlier run
            with self._ledger.transaction() as connection:
                connection.execute("DELETE FROM open_transactions")

    def hold(self, unit: Unit) -> Unit:
        """Park a unit's changes of incomplete transactions; the ledger records the transactions' states with these changes."""
        if not self._config.atomic:
            return unit
        decoded, stored = on_executors(unit.decoded)
        schemas = self._decoder.schemas(decoded)
        lineages = {schema_id: schema.metadata.lineage for schema_id, schema in schemas.items()}
        changes = {schema_id: pa.Table.from_batches(batches) for schema_id, batches in decoded.changes.items()}
        found = {schema_id: change_events(table, lineages[schema_id]) for schema_id, table in changes.items()}
        events = pa.Table.from_batches([*decoded.events, *(batch for batch, _ in found.values())], EVENTS_SCHEMA)
        events = events.filter(events["key"].is_valid())
        seen = divide_events(events) if stored is None else stored.divide_events(lineages, events)
        self._note_unnumbered(seen.unnumbered + sum(count for _, count in found.values()))
        states = self._sort(seen, self._now_us())
        if not states.waiting:
            return replace(unit, decoded=decoded, record=states.record)
        waiting = pa.array(sorted(states.waiting), pa.string())
        held: list[tuple[str, pa.Table]] = []
        kept: dict[str, pa.Table] = {}
        for schema_id, table in changes.items():
            coordinates = changes_of(table, lineages[schema_id], waiting)
            if coordinates.num_rows:
                held.append((schema_id, coordinates))
                waits = pc.is_in(found[schema_id][0].column("key"), value_set=waiting)
                kept[schema_id] = table.filter(pc.invert(waits))
        on_disk = {} if stored is None else stored.find(OfTransactions(lineages, waiting))
        decoded = leave_out_stored(decoded.with_changes(kept), on_disk.values())
        parts: dict[Table, list[pa.Table]] = {}
        for schema_id, coordinates in (*held, *on_disk.items()):
            parts.setdefault(schemas[schema_id].table, []).append(
                change_coordinates(coordinates, schema_id).append_column(TRANSACTION, coordinates[TRANSACTION])
            )
        waits_now = [Held(name, _INCOMPLETE, pa.concat_tables(tables), "transaction") for name, tables in parts.items()]
        return replace(unit, decoded=decoded, held=[*unit.held, *waits_now], record=states.record)

    def close_overdue(self, *, all_read: bool) -> bool:
        """Apply the policy for transactions that have been open for too long; return whether any were closed.

        A new run can still read missing events, so no transaction is overdue before the run itself has lasted that long.

        Raises:
            ReplicateError: a transaction is overdue, and the policy is `fail`.
        """
        now_us, wait_us = self._now_us(), self._config.transaction_wait_us
        if not self._config.atomic or not (all_read or now_us - self._began_us >= wait_us):
            return False
        overdue = waiting_transactions(self._ledger, now_us - wait_us)
        if not overdue:
            self._alarmed_us = None
            return False
        what = f"{len(overdue):,} transactions were not complete after {wait_us / 1e6:g} s: {overdue[0].describe()}"
        if self._config.on_incomplete_transaction == "fail":
            raise ReplicateError(
                what,
                where=str(self._config.checkpoint),
                advice="Search for the missing event in other topics of the task and in `replicate parked --dead`, or run with "
                "--on-incomplete-transaction apply, which applies the events that arrived",
            )
        if self._config.on_incomplete_transaction == "apply":
            _LOGGER.warning("%s; applying the events that arrived", what)
            with self._ledger.transaction() as connection:
                _close(connection, [one.key for one in overdue])
            self._summary.incomplete_transactions += len(overdue)
            return True
        if self._alarmed_us is None or now_us - self._alarmed_us >= _ALARM_EVERY_US:
            self._alarmed_us = now_us
            _LOGGER.warning("%s; the changes of these transactions wait", what)
        return False

    def _sort(self, seen: SeenEvents, now_us: int) -> _States:
        """Determine the transactions that a unit completes, and the state of all other transactions after the unit."""
        states = _States([], seen.whole.to_pylist(), set())
        # Earlier copies of the events of a complete transaction can wait: they are released with the transaction, not earlier.
        states.waiting.update(self._find_waiting() & set(states.closed))
        in_part = pc.unique(seen.rest["key"]).to_pylist()
        known = {one.key: one for one in self._find_open(in_part)}
        closed = self._find_closed(key for key in in_part if key not in known)
        rest = pa.array([key for key in in_part if key not in closed], pa.string())
        ends = pc.if_else(pc.fill_null(seen.rest["last"], False), seen.rest["event"], None)
        parts = seen.rest.append_column("end", ends).filter(pc.is_in(seen.rest["key"], value_set=rest))
        columns = parts.group_by("key").aggregate([("event", "list"), ("end", "max")])
        for key, numbers, end in zip(columns["key"], columns["event_list"], columns["end_max"], strict=True):
            before = known.get(key.as_py()) or OpenTransaction(key.as_py(), None, [], now_us, False)
            ranges = add_numbers(before.events, numbers.values.to_numpy())
            last = max((value for value in (before.last_event, end.as_py()) if value is not None), default=None)
            if not is_whole(ranges, last):
                states.opened.append(OpenTransaction(before.key, last, ranges, before.since_us, True))
                states.waiting.add(before.key)
                continue
            states.closed.append(before.key)
            if before.waits:  # the new changes join the waiting changes, and the next release has all
                states.waiting.add(before.key)
        return states

    def _find_waiting(self) -> set[str]:
        query = (
            f"SELECT DISTINCT transaction_key FROM parcels WHERE transaction_key IS NOT NULL AND {WAITS} AND state <> 'releasing'"
        )
        return {key for (key,) in self._ledger.rows(query)}

    def _find_open(self, keys: list[str]) -> Iterator[OpenTransaction]:
        for some, marks in _portions(keys):
            yield from _select_open(self._ledger, f"key IN ({marks})", some)

    def _find_closed(self, keys: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for some, marks in _portions(list(keys)):
            found.update(key for (key,) in self._ledger.rows(f"SELECT key FROM closed_transactions WHERE key IN ({marks})", some))
        return found

    def _note_unnumbered(self, count: int) -> None:
        self._summary.changes_without_transaction_position += count
        if count and not self._has_warned_of_unnumbered:
            self._has_warned_of_unnumbered = True
            what = "%d changes have no position in a transaction (transactionEventCounter): applied immediately"
            _LOGGER.warning(what, count)


def waiting_transactions(ledger: Ledger, before_us: int) -> list[OpenTransaction]:
    """Return open transactions with waiting changes, first read up to `before_us` (since 1970 UTC), the oldest first."""
    return list(_select_open(ledger, f"since_us <= ? AND {_HAS_PARKED_BATCHES} ORDER BY since_us, key", [before_us]))


def _select_open(ledger: Ledger, where: str, arguments: list[Any]) -> Iterator[OpenTransaction]:
    query = f"SELECT key, last_event, events, since_us, {_HAS_PARKED_BATCHES} FROM open_transactions WHERE {where}"
    for key, last_event, events, since_us, waits in ledger.rows(query, arguments):
        yield OpenTransaction(key, last_event, json.loads(events), since_us, bool(waits))


def _close(connection: sqlite3.Connection, keys: list[str]) -> None:
    rows = [(key,) for key in keys]
    connection.executemany("DELETE FROM open_transactions WHERE key = ?", rows)
    connection.executemany("INSERT OR IGNORE INTO closed_transactions (key) VALUES (?)", rows)
    newest = "(SELECT MAX(number) FROM closed_transactions)"
    passed = f"SELECT 1 FROM parcels WHERE cause = 'table' AND {WAITS}"  # only this table records that a transaction is complete
    query = f"DELETE FROM closed_transactions WHERE number <= {newest} - ? AND NOT EXISTS ({passed})"
    connection.execute(query, (KEPT_CLOSED,))


def _portions(keys: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield keys in groups that fit a query's parameter limit, with their placeholders."""
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        yield some, ", ".join("?" * len(some))
