"""The steps of a pipeline's work, in order: for a micro-batch, for a release of parked messages, and between micro-batches.

A crash can interrupt any step, and the step is then repeated: the schema store, the ledger and each table's log of applied
units record the finished steps. A checkpoint in an object store is written before the merge, the first externally visible step.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headstream.replicate.columns.large_values import MAX_UNIT_BYTES
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.parked.bounds import WaitingBounds
from headstream.replicate.parked.failing_tables import FailingTables
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import ParkingLot, Release
from headstream.replicate.run.between_batches import BetweenBatches
from headstream.replicate.run.copies import Copies
from headstream.replicate.run.decoded_storage import leave_out
from headstream.replicate.run.load_waits import LoadWaits
from headstream.replicate.run.parking_step import FindRaw, ParkingStep, find_parked
from headstream.replicate.run.schema_storage import NewSchemas, SchemaStorage
from headstream.replicate.run.stopped_tables import StoppedTables
from headstream.replicate.run.transactions import Transactions
from headstream.replicate.run.unit import PipelineContext, Unit
from headstream.replicate.run.unit_merge import UnitMerge


class Processor:
    """Does the work of one pipeline; not thread-safe."""

    def __init__(self, context: PipelineContext) -> None:
        config, ledger = context.config, context.ledger
        self._is_atomic = config.atomic
        self._context = context
        self._summary = context.summary
        self._now_us = context.clock_us
        self.bounds = WaitingBounds(config, ledger)
        self.parking = ParkingLot(config.state_directory, config.delayed_topic, ledger, self.bounds)
        if config.accept_recreated:  # this or a later run reads an unfinished micro-batch again, under a different number
            self.parking.note_read_again(self._now_us())
        self._read_again = self.parking.find_read_again()
        self._last_again: int | None = None
        self.health = FailingTables(ledger)
        self._schemas = SchemaStorage(context)
        self._stops = StoppedTables(context, self.health)
        self._loads = LoadWaits(context)
        self._transactions = Transactions(context)
        self._merge = UnitMerge(context, self.health)
        self._parking_step = ParkingStep(context, self.parking, self._stops)
        self._between = BetweenBatches(context, self.parking, self.health)
        self._copies = Copies(context, self.parking.log)

    @property
    def read_until_us(self) -> int:
        """The log time before which all messages have been read, microseconds since 1970 UTC; 0 if unknown."""
        return self._loads.read_us

    def close(self) -> None:
        """Close the store of parked messages and the connections to its copies."""
        self._copies.close()
        self.parking.close()

    def store_schemas(self, decoded: Decoded) -> NewSchemas:
        """Add the schemas of a micro-batch to the schema store before the micro-batch is processed, which may decode it again."""
        return self._schemas.store_metadata(decoded.metadata)

    def process(self, decoded: Decoded, find_raw: FindRaw, batch_id: int, read_until_us: int | None = None) -> None:
        """Process a micro-batch.

        Args:
            find_raw: Returns messages of the micro-batch from the source.
            read_until_us: Time, microseconds since 1970 UTC: this or an earlier micro-batch contains all messages that were
                logged before this time, in all partitions; None if unknown.

        Raises:
            ReplicateError: too many messages of a topic are invalid and have no table, or too many wait. The micro-batch must be
                read again.
            StorageError: messages to park are no longer in the source. The micro-batch must be read again.
        """
        self._between.carry_out_requests()  # a requested reload takes effect before the rows of the load
        self._summary.note_read(decoded)
        before = self._find_before(decoded, find_raw, batch_id, read_until_us)
        is_rerun = before is not None
        unit = Unit("batch", batch_id, decoded, is_repeated=is_rerun or self._read_again is not None)
        unit = self._schemas.store_schemas(unit)
        unit = self._schemas.decode_waiting(unit)
        if before is not None:
            unit = replace(unit, decoded=leave_out(unit.decoded, before))
        unit = self._stops.take_out(unit)
        if unit.decoded.waiting or self._is_atomic:  # waiting parts of a transaction precede a repeat of one of its events
            self._release_all(every_table=self._is_atomic and is_rerun)
        self.parking.park(unit.decoded.waiting, self._now_us())
        unit = replace(unit, decoded=replace(unit.decoded, waiting=()), held_tables=self._find_held_tables(is_rerun=is_rerun))
        self._summary.rows_in_driver += unit.decoded.rows_in_driver
        unit = self._loads.hold(unit, read_until_us)
        unit = self._transactions.hold(unit)
        unit = self._merge.hold_tables(unit)
        unit = self._merge.merge(unit)
        self._parking_step.park(unit, find_raw)
        self.parking.end_batch()
        self._release_all()
        self._copies.follow()

    def _find_before(self, decoded: Decoded, find_raw: FindRaw, batch_id: int, read_until_us: int | None) -> pa.Table | None:
        """Begin a micro-batch; return the coordinates of messages that an earlier run parked or dead-lettered, or None."""
        if self._last_again not in (None, batch_id):
            self.parking.forget_read_again()
            self._read_again = self._last_again = None
        before = self.parking.begin_batch(batch_id)
        if self._read_again is not None:
            until_us, messages = self._read_again
            self._last_again = batch_id if read_until_us is not None and read_until_us > until_us else self._last_again
            again = find_parked(decoded, messages, find_raw)
            before = again if before is None else before if again is None else pa.concat_tables([before, again])
        return before

    def _release(self, release: Release, held_tables: dict[Table, str]) -> set[Table]:
        """Process a release; return the tables that did not apply the release."""
        messages = release.messages
        batches = (messages.combine_chunks() if messages.nbytes <= MAX_UNIT_BYTES else messages).to_batches()
        decoded = Decoded.join(self._context.decoder.decode(batch) for batch in batches)
        unit = Unit("release", release.number, decoded, is_repeated=release.repeats, held_tables=held_tables)
        unit = self._schemas.store_schemas(unit)
        unit = self._stops.retry(unit)
        self._summary.rows_in_driver += unit.decoded.rows_in_driver
        unit = self._loads.hold(unit)
        unit = self._transactions.hold(unit)
        unit = self._merge.hold_tables(unit)
        unit = self._merge.merge(unit)
        return self._parking_step.finish_release(unit, release)

    def sweep(self, *, last: bool = False, all_read: bool | None = None) -> bool:
        """Do the work between two micro-batches; return whether there was work.

        Args:
            last: Whether the run ends; failing tables are then retried once, even if they are not due.
            all_read: Whether all partitions have been read to their ends; None: the value of `last`.

        Raises:
            SchemaError: a schema has not arrived in time, and the policy is `fail`.
        """
        worked = self._between.carry_out_requests()
        if last if all_read is None else all_read:
            self._loads.advance_to_end()
            if last:
                self._loads.end_waiting_for_schemas()
        worked |= self._release_all(every_table=last)
        self._between.end_loads({} if last else self.health.tables_in_backoff(self._now_us()))
        worked |= self._between.close_overdue()
        if self._transactions.close_overdue(all_read=last):
            worked |= self._release_all()
        worked |= self._between.maintain(every_table=last)
        self._copies.follow(last=last)
        return worked

    def _release_all(self, *, every_table: bool = False) -> bool:
        """Release the waiting messages that qualify; with `every_table`, also messages of tables that are not due. Return whether
        messages were released.

        A message qualifies if its schema has arrived, its table is due, its transaction is complete, or its load has a position.
        """
        worked, failed = False, set[Table]()
        while True:
            held_tables = {table: found.reason for table, found in self.health.failing.items() if table in failed}
            if not every_table:
                held_tables = self.health.tables_in_backoff(self._now_us())
            ready = [
                schema_id
                for schema_id in self._context.ledger.waiting_ids()
                if self._context.schema_store.find(schema_id) is not None
            ]
            tables = self._context.ledger.waiting_tables() - held_tables.keys()
            release = self.parking.next_release(ready, tables, self._loads.state().until_us)
            if release is None:
                return worked
            worked = True
            # A repeated release tries every table: a failing table can have applied a part of the release in the first attempt.
            failed |= self._release(release, {} if release.resumed else held_tables)

    def _find_held_tables(self, *, is_rerun: bool) -> dict[Table, str]:
        """Return the tables to exclude from merges in this micro-batch, with reasons."""
        # A rerun tries every table: the first run merged the changes, or parked them.
        held_tables = ({} if is_rerun else self.health.tables_in_backoff(self._now_us())) | self.health.stopped
        if self._is_atomic:  # a repeated event must not overtake its transaction, which is released later
            held_tables |= self.health.waited_for()
        return held_tables
