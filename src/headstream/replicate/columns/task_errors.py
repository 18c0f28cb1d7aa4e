"""Adds the table, the step and the messages to errors of functions on executors, as notes in the executor's log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from headstream.replicate.columns.raw import CHANGE_COORDINATES

_MOST_NAMED: Final = 20
"""Maximum number of partitions to name, one per line."""


@contextmanager
def naming_messages(step: str, *rows: pa.Table | pa.RecordBatch, columns: Sequence[str] = CHANGE_COORDINATES) -> Iterator[None]:
    """Add the current step, and topic, partition and offset range of the step's messages, to an error.

    Args:
        step: The step, for example `joining SHOP.orders, bucket 3`.
    """
    try:
        yield
    except Exception as error:
        found = _ranges(rows, columns)
        for topic, partition, first, last in found[:_MOST_NAMED]:
            error.add_note(f"while {step}: {topic} partition {partition}, offsets {first} to {last}")
        if len(found) > _MOST_NAMED:
            error.add_note(f"while {step}: messages of {len(found) - _MOST_NAMED} further partitions")
        if not found:
            error.add_note(f"while {step}")
        raise


def _ranges(rows: Sequence[pa.Table | pa.RecordBatch], columns: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Return topic, partition, first and last offset of the messages, in order."""
    topic, partition, offset = columns
    parts = [pa.table([part[name] for name in columns], names=list(columns)) for part in rows]
    if not parts:
        return []
    ends = pa.concat_tables(parts).group_by([topic, partition]).aggregate([(offset, "min"), (offset, "max")])
    found = [ends[name].to_pylist() for name in (topic, partition, f"{offset}_min", f"{offset}_max")]
    return sorted(zip(*found, strict=True))
