"""Which changes of a table executors can fold or join to stored rows, and the tasks for it; the driver merges the others.

the table's rows have one change each    fold: whole images alone
otherwise, or where that is not enough   survey -> join; what changes of key connect is left to the driver
a table of SCD type 2                    survey -> join to the stored versions; the same is left to the driver
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from headstream.replicate.apply.evolution import SeenColumn, SeenSchema
from headstream.replicate.apply.fold import FoldTask
from headstream.replicate.apply.join import JoinTask
from headstream.replicate.apply.keyed_task import MAX_DRIVER_KEYS, Survey
from headstream.replicate.apply.scd1 import Scd1Table
from headstream.replicate.apply.scd2 import Scd2Table
from headstream.replicate.apply.scd2_join import HistoryTask
from headstream.replicate.apply.spark_changes import FoldedChanges, SparkChanges
from headstream.replicate.columns.changes import keys_of
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.schemas.spelling import spell_names
from headstream.replicate.tables.table_memory import TableState

__all__ = ["fold", "plan_fold", "plan_history", "plan_join", "seen_schema"]

_MOST_TOMBSTONES: Final = 500_000
"""Tombstones that are sent to the executors with a task; with more, the driver merges the changes."""


def plan_fold(
    changes: SparkChanges,
    names: Sequence[str],
    schema: TableSchema,
    table: Scd1Table,
    state: TableState,
    columns: Sequence[str],
    gap_us: int,
) -> FoldTask | None:
    """Return the task that folds changes of a table; None if the driver must fold them.

    Args:
        changes: The changes.
        names: Their columns, as the table spells them.
        schema: Their schema, likewise.
        table: The table, with rows of one change each.
        state: Its state; its loads have learned the changes.
        columns: The columns that it has from its source.
        gap_us: As config.LOAD_GAP_US.
    """
    traits = changes.traits
    loads = state.loads.loads
    # Changes that were logged before a load began are placed below its floor, and its rows above it, see loads.py.
    is_placed = traits.has_loads or (bool(loads) and traits.first_logged_us < loads[-1].begun_us)
    lowest = "" if is_placed else traits.least or ""
    if state.forgotten and lowest <= state.forgotten:
        return None
    tombstones = table.tombstones_above(lowest, _MOST_TOMBSTONES)
    if tombstones is None:
        return None
    return FoldTask(
        tuple(names),
        schema.metadata,
        tuple(columns),
        table.columns,
        tuple(loads),
        state.loads.settled,
        gap_us,
        schema.settings.deletes == "skip",
        tombstones if tombstones.num_rows else None,
        changes.batch.left_out,
    )


def plan_join(
    changes: SparkChanges, task: FoldTask, table: Scd1Table, ended: Sequence[str], *, soft: bool
) -> tuple[JoinTask, Survey] | None:
    """Return the task that joins changes to the table's rows, and the survey of them; None if the driver must do it.

    Args:
        changes: The changes.
        task: The result of plan_fold().
        table: The table.
        ended: As Loads.ends, the texts below which loads have replaced rows.
        soft: Whether deleted rows are marked and stay.
    """
    logged = table.logged_keys(MAX_DRIVER_KEYS) if task.metadata.key_columns else None
    if logged is None:
        return None
    join = JoinTask(task, table.engine.columns, tuple(ended), soft)
    survey = changes.survey(join)
    if survey.moved is None:
        return None
    if survey.has_partial:
        table.begin_tracking()
    return replace(join, tracks=table.tracks, driver_keys=pa.concat_tables([logged, survey.moved])), survey


def plan_history(
    changes: SparkChanges,
    names: Sequence[str],
    schema: TableSchema,
    table: Scd2Table,
    state: TableState,
    columns: Sequence[str],
    gap_us: int,
) -> tuple[HistoryTask, Survey] | None:
    """Return the task that joins changes to the table's versions, and the survey of them; None if the driver must do it.

    Args:
        changes: The changes.
        names: Their columns, as the table spells them.
        schema: Their schema, likewise.
        table: The table.
        state: As of plan_fold().
        columns: As of plan_fold().
        gap_us: As of plan_fold().
    """
    crossed = table.crossed_keys(MAX_DRIVER_KEYS)
    if crossed is None:
        return None
    loads, settings = state.loads, schema.settings
    task = FoldTask(
        tuple(names),
        schema.metadata,
        tuple(columns),
        table.columns,
        tuple(loads.loads),
        loads.settled,
        gap_us,
        settings.deletes == "skip",
        left_out=changes.batch.left_out,
    )
    places = tuple(place for _, place in loads.ends)
    join = HistoryTask(task, table.engine.columns, places, settings.deletes == "soft")
    survey = changes.survey(join)
    if survey.moved is None:
        return None
    return replace(join, driver_keys=pa.concat_tables([crossed, survey.moved])), survey


def fold(changes: SparkChanges, task: FoldTask) -> FoldedChanges | None:
    """Return the fold of changes, to be closed; None if the driver must fold them.

    Raises:
        StorageError: the stored changes are not those that were decoded first.
    """
    folded = changes.fold(task)
    if not folded.report.needs_driver:
        return folded
    folded.close()
    return None


def seen_schema(schema: TableSchema, keys: Sequence[str]) -> SeenSchema:
    """Return a schema in the form of the table's state; its keys as the table spells them."""
    columns = {
        column.name: SeenColumn(column.ordinal, schema.types[column.name], column.nullable) for column in schema.metadata.columns
    }
    return SeenSchema(schema.metadata.lineage.table_version, tuple(spell_names(keys_of(schema.metadata), keys)), columns)
