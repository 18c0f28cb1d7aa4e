"""Operators' requests to a pipeline: rows of its ledger that the current or next run executes.

Only the running process writes the pipeline's log and tables. Thus, a redrive from the command line is a row in the ledger, which
the run executes between two micro-batches. One transaction stores a request's selected batches and its completion. If only some
messages of a batch are selected, the batch is split.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.core.model.offset_ranges import OffsetRanges
from headstream.replicate.parked.ledger import Ledger, ParkedBatch, Table, insert_parked_batches

RequestKind: TypeAlias = Literal["redrive", "discard", "reload", "repair"]

_CHOSEN_STATES: Final = ("dead", "delayed", "parked")


class ParkedRanges(NamedTuple):
    """Messages of one topic of the pipeline's own log.

    Args:
        ranges: Half-open offset ranges, ascending.
    """

    log_topic: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A filter for parked, delayed and dead messages.

    Args:
        states: A subset of `dead`, `delayed` and `parked`.
        reason: Substring of the reason, compared without case.
        schema_id: The schema id of the messages.
        since_us: Messages that were parked or dead-lettered at or after this time, microseconds since 1970 UTC.
        until_us: Messages that were parked or dead-lettered before this time, microseconds since 1970 UTC.
        within: Only these messages; None: all messages.
    """

    states: tuple[str, ...] = _CHOSEN_STATES
    reason: str | None = None
    schema_id: str | None = None
    table: Table | None = None
    since_us: int | None = None
    until_us: int | None = None
    within: ParkedRanges | None = None

    def find(self, ledger: Ledger, table_of: Callable[[str], Table | None]) -> list[ParkedBatch]:
        """Return the matching parked batches, the oldest first; `table_of` returns the table of a schema id, if known."""
        offsets = None if self.within is None else OffsetRanges(self.within.ranges)
        found = [parked_batch for parked_batch in ledger.parked_batches(*self.states) if self._means(parked_batch, table_of)]
        return found if offsets is None else [each for each in found if offsets.within(each.from_offset, each.until_offset)]

    def _means(self, parked_batch: ParkedBatch, table_of: Callable[[str], Table | None]) -> bool:
        table = parked_batch.table
        if table is None and self.table is not None and parked_batch.schema_id is not None:
            table = table_of(parked_batch.schema_id)
        return (
            (self.within is None or self.within.log_topic == parked_batch.log_topic)
            and (self.reason is None or self.reason.lower() in (parked_batch.reason or "").lower())
            and self.schema_id in (None, parked_batch.schema_id)
            and self.table in (None, table)
            and (self.since_us is None or parked_batch.since_us >= self.since_us)
            and (self.until_us is None or parked_batch.since_us < self.until_us)
        )

    def to_document(self) -> dict[str, Any]:
        """Return the selection as a JSON object."""
        return {
            "states": list(self.states),
            "reason": self.reason,
            "schema_id": self.schema_id,
            "table": None if self.table is None else list(self.table),
            "since_us": self.since_us,
            "until_us": self.until_us,
            "within": None if self.within is None else [self.within.log_topic, list(self.within.ranges)],
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Selection:
        """Return the selection from the result of to_document()."""
        table, given = document["table"], document.get("within")
        within = None if given is None else ParkedRanges(given[0], tuple((begin, until) for begin, until in given[1]))
        rest = {name: document[name] for name in ("reason", "schema_id", "since_us", "until_us")}
        return cls(states=tuple(document["states"]), table=None if table is None else (table[0], table[1]), within=within, **rest)


@dataclass(frozen=True, slots=True)
class Request:
    """An operator's request.

    Args:
        kind: `redrive` releases parked or dead messages; `discard` deletes parked or dead messages; `reload` begins or
            ends a full load of a table; `repair` applies changes that a comparison with the source has found.
        arguments: The request's arguments, a JSON object.
        asked_us: Time of the request, microseconds since 1970 UTC.
        done_us: Time at which the request was executed; None if it is open.
    """

    id: int
    kind: RequestKind
    arguments: dict[str, Any]
    asked_us: int
    done_us: int | None = None
    result: dict[str, Any] = field(default_factory=dict)


class Requests:
    """The requests of a pipeline."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def ask(self, kind: RequestKind, arguments: dict[str, Any], now_us: int) -> int:
        """Add a request; return its number."""
        with self._ledger.transaction() as connection:
            query = "INSERT INTO requests (kind, arguments, asked_us) VALUES (?, ?, ?)"
            number = connection.execute(query, (kind, json.dumps(arguments), now_us)).lastrowid
        assert number is not None
        return number

    def open(self) -> list[Request]:
        """Return the open requests, in order."""
        return self._select("done_us IS NULL")

    def find(self, number: int) -> Request | None:
        """Return a request; None if it does not exist."""
        return next(iter(self._select("id = ?", number)), None)

    def redrive(self, request: Request, table_of: Callable[[str], Table | None], now_us: int) -> int:
        """Execute a redrive: the selected messages are released next; return their number."""
        selection = Selection.from_document(request.arguments)
        return self._move(request, selection.find(self._ledger, table_of), "called", now_us)

    def discard(self, request: Request, mark: Callable[[ParkedRanges], None], now_us: int) -> int:
        """Execute a discard request: delete the selected messages; return their number.

        Args:
            mark: Marks messages of the log for deletion; called before the ledger removes the messages, and again after a crash.
        """
        selection = Selection.from_document(request.arguments)
        assert selection.within is not None
        chosen = selection.find(self._ledger, lambda _: None)
        offsets = OffsetRanges(selection.within.ranges)
        left = [part for each in chosen for part in offsets.within(each.from_offset, each.until_offset)]
        mark(ParkedRanges(selection.within.log_topic, tuple(left)))
        return self._move(request, chosen, "done", now_us)

    def _move(self, request: Request, parked_batches: Iterable[ParkedBatch], state: str, now_us: int) -> int:
        """Change the state of the selected messages of parked batches and finish the request, in one transaction."""
        within = Selection.from_document(request.arguments).within
        count = 0
        with self._ledger.transaction() as connection:
            for parked_batch in parked_batches:
                first, *others = _split(parked_batch, within, state)
                _resize(connection, first)
                insert_parked_batches(connection, others)
                count += sum(part.count for part in (first, *others) if part.state == state)
            query = "UPDATE requests SET done_us = ?, result = ? WHERE id = ?"
            connection.execute(query, (now_us, json.dumps({"messages": count}), request.id))
        return count

    def newest_done(self) -> Request | None:
        """Return the request that was executed last, or None."""
        done = self._select("done_us IS NOT NULL")
        return max(done, key=lambda request: (request.done_us, request.id), default=None)

    def finish(self, request: Request, result: dict[str, Any], now_us: int) -> None:
        """Record that a request was executed."""
        with self._ledger.transaction() as connection:
            query = "UPDATE requests SET done_us = ?, result = ? WHERE id = ?"
            connection.execute(query, (now_us, json.dumps(result), request.id))

    def _select(self, where: str, *arguments: object) -> list[Request]:
        query = f"SELECT id, kind, arguments, asked_us, done_us, result FROM requests WHERE {where} ORDER BY id"
        return [
            Request(number, kind, json.loads(arguments_json), asked_us, done_us, json.loads(result or "{}"))
            for number, kind, arguments_json, asked_us, done_us, result in self._ledger.rows(query, arguments)
        ]


def _split(parked_batch: ParkedBatch, within: ParkedRanges | None, state: str) -> Iterator[ParkedBatch]:
    """Yield the parts of a parked batch, selected parts in a new state. Only the first part keeps the id."""
    if within is None:
        yield replace(parked_batch, state=state)
        return
    chosen = OffsetRanges(within.ranges).within(parked_batch.from_offset, parked_batch.until_offset)
    edges = sorted({parked_batch.from_offset, parked_batch.until_offset, *(edge for part in chosen for edge in part)})
    begins = {begin for begin, _ in chosen}
    for begin, until in itertools.pairwise(edges):
        yield replace(
            parked_batch,
            id=parked_batch.id if begin == parked_batch.from_offset else 0,
            state=state if begin in begins else parked_batch.state,
            from_offset=begin,
            until_offset=until,
            size_bytes=parked_batch.size_bytes * (until - begin) // parked_batch.count,
        )


def _resize(connection: sqlite3.Connection, part: ParkedBatch) -> None:
    query = "UPDATE parcels SET state = ?, from_offset = ?, until_offset = ?, size_bytes = ? WHERE id = ?"
    connection.execute(query, (part.state, part.from_offset, part.until_offset, part.size_bytes, part.id))
