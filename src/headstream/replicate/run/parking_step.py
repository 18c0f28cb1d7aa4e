"""The step that parks or dead-letters the messages that a unit did not apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import StorageError
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.raw import COORDINATE_COLUMNS, RAW_SCHEMA, TRANSACTION, change_coordinates, match_rows
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import Held, ParkingLot, Release
from headstream.replicate.run.stopped_tables import StoppedTables
from headstream.replicate.run.unit import PipelineContext, Unit

FindRaw: TypeAlias = Callable[[pa.Table], pa.Table]
"""Returns the messages (RAW_SCHEMA) at coordinates with schema ids and reasons."""


class ParkingStep:
    """Parks or dead-letters the messages that the units of one pipeline did not apply."""

    def __init__(self, context: PipelineContext, parking: ParkingLot, stops: StoppedTables) -> None:
        self._summary = context.summary
        self._now_us = context.clock_us
        self._parking = parking
        self._stops = stops

    def park(self, unit: Unit, find_raw: FindRaw) -> None:
        """Park the waiting messages of a micro-batch, and dead-letter messages that can never be applied.

        Raises:
            ReplicateError: too many messages would wait, or too many would be dead-lettered.
            StorageError: the source no longer has some of the messages.
        """
        held, dead = list(unit.stopped), list(unit.decoded.dead)
        if unit.rejected.num_rows or unit.held:
            places = [unit.rejected, *(part.messages.select(unit.rejected.column_names) for part in unit.held)]
            found = find_raw(pa.concat_tables(places))
            waiting, rejected = _read_whole(unit, found)
            _check_found(sum(part.num_rows for part in places), [rejected, *(part.messages for part in waiting)])
            stopped, given_up = self._stops.take_out_rejected(rejected)
            held = [*waiting, *held, *stopped]
            dead += given_up
        self._parking.hold(held, self._now_us(), unit.record)
        self._summary.dead += self._parking.dead_letter(dead, self._now_us())

    def finish_release(self, unit: Unit, release: Release) -> set[Table]:
        """End a release, whose messages are already in the pipeline's log; return the tables that did not apply the release."""
        waiting, rejected = _read_whole(unit, release.messages)
        held = [*waiting, *unit.stopped]
        dead = self._parking.finish_release(
            release,
            self._now_us(),
            held=held,
            waiting=unit.decoded.waiting,
            dead=[*unit.decoded.dead, *rejected.to_batches()],
            also=unit.record,
        )
        again = sum(part.messages.num_rows for part in held) + sum(batch.num_rows for batch in unit.decoded.waiting)
        self._summary.dead += dead
        self._summary.released += release.messages.num_rows - dead - again
        return {part.table for part in held if part.cause == "table"}


def find_parked(decoded: Decoded, left: pa.Table, find_raw: FindRaw) -> pa.Table | None:
    """Return the coordinates of a micro-batch's messages that an interrupted run parked or dead-lettered; None if there are none.

    A recreated topic has other messages, with other log times, at the same offsets.

    Args:
        left: The messages that the interrupted run parked or dead-lettered: COORDINATE_COLUMNS, timestamp_us.
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


def _read_whole(unit: Unit, messages: pa.Table) -> tuple[list[Held], pa.Table]:
    """Return the waiting and the rejected messages of a unit."""
    waiting = [replace(part, messages=_choose_messages(messages, part.messages)) for part in unit.held]
    return waiting, _choose_messages(messages, unit.rejected)


def _choose_messages(messages: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return the messages at the wanted coordinates, with the wanted schema ids, reasons and transactions."""
    rows, places = match_rows(messages, wanted)
    found = take_rows(messages.select(RAW_SCHEMA.names), rows)
    for name in ("schema_id", "reason"):
        column = wanted[name].combine_chunks().take(places).cast(pa.string())
        found = found.set_column(RAW_SCHEMA.get_field_index(name), RAW_SCHEMA.field(name), column)
    found = found.cast(RAW_SCHEMA)
    return found.append_column(TRANSACTION, wanted[TRANSACTION].take(places)) if TRANSACTION in wanted.column_names else found


def _check_found(wanted: int, found: list[pa.Table]) -> None:
    """Check that all messages to park or dead-letter were found; retention or compaction may have deleted messages."""
    missing = wanted - sum(part.num_rows for part in found)
    if missing > 0:
        raise StorageError(
            f"{missing:,} messages that were not applied are no longer in the source, so they cannot be kept",
            advice="Run again with the same checkpoint: the micro-batch is read from the source again. Increase "
            "the retention of the source, which must exceed the longest failure of a table",
        )
