"""Finds, on Spark's executors, the changes that must wait until their transaction is complete or their rows are loaded.

changes of all tables -> events, shuffled by transaction -> divided (transaction_events.py)
                      -> driver: names of complete transactions, events of all others
changes, conditions (OfTransactions, LoadsFrom) -> driver: coordinates of the waiting changes
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as sf

from headstream.replicate.apply.on_executors.stored_batch import StoredBatch
from headstream.replicate.codec import Lineage
from headstream.replicate.columns.change_statistics import loads_from
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out, read_ipc, write_ipc
from headstream.replicate.columns.task_errors import naming_messages
from headstream.replicate.decoding.transaction_events import (
    EVENTS_SCHEMA,
    SeenEvents,
    change_events,
    changes_of,
    divide_events,
    join_seen,
)

_Batches: TypeAlias = Iterator[pa.RecordBatch]
_EVENT: Final = "key STRING, event BIGINT, last BOOLEAN"
_SEEN: Final = "content BINARY NOT NULL"
_FOUND: Final = "schema_id STRING NOT NULL, content BINARY NOT NULL"


def divide_stored_events(
    batch: StoredBatch, schema_ids: Sequence[str], count: int, lineages: Mapping[str, Lineage], others: pa.Table
) -> SeenEvents:
    """Return the events of stored changes and other messages, divided into complete and incomplete transactions.

    Args:
        others: Events of messages in the driver (EVENTS_SCHEMA).
    """
    packed = pickle.dumps((dict(lineages), batch.left_out))

    def read(batches: _Batches) -> _Batches:
        own, left_out = pickle.loads(packed)
        for pieces in batches:
            for schema_id, content in zip(*pieces.columns, strict=True):
                changes = _without(read_ipc(content.as_buffer()), left_out)
                with naming_messages(f"finding the transactions of changes with schema id {schema_id}", changes):
                    events, unnumbered = change_events(changes, own[schema_id.as_py()])
                yield events.filter(events.column("key").is_valid())
                if unnumbered:  # a row without a transaction has the number of these changes
                    values = zip((None, unnumbered, None), EVENTS_SCHEMA.types, strict=True)
                    yield pa.RecordBatch.from_arrays([pa.array([value], kind) for value, kind in values], schema=EVENTS_SCHEMA)

    def divide(batches: _Batches) -> _Batches:
        found = list(batches)
        if found:
            with naming_messages("dividing transaction events"):
                seen = divide_events(pa.Table.from_batches(found).cast(EVENTS_SCHEMA))
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(seen)], pa.binary())], names=["content"])

    events = batch.contents_by_schema(schema_ids).mapInArrow(read, _EVENT)
    if others.num_rows:
        events = events.union(events.sparkSession.createDataFrame(others))
    buckets = events.repartition(batch.count_buckets(count), sf.col("key"))
    contents = buckets.mapInArrow(divide, _SEEN).toArrow()["content"]
    return join_seen(pickle.loads(content.as_buffer()) for content in contents)


def find_stored_changes(
    batch: StoredBatch, schema_ids: Sequence[str], find: Callable[[str, pa.Table], pa.Table]
) -> dict[str, pa.Table]:
    """Return the coordinates that `find`, called on executors, returns for the stored changes of each schema."""
    packed = pickle.dumps((find, batch.left_out))

    def select(batches: _Batches) -> _Batches:
        own, left_out = pickle.loads(packed)
        for pieces in batches:
            for schema_id, content in zip(*pieces.columns, strict=True):
                changes = _without(read_ipc(content.as_buffer()), left_out)
                with naming_messages(f"finding waiting changes with schema id {schema_id}", changes):
                    found = own(schema_id.as_py(), changes).combine_chunks().to_batches()
                if found:
                    arrays = [pa.array([schema_id.as_py()], pa.string()), pa.array([write_ipc(found[0])], pa.binary())]
                    yield pa.RecordBatch.from_arrays(arrays, names=["schema_id", "content"])

    rows = batch.contents_by_schema(schema_ids).mapInArrow(select, _FOUND).toArrow()
    parts: dict[str, list[pa.Table]] = {}
    for schema_id, content in zip(rows["schema_id"], rows["content"], strict=True):
        parts.setdefault(schema_id.as_py(), []).append(read_ipc(content.as_buffer()))
    return {schema_id: pa.concat_tables(tables) for schema_id, tables in parts.items()}


@dataclass(frozen=True, slots=True)
class OfTransactions:
    """Finds the changes of the given transactions; serializable for executors."""

    lineages: dict[str, Lineage]
    keys: pa.Array

    def __call__(self, schema_id: str, changes: pa.Table) -> pa.Table:
        """Return CHANGE_COORDINATES and TRANSACTION of the changes that must wait."""
        return changes_of(changes, self.lineages[schema_id], self.keys)


@dataclass(frozen=True, slots=True)
class LoadsFrom:
    """Finds the REFRESH rows that were logged at or after a time (us) and wait for their load; serializable for executors."""

    from_us: dict[str, int]

    def __call__(self, schema_id: str, changes: pa.Table) -> pa.Table:
        """Return CHANGE_COORDINATES of the changes that must wait."""
        return changes.filter(loads_from(changes, self.from_us[schema_id])).select(list(CHANGE_COORDINATES))


def _without(changes: pa.Table, left_out: pa.Table | None) -> pa.Table:
    return changes if left_out is None else leave_out(changes, CHANGE_COORDINATES, left_out)
