"""The work between units: operators' requests, ends of loads, overdue messages, and table maintenance."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Container
from typing import Any, Final

import pyarrow as pa

from headstream.errors import HeadstreamError, SchemaError
from headstream.replicate.columns.raw import RAW_SCHEMA, REPAIR_TOPIC
from headstream.replicate.parked.failing_tables import FailingTables
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import ParkingLot
from headstream.replicate.parked.remote_requests import RemoteRequests
from headstream.replicate.parked.requests import Request, Requests
from headstream.replicate.run.unit import PipelineContext
from headstream.replicate.tables.maintenance import Schedule

_LOGGER: Final = logging.getLogger("headstream.replicate")


class BetweenBatches:
    """Does the work of one pipeline between its micro-batches; not thread-safe."""

    def __init__(self, context: PipelineContext, parking: ParkingLot, health: FailingTables) -> None:
        self._context = context
        self._now_us = context.clock_us
        self._parking = parking
        self._health = health
        self._schedule = Schedule.of(context.config)
        self._requests = Requests(context.ledger)
        self._remote_requests = RemoteRequests(context.ledger, context.checkpoint_store)

    def carry_out_requests(self) -> bool:
        """Execute the open requests; return whether there were open requests."""
        self._remote_requests.take(self._now_us())
        requests = self._requests.open()
        for request in requests:
            if request.kind == "redrive":
                self._requests.redrive(request, self._context.decoder.target_of, self._now_us())
            elif request.kind == "discard":
                self._requests.discard(request, self._parking.mark_discarded, self._now_us())
            elif request.kind == "repair":
                # If repeated after a crash, this parks messages with the same change sequences, which have no effect.
                count = self._parking.park([repair_rows(request.arguments, request.id, self._now_us())], self._now_us())
                self._requests.finish(request, {"table": request.arguments["table"], "messages": count}, self._now_us())
            else:
                self._requests.finish(request, self._reload(request), self._now_us())
        return bool(requests)

    def _reload(self, request: Request) -> dict[str, Any]:
        """Begin or end the load of a table; return the result. The request can be repeated after a crash."""
        schema, name = request.arguments["table"]
        refused = None
        if (schema, name) not in self._context.tables.names():
            refused = "there is no such table"
        elif request.arguments["ended"]:
            self._context.tables.end_load(schema, name)
            self.end_loads({})
        elif not self._context.tables.begin_load(schema, name, request.arguments["at_us"]):
            refused = "rows logged since that time were already applied as rows of an earlier load"
        if refused is None:
            return {"table": f"{schema}.{name}"}
        _LOGGER.warning("request %d to reload %s.%s was refused: %s", request.id, schema, name, refused)
        return {"table": f"{schema}.{name}", "refused": refused}

    def close_overdue(self) -> bool:
        """Delay or dead-letter messages that have waited too long for their schema; return whether there were such messages."""
        overdue = self._parking.overdue(self._now_us() - self._context.config.schema_wait_us)
        if not overdue:
            return False
        count = sum(parked_batch.count for parked_batch in overdue)
        if self._context.config.on_missing_schema == "fail":
            ids = ", ".join(sorted({str(parked_batch.schema_id) for parked_batch in overdue})[:3])
            raise SchemaError(
                f"{count} messages wait for a missing schema: schema id {ids}",
                where=", ".join(self._context.config.topics),
                advice="Send the metadata message with the schema, or run with --on-missing-schema delayed",
            )
        if self._context.config.on_missing_schema == "delayed":
            self._parking.delay(overdue)
            return True
        for parked_batch in overdue:
            reason = f"schema id {parked_batch.schema_id} did not arrive within {self._context.config.schema_wait_us / 1e6:g} s"
            self._parking.give_up([parked_batch], reason, self._now_us())
        self._context.summary.dead += count
        return True

    def maintain(self, *, every_table: bool) -> bool:
        """Maintain the first table that is due, or all tables that are due; a failing step logs a warning."""
        now_us, held_tables = self._now_us(), self._health.tables_in_backoff(self._now_us())
        waited_for = self._context.ledger.tables_waited_for(now_us - self._context.config.transaction_wait_us)
        worked = False
        for table in self._context.tables.names():
            if table in held_tables or (worked and not every_table):
                continue
            try:
                may_forget = None not in waited_for and table not in waited_for
                may_vacuum = functools.partial(self._may_vacuum, table, wait=every_table)
                worked |= self._context.tables.maintain(
                    table, self._schedule, now_us, may_forget=may_forget, may_vacuum=may_vacuum
                )
            except HeadstreamError as error:
                worked = True
                _LOGGER.warning("maintenance of table %s.%s failed and runs again when it is next due: %s", *table, error)
        return worked

    def _may_vacuum(self, table: Table, *, wait: bool) -> bool:
        """Return whether no Iceberg snapshot of the table needs files that vacuum deletes."""
        return self._context.iceberg is None or self._context.iceberg.may_vacuum(table, wait=wait)

    def end_loads(self, held_tables: Container[Table]) -> None:
        """Remove the rows that ended loads did not contain; a failing table is retried later."""
        applied = self._context.tables.remove_vanished_rows(held_tables)
        self._context.summary.add(applied)
        for table, error in applied.failed.items():
            self._health.note_failure(table, str(error), self._now_us())
        tried = {table for table in self._health.failing if table not in held_tables and table not in applied.failed}
        for table in tried - self._context.ledger.waiting_tables():
            self._health.note_success(table)


def repair_rows(arguments: dict[str, Any], request: int, now_us: int) -> pa.RecordBatch:
    """Return the messages of a repair request as RAW_SCHEMA; the request's number makes their offsets unique.

    The messages are parked like messages whose schema has arrived, so the next release applies them. They have the flat form,
    which names the table; the schema id only selects them for the release.
    """
    payloads = [json.dumps(message).encode() for message in arguments["messages"]]
    count = len(payloads)
    columns = {
        "topic": [REPAIR_TOPIC] * count,
        "partition": [0] * count,
        "offset": [(request << 32) + number for number in range(count)],
        "timestamp_us": [now_us] * count,
        "payload": payloads,
        "schema_id": [arguments["schema_id"]] * count,
    }
    arrays = [pa.array(columns.get(kind.name, [None] * count), kind.type) for kind in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)
