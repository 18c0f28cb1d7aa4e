"""Full loads of a table, and where their rows stand among its changes.

A REFRESH row has no change sequence, so its place is told by when the log took it. A load begins with the first
REFRESH row that was logged after changes of the table were; its floor is the highest change sequence logged before that
row. A loaded row gets an effective sequence of its own:

    ".1690000000000000"                                        a row of the first load: below every change
    "20230321213416580000000000000000017.1690000000000000"     a row of a later load: floor, a point, log time in us

It beats everything up to the floor, loses to every later change, and to the same row when it is loaded again later.
Changes that were logged before a load began and are read after it cannot rise above its floor. When a change newer
than the floor was logged after a load's last row, the load is over, and rows at or below its floor, which it did not
bring, are no longer in the source.

All of it depends on what the log holds and not on how it is cut into micro-batches, and learning the same again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.spark.replicate.changes import OPERATIONS
from headstream.spark.replicate.versions import LOAD_MARK, LOAD_TIME_CHARACTERS

__all__ = ["LOAD_GAP_US", "Load", "Loads"]

LOAD_GAP_US: Final = 5 * 60 * 1_000_000
"""How long after a change a REFRESH row must be logged to begin a new load. Within it rows of one load and the changes
around it may stand in the log in any order: partitions, resent batches."""

_MOST_LOADS: Final = 8
_MOST_MARKS: Final = 64
_REFRESH: Final = OPERATIONS.index("REFRESH")


@dataclass(slots=True)
class Load:
    """One full load.

    Args:
        begun_us: When the log took its first row, microseconds since 1970 UTC.
        ended_us: When the log took the last row seen of it.
        floor: The highest change sequence logged before it; "" for the first load.
    """

    begun_us: int
    ended_us: int
    floor: str


@dataclass(slots=True)
class Loads:
    """What is known of a table's loads.

    Args:
        loads: The newest ones, oldest first.
        marks: (log time, highest change sequence until then) after each batch of changes, both rising.
        changed_us: Log time of the first change that is newer than the newest load and was logged after its last row.
        settled: Floor of the newest load whose vanished rows have been removed: nothing at or below it counts any more.
    """

    loads: list[Load] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    changed_us: int | None = None
    settled: str = ""

    @property
    def vanished(self) -> str | None:
        """The floor at and below which rows have vanished from the source, where a load is over and they are still there."""
        newest = self.loads[-1] if self.loads else None
        if newest is None or self.changed_us is None or newest.ended_us < newest.begun_us or newest.floor <= self.settled:
            return None
        return newest.floor

    def begin(self, at_us: int) -> bool:
        """Begin a load by hand: REFRESH rows logged from a time on belong to it.

        Args:
            at_us: The time, microseconds since 1970 UTC.

        Returns:
            Whether a load begins then; not where rows logged since are placed in an earlier load already.
        """
        newest = self.loads[-1] if self.loads else None
        if newest is not None and newest.begun_us < at_us <= newest.ended_us:
            return False
        if newest is None or newest.begun_us < at_us:
            self._add(Load(at_us, at_us - 1, self._floor_at(at_us)))  # no row of it yet, so that it cannot be over
        return True

    def end(self) -> None:
        """Say by hand that the newest load is over, which otherwise the next change says."""
        if self.loads and self.changed_us is None:
            self.changed_us = self.loads[-1].ended_us

    def settle(self) -> None:
        """Remember that what had vanished is removed."""
        if self.loads:
            self.settled = max(self.settled, self.loads[-1].floor)

    def learn(self, changes: pa.Table, gap_us: int = LOAD_GAP_US) -> bool:
        """Learn from a batch of changes which loads there are; return whether rows of a load are among them.

        Args:
            changes: `_hs_operation`, `_hs_sequence` and `_hs_logged_us` of all of the table's changes in the batch.
            gap_us: As LOAD_GAP_US.
        """
        if not changes.num_rows:
            return False
        logged = pc.fill_null(changes["_hs_logged_us"], 0).combine_chunks().to_numpy()
        is_load = _is_load(changes).to_numpy(zero_copy_only=False)
        batch = _Batch.of(changes, ~is_load, logged)
        self._learn(np.unique(logged[is_load]), batch, gap_us)
        if batch.times.size and (not self.marks or self._rises(batch)):
            self.marks.append((int(batch.times[-1]), batch.highest))
            self.marks.sort()
            if len(self.marks) > _MOST_MARKS:
                del self.marks[: _MOST_MARKS // 2 : 2]
        return bool(is_load.any())

    def place(self, changes: pa.Table) -> pa.Table:
        """Return changes with effective sequences; what a settled load has made obsolete is left out.

        Args:
            changes: Decoded changes that learn() has seen.
        """
        sequences = changes["_hs_sequence"].combine_chunks()
        loaded = _is_load(changes)
        logged = pc.fill_null(changes["_hs_logged_us"], 0).combine_chunks()
        newest = self.loads[-1] if self.loads else None
        if newest is not None and newest.floor:
            late = pc.and_(pc.less(logged, newest.begun_us), pc.greater(sequences, newest.floor))
            sequences = pc.if_else(pc.and_not(late, loaded), newest.floor, sequences)
        if pc.any(loaded).as_py():
            begins = np.array([load.begun_us for load in self.loads], np.int64)
            numbers = np.maximum(np.searchsorted(begins, logged.to_numpy(), "right") - 1, 0)
            floors = pc.take(pa.array([load.floor for load in self.loads], pa.string()), pa.array(numbers))
            times = pc.utf8_lpad(logged.cast(pa.string()), LOAD_TIME_CHARACTERS, "0")
            sequences = pc.if_else(loaded, pc.binary_join_element_wise(floors, times, LOAD_MARK), sequences)
        place = changes.schema.get_field_index("_hs_sequence")
        placed = changes.set_column(place, changes.schema.field(place), sequences)
        return placed.filter(pc.greater(sequences, self.settled)) if self.settled else placed

    def _rises(self, batch: _Batch) -> bool:
        return int(batch.times[-1]) > self.marks[-1][0] or batch.highest > self.marks[-1][1]

    def _learn(self, rows_us: npt.NDArray[np.int64], batch: _Batch, gap_us: int) -> None:
        """Follow the loads through a batch: rows within reach of the newest load extend it, the next one begins another."""
        while True:
            newest = self.loads[-1] if self.loads else None
            ended_us, floor = (-1, "") if newest is None else (newest.ended_us, newest.floor)
            seen = self.changed_us if self.changed_us is not None and self.changed_us > ended_us else None
            first = batch.first_after(ended_us, floor)
            self.changed_us = min((us for us in (seen, first) if us is not None), default=None)
            later = rows_us[rows_us > ended_us]
            if not later.size:
                return
            reach_us = np.inf if self.changed_us is None else self.changed_us + gap_us
            within = later[later <= reach_us]
            if not within.size:
                begun_us = int(later[0])
                self._add(Load(begun_us, begun_us, self._floor_at(begun_us, batch)))
            elif newest is None:
                self._add(Load(int(within[0]), int(within[-1]), ""))
            else:
                newest.ended_us = int(within[-1])

    def _add(self, load: Load) -> None:
        self.loads.append(load)
        del self.loads[:-_MOST_LOADS]
        self.changed_us = None

    def _floor_at(self, at_us: int, batch: _Batch | None = None) -> str:
        """Return the highest change sequence logged before a time."""
        known = [sequence for us, sequence in self.marks if us < at_us]
        here = batch.highest_before(at_us) if batch is not None else ""
        return max([here, *known])

    def to_document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        loads = [[load.begun_us, load.ended_us, load.floor] for load in self.loads]
        return {"loads": loads, "marks": self.marks, "changed_us": self.changed_us, "settled": self.settled}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Loads:
        """Return what to_document() wrote."""
        loads = [Load(begun_us, ended_us, floor) for begun_us, ended_us, floor in document["loads"]]
        marks = [(us, sequence) for us, sequence in document["marks"]]
        return cls(loads, marks, document["changed_us"], document["settled"])


def _is_load(changes: pa.Table) -> pa.BooleanArray:
    return pc.equal(changes["_hs_operation"], pa.scalar(_REFRESH, pa.int8())).combine_chunks()


@dataclass(frozen=True, slots=True)
class _Batch:
    """The changes of a batch by log time: times rising, and the highest sequence up to each."""

    times: npt.NDArray[np.int64]
    sequences: pa.StringArray
    highest: str

    @classmethod
    def of(cls, changes: pa.Table, is_change: npt.NDArray[np.bool_], logged_us: npt.NDArray[np.int64]) -> _Batch:
        order = np.flatnonzero(is_change)
        order = order[np.argsort(logged_us[order], kind="stable")]
        sequences = pc.take(changes["_hs_sequence"].combine_chunks(), pa.array(order))
        return cls(logged_us[order], sequences, pc.max(sequences).as_py() or "")

    def first_after(self, at_us: int, floor: str) -> int | None:
        """Return the log time of the first change above a sequence that was logged after a time."""
        start = int(np.searchsorted(self.times, at_us, "right"))
        index = pc.index(pc.greater(self.sequences.slice(start), floor), True).as_py()
        return None if index < 0 else int(self.times[start + index])

    def highest_before(self, at_us: int) -> str:
        """Return the highest sequence logged before a time."""
        highest: str | None = pc.max(self.sequences.slice(0, int(np.searchsorted(self.times, at_us, "left")))).as_py()
        return highest or ""
