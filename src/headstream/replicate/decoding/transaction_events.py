"""Transaction events: a change's transaction, its number in the transaction, and whether it is the last. No I/O.

Messages of all tables of a task are included, since events are numbered across all tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import Lineage
from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.raw import CHANGE_COORDINATES, TRANSACTION

_REFRESH: Final = pa.scalar(OPERATIONS.index("REFRESH"), pa.int8())

EVENTS_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string()),  # server, task and id of the transaction; null if the message has none
        pa.field("event", pa.int64()),  # the event's number, from 1
        pa.field("last", pa.bool_()),  # whether the event is the last; null if unknown
    ]
)

Ranges = list[list[int]]
"""Ascending number ranges, as first and last number."""


@dataclass(frozen=True, slots=True)
class SeenEvents:
    """The messages' events, divided by transaction.

    Args:
        whole: Complete transactions of several events.
        rest: The events of incomplete transactions (EVENTS_SCHEMA).
        unnumbered: Number of changes without a position in a transaction.
    """

    whole: pa.Array
    rest: pa.Table
    unnumbered: int = 0


def transaction_events(lineage: Lineage, transactions: pa.Array, numbers: pa.Array, last_events: pa.Array) -> pa.RecordBatch:
    """Return the transaction events of one task's messages, one row per event (EVENTS_SCHEMA).

    Args:
        transactions: Transaction ids; null or "" outside transactions, as in a full load.
        numbers: Numbers in the transactions; a message without a number is ignored.
        last_events: Whether each event is the last of its transaction.
    """
    numbers = numbers.cast(pa.int64())
    is_numbered = pc.and_(pc.not_equal(pc.fill_null(transactions, ""), ""), pc.greater_equal(pc.fill_null(numbers, 0), 1))
    keys = pc.binary_join_element_wise(lineage.server, lineage.task, transactions, "/")
    nothing = pa.scalar(None, pa.string())
    arrays = [pc.if_else(is_numbered, keys, nothing), numbers, last_events.cast(pa.bool_())]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS_SCHEMA)


def change_events(changes: pa.Table, lineage: Lineage) -> tuple[pa.RecordBatch, int]:
    """Return the transaction events of decoded changes, one row per event, and the number of changes without a position.

    Args:
        changes: Decoded changes; rows of full loads have no position.
    """
    events = transaction_events(
        lineage, *(changes[name].combine_chunks() for name in ("_hs_transaction", "_hs_event", "_hs_last_event"))
    )
    is_change = pc.not_equal(changes["_hs_operation"], _REFRESH)
    return events, pc.sum(pc.and_(is_change, pc.is_null(events.column("key")))).as_py() or 0


def changes_of(changes: pa.Table, lineage: Lineage, keys: pa.Array) -> pa.Table:
    """Return CHANGE_COORDINATES and TRANSACTION of the decoded changes in the given transactions.

    Args:
        changes: Decoded changes.
    """
    own = change_events(changes, lineage)[0].column("key")
    wanted = pc.is_in(own, value_set=keys)
    return changes.select(list(CHANGE_COORDINATES)).append_column(TRANSACTION, own).filter(wanted)


def divide_events(seen: pa.Table) -> SeenEvents:
    """Divide events into complete and incomplete transactions.

    Args:
        seen: All known events of the transactions (EVENTS_SCHEMA); a row without a transaction has the number of changes without
            a position.
    """
    unnumbered = pc.sum(seen["event"].filter(pc.is_null(seen["key"]))).as_py() or 0
    seen = seen.filter(seen["key"].is_valid())
    ends = pc.if_else(pc.fill_null(seen["last"], False), seen["event"], None)
    found = (
        seen.append_column("end", ends).group_by("key").aggregate([("event", "count_distinct"), ("event", "max"), ("end", "max")])
    )
    whole = pc.and_(pc.equal(found["event_count_distinct"], found["end_max"]), pc.equal(found["event_max"], found["end_max"]))
    whole = pc.fill_null(whole, False)
    several = found["key"].filter(pc.and_(whole, pc.greater(found["end_max"], 1)))  # single events are always complete
    in_part = found["key"].filter(pc.invert(whole))
    return SeenEvents(
        several.combine_chunks(), seen.filter(pc.is_in(seen["key"], value_set=in_part.combine_chunks())), unnumbered
    )


def join_seen(parts: Iterable[SeenEvents]) -> SeenEvents:
    """Return the events of all transactions from several parts; a transaction must be in one part."""
    found = list(parts)
    whole = pa.chunked_array([part.whole for part in found], pa.string()).combine_chunks()
    rest = pa.concat_tables([EVENTS_SCHEMA.empty_table(), *(part.rest for part in found)])
    return SeenEvents(whole, rest, sum(part.unnumbered for part in found))


def add_numbers(ranges: Ranges, numbers: npt.NDArray[np.int64]) -> Ranges:
    """Return ranges extended by numbers, which can be in any order and repeat."""
    firsts, lasts = (np.array([one[place] for one in ranges], np.int64) for place in (0, 1))
    found = np.unique(numbers)
    begins, ends = np.concatenate((firsts, found)), np.concatenate((lasts, found))
    order = np.argsort(begins, kind="stable")
    begins, reach = begins[order], np.maximum.accumulate(ends[order])
    starts = np.flatnonzero(np.concatenate(([True], begins[1:] > reach[:-1] + 1)))
    stops = np.concatenate((starts[1:], [len(begins)])) - 1
    return [list(pair) for pair in zip(begins[starts].tolist(), reach[stops].tolist(), strict=True)]


def first_gap(ranges: Ranges) -> int:
    """Return the lowest missing number, from 1."""
    return ranges[0][1] + 1 if ranges and ranges[0][0] <= 1 else 1


def is_whole(ranges: Ranges, last: int | None) -> bool:
    """Return whether a transaction is complete: its last event and all events from 1 are known."""
    return last is not None and first_gap(ranges) > last
