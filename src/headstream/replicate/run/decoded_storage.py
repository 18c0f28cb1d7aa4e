"""Stores the decoded messages of a micro-batch on Spark's executors, and fetches the parts that the driver needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headstream.replicate.apply.on_executors.spark_changes import SparkChanges, join_stored
from headstream.replicate.apply.on_executors.stored_batch import Collect, StoredBatch
from headstream.replicate.columns.change_statistics import ChangeStatistics
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, RAW_SCHEMA, join_coordinates
from headstream.replicate.columns.raw import leave_out as leave_out_rows
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.run.schema_storage import NewSchemas

_MOST_SENT: Final = 500_000
"""Maximum number of coordinates to exclude that are sent to the executors."""


def on_executors(decoded: Decoded) -> tuple[Decoded, SparkChanges | None]:
    """Return the decoded messages, and all changes of a unit that stay on the executors (None if there are none).

    Small sets of stored changes, which the driver merges, are fetched first.
    """
    decoded = decoded.fetch(
        [schema_id for schema_id, found in decoded.stored.items() if not isinstance(found, SparkChanges) or found.is_at_hand]
    )
    stored = [found for found in decoded.stored.values() if isinstance(found, SparkChanges)]
    return decoded, join_stored(stored) if stored else None


def leave_out(decoded: Decoded, coordinates: pa.Table) -> Decoded:
    """Exclude the messages of a micro-batch that its first run parked or dead-lettered; `coordinates` has COORDINATE_COLUMNS."""
    waiting, dead = (
        leave_out_rows(pa.Table.from_batches(batches, RAW_SCHEMA), COORDINATE_COLUMNS, coordinates).to_batches()
        for batches in (decoded.waiting, decoded.dead)
    )
    places = coordinates.select(list(COORDINATE_COLUMNS)).rename_columns(list(CHANGE_COORDINATES))
    decoded = leave_out_stored(replace(decoded, waiting=waiting, dead=dead), [places])
    changes = {schema_id: pa.Table.from_batches(batches) for schema_id, batches in decoded.changes.items()}
    return decoded.with_changes({name: leave_out_rows(table, CHANGE_COORDINATES, coordinates) for name, table in changes.items()})


def leave_out_stored(decoded: Decoded, parts: Iterable[pa.Table]) -> Decoded:
    """Exclude stored changes by CHANGE_COORDINATES, also of other changes; if there are too many, fetch all remaining changes."""
    names = list(CHANGE_COORDINATES)
    coordinates = join_coordinates(part.select(names).rename_columns(list(COORDINATE_COLUMNS)) for part in parts)
    if coordinates is None:
        return decoded
    for stored in decoded.stored.values():
        stored.leave_out(coordinates)
    return decoded.fetch(list(decoded.stored)) if coordinates.num_rows > _MOST_SENT else decoded


def store_decoded(
    session: SparkSession, rows: DataFrame, read: Collect, store_schemas: Callable[[Decoded], NewSchemas]
) -> tuple[StoredBatch, Decoded]:
    """Store the decoded messages of a micro-batch on the executors; return the stored batch, and the part in the driver.

    Data that arrives together with its schema, as at the start of a first load, is decoded again on the executors.

    Args:
        read: Fetches rows to the driver.
        store_schemas: Stores the schemas of metadata messages in the schema store.
    """
    stored = StoredBatch(session, rows, read)

    def store(schema_id: str, statistics: ChangeStatistics) -> SparkChanges:
        return SparkChanges(stored, (schema_id,), statistics)

    try:
        others = stored.fetch_others(waiting=False)
        if store_schemas(Decoded.from_table(others, store)).count:
            stored.close()
            stored = StoredBatch(session, rows, read)
            others = stored.fetch_others(waiting=False)
        others = pa.concat_tables([others, stored.fetch_others(waiting=True)])
        decoded = Decoded.from_table(others, store)
        stored.fetch_small({schema_id: found.statistics for schema_id, found in decoded.stored.items()})
    except BaseException:
        stored.close()
        raise
    return stored, decoded
