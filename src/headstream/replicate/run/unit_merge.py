"""The step that merges a unit's changes into their tables: one commit per table and structure.

Changes of excluded tables are held before the merge, and changes of failing tables after it. If a crash interrupts the step, it
can be repeated, because each table's log records the applied units, and a change older than its row is ignored.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

import pyarrow as pa

from headstream.replicate.columns.raw import COORDINATE_COLUMNS, change_coordinates, coordinates_table, leave_out, match_rows
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.parked.failing_tables import FailingTables
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import Held
from headstream.replicate.run.unit import NONE_REJECTED, PipelineContext, Unit
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.tables.tables import Applied


class UnitMerge:
    """Merges units of one pipeline; not thread-safe."""

    def __init__(self, context: PipelineContext, health: FailingTables) -> None:
        self._decoder = context.decoder
        self._checkpoint_store = context.checkpoint_store
        self._tables = context.tables
        self._pipeline_id = context.ledger.pipeline_id
        self._summary = context.summary
        self._now_us = context.clock_us
        self._health = health

    def hold_tables(self, unit: Unit) -> Unit:
        """Hold the changes of tables that are excluded from merges."""
        schemas = self._decoder.schemas(unit.decoded)
        held_schemas = {schema_id for schema_id, schema in schemas.items() if schema.table in unit.held_tables}
        if not held_schemas:
            return unit
        held = _hold(unit.decoded, schemas, held_schemas, unit.held_tables)
        return replace(unit, decoded=unit.decoded.without(held_schemas), held=[*unit.held, *held])

    def merge(self, unit: Unit) -> Unit:
        """Merge the changes, hold changes that a failing table did not apply, and find changes that can never be applied.

        Raises:
            HeadstreamError: a table's settings stop the pipeline, or another process has the checkpoint.
        """
        decoded, schemas = unit.decoded, self._decoder.schemas(unit.decoded)
        if schemas:  # a rerun on another machine must apply, park and hold the same changes
            self._checkpoint_store.save()
        applied = self._tables.apply(
            decoded.changes,
            schemas,
            f"{self._pipeline_id}/{unit.kind}",
            unit.number,
            is_observed=True,
            repeated=unit.is_repeated,
            stored=decoded.stored,
        )
        self._checkpoint_store.check()
        if applied.fatal is not None:
            raise applied.fatal
        now_us = self._now_us()
        reasons = {table: str(error) for table, error in applied.failed.items()}
        for table, reason in reasons.items():
            self._health.note_failure(table, reason, now_us)
        for table in applied.counts.keys() - reasons.keys() - self._health.stopped.keys():
            self._health.note_success(table)
        self._summary.add(applied)
        self._summary.note_commits(decoded, schemas, applied.failed, now_us)
        held = [*unit.held, *_hold(decoded, schemas, applied.held, reasons)]
        rejected = _find_rejected(decoded, applied)
        for part in held:  # a failing table rejects these changes again when it is retried
            rejected = leave_out(rejected, COORDINATE_COLUMNS, part.messages)
        return replace(unit, decoded=replace(decoded, changes={}, stored={}), held=held, rejected=rejected)


def _hold(
    decoded: Decoded, schemas: Mapping[str, TableSchema], schema_ids: Container[str], reasons: Mapping[Table, str]
) -> list[Held]:
    parts: dict[Table, list[pa.Table]] = {}
    for schema_id, places in decoded.coordinates(schema_ids):
        parts.setdefault(schemas[schema_id].table, []).append(change_coordinates(places, schema_id))
    return [Held(table, reasons[table], pa.concat_tables(tables)) for table, tables in parts.items()]


def _find_rejected(decoded: Decoded, applied: Applied) -> pa.Table:
    """Return the coordinates of changes that cannot be applied, with reasons."""
    wanted = coordinates_table(applied.rejected)
    reasons = pa.array(list(applied.rejected.values()), pa.string())
    parts = [NONE_REJECTED]
    for schema_id, coordinates in decoded.coordinates(wanted=wanted) if wanted.num_rows else ():
        found = change_coordinates(coordinates, schema_id)
        rows, places = match_rows(found, wanted)
        parts.append(found.take(rows).drop(["reason"]).append_column("reason", reasons.take(places)))
    return pa.concat_tables(parts, promote_options="permissive")
