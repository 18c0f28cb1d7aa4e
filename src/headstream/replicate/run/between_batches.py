"""The work between two micro-batches: releases, requests, overdue messages, and maintenance.

its schema has arrived, its table is due for a retry, its transaction is complete -> released: merged as a unit
waits too long for its schema -> delayed, dead letter, or the end of the run | requests -> redriven, reloaded
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import replace
from typing import Any, Final

from headstream.errors import HeadstreamError, SchemaError
from headstream.replicate.columns.large_values import MAX_UNIT_BYTES
from headstream.replicate.decoding.decode import Decoded
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import ParkingLot, Release
from headstream.replicate.parked.remote_requests import RemoteRequests
from headstream.replicate.parked.requests import Request, Requests
from headstream.replicate.run.copies import Copies
from headstream.replicate.run.unit_merge import Parts, UnitMerge, choose_messages, find_rejected
from headstream.replicate.tables.maintenance import Schedule

__all__ = ["BetweenBatches"]

_LOGGER: Final = logging.getLogger("headstream.replicate")


class BetweenBatches:
    """Processes the waiting messages of one pipeline; used by one thread at a time.

    Args:
        merge: Merges the released messages.
        parking: The store of waiting messages.

    Attributes:
        copy_messages: Copies messages set aside to other places; see Copies.follow().
        close: Closes the connections to those places.
    """

    def __init__(self, parts: Parts, merge: UnitMerge, parking: ParkingLot) -> None:
        self._parts = parts
        self._now_us = parts.clock_us
        self._merge = merge
        self._parking = parking
        self._schedule = Schedule.of(parts.config)
        self._requests = Requests(parts.ledger)
        self._remote_requests = RemoteRequests(parts.ledger, parts.keeper)
        copies = Copies(parts, parking.log)
        self.copy_messages = copies.follow
        self.close = copies.close

    def sweep(self, *, last: bool = False, all_read: bool | None = None) -> bool:
        """Release what can be released, carry out requests, and process overdue messages.

        Args:
            last: Whether the run ends: failing tables are then retried once, even if not due.
            all_read: Whether all messages logged before any read message have been read too; None: the value of
                `last`.

        Returns:
            Whether there was any work.

        Raises:
            SchemaError: a schema has not arrived in time, and the policy is `fail`.
        """
        worked = self.carry_out_requests()
        if last if all_read is None else all_read:
            self._merge.loads.advance_to_end()
            if last:
                self._merge.loads.end_waiting_for_schemas()
        worked = self.release(every_table=last) or worked
        self._settle({} if last else self._merge.health.resting(self._now_us()))
        worked = self._deal_with_overdue() or worked
        closed = self._merge.transactions.deal_with_overdue(self._now_us(), all_read=last)
        self._parts.summary.incomplete_transactions += closed
        worked = (closed > 0 and self.release()) or worked
        worked = self._maintain(every_table=last) or worked
        self.copy_messages(last=last)
        return worked

    def release(self, *, every_table: bool = False) -> bool:
        """Apply the waiting messages that can be released; return whether there were any.

        Args:
            every_table: Whether failing tables are retried once, even if not due.
        """
        worked, failed = False, set[Table]()
        while True:
            resting = {table: self._merge.health.failing[table].reason for table in failed if table in self._merge.health.failing}
            if not every_table:
                resting = self._merge.health.resting(self._now_us())
            ready = [schema_id for schema_id in self._parts.ledger.waiting_ids() if self._parts.zone.find(schema_id) is not None]
            tables = self._parts.ledger.waiting_tables() - resting.keys()
            release = self._parking.next_release(ready, tables, self._merge.loads.state().until_us)
            if release is None:
                return worked
            worked = True
            # A repeated release tries every table: a failing one can have applied a part of it the first time.
            failed |= self._bring_back(release, {} if release.resumed else resting)

    def _bring_back(self, release: Release, resting: dict[Table, str]) -> set[Table]:
        """Apply a release; return the tables that did not apply it."""
        decoded = Decoded()
        messages = release.messages
        for batch in (messages.combine_chunks() if messages.nbytes <= MAX_UNIT_BYTES else messages).to_batches():
            decoded.extend(self._parts.decoder.decode(batch))
        self._merge.learn(decoded)
        stopped, staying = self._merge.stops.retry(decoded)
        resting = resting | staying
        state = self._merge.loads.state(release=release.number, waiting=decoded.waiting)
        applied, aside, standing = self._merge.apply(decoded, "release", release.number, resting, state, repeated=release.repeats)
        held = [replace(part, messages=choose_messages(release.messages, part.messages)) for part in aside] + stopped
        decoded.dead += choose_messages(release.messages, find_rejected(decoded, applied, aside)).to_batches()
        dead = self._parking.finish_release(
            release, self._now_us(), held=held, waiting=decoded.waiting, dead=decoded.dead, also=standing.record
        )
        again = sum(part.messages.num_rows for part in held) + sum(batch.num_rows for batch in decoded.waiting)
        self._parts.summary.dead += dead
        self._parts.summary.released += release.messages.num_rows - dead - again
        return {part.table for part in held if part.cause == "table"}

    def _deal_with_overdue(self) -> bool:
        """Delay or dead-letter messages that waited too long for their schema; return whether there were any."""
        overdue = self._parking.overdue(self._now_us() - self._parts.config.schema_wait_us)
        if not overdue:
            return False
        ids = ", ".join(sorted({str(parcel.schema_id) for parcel in overdue})[:3])
        count = sum(parcel.count for parcel in overdue)
        if self._parts.config.on_missing_schema == "fail":
            raise SchemaError(
                f"{count} messages wait for a missing schema: schema id {ids}",
                where=", ".join(self._parts.config.topics),
                advice="Send its metadata message, or run with --on-missing-schema delayed",
            )
        if self._parts.config.on_missing_schema == "delayed":
            self._parking.delay(overdue)
        else:
            for parcel in overdue:
                reason = f"its schema has not come in {self._parts.config.schema_wait_us / 1e6:g} s: schema id {parcel.schema_id}"
                self._parking.give_up([parcel], reason, self._now_us())
            self._parts.summary.dead += count
        return True

    def carry_out_requests(self) -> bool:
        """Carry out the open requests."""
        self._remote_requests.take(self._now_us())
        requests = self._requests.open()
        for request in requests:
            if request.kind == "redrive":
                self._requests.redrive(request, self.table_of, self._now_us())
            elif request.kind == "discard":
                self._requests.discard(request, self._parking.mark_discarded, self._now_us())
            else:
                self._requests.finish(request, self._reload(request), self._now_us())
        return bool(requests)

    def _reload(self, request: Request) -> dict[str, Any]:
        """Begin or end the load of a table; return the outcome. Repeating it after a crash changes nothing."""
        schema, name = request.arguments["table"]
        refused = None
        if (schema, name) not in self._parts.tables.names():
            refused = "there is no such table"
        elif request.arguments["ended"]:
            self._parts.tables.end_load(schema, name)
            self._settle({})
        elif not self._parts.tables.begin_load(schema, name, request.arguments["at_us"]):
            refused = "rows that were logged since then have been applied as those of an earlier load"
        if refused is None:
            return {"table": f"{schema}.{name}"}
        _LOGGER.warning("request %d to reload %s.%s is refused: %s", request.id, schema, name, refused)
        return {"table": f"{schema}.{name}", "refused": refused}

    def _maintain(self, *, every_table: bool) -> bool:
        """Maintain the first table that is due, or all of them; a failing step logs a warning."""
        now_us, resting = self._now_us(), self._merge.health.resting(self._now_us())
        waited_for = self._parts.ledger.tables_waited_for(now_us - self._parts.config.transaction_wait_us)
        worked = False
        for table in self._parts.tables.names():
            if table in resting or (worked and not every_table):
                continue
            try:
                may_forget = None not in waited_for and table not in waited_for
                worked = self._parts.tables.maintain(table, self._schedule, now_us, may_forget=may_forget) or worked
            except HeadstreamError as error:
                worked = True
                _LOGGER.warning("table %s.%s maintenance failed and is repeated when due: %s", *table, error)
        return worked

    def _settle(self, resting: Container[Table]) -> None:
        """Remove the rows that finished loads did not contain; a failing table is retried later."""
        applied = self._parts.tables.settle(resting)
        self._parts.summary.add(applied)
        for table, error in applied.failed.items():
            self._merge.health.note_failure(table, str(error), self._now_us())
        tried = {table for table in self._merge.health.failing if table not in resting and table not in applied.failed}
        for table in tried - self._parts.ledger.waiting_tables():
            self._merge.health.note_success(table)

    def table_of(self, schema_id: str) -> Table | None:
        """Return the target table of a schema id, if the zone has it and its table is selected."""
        return self._parts.decoder.target_of(schema_id)
