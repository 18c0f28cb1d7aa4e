"""REFRESH rows that wait until everything logged before them has been read, see loads.py.

    read     the log time before which all partitions have been read, as the pipeline's planning says
    until    the same, but not after the first message that waits for its schema, which may be of any table: for schema_wait at
             most, and not beyond the end of a run that ends by itself

Rows logged before `until` have their place; the others are parked, with `load` as the cause. Which those are of a unit is
durable before its tables are written: a unit that is run again when more is known parks the same ones, for its tables have the
rest already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from headstream.spark.replicate.changes import OPERATIONS
from headstream.spark.replicate.decode import Decoded
from headstream.spark.replicate.ledger import Ledger, Table
from headstream.spark.replicate.parking import Held
from headstream.spark.replicate.raw import change_coordinates
from headstream.spark.replicate.schemas import TableSchema
from headstream.spark.replicate.tables import TargetTables

__all__ = ["LoadWaits", "ReadState"]

_READ: Final = "read_until"
_PLACED: Final = "placed"
_NOTHING_US: Final = 1
"""Before anything is read: rows of log time 0, of sources that tell no times, have their place."""
_REFRESH: Final = pa.scalar(OPERATIONS.index("REFRESH"), pa.int8())


@dataclass(frozen=True, slots=True)
class ReadState:
    """How far the log is read.

    Args:
        read_us: The log time before which all partitions have been read, microseconds since 1970 UTC.
        until_us: The log time before which every message that was read is known to be of a table.
        schema_id: What the first message waits for that is not.
    """

    read_us: int
    until_us: int
    schema_id: str | None = None

    def describe(self) -> str:
        """Return what the rows of loads behind it wait for."""
        if self.schema_id is not None:
            return f"rows of a full load, logged after messages that wait for schema id {self.schema_id}"
        read = datetime.fromtimestamp(self.read_us / 1e6, UTC)
        return f"rows of a full load, until all partitions are read up to them (when parked: up to {read:%Y-%m-%dT%H:%M:%SZ})"


class LoadWaits:
    """What a pipeline knows of how far its log is read.

    Args:
        ledger: The pipeline's ledger.
        tables: Its target tables.
    """

    def __init__(self, ledger: Ledger, tables: TargetTables) -> None:
        self._ledger = ledger
        self._tables = tables
        self._waits_for_schemas = True

    def state(
        self, *, read_us: int | None = None, release: int | None = None, waiting: Iterable[pa.RecordBatch] = ()
    ) -> ReadState:
        """Return how far the log is read.

        Args:
            read_us: With a micro-batch after which it is read until this time, where that is told.
            release: But for the messages of this release, which are decoded.
            waiting: Messages that wait for their schema beside those in the ledger, RAW_SCHEMA.
        """
        read = max(self._read_us(), read_us or 0)
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

    def _read_us(self) -> int:
        return int(self._ledger.mark(_READ) or _NOTHING_US)

    def _advance(self, read_us: int) -> None:
        if read_us > self._read_us():
            self._ledger.set_mark(_READ, str(read_us))

    def end_waiting_for_schemas(self) -> None:
        """Let no row wait for the schema of another message any more: the run ends, and one missing schema would hold up the
        loads of all tables until the next run. Such a message then has the place of a late change, see loads.py.
        """
        self._waits_for_schemas = False

    def advance_to_end(self) -> None:
        """Remember that all partitions have been read to their ends: nothing is missing before any row that waits."""
        ((latest_us,),) = self._ledger.rows("SELECT MAX(logged_until_us) FROM parcels WHERE cause = 'load' AND state <> 'done'")
        if latest_us is not None:
            self._advance(latest_us + 1)

    def hold(
        self,
        decoded: Decoded,
        schemas: Mapping[str, TableSchema],
        unit: Literal["batch", "release"],
        version: int,
        state: ReadState,
    ) -> list[Held]:
        """Learn where loads begin; take the rows whose place is not known yet out of decoded changes.

        Args:
            decoded: The changes.
            schemas: Schema id -> the schema.
            unit: What is applied.
            version: Its number, the same when it is run again.
            state: How far the log is read with it.

        Returns:
            The coordinates of those rows.
        """
        until = self._tables.learn(decoded.changes, schemas, state.until_us)
        for table, until_us in self._placed(unit, version).items():  # it was cut off before: its tables have the others
            until[table] = min(until_us, until.get(table, until_us))
        held: list[tuple[str, pa.Table]] = []
        for schema_id, batches in decoded.changes.items():
            table = schemas[schema_id].table
            if table in until:
                changes = pa.Table.from_batches(batches)
                waits = pc.and_(
                    pc.equal(changes["_hs_operation"], _REFRESH),
                    pc.greater_equal(pc.fill_null(changes["_hs_logged_us"], 0), until[table]),
                )
                if pc.any(waits).as_py():
                    held.append((schema_id, changes.filter(waits)))
                    decoded.changes[schema_id] = changes.filter(pc.invert(waits)).to_batches()
        decoded.changes = {schema_id: batches for schema_id, batches in decoded.changes.items() if batches}
        if held:
            self._note_placed(unit, version, {schemas[schema_id].table: until[schemas[schema_id].table] for schema_id, _ in held})
        self._advance(state.read_us)
        reason = state.describe()
        return [Held(schemas[name].table, reason, change_coordinates(rows, name), "load") for name, rows in held]

    def _placed(self, unit: str, version: int) -> dict[Table, int]:
        """Return until when rows are applied, by table, of a unit that has said so before."""
        text = self._ledger.mark(f"{_PLACED}.{unit}")
        document = {} if text is None else json.loads(text)
        if document.get("version") != version:
            return {}
        return {(schema, name): us for schema, name, us in document["until"]}

    def _note_placed(self, unit: str, version: int, until: Mapping[Table, int]) -> None:
        rows = [[*table, us] for table, us in sorted(until.items())]
        self._ledger.set_mark(f"{_PLACED}.{unit}", json.dumps({"version": version, "until": rows}))
