"""Holds REFRESH rows until all earlier messages of the log have been read; see loads.py.

    read     the log time before which, according to planning, all partitions have been read
    until    `read`, but at most the log time of the first message, of any table, that waits for its schema. This message
             limits `until` for at most schema_wait, and not at the end of a run with `once`

Rows logged before `until` get their positions; later rows are parked with the cause `load`. The limit of each table is stored
before the unit is merged. Thus, a unit that is rerun with a later `until` parks the same rows as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.on_executors.waiting_changes import LoadsFrom
from headstream.replicate.columns.change_statistics import loads_from
from headstream.replicate.columns.raw import change_coordinates
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import Held
from headstream.replicate.run.decoded_storage import leave_out_stored, on_executors
from headstream.replicate.run.unit import PipelineContext, Unit

_READ: Final = "read_until"
_PLACED: Final = "placed"
_NOTHING_US: Final = 1
"""The initial value; rows of sources without log times have log time 0."""


@dataclass(frozen=True, slots=True)
class ReadState:
    """The log times up to which the log has been read.

    Args:
        read_us: The log time before which all partitions have been read, microseconds since 1970 UTC.
        until_us: The log time before which the tables of all read messages are known.
        schema_id: The schema id that the first message of an unknown table waits for.
    """

    read_us: int
    until_us: int
    schema_id: str | None = None

    def describe(self) -> str:
        """Return the reason why later rows of loads wait."""
        if self.schema_id is not None:
            return f"rows of a full load, logged after messages that wait for schema id {self.schema_id}"
        read = datetime.fromtimestamp(self.read_us / 1e6, UTC)
        return f"rows of a load wait until all partitions are read up to the load (when parked: up to {read:%Y-%m-%dT%H:%M:%SZ})"


class LoadWaits:
    """The read state of a pipeline's log, stored in the ledger."""

    def __init__(self, context: PipelineContext) -> None:
        self._ledger = context.ledger
        self._tables = context.tables
        self._decoder = context.decoder
        self._waits_for_schemas = True

    def state(
        self, *, read_us: int | None = None, release: int | None = None, waiting: Iterable[pa.RecordBatch] = ()
    ) -> ReadState:
        """Return the log times up to which the log has been read.

        Args:
            read_us: The log time up to which the log has been read, including the current micro-batch, if known.
            release: A release whose messages are decoded and no longer wait.
            waiting: Messages (RAW_SCHEMA) that wait for their schema, in addition to messages in the ledger.
        """
        read = max(self.read_us, read_us or 0)
        if not self._waits_for_schemas:
            return ReadState(read, read)
        found = self._ledger.rows(
            "SELECT COALESCE(logged_from_us, 0) AS us, COALESCE(schema_id, '') FROM parcels WHERE cause = 'schema' "
            "AND state IN ('parked', 'called', 'releasing') AND release IS NOT ? ORDER BY us LIMIT 1",
            (-1 if release is None else release,),
        )
        first: list[tuple[int, str]] = list(found)
        for batch in waiting:
            first += zip(batch.column("timestamp_us").to_pylist(), batch.column("schema_id").to_pylist(), strict=True)
        waits = min(first, default=None)
        return ReadState(read, read) if waits is None or waits[0] >= read else ReadState(read, *waits)

    @property
    def read_us(self) -> int:
        """The log time before which all partitions have been read, microseconds since 1970 UTC."""
        return int(self._ledger.mark(_READ) or _NOTHING_US)

    def _advance(self, read_us: int) -> None:
        if read_us > self.read_us:
            self._ledger.set_mark(_READ, str(read_us))

    def end_waiting_for_schemas(self) -> None:
        """Stop waiting for the schemas of other messages at the end of a run; a missing schema would delay the loads of all
        tables until the next run. A message whose schema arrives later becomes a late change, see loads.py.
        """
        self._waits_for_schemas = False

    def advance_to_end(self) -> None:
        """Record that all partitions have been read to their ends, so no message before a waiting row is missing."""
        ((latest_us,),) = self._ledger.rows("SELECT MAX(logged_until_us) FROM parcels WHERE cause = 'load' AND state <> 'done'")
        if latest_us is not None:
            self._advance(latest_us + 1)

    def hold(self, unit: Unit, read_us: int | None = None) -> Unit:
        """Update the loads from a unit's changes, and hold the rows that cannot be positioned yet."""
        release = unit.number if unit.kind == "release" else None
        state = self.state(read_us=read_us, release=release, waiting=unit.decoded.waiting)
        decoded, schemas = unit.decoded, self._decoder.schemas(unit.decoded)
        self._tables.note(decoded.notices)
        until = self._tables.observe(decoded.changes, schemas, state.until_us, decoded.stored)
        for table, until_us in self._placed(unit).items():  # in a rerun, the tables already have the earlier rows
            until[table] = min(until_us, until.get(table, until_us))
        limits = {name: until[schemas[name].table] for name in decoded.stored if schemas[name].table in until}
        decoded, held = _take_stored(decoded, limits)
        kept: dict[str, pa.Table] = {}
        for schema_id, batches in decoded.changes.items():
            table = schemas[schema_id].table
            if table in until:
                changes = pa.Table.from_batches(batches)
                waits = loads_from(changes, until[table])
                if pc.any(waits).as_py():
                    held.append((schema_id, changes.filter(waits)))
                    kept[schema_id] = changes.filter(pc.invert(waits))
        if held:
            self._note_placed(unit, {schemas[schema_id].table: until[schemas[schema_id].table] for schema_id, _ in held})
        self._advance(state.read_us)
        reason = state.describe()
        parts = [Held(schemas[name].table, reason, change_coordinates(rows, name), "load") for name, rows in held]
        return replace(unit, decoded=decoded.with_changes(kept), held=[*unit.held, *parts])

    def _placed(self, unit: Unit) -> dict[Table, int]:
        """Return the recorded log times before which rows of a unit are applied, by table."""
        text = self._ledger.mark(f"{_PLACED}.{unit.kind}")
        document = {} if text is None else json.loads(text)
        if document.get("version") != unit.number:
            return {}
        return {(schema, name): us for schema, name, us in document["until"]}

    def _note_placed(self, unit: Unit, until: Mapping[Table, int]) -> None:
        rows = [[*table, us] for table, us in sorted(until.items())]
        self._ledger.set_mark(f"{_PLACED}.{unit.kind}", json.dumps({"version": unit.number, "until": rows}))


def _take_stored(decoded: Decoded, until: Mapping[str, int]) -> tuple[Decoded, list[tuple[str, pa.Table]]]:
    """Remove stored rows that cannot be positioned yet (logged at or after `until`); return the result and the rows."""
    from_us = {name: us for name, us in until.items() if (decoded.stored[name].statistics.last_load_us or -1) >= us}
    if not from_us:
        return decoded, []
    decoded, stored = on_executors(decoded)
    from_us = {name: us for name, us in from_us.items() if name in decoded.stored}
    if stored is None or not from_us:
        return decoded, []
    found = replace(stored, schema_ids=tuple(from_us)).find(LoadsFrom(from_us))
    return leave_out_stored(decoded, found.values()), list(found.items())
