"""Statistics (number, order, times of full loads) with which the driver handles changes that stay on executors.

The trace of changes has few rows and the same effect on Loads.observe() as the changes:

    REFRESH rows     one row per log time
    other changes    the steps of H (each change above all changes logged earlier), and the last change
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.load_marks import steps_of
from headstream.replicate.columns.raw import read_ipc, write_ipc

_REFRESH: Final = OPERATIONS.index("REFRESH")
_UPDATE: Final = OPERATIONS.index("UPDATE")
_TRACE: Final = pa.schema(
    [pa.field("_hs_operation", pa.int8()), pa.field("_hs_sequence", pa.string()), pa.field("_hs_logged_us", pa.int64())]
)
_KEY: Final = b"headstream"


@dataclass(frozen=True, slots=True)
class ChangeStatistics:
    """The statistics of decoded changes of one schema.

    Args:
        least: The lowest sequence of changes other than REFRESH rows; None if there are none.
        most: The highest sequence; "" if there are no changes.
        first_logged_us: Time at which the log stored the first change, microseconds since 1970 UTC.
        trace: The columns that Loads.observe() reads.
    """

    count: int
    least: str | None
    most: str
    first_logged_us: int
    trace: pa.Table
    size_bytes: int = 0

    @property
    def has_loads(self) -> bool:
        """Whether there are REFRESH rows."""
        return self.last_load_us is not None

    @property
    def last_load_us(self) -> int | None:
        """Time at which the log stored the last REFRESH row, microseconds since 1970 UTC; None if there are none."""
        found: int | None = pc.max(self.trace.filter(_are_loads(self.trace))["_hs_logged_us"]).as_py()
        return found

    def encode(self) -> bytes:
        """Return the statistics as bytes, to send from an executor to the driver."""
        values = json.dumps([self.count, self.least, self.most, self.first_logged_us, self.size_bytes])
        return write_ipc(self.trace.combine_chunks().to_batches(self.trace.num_rows)[0].replace_schema_metadata({_KEY: values}))

    @classmethod
    def decode(cls, content: pa.Buffer) -> ChangeStatistics:
        """Return the statistics from the bytes of encode()."""
        trace = read_ipc(content)
        count, least, most, first_logged_us, size_bytes = json.loads(trace.schema.metadata[_KEY])
        return cls(count, least, most, first_logged_us, trace.replace_schema_metadata(None), size_bytes)


class StoredChanges(Protocol):
    """Decoded changes of one schema, stored on executors; the driver has their statistics."""

    @property
    def statistics(self) -> ChangeStatistics:
        """The statistics of these changes."""

    def fetch(self) -> pa.Table:
        """Return the changes."""

    def leave_out(self, coordinates: pa.Table) -> None:
        """Exclude additional changes (COORDINATE_COLUMNS), which can be of other schemas, from all later results."""

    def coordinates(self, wanted: pa.Table | None = None) -> pa.Table:
        """Return CHANGE_COORDINATES of the wanted changes, by default of all changes."""


def loads_from(changes: pa.Table, from_us: int) -> pa.ChunkedArray:
    """Return which rows are REFRESH rows that were logged at or after a time (microseconds since 1970 UTC)."""
    return pc.and_(_are_loads(changes), pc.greater_equal(pc.fill_null(changes["_hs_logged_us"], 0), from_us))


def statistics_of(changes: pa.Table) -> ChangeStatistics:
    """Return the statistics of one or more decoded changes in reading order."""
    logged = pc.fill_null(changes["_hs_logged_us"], 0).combine_chunks().to_numpy()
    is_load = _are_loads(changes).combine_chunks().to_numpy(zero_copy_only=False)
    load_times = np.unique(logged[is_load])
    times, sequences = logged[~is_load], changes["_hs_sequence"].combine_chunks().filter(pa.array(~is_load))
    if (np.diff(times) < 0).any():
        order = np.argsort(times, kind="stable")
        times, sequences = times[order], sequences.take(pa.array(order))
    steps = steps_of(times, sequences) if times.size else []
    if steps and steps[-1][0] < times[-1]:
        steps.append((int(times[-1]), sequences[-1].as_py()))
    operations = [_REFRESH] * len(load_times) + [_UPDATE] * len(steps)
    found = [""] * len(load_times) + [sequence for _, sequence in steps]
    at_us = [*load_times.tolist(), *(us for us, _ in steps)]
    arrays = [pa.array(values, field.type) for values, field in zip((operations, found, at_us), _TRACE, strict=True)]
    trace = pa.Table.from_arrays(arrays, schema=_TRACE)
    ends = pc.min_max(sequences).as_py()
    return ChangeStatistics(changes.num_rows, ends["min"], ends["max"] or "", int(logged.min()), trace, changes.nbytes)


def join_statistics(parts: Sequence[ChangeStatistics]) -> ChangeStatistics:
    """Return the statistics of all changes from the statistics of one or more parts."""
    least = min((part.least for part in parts if part.least is not None), default=None)
    return ChangeStatistics(
        sum(part.count for part in parts),
        least,
        max(part.most for part in parts),
        min(part.first_logged_us for part in parts),
        pa.concat_tables([part.trace for part in parts]),
        sum(part.size_bytes for part in parts),
    )


def _are_loads(changes: pa.Table) -> pa.ChunkedArray:
    return pc.equal(changes["_hs_operation"], pa.scalar(_REFRESH, pa.int8()))
