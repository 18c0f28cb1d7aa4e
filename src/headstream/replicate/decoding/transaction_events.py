"""Transaction events: a change's transaction, its number in it, whether it is the last. Pure; executors use it too.

Every message of a task counts, also those of unselected tables: events are numbered across all tables.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import Lineage

__all__ = ["EVENTS_SCHEMA", "Ranges", "add_numbers", "first_gap", "is_whole", "transaction_events"]

EVENTS_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string()),  # the transaction, task and server included; null if the message does not contain it
        pa.field("event", pa.int64()),  # its number, from 1
        pa.field("last", pa.bool_()),  # whether it is the last one; null if unknown
    ]
)

Ranges = list[list[int]]
"""Numbers as first and last of each run, rising."""


def transaction_events(lineage: Lineage, transactions: pa.Array, numbers: pa.Array, last_events: pa.Array) -> pa.RecordBatch:
    """Return the transaction events of messages of one task, EVENTS_SCHEMA, a row each.

    Args:
        lineage: The messages' task.
        transactions: Transaction ids; null or empty outside transactions, as in a full load.
        numbers: Numbers in the transactions; a message without one does not count.
        last_events: Whether each is the last one.
    """
    numbers = numbers.cast(pa.int64())
    is_numbered = pc.and_(pc.not_equal(pc.fill_null(transactions, ""), ""), pc.greater_equal(pc.fill_null(numbers, 0), 1))
    keys = pc.binary_join_element_wise(lineage.server, lineage.task, transactions, "/")
    nothing = pa.scalar(None, pa.string())
    arrays = [pc.if_else(is_numbered, keys, nothing), numbers, last_events.cast(pa.bool_())]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS_SCHEMA)


def add_numbers(ranges: Ranges, numbers: npt.NDArray[np.int64]) -> Ranges:
    """Return ranges with more numbers in them, in any order, repeats allowed."""
    firsts, lasts = (np.array([one[place] for one in ranges], np.int64) for place in (0, 1))
    found = np.unique(numbers)
    begins, ends = np.concatenate((firsts, found)), np.concatenate((lasts, found))
    order = np.argsort(begins, kind="stable")
    begins, reach = begins[order], np.maximum.accumulate(ends[order])
    starts = np.flatnonzero(np.concatenate(([True], begins[1:] > reach[:-1] + 1)))
    stops = np.concatenate((starts[1:], [len(begins)])) - 1
    return [list(pair) for pair in zip(begins[starts].tolist(), reach[stops].tolist(), strict=True)]


def first_gap(ranges: Ranges) -> int:
    """Return the lowest number, from 1, that is missing."""
    return ranges[0][1] + 1 if ranges and ranges[0][0] <= 1 else 1


def is_whole(ranges: Ranges, last: int | None) -> bool:
    """Return whether a transaction is complete: its last one is known, and every one from 1 to it was seen."""
    return last is not None and first_gap(ranges) > last
