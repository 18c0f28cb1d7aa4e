"""Operators' requests to a pipeline: rows of its ledger, carried out by the current run or the next one.

Only the running process writes the pipeline's log and tables: a redrive requested on the command line is a row here, carried
out between two micro-batches. One transaction stores a request's selected parcels and its completion.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from headstream.replicate.parked.ledger import Ledger, Parcel, Table

__all__ = ["Request", "Requests", "Selection"]

_CHOSEN_STATES: Final = ("dead", "delayed", "parked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A filter over the messages set aside.

    Args:
        states: Of `dead`, `delayed` and `parked`.
        reason: A part of the reason.
        schema_id: The schema that they name.
        table: Their table.
        since_us: Set aside at or after this time, microseconds since 1970 UTC.
        until_us: Set aside before it.
    """

    states: tuple[str, ...] = _CHOSEN_STATES
    reason: str | None = None
    schema_id: str | None = None
    table: Table | None = None
    since_us: int | None = None
    until_us: int | None = None

    def find(self, ledger: Ledger, table_of: Callable[[str], Table | None]) -> list[Parcel]:
        """Return the matching parcels, the oldest first.

        Args:
            ledger: The pipeline's ledger.
            table_of: Schema id -> the table that it describes, if known.
        """
        return [parcel for parcel in ledger.parcels(*self.states) if self._means(parcel, table_of)]

    def _means(self, parcel: Parcel, table_of: Callable[[str], Table | None]) -> bool:
        table = parcel.table
        if table is None and self.table is not None and parcel.schema_id is not None:
            table = table_of(parcel.schema_id)
        return (
            (self.reason is None or self.reason.lower() in (parcel.reason or "").lower())
            and self.schema_id in (None, parcel.schema_id)
            and self.table in (None, table)
            and (self.since_us is None or parcel.since_us >= self.since_us)
            and (self.until_us is None or parcel.since_us < self.until_us)
        )

    def to_document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "states": list(self.states),
            "reason": self.reason,
            "schema_id": self.schema_id,
            "table": None if self.table is None else list(self.table),
            "since_us": self.since_us,
            "until_us": self.until_us,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Selection:
        """Rebuild the result of to_document()."""
        table = document["table"]
        rest = {name: document[name] for name in ("reason", "schema_id", "since_us", "until_us")}
        return cls(states=tuple(document["states"]), table=None if table is None else (table[0], table[1]), **rest)


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        id: Its number.
        kind: `redrive` releases messages set aside; `reload` begins or ends a full load of a table.
        arguments: Its arguments, a JSON object.
        asked_us: When it was made, microseconds since 1970 UTC.
        done_us: When it was carried out; None while open.
        result: Its outcome.
    """

    id: int
    kind: Literal["redrive", "reload"]
    arguments: dict[str, Any]
    asked_us: int
    done_us: int | None = None
    result: dict[str, Any] = field(default_factory=dict)


class Requests:
    """The requests of a pipeline.

    Args:
        ledger: The pipeline's ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def ask(self, kind: Literal["redrive", "reload"], arguments: dict[str, Any], now_us: int) -> int:
        """Make a request; return its number."""
        with self._ledger.transaction() as connection:
            query = "INSERT INTO requests (kind, arguments, asked_us) VALUES (?, ?, ?)"
            number = connection.execute(query, (kind, json.dumps(arguments), now_us)).lastrowid
        assert number is not None
        return number

    def open(self) -> list[Request]:
        """Return the requests that are not carried out yet, in order."""
        return self._select("done_us IS NULL")

    def find(self, number: int) -> Request | None:
        """Return a request."""
        return next(iter(self._select("id = ?", number)), None)

    def redrive(self, request: Request, table_of: Callable[[str], Table | None], now_us: int) -> int:
        """Carry out a redrive: its selection is released next; return the number of messages."""
        chosen = Selection.from_document(request.arguments).find(self._ledger, table_of)
        count = sum(parcel.count for parcel in chosen)
        with self._ledger.transaction() as connection:
            connection.executemany("UPDATE parcels SET state = 'called' WHERE id = ?", [(parcel.id,) for parcel in chosen])
            query = "UPDATE requests SET done_us = ?, result = ? WHERE id = ?"
            connection.execute(query, (now_us, json.dumps({"messages": count}), request.id))
        return count

    def newest_done(self) -> Request | None:
        """Return the request that was carried out last."""
        done = self._select("done_us IS NOT NULL")
        return max(done, key=lambda request: (request.done_us, request.id), default=None)

    def finish(self, request: Request, result: dict[str, Any], now_us: int) -> None:
        """Record that a request was carried out."""
        with self._ledger.transaction() as connection:
            query = "UPDATE requests SET done_us = ?, result = ? WHERE id = ?"
            connection.execute(query, (now_us, json.dumps(result), request.id))

    def _select(self, where: str, *arguments: object) -> list[Request]:
        query = f"SELECT id, kind, arguments, asked_us, done_us, result FROM requests WHERE {where} ORDER BY id"
        return [
            Request(number, kind, json.loads(arguments_json), asked_us, done_us, json.loads(result or "{}"))
            for number, kind, arguments_json, asked_us, done_us, result in self._ledger.rows(query, arguments)
        ]
