"""What is done with a micro-batch, and between two of them with what waits.

    decoded -> metadata: schema zone | data: merged, a commit a table | waiting: parked | dead: dead letter
    a table that fails: its changes wait, whole, and are tried again | what waits comes back when it can

Everything here may be cut short by a crash and done again: the zone, the ledger and each table's own log of applied
batches say what is done already, and a change that is older than its row is passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.replicate import decode_envelope, decode_metadata
from headstream.errors import DecodeError, HeadstreamError, SchemaError
from headstream.spark.replicate.bounds import DeadRate, WaitingBounds
from headstream.spark.replicate.config import ReplicateConfig
from headstream.spark.replicate.dead_letter_table import DeadLetterTable
from headstream.spark.replicate.decode import Decoded, Decoder
from headstream.spark.replicate.ledger import Ledger, Table
from headstream.spark.replicate.load_waits import LoadWaits, ReadState
from headstream.spark.replicate.maintenance import Schedule
from headstream.spark.replicate.parking import TRANSACTION, Held, ParkingLot, Release
from headstream.spark.replicate.raw import (
    CHANGE_COORDINATES,
    COORDINATE_COLUMNS,
    RAW_SCHEMA,
    change_coordinates,
    coordinates_table,
    leave_out,
    match_rows,
)
from headstream.spark.replicate.requests import Request, Requests
from headstream.spark.replicate.summary import Summary
from headstream.spark.replicate.table_health import TableHealth
from headstream.spark.replicate.tables import Applied, TargetTables
from headstream.spark.replicate.transactions import Standing, Transactions
from headstream.spark.replicate.zone import SchemaZone, ZoneEntry

__all__ = ["Processor"]

_LOGGER: Final = logging.getLogger("headstream.replicate")


class Processor:
    """The work of one pipeline; used by one thread at a time.

    Args:
        config: What the pipeline was told.
        zone: Its schema zone.
        decoder: Decodes by that zone.
        ledger: Its ledger.
        tables: Its target tables.
        summary: What it counts in.
        clock_us: The time, microseconds since 1970 UTC.
    """

    def __init__(
        self,
        config: ReplicateConfig,
        zone: SchemaZone,
        decoder: Decoder,
        ledger: Ledger,
        tables: TargetTables,
        summary: Summary,
        clock_us: Callable[[], int],
    ) -> None:
        self._config = config
        self._zone = zone
        self._decoder = decoder
        self._ledger = ledger
        self._tables = tables
        self._summary = summary
        self._now_us = clock_us
        self._schedule = Schedule.of(config)
        self.parking = ParkingLot(config.checkpoint, config.delayed, ledger)
        self.health = TableHealth(ledger)
        self.bounds = WaitingBounds(config, ledger)
        self._loads = LoadWaits(ledger, tables)
        self._requests = Requests(ledger)
        self._transactions = Transactions(config, ledger, clock_us())
        self._dead_rate = DeadRate(config.max_dead_rate, config.dead_rate_messages)
        self._unit = ledger.pipeline_id
        place = config.dead_letter_table
        self._dead_letter = None if place is None else DeadLetterTable(place, self.parking.log, self._unit)

    def process(
        self,
        decoded: Decoded,
        find_raw: Callable[[pa.Table], pa.Table],
        batch_id: int,
        read_until_us: int | None = None,
    ) -> None:
        """Process a micro-batch.

        Args:
            decoded: What its messages came to.
            find_raw: Coordinates, with a schema id and a reason each -> the messages, RAW_SCHEMA.
            batch_id: Its number, the same when it is run again after a crash.
            read_until_us: All messages of all partitions that were logged before this time are in this micro-batch or in
                earlier ones, microseconds since 1970 UTC; None where that is not told.

        Raises:
            ReplicateError: too much of it can never be applied, or too much waits; it is to be read again then.
        """
        self._carry_out()  # a reload that was asked for comes before the rows that it is about
        self._summary.messages += decoded.message_count
        self._summary.size_bytes += decoded.size_bytes
        before = self.parking.begin_batch(batch_id)
        if self._learn(decoded) or decoded.waiting:
            waiting, decoded.waiting = decoded.waiting, []
            for batch in waiting:  # its schema may have come in this very batch
                decoded.extend(self._decoder.decode(batch))
        if before is not None:
            _remove(decoded, before)
        self._dead_rate.check(decoded.message_count, decoded.dead)
        if decoded.waiting or self._config.atomic:  # what waits of a transaction comes before a single event of it again
            self.release(every_table=self._config.atomic and before is not None)
        if decoded.waiting:
            self._check_bounds(decoded.waiting)
            self.parking.park(decoded.waiting, self._now_us())
        # A batch that is run again tries every table: it took the changes the first time, or they are parked already.
        resting = self.health.resting(self._now_us()) if before is None else {}
        if self._config.atomic:  # an event that comes again must not overtake its transaction, which comes back in a release
            resting |= self.health.waited_for()
        state = self._loads.state(read_us=read_until_us)
        applied, aside, standing = self._apply(decoded, "batch", batch_id, resting, state, repeated=before is not None)
        rejected = _rejected(decoded, applied, aside)
        held = []
        if rejected.num_rows or aside:
            columns = [*COORDINATE_COLUMNS, "schema_id", "reason"]
            found = find_raw(pa.concat_tables([rejected, *(part.messages.select(columns) for part in aside)]))
            held = [replace(part, messages=_chosen(found, part.messages)) for part in aside]
            decoded.dead += _chosen(found, rejected).to_batches()
            self._dead_rate.check(0, _chosen(found, rejected).to_batches())
            self._check_bounds([batch for part in held for batch in part.messages.to_batches()])
        self.parking.hold(held, self._now_us(), standing.record)
        self._summary.dead += self.parking.bury(decoded.dead, self._now_us())
        self.parking.end_batch()
        self.release()
        self._follow_dead_letter()

    def sweep(self, *, last: bool = False, all_read: bool | None = None) -> bool:
        """Release what can be released, carry out requests, and deal with what has waited too long.

        Args:
            last: Whether the run ends: failing tables are tried once more then, before their time.
            all_read: Whether everything that was logged before any message that has been read, has been read too; None: as
                `last` says.

        Returns:
            Whether anything was done.

        Raises:
            SchemaError: a schema has not come in time, and the policy is `fail`.
        """
        worked = self._carry_out()
        if last if all_read is None else all_read:
            self._loads.advance_to_end()
            if last:
                self._loads.end_waiting_for_schemas()
        worked = self.release(every_table=last) or worked
        self._settle({} if last else self.health.resting(self._now_us()))
        worked = self._deal_with_overdue() or worked
        closed = self._transactions.deal_with_overdue(self._now_us(), all_read=last)
        self._summary.incomplete_transactions += closed
        worked = (closed > 0 and self.release()) or worked
        worked = self._maintain(every_table=last) or worked
        self._follow_dead_letter()
        return worked

    def _deal_with_overdue(self) -> bool:
        """Delay or give up what has waited too long for its schema; return whether there was anything."""
        overdue = self.parking.overdue(self._now_us() - self._config.schema_wait_us)
        if not overdue:
            return False
        ids = ", ".join(sorted({str(parcel.schema_id) for parcel in overdue})[:3])
        count = sum(parcel.count for parcel in overdue)
        if self._config.on_missing_schema == "fail":
            raise SchemaError(
                f"{count} messages wait for a schema that has not come: schema id {ids}",
                where=", ".join(self._config.topics),
                advice="Send its metadata message, or run with --on-missing-schema delayed",
            )
        if self._config.on_missing_schema == "delayed":
            self.parking.delay(overdue)
        else:
            for parcel in overdue:
                reason = f"its schema has not come in {self._config.schema_wait_us / 1e6:g} s: schema id {parcel.schema_id}"
                self.parking.give_up([parcel], reason, self._now_us())
            self._summary.dead += count
        return True

    def release(self, *, every_table: bool = False) -> bool:
        """Apply what has waited and can come back; return whether there was anything.

        Args:
            every_table: Whether failing tables are tried before their time, once.
        """
        worked, failed = False, set[Table]()
        while True:
            resting = {table: self.health.failing[table].reason for table in failed if table in self.health.failing}
            if not every_table:
                resting = self.health.resting(self._now_us())
            ready = [schema_id for schema_id in self._ledger.waiting_ids() if self._zone.find(schema_id) is not None]
            tables = self._ledger.waiting_tables() - resting.keys()
            release = self.parking.next_release(ready, tables, self._loads.state().until_us)
            if release is None:
                return worked
            worked = True
            # A release that is done again tries every table: one that failed may have taken a part of it the first time.
            failed |= self._bring_back(release, {} if release.resumed else resting)

    def _bring_back(self, release: Release, resting: dict[Table, str]) -> set[Table]:
        """Apply a release; return the tables that did not take it."""
        decoded = Decoded()
        for batch in release.messages.combine_chunks().to_batches():
            decoded.extend(self._decoder.decode(batch))
        self._learn(decoded)
        state = self._loads.state(release=release.number, waiting=decoded.waiting)
        applied, aside, standing = self._apply(decoded, "release", release.number, resting, state, repeated=release.repeats)
        held = [replace(part, messages=_chosen(release.messages, part.messages)) for part in aside]
        decoded.dead += _chosen(release.messages, _rejected(decoded, applied, aside)).to_batches()
        dead = self.parking.finish_release(
            release, self._now_us(), held=held, waiting=decoded.waiting, dead=decoded.dead, also=standing.record
        )
        again = sum(part.messages.num_rows for part in held) + sum(batch.num_rows for batch in decoded.waiting)
        self._summary.dead += dead
        self._summary.released += release.messages.num_rows - dead - again
        return {part.table for part in aside if part.cause == "table"}

    def _apply(
        self,
        decoded: Decoded,
        unit: Literal["batch", "release"],
        version: int,
        resting: dict[Table, str],
        state: ReadState,
        *,
        repeated: bool,
    ) -> tuple[Applied, list[Held], Standing]:
        """Merge changes; return what that did, the coordinates of those that wait, and what is now known of transactions."""
        schemas = {schema_id: self._decoder.schema(schema_id) for schema_id in decoded.changes}
        loading = self._loads.hold(decoded, schemas, unit, version, state)
        standing = self._transactions.sort_out(decoded, schemas, self._now_us())
        self._summary.untold += standing.untold
        changes = {name: batches for name, batches in decoded.changes.items() if schemas[name].table not in resting}
        applied = self._tables.apply(changes, schemas, f"{self._unit}/{unit}", version, is_learned=True, repeated=repeated)
        if applied.fatal is not None:
            raise applied.fatal
        now_us = self._now_us()
        reasons = {schema.table: resting[schema.table] for schema in schemas.values() if schema.table in resting}
        for table, error in applied.failed.items():
            reasons[table] = str(error)
            self.health.note_failure(table, str(error), now_us)
        for table in applied.counts.keys() - applied.failed.keys():
            self.health.note_success(table)
        self._summary.add(applied)
        self._summary.note_commits(changes, schemas, applied.failed, now_us)
        aside: dict[Table, list[pa.Table]] = {}
        for schema_id, batches in decoded.changes.items():
            if schemas[schema_id].table in resting or schema_id in applied.held:
                coordinates = change_coordinates(pa.Table.from_batches(batches), schema_id)
                aside.setdefault(schemas[schema_id].table, []).append(coordinates)
        failed = [Held(table, reasons[table], pa.concat_tables(parts)) for table, parts in aside.items()]
        return applied, loading + failed + standing.held, standing

    def _learn(self, decoded: Decoded) -> bool:
        """Put the schemas of metadata messages into the zone; return whether one of them is new."""
        learned = 0
        for batch in decoded.metadata:
            reasons: list[str | None] = []
            for row in batch.to_pylist():
                try:
                    metadata = decode_metadata(decode_envelope(row["payload"]))
                    entry = ZoneEntry(metadata, self._now_us(), row["topic"], row["partition"], row["offset"])
                    learned += self._zone.add(entry)
                    reasons.append(None)
                except (DecodeError, SchemaError) as error:
                    reasons.append(str(error))
            bad = batch.set_column(RAW_SCHEMA.get_field_index("reason"), "reason", pa.array(reasons, pa.string()))
            bad = bad.filter(bad.column("reason").is_valid())
            if bad.num_rows:
                decoded.dead.append(bad)
        self._summary.schemas += learned
        return learned > 0

    def _check_bounds(self, batches: list[pa.RecordBatch]) -> None:
        count = sum(batch.num_rows for batch in batches)
        size_bytes = sum(pc.sum(pc.binary_length(batch.column("payload"))).as_py() or 0 for batch in batches)
        self.bounds.check(count, size_bytes)

    def _follow_dead_letter(self) -> None:
        if self._dead_letter is not None:
            self._dead_letter.follow()

    def _carry_out(self) -> bool:
        """Carry out what people have asked for."""
        requests = self._requests.open()
        for request in requests:
            if request.kind == "redrive":
                self._requests.redrive(request, self.table_of, self._now_us())
            else:
                self._requests.finish(request, self._reload(request), self._now_us())
        return bool(requests)

    def _reload(self, request: Request) -> dict[str, Any]:
        """Begin or end the load of a table; return what came of it. Done again after a crash, it changes nothing."""
        schema, name = request.arguments["table"]
        refused = None
        if (schema, name) not in self._tables.names():
            refused = "there is no such table"
        elif request.arguments["ended"]:
            self._tables.end_load(schema, name)
            self._settle({})
        elif not self._tables.begin_load(schema, name, request.arguments["at_us"]):
            refused = "rows that were logged since then have been applied as those of an earlier load"
        if refused is None:
            return {"table": f"{schema}.{name}"}
        _LOGGER.warning("request %d to reload %s.%s is refused: %s", request.id, schema, name, refused)
        return {"table": f"{schema}.{name}", "refused": refused}

    def _maintain(self, *, every_table: bool) -> bool:
        """Care for the first table for which it is time, or for every one; a step that fails is a warning."""
        now_us, resting = self._now_us(), self.health.resting(self._now_us())
        waited_for = self._ledger.tables_waited_for(now_us - self._config.transaction_wait_us)
        worked = False
        for table in self._tables.names():
            if table in resting or (worked and not every_table):
                continue
            try:
                may_forget = None not in waited_for and table not in waited_for
                worked = self._tables.maintain(table, self._schedule, now_us, may_forget=may_forget) or worked
            except HeadstreamError as error:
                worked = True
                _LOGGER.warning("table %s.%s could not be cared for, which is tried again in time: %s", *table, error)
        return worked

    def _settle(self, resting: Container[Table]) -> None:
        """Remove what loads that are over did not bring; a table where that fails is tried again later."""
        applied = self._tables.settle(resting)
        self._summary.add(applied)
        for table, error in applied.failed.items():
            self.health.note_failure(table, str(error), self._now_us())
        tried = {table for table in self.health.failing if table not in resting and table not in applied.failed}
        for table in tried - self._ledger.waiting_tables():
            self.health.note_success(table)

    def table_of(self, schema_id: str) -> Table | None:
        """Return the target table of a schema id, where the zone has it and its table is wanted."""
        try:
            return self._decoder.schema(schema_id).table
        except SchemaError:
            return None


def _rejected(decoded: Decoded, applied: Applied, aside: list[Held]) -> pa.Table:
    """Return the coordinates of changes that cannot be applied, with reasons; not of tables that are tried again anyway."""
    wanted = coordinates_table(applied.rejected)
    reasons = pa.array(list(applied.rejected.values()), pa.string())
    empty = pa.nulls(0, pa.string())
    parts = [wanted.slice(0, 0).append_column("schema_id", empty).append_column("reason", empty)]
    for schema_id, batches in decoded.changes.items() if wanted.num_rows else ():
        found = change_coordinates(pa.Table.from_batches(batches), schema_id)
        rows, places = match_rows(found, wanted)
        parts.append(found.take(rows).drop(["reason"]).append_column("reason", reasons.take(places)))
    rejected = pa.concat_tables(parts, promote_options="permissive")
    for part in aside:
        rejected = leave_out(rejected, COORDINATE_COLUMNS, part.messages)
    return rejected


def _chosen(messages: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return the messages with some coordinates, with the schema ids, reasons and transactions that those have."""
    rows, places = match_rows(messages, wanted)
    found = messages.select(RAW_SCHEMA.names).take(rows)
    for name in ("schema_id", "reason"):
        column = wanted[name].combine_chunks().take(places).cast(pa.string())
        found = found.set_column(RAW_SCHEMA.get_field_index(name), RAW_SCHEMA.field(name), column)
    found = found.cast(RAW_SCHEMA)
    return found.append_column(TRANSACTION, wanted[TRANSACTION].take(places)) if TRANSACTION in wanted.column_names else found


def _remove(decoded: Decoded, coordinates: pa.Table) -> None:
    """Take out of a micro-batch what its first run set aside."""
    for name in ("waiting", "dead"):
        batches = [leave_out(pa.Table.from_batches([b]), COORDINATE_COLUMNS, coordinates) for b in getattr(decoded, name)]
        setattr(decoded, name, [batch for table in batches for batch in table.to_batches()])
    for schema_id, batches in decoded.changes.items():
        kept = leave_out(pa.Table.from_batches(batches), CHANGE_COORDINATES, coordinates)
        decoded.changes[schema_id] = kept.to_batches()
    decoded.changes = {schema_id: batches for schema_id, batches in decoded.changes.items() if batches}
