"""Merges a unit of work: the changes of a micro-batch, or of a release of messages that have waited.

    metadata -> schema zone | changes -> a commit a table
    changes of a failing table, rows of an undecided load, parts of a transaction: set aside

Every step can be interrupted by a crash and repeated: the zone, the ledger and each table's own log of applied batches
record the finished steps, and a change older than its row is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.checkpoint.keeper import Keeper, LocalKeeper
from headstream.replicate.codec import decode_envelope, decode_metadata
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.raw import (
    COORDINATE_COLUMNS,
    RAW_SCHEMA,
    TRANSACTION,
    change_coordinates,
    coordinates_table,
    leave_out,
    match_rows,
)
from headstream.replicate.decoding.decode import Decoded, Decoder
from headstream.replicate.parked.ledger import Ledger, Table
from headstream.replicate.parked.parking import Held
from headstream.replicate.parked.table_health import TableHealth
from headstream.replicate.run.load_waits import LoadWaits, ReadState
from headstream.replicate.run.stopped_tables import StoppedTables
from headstream.replicate.run.summary import Summary
from headstream.replicate.run.transactions import Standing, Transactions
from headstream.replicate.schemas.zone import SchemaZone, ZoneEntry
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.tables.tables import Applied, TargetTables

__all__ = ["Parts", "UnitMerge", "choose_messages", "find_rejected"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one pipeline that units are processed with.

    Args:
        decoder: The decoder of that zone.
        summary: The counts of the run.
        clock_us: The time, microseconds since 1970 UTC.
        keeper: Keeps its checkpoint.
    """

    config: ReplicateConfig
    zone: SchemaZone
    decoder: Decoder
    ledger: Ledger
    tables: TargetTables
    summary: Summary
    clock_us: Callable[[], int]
    keeper: Keeper = field(default_factory=LocalKeeper)


class UnitMerge:
    """Merges units of one pipeline; used by one thread at a time.

    Attributes:
        health: The failing tables.
        stops: The stopped ones among them.
        loads: The waiting rows of loads.
        transactions: The known transactions and their states.
        newly_shared: Whether the last learn() found further tables for known schema ids: rows of the same messages can have
            been decoded by the schema of the other table.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._now_us = parts.clock_us
        self.health = TableHealth(parts.ledger)
        self.stops = StoppedTables(parts.config, parts.decoder, self.health, parts.clock_us)
        self.loads = LoadWaits(parts.ledger, parts.tables)
        self.newly_shared = False
        self.transactions = Transactions(parts.config, parts.ledger, parts.clock_us())

    def learn(self, decoded: Decoded) -> bool:
        """Put the schemas of metadata messages into the zone; return whether one of them is new."""
        learned, self.newly_shared = 0, False
        for batch in decoded.metadata:
            reasons: list[str | None] = []
            for row in batch.to_pylist():
                try:
                    metadata = decode_metadata(decode_envelope(row["payload"]))
                    entry = ZoneEntry(metadata, self._now_us(), row["topic"], row["partition"], row["offset"])
                    is_new = self._parts.zone.add(entry)
                    learned += is_new
                    self.newly_shared |= is_new and self._parts.zone.find(metadata.schema_id) != entry
                    reasons.append(None)
                except (DecodeError, SchemaError) as error:
                    reasons.append(str(error))
            bad = batch.set_column(RAW_SCHEMA.get_field_index("reason"), "reason", pa.array(reasons, pa.string()))
            bad = bad.filter(bad.column("reason").is_valid())
            if bad.num_rows:
                decoded.dead.append(bad)
        self._parts.summary.schemas += learned
        return learned > 0

    def apply(
        self,
        decoded: Decoded,
        unit: Literal["batch", "release"],
        version: int,
        resting: dict[Table, str],
        state: ReadState,
        *,
        repeated: bool,
    ) -> tuple[Applied, list[Held], Standing]:
        """Merge changes; return the result, the coordinates of those that wait, and the states of transactions."""
        schemas = {schema_id: self._parts.decoder.schema(schema_id) for schema_id in (*decoded.stored, *decoded.changes)}
        self._parts.summary.rows_in_driver += sum(batch.num_rows for group in decoded.changes.values() for batch in group)
        loading = self.loads.hold(decoded, schemas, unit, version, state)
        standing = self.transactions.sort_out(decoded, schemas, self._now_us())
        self._parts.summary.untold += standing.unnumbered
        changes = {key: batches for key, batches in decoded.changes.items() if schemas[key].table not in resting}
        stored = {key: found for key, found in decoded.stored.items() if schemas[key].table not in resting}
        if changes or stored:  # what is applied, parked and held back is decided: a rerun elsewhere must decide the same
            self._parts.keeper.save()
        app_id = f"{self._parts.ledger.pipeline_id}/{unit}"
        applied = self._parts.tables.apply(changes, schemas, app_id, version, is_learned=True, repeated=repeated, stored=stored)
        self._parts.keeper.check()
        if applied.fatal is not None:
            raise applied.fatal
        now_us = self._now_us()
        reasons = {schema.table: resting[schema.table] for schema in schemas.values() if schema.table in resting}
        for table, error in applied.failed.items():
            reasons[table] = str(error)
            self.health.note_failure(table, str(error), now_us)
        for table in applied.counts.keys() - applied.failed.keys() - self.health.stopped.keys():
            self.health.note_success(table)
        self._parts.summary.add(applied)
        self._parts.summary.note_commits(changes, stored, schemas, applied.failed, now_us)
        aside: dict[Table, list[pa.Table]] = {}
        left = {schema_id for schema_id, schema in schemas.items() if schema.table in resting} | applied.held
        for schema_id, places in decoded.coordinates(left):
            aside.setdefault(schemas[schema_id].table, []).append(change_coordinates(places, schema_id))
        failed = [Held(table, reasons[table], pa.concat_tables(parts)) for table, parts in aside.items()]
        return applied, loading + failed + standing.held, standing


def find_rejected(decoded: Decoded, applied: Applied, aside: list[Held]) -> pa.Table:
    """Return the coordinates of changes that cannot be applied, with reasons; except for tables that are retried."""
    wanted = coordinates_table(applied.rejected)
    reasons = pa.array(list(applied.rejected.values()), pa.string())
    empty = pa.nulls(0, pa.string())
    parts = [wanted.slice(0, 0).append_column("schema_id", empty).append_column("reason", empty)]
    for schema_id, coordinates in decoded.coordinates(wanted=wanted) if wanted.num_rows else ():
        found = change_coordinates(coordinates, schema_id)
        rows, places = match_rows(found, wanted)
        parts.append(found.take(rows).drop(["reason"]).append_column("reason", reasons.take(places)))
    rejected = pa.concat_tables(parts, promote_options="permissive")
    for part in aside:
        rejected = leave_out(rejected, COORDINATE_COLUMNS, part.messages)
    return rejected


def choose_messages(messages: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return the messages at the wanted coordinates, with the wanted schema ids, reasons and transactions."""
    rows, places = match_rows(messages, wanted)
    found = take_rows(messages.select(RAW_SCHEMA.names), rows)
    for name in ("schema_id", "reason"):
        column = wanted[name].combine_chunks().take(places).cast(pa.string())
        found = found.set_column(RAW_SCHEMA.get_field_index(name), RAW_SCHEMA.field(name), column)
    found = found.cast(RAW_SCHEMA)
    return found.append_column(TRANSACTION, wanted[TRANSACTION].take(places)) if TRANSACTION in wanted.column_names else found
