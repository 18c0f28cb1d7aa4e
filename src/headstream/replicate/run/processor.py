"""Processes micro-batches: merges their changes, parks messages that cannot be merged yet, and dead-letters invalid ones.

requests | decoded -> metadata: schema zone | waiting for a schema: released, else parked | changes: merged (unit_merge.py)
-> rejected: their messages are reread, and parked or dead-lettered -> due messages are released (between_batches.py)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import StorageError
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, change_coordinates, leave_out, match_rows
from headstream.replicate.decoding.decode import Decoded
from headstream.replicate.parked.bounds import WaitingBounds
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import Held, ParkingLot
from headstream.replicate.run.between_batches import BetweenBatches
from headstream.replicate.run.decoded_storage import leave_out_stored
from headstream.replicate.run.transactions import Standing
from headstream.replicate.run.unit_merge import Parts, UnitMerge, choose_messages, find_rejected
from headstream.replicate.tables.tables import Applied

__all__ = ["Processor"]

_Find = Callable[[pa.Table], pa.Table]


class Processor:
    """Processes the micro-batches of one pipeline; used by one thread at a time.

    Attributes:
        parking: The store of waiting messages.
        health: The failing tables.
        bounds: The limits of waiting messages.
        learn: Puts the schemas of metadata messages into the zone; see UnitMerge.learn().
        sweep: Does the work between two micro-batches; see BetweenBatches.sweep().
        table_of: Returns the target table of a schema id; see BetweenBatches.table_of().
    """

    def __init__(self, parts: Parts) -> None:
        config, ledger = parts.config, parts.ledger
        self._is_atomic = config.atomic
        self._decoder = parts.decoder
        self._summary = parts.summary
        self._now_us = parts.clock_us
        self.parking = ParkingLot(config.state_directory, config.delayed_topic, ledger)
        # An unfinished micro-batch is read again, under another number.
        self._left = self.parking.newest_set_aside() if config.accept_recreated else None
        self.bounds = WaitingBounds(config, ledger)
        self._merge = UnitMerge(parts)
        self._between = BetweenBatches(parts, self._merge, self.parking)
        self.health = self._merge.health
        self.learn = self._merge.learn
        self.sweep = self._between.sweep
        self.table_of = self._between.table_of

    def close(self) -> None:
        """Close the store of waiting messages, and the connections to copies of it."""
        self._between.close()
        self.parking.close()

    def shares_ids(self, decoded: Decoded) -> bool:
        """Learn the schemas of a micro-batch; return whether it must be decoded again: an id of it is that of two tables."""
        return self._merge.learn(Decoded(metadata=decoded.metadata)) and self._merge.newly_shared

    def process(self, decoded: Decoded, find_raw: _Find, batch_id: int, read_until_us: int | None = None) -> None:
        """Process a micro-batch.

        Args:
            find_raw: Coordinates, with a schema id and a reason each -> the messages, RAW_SCHEMA.
            batch_id: Its number, the same in a rerun after a crash.
            read_until_us: All messages of all partitions that were logged before this time are in this micro-batch or in
                earlier ones, microseconds since 1970 UTC; None if unknown.

        Raises:
            ReplicateError: too many of a topic's messages are invalid and of no table, or too many wait; it must be reread.
            StorageError: messages to set aside are not in the source any more; it must be reread.
        """
        self._between.carry_out_requests()  # a requested reload takes effect before the rows of the load
        self._summary.messages += decoded.message_count
        self._summary.size_bytes += decoded.size_bytes
        self._summary.tombstones += decoded.tombstones
        before = self.parking.begin_batch(batch_id)
        if self._merge.learn(decoded) or decoded.waiting:
            waiting, decoded.waiting = decoded.waiting, []
            for batch in waiting:  # its schema can be in this batch
                decoded.extend(self._decoder.decode(batch))
        if before is None and self._left is not None:
            before = _find_left(decoded, self._left, find_raw)
        if before is not None:
            _remove(decoded, before)
        stopped = self._merge.stops.take_out(decoded)
        self._park(decoded, is_repeated=before is not None)
        resting = self._find_resting(is_repeated=before is not None)
        state = self._merge.loads.state(read_us=read_until_us)
        repeated = before is not None or self._left is not None
        merged = self._merge.apply(decoded, "batch", batch_id, resting, state, repeated=repeated)
        self._set_aside(decoded, find_raw, *merged, stopped)
        self.parking.end_batch()
        self._between.release()
        self._between.copy_messages()

    def _park(self, decoded: Decoded, *, is_repeated: bool) -> None:
        """Park the messages that wait for a schema, after releasing those whose schema has arrived."""
        if decoded.waiting or self._is_atomic:  # waiting parts of a transaction precede a repeat of one of its events
            self._between.release(every_table=self._is_atomic and is_repeated)
        if decoded.waiting:
            self._check_bounds(decoded.waiting)
            self.parking.park(decoded.waiting, self._now_us())

    def _find_resting(self, *, is_repeated: bool) -> dict[Table, str]:
        """Return the tables that are not merged into in this micro-batch, with reasons."""
        # A rerun tries every table: the first run merged the changes, or parked them.
        resting = ({} if is_repeated else self.health.resting(self._now_us())) | self.health.stopped
        if self._is_atomic:  # a repeated event must not overtake its transaction, which is released later
            resting |= self.health.waited_for()
        return resting

    def _set_aside(
        self,
        decoded: Decoded,
        find_raw: _Find,
        applied: Applied,
        aside: list[Held],
        standing: Standing,
        stopped: list[Held],
    ) -> None:
        """Park messages that were not merged; dead-letter those that never can be, with all their bytes.

        Raises:
            StorageError: the source does not have some of them any more.
        """
        rejected = find_rejected(decoded, applied, aside)
        held = []
        if rejected.num_rows or aside:
            columns = [*COORDINATE_COLUMNS, "schema_id", "reason"]
            found = find_raw(pa.concat_tables([rejected, *(part.messages.select(columns) for part in aside)]))
            held = [replace(part, messages=choose_messages(found, part.messages)) for part in aside]
            chosen = choose_messages(found, rejected)
            _check_found(rejected.num_rows + sum(part.messages.num_rows for part in aside), [chosen, *(h.messages for h in held)])
            late = Decoded(dead=chosen.to_batches())
            stopped = stopped + self._merge.stops.take_out(late, rejected=True)
            decoded.dead += late.dead
        held += stopped
        self._check_bounds([batch for part in held for batch in part.messages.to_batches()])
        self.parking.hold(held, self._now_us(), standing.record)
        self._summary.dead += self.parking.dead_letter(decoded.dead, self._now_us())

    def _check_bounds(self, batches: list[pa.RecordBatch]) -> None:
        count = sum(batch.num_rows for batch in batches)
        size_bytes = sum(pc.sum(pc.binary_length(batch.column("payload"))).as_py() or 0 for batch in batches)
        self.bounds.check(count, size_bytes)


def _check_found(wanted: int, found: list[pa.Table]) -> None:
    """Check that messages to set aside were found again: retention or compaction can have deleted them since."""
    missing = wanted - sum(part.num_rows for part in found)
    if missing > 0:
        raise StorageError(
            f"{missing:,} messages that were not applied are not in the source any more, so they cannot be kept",
            advice="Run again with the same checkpoint: the micro-batch is then read as the source has it now. Give the source a "
            "longer retention than a table can fail for",
        )


def _find_left(decoded: Decoded, left: pa.Table, find_raw: _Find) -> pa.Table | None:
    """Return the coordinates of a micro-batch's messages that an unfinished one has set aside; None without any.

    A topic that was created again has other messages at the same places, with other times.

    Args:
        left: The messages that the unfinished one has set aside.
        find_raw: As of Processor.process().
    """
    names = list(COORDINATE_COLUMNS)
    parts = [pa.Table.from_batches([batch]).select(names) for batch in (*decoded.waiting, *decoded.dead)]
    found = decoded.coordinates(wanted=left.select(names))
    parts += [change_coordinates(places, schema_id).select(names) for schema_id, places in found]
    read = pa.concat_tables([left.select(names).slice(0, 0), *parts], promote_options="permissive")
    there = left.take(match_rows(left, read)[0])
    if not there.num_rows:
        return None
    nothing = pa.nulls(there.num_rows, pa.string())
    raw = find_raw(there.select(names).append_column("schema_id", nothing).append_column("reason", nothing))
    rows, places = match_rows(raw, there)
    is_same = pc.equal(raw["timestamp_us"].take(rows), there["timestamp_us"].take(places))
    same = raw.select(names).take(rows.filter(is_same.combine_chunks()))
    return same if same.num_rows else None


def _remove(decoded: Decoded, coordinates: pa.Table) -> None:
    """Remove the messages that its first run set aside from a micro-batch."""
    for name in ("waiting", "dead"):
        batches = [leave_out(pa.Table.from_batches([b]), COORDINATE_COLUMNS, coordinates) for b in getattr(decoded, name)]
        setattr(decoded, name, [batch for table in batches for batch in table.to_batches()])
    places = coordinates.select(list(COORDINATE_COLUMNS)).rename_columns(list(CHANGE_COORDINATES))
    leave_out_stored(decoded, [places])
    for schema_id, batches in decoded.changes.items():
        kept = leave_out(pa.Table.from_batches(batches), CHANGE_COORDINATES, coordinates)
        decoded.changes[schema_id] = kept.to_batches()
    decoded.changes = {schema_id: batches for schema_id, batches in decoded.changes.items() if batches}
