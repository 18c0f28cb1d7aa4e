"""Full loads of a table, and the positions of their rows among the table's changes.

H(t) is the highest change sequence of the table that was logged before the time t. A position is a string:

    place(change)                        change sequence, regardless of the time and number of the change's log entries
    place(REFRESH row logged at t)       floor of the row's load, LOAD_MARK, t

REFRESH rows of a table that are at most `load_gap` apart belong to the same load. After a longer pause, from a row at time e to a
row at time a, the row at a begins a new load if a change newer than H(e) was logged in the pause, more than `load_gap` before a.
The floor of this load is H(a). Otherwise the rows continue the previous load, or begin the first load, whose floor is "". A load
that was announced for a time contains the rows since that time, and its floor is H of that time. If the previous load has the
same floor, AGAIN_MARK is appended to the floor.

    ".1690000000000000"                                        a row of the first load, below every change
    "20230321213416580000000000000000017.1690000000000000"     a row of a later load: floor, period, log time (us)

A load has ended when the table has a change above the load's floor, or when the source marks the load's last row. Rows below the
load's first possible position were not in the load, and thus no longer exist in the source. A source that marks first and
last rows marks the only row of a load as the last row. A row logged more than `load_gap` after a marked last row begins the next
load. If the next load begins earlier, rows that another partition has just before the marked first row must be read together
with the marked first row. Apart from that, the result depends only on the set of (log time, REFRESH or change sequence), not on
the order, batch boundaries or repeated reads, because H is a maximum and row spans are a union. A REFRESH row gets its position
when all messages logged before it have been read (`read_until_us`); until then the row is parked (run/load_waits.py). Changes
never wait for a load.

A late change arrives when `read_until_us` is already above its log time, because its schema arrived after `schema_wait`, the
change was a dead letter that was redriven, or log times decreased. If a late change is above the floor of a load that began after
the change was logged, its position is `floor,sequence` for the first such load: below all rows of the load, ordered by sequence.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.load_marks import Mark, steps_of, thinned
from headstream.replicate.columns.versions import AGAIN_MARK, LATE_MARK, LOAD_MARK, LOAD_TIME_CHARACTERS
from headstream.replicate.settings.config import LOAD_GAP_US

MOST_LOADS: Final = 64
"""Maximum number of stored loads. A REFRESH row logged before the oldest load is positioned below every change."""
MOST_MARKS: Final = 65_536
"""Maximum number of exactly stored steps of H while a partition lags. If exceeded, every second step is dropped, and changes
logged between two steps are treated as newer than a load that begins there."""
MOST_PAST_MARKS: Final = 256
"""Maximum number of stored steps of H before `read_until_us`, for loads with late rows; steps are dropped likewise."""
_BATCH_PAST_MARKS: Final = 16
MARGIN_US: Final = 2_000_000
"""Time, microseconds, by which other partitions can have a load's rows before its first row or after its last row."""
_REFRESH: Final = OPERATIONS.index("REFRESH")


class TableNotice(NamedTuple):
    """An event of an entire target: a truncation up to a change sequence, or the first or last row of a load.

    Args:
        kind: `truncated`, `load` (the first row) or `loaded` (the last row).
        sequence: The change sequence of a truncation.
        logged_us: Time at which the log stored the message, microseconds since 1970 UTC.
    """

    schema: str
    table: str
    kind: str
    sequence: str
    logged_us: int


@dataclass(slots=True)
class Load:
    """One full load.

    Args:
        begun_us: Time at which the log stored the load's first row, microseconds since 1970 UTC.
        ended_us: Time at which the log stored the last known row of the load; before `begun_us` if there is no row.
        floor: The highest change sequence logged before the load; "" for the first load.
    """

    begun_us: int
    ended_us: int
    floor: str


@dataclass(slots=True)
class Loads:
    """The known loads of a table.

    Args:
        loads: The newest loads, oldest first.
        read_until_us: All messages logged before this time have been observed, and rows logged before it have positions.
            Initially 1, since messages of sources without log times have time 0 and belong to one load.
        highest: H(read_until_us).
        changed_us: Log time of the first change that is newer than all changes before the newest load's last row.
        marks: Steps of H at or after `read_until_us`.
        past: Some earlier steps of H.
        spans: First and last log times of REFRESH rows at or after `read_until_us`, grouped by the gap.
        begins: Times at or after `read_until_us` for which an operator announced a load.
        ended_us: Loads up to this time were ended by an operator, with or without rows.
        has_below_first: Whether late changes can be positioned below the first load, where there are no other rows.
        settled: Rows with a position below this string have been removed.
        truncations: Log times and change sequences of the newest truncations; rows below them no longer exist.
        truncation_count: Number of known truncations of the source table.
        closed_us: Log time of the newest effective last row; loads that began up to this time have ended.
        firsts: Log times of marked first rows of loads that have not ended.
        lasts: Log times of marked last rows that have not yet taken effect.
    """

    loads: list[Load] = field(default_factory=list)
    read_until_us: int = 1
    highest: str = ""
    changed_us: int | None = None
    marks: list[Mark] = field(default_factory=list)
    past: list[Mark] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ended_us: int = -1
    has_below_first: bool = False
    settled: str = ""
    truncations: list[Mark] = field(default_factory=list)
    truncation_count: int = 0
    closed_us: int = -1
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)

    @property
    def vanished(self) -> str | None:
        """Rows with a position below this string no longer exist in the source; None if there is nothing to remove."""
        return max((bound for bound, _ in self.ends if bound > self.settled), default=None)

    @property
    def ends(self) -> list[tuple[str, str]]:
        """The ended loads, oldest first: the string below which a load replaces rows, and the position at which these rows end.

        This position is immediately before the load's first row, and no row has this position.
        """
        over = [
            load
            for load in self.loads
            if max(self.ended_us, self.closed_us) >= load.begun_us
            or (load.ended_us >= load.begun_us and self.newest_change > load.floor)
        ]
        bounds = [(f"{load.floor}{LOAD_MARK}", load.begun_us) for load in over if load.floor or self.has_below_first]
        bounds = sorted([*bounds, *((f"{sequence}{LOAD_MARK}", logged_us) for logged_us, sequence in self.truncations)])
        return [(bound, f"{bound}{max(begun_us - 1, 0):0{LOAD_TIME_CHARACTERS}d}") for bound, begun_us in bounds]

    @property
    def end_number(self) -> int:
        """A number that increases with each end of a load."""
        return max([0, *(load.begun_us for load in self.loads[-1:]), *(us for us, _ in self.truncations)]) + self.truncation_count

    @property
    def newest_change(self) -> str:
        """The highest known change sequence; "" if there are no changes."""
        return self.marks[-1][1] if self.marks else self.highest

    def begin(self, at_us: int) -> bool:
        """Begin an announced load, to which REFRESH rows logged at or after a time (microseconds since 1970 UTC) belong.

        Returns False if rows logged since that time already have positions in an earlier load.
        """
        newest = self.loads[-1] if self.loads else None
        if newest is not None and newest.begun_us != at_us and at_us <= newest.ended_us:
            return newest.begun_us > at_us
        if newest is not None and newest.begun_us >= at_us:
            return True
        if at_us >= self.read_until_us:
            self.begins = sorted({*self.begins, at_us})
        else:
            self._add(Load(at_us, at_us - 1, self._own_floor(self._past_highest(at_us))))
        return True

    def end(self) -> None:
        """End the newest load now instead of at the next change. The load can be empty."""
        begun_us = [*(load.begun_us for load in self.loads[-1:]), *self.begins, *(first for first, _ in self.spans)]
        self.ended_us = max([self.ended_us, *begun_us])

    def mark_first(self, at_us: int) -> bool:
        """Record the log time of a load's first row. Rows logged just before in other partitions belong to the load too.

        Returns:
            Whether this load is new, and not the table's first load.
        """
        if self.closed_us >= 0 and at_us <= self.closed_us + MARGIN_US:
            return False  # a repeat, or logged just after the load's last row, in another partition
        is_further = at_us not in self.firsts and bool(self.loads or self.firsts)
        self.firsts = sorted({*self.firsts, at_us})
        if not self.begin(at_us - MARGIN_US):
            self.begin(at_us)
        return is_further

    def mark_last(self, at_us: int) -> None:
        """Record the log time of a load's last row, which takes effect when all messages logged earlier have been read."""
        if at_us > self.closed_us:
            self.lasts = sorted({*self.lasts, at_us})

    def truncate(self, sequence: str, logged_us: int) -> None:
        """Record that the table was truncated at a change sequence; repeated calls have no effect."""
        known = [*(position for _, position in self.truncations)]
        if sequence not in known and f"{sequence}{LOAD_MARK}" > self.settled:
            self.truncations = sorted([*self.truncations, (logged_us, sequence)], key=lambda mark: mark[1])[-MOST_LOADS:]
            self.truncation_count += 1

    def mark_vanished_removed(self) -> None:
        """Record that the vanished rows have been removed."""
        self.settled = self.vanished or self.settled

    def observe(self, changes: pa.Table, read_until_us: int, gap_us: int = LOAD_GAP_US) -> bool:
        """Update the loads from a batch of changes; return whether it contains REFRESH rows.

        A repeated batch has no effect.

        Args:
            changes: `_hs_operation`, `_hs_sequence` and `_hs_logged_us` of some of the table's changes.
            read_until_us: All changes of the table logged before this time must be in this or earlier batches.
        """
        has_loads = False
        if changes.num_rows:
            logged = _logged(changes)
            is_load = _is_load(changes).to_numpy(zero_copy_only=False)
            has_loads = bool(is_load.any())
            if has_loads:
                self._observe_rows(np.sort(logged[is_load]), gap_us)
            self._observe_changes(changes, np.flatnonzero(~is_load), logged, read_until_us)
        self._fold(max(read_until_us, self.read_until_us), gap_us)
        return has_loads

    def place(self, changes: pa.Table, gap_us: int = LOAD_GAP_US, *, keeps_all: bool = False) -> pa.Table:
        """Return changes with their positions as `_hs_sequence`, without changes that a settled load has removed.

        Args:
            changes: Decoded changes from observe(), with REFRESH rows only from before `read_until_us`.
            keeps_all: Whether the table retains rows that loads have removed; removed changes are then merged and removed again.
        """
        sequences = changes["_hs_sequence"].combine_chunks()
        loaded = _is_load(changes)
        logged = _logged(changes)
        if self.loads and logged.size and int(logged.min()) < self.loads[-1].begun_us:
            sequences = self._place_late(sequences, loaded, logged, gap_us)
        if pc.any(loaded).as_py():
            begins = np.array([load.begun_us for load in self.loads], np.int64)
            numbers = np.searchsorted(begins, logged, "right")
            floors = pc.take(pa.array(["", *(load.floor for load in self.loads)], pa.string()), pa.array(numbers))
            times = pc.utf8_lpad(pa.array(logged).cast(pa.string()), LOAD_TIME_CHARACTERS, "0")
            sequences = pc.if_else(loaded, pc.binary_join_element_wise(floors, times, LOAD_MARK), sequences)
        place = changes.schema.get_field_index("_hs_sequence")
        placed = changes.set_column(place, changes.schema.field(place), sequences)
        if not self.settled:
            return placed
        if keeps_all:
            if pc.any(pc.less(sequences, self.settled)).as_py():
                self.settled = ""
            return placed
        return placed.filter(pc.greater_equal(sequences, self.settled))

    def _place_late(self, sequences: pa.Array, loaded: pa.Array, logged: npt.NDArray[np.int64], gap_us: int) -> pa.Array:
        """Return the sequences; late changes are positioned below the first load that began after they were logged."""
        is_placed = loaded
        for load in self.loads:
            begun_us = load.begun_us if load.floor else load.begun_us - gap_us  # within the gap, a change is above the first load
            before = pc.and_(pa.array(logged < begun_us), pc.greater(sequences, load.floor))
            late = pc.and_not(before, is_placed)
            if pc.any(late).as_py():
                sequences = pc.if_else(late, pc.binary_join_element_wise(load.floor, sequences, LATE_MARK), sequences)
                is_placed = pc.or_(is_placed, late)
                self.has_below_first = self.has_below_first or not load.floor
        return sequences

    def _observe_rows(self, times_us: npt.NDArray[np.int64], gap_us: int) -> None:
        for late_us in sorted({*times_us[times_us < self.read_until_us].tolist()}):
            self._observe_late_row(late_us, gap_us)
        new = times_us[times_us >= self.read_until_us]
        if not new.size:
            return
        breaks = np.flatnonzero(np.diff(new) > gap_us)
        firsts, lasts = new[np.concatenate(([0], breaks + 1))].tolist(), new[np.concatenate((breaks, [-1]))].tolist()
        spans: list[tuple[int, int]] = []
        for first, last in sorted([*self.spans, *zip(firsts, lasts, strict=True)]):
            if spans and first - spans[-1][1] <= gap_us:
                spans[-1] = spans[-1][0], max(last, spans[-1][1])
            else:
                spans.append((first, last))
        self.spans = spans

    def _observe_late_row(self, at_us: int, gap_us: int) -> None:
        """Assign a REFRESH row logged before `read_until_us` to a nearby load, or to a new load between two loads."""
        number = bisect_right([load.begun_us for load in self.loads], at_us) - 1
        after = self.loads[number + 1] if number + 1 < len(self.loads) else None
        if number >= 0 and at_us <= self.loads[number].ended_us + gap_us:
            self.loads[number].ended_us = max(at_us, self.loads[number].ended_us)
        elif after is not None and after.begun_us - at_us <= gap_us:
            after.begun_us = at_us
        elif number >= 0 or not self.loads:
            ended_us = self.loads[number].ended_us if number >= 0 else -1
            known = self._past_highest(ended_us)
            changed = self.changed_us if after is None else None
            changed = next((us for us, sequence in self.past if us >= ended_us and sequence > known), changed)
            if changed is not None and at_us > changed + gap_us:
                self.loads.insert(number + 1, Load(at_us, at_us, self._past_highest(at_us)))
            elif number >= 0:
                self.loads[number].ended_us = max(at_us, self.loads[number].ended_us)
            else:
                self.loads.insert(0, Load(at_us, at_us, ""))

    def _past_highest(self, at_us: int) -> str:
        """Return H of a time before `read_until_us`, as far as known."""
        number = bisect_left(self.past, (at_us, "")) - 1
        return self.past[number][1] if number >= 0 else ""

    def _observe_changes(
        self, changes: pa.Table, rows: npt.NDArray[np.int64], logged: npt.NDArray[np.int64], read_until_us: int
    ) -> None:
        times, sequences = logged[rows], changes["_hs_sequence"].combine_chunks()
        sequences = sequences if rows.size == changes.num_rows else sequences.take(pa.array(rows))
        late = times < self.read_until_us
        if late.any():
            self.highest = max(self.highest, pc.max(sequences.filter(pa.array(late))).as_py())
            times, sequences = times[~late], sequences.filter(pa.array(~late))
        if not times.size:
            return
        if (np.diff(times) < 0).any():
            order = np.argsort(times, kind="stable")
            times, sequences = times[order], sequences.take(pa.array(order))
        if not (self.spans or self.marks or self.begins) and int(times[-1]) < read_until_us:
            self._pass(times, sequences)
            return
        fresh = steps_of(times, sequences)
        marks: list[Mark] = []
        for mark in sorted([*self.marks, *fresh]):
            if mark[1] > (marks[-1][1] if marks else self.highest):
                if marks and marks[-1][0] == mark[0]:
                    marks.pop()
                marks.append(mark)
        self.marks = thinned(marks, MOST_MARKS)

    def _pass(self, times: npt.NDArray[np.int64], sequences: pa.Array) -> None:
        """Add changes, in log time order, between which no load can begin."""
        highest = pc.max(sequences).as_py()
        if highest <= self.highest:
            return
        if self.changed_us is None:
            self.changed_us = int(times[pc.index(pc.greater(sequences, self.highest), True).as_py()])
        step = max(1, len(times) // _BATCH_PAST_MARKS)
        for start in range(0, len(times), step):
            part = sequences.slice(start, step)
            self._raise(int(times[min(start + step, len(times)) - 1]), pc.max(part).as_py())

    def _raise(self, at_us: int, sequence: str) -> None:
        if sequence > self.highest:
            self.highest = sequence
            self.past.append((at_us, sequence))

    def _fold(self, until_us: int, gap_us: int) -> None:
        """Assign all rows logged before a time to loads, in log time order."""
        marks, taken = self.marks, 0

        def take(before_us: int) -> None:
            """Advance H to a time; the first step after the newest load's last row can end this load."""
            nonlocal taken
            while taken < len(marks) and marks[taken][0] < before_us:
                if self.changed_us is None:
                    self.changed_us = marks[taken][0]
                self._raise(*marks[taken])
                taken += 1

        closings = self._close(until_us)
        for first_us, last_us, is_begun in self._due(until_us):
            take(first_us)
            newest = self.loads[-1] if self.loads else None
            if newest is not None and newest.ended_us < newest.begun_us <= first_us and not is_begun:
                newest.ended_us = last_us  # the first row of an announced load
            elif is_begun or self._is_apart(first_us, gap_us, closings):
                self._add(Load(first_us, last_us, self._own_floor(self.highest)))
            elif newest is None:
                self._add(Load(first_us, last_us, ""))
            else:
                newest.ended_us = max(last_us, newest.ended_us)
            if last_us >= first_us:
                take(last_us)
                self.changed_us = None
        take(until_us)
        del marks[:taken]
        self.past = thinned(self.past, MOST_PAST_MARKS)
        self.read_until_us = until_us

    def _is_apart(self, first_us: int, gap_us: int, closings: list[int]) -> bool:
        """Return whether a row begins a load: after a pause since the newest load's marked last row, or since a change."""
        ended_us = first_us - max(gap_us, MARGIN_US)
        if self.loads and any(self.loads[-1].begun_us <= us < ended_us for us in closings):
            return True
        return self.changed_us is not None and first_us > self.changed_us + gap_us

    def _close(self, until_us: int) -> list[int]:
        """End the loads whose last rows were logged before a time; return the log times of these rows and of the one before.

        A load without a marked first row consists of its last row, unless it has begun after a pause.
        """
        closings = [self.closed_us]
        for at_us in [us for us in self.lasts if us < until_us]:
            since_us = closings[-1] if closings[-1] >= 0 else at_us - MARGIN_US - 1
            has_begun = bool(self.loads) and self.loads[-1].begun_us > since_us
            begin_us = max(at_us - MARGIN_US, closings[-1] + 1, self.read_until_us)
            if begin_us <= at_us and not has_begun and not any(us <= at_us + MARGIN_US for us in self.firsts):
                self.begins = sorted([*self.begins, begin_us])
            closings.append(at_us)
            self.firsts = [us for us in self.firsts if us > at_us + MARGIN_US]
        self.closed_us = closings[-1]
        self.lasts = [us for us in self.lasts if us >= until_us]
        return closings

    def _due(self, until_us: int) -> list[tuple[int, int, bool]]:
        """Remove and return load starts before a time: (first row, last row, False) or (announced, time before it, True)."""
        begins = [at_us for at_us in self.begins if at_us < until_us]
        due = [(at_us, at_us - 1, True) for at_us in begins]
        spans: list[tuple[int, int]] = []
        for first, last in self.spans:
            start = first
            for at_us in [at_us for at_us in begins if first < at_us <= last]:
                due.append((start, at_us - 1, False))
                start = at_us
            if start < until_us:
                due.append((start, min(last, until_us - 1), False))
            if last >= until_us:
                spans.append((max(start, until_us), last))
        self.begins = [at_us for at_us in self.begins if at_us >= until_us]
        self.spans = spans
        return sorted(due, key=lambda span: (span[0], not span[2]))

    def _own_floor(self, floor: str) -> str:
        """Return the floor of the next load, which is above the newest load's floor even without changes in between."""
        newest = self.loads[-1].floor if self.loads else None
        return f"{newest}{AGAIN_MARK}" if newest is not None and newest >= floor else floor

    def _add(self, load: Load) -> None:
        self.loads.append(load)
        del self.loads[:-MOST_LOADS]
        self.changed_us = None

    def to_document(self) -> dict[str, Any]:
        """Return the loads as a JSON object."""
        loads = [[load.begun_us, load.ended_us, load.floor] for load in self.loads]
        return {known.name: getattr(self, known.name) for known in fields(self)} | {"loads": loads}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Loads:
        """Return the loads from the result of to_document(), or from the older form with one mark per batch."""
        loads = [Load(begun_us, ended_us, floor) for begun_us, ended_us, floor in document["loads"]]
        marks = [(us, sequence) for us, sequence in document["marks"]]
        if "read_until_us" in document:
            names = ("read_until_us", "highest", "changed_us", "begins", "ended_us", "has_below_first", "settled")
            known = {name: document[name] for name in names}
            past, spans = ([(first, second) for first, second in document[name]] for name in ("past", "spans"))
            cut = [(us, sequence) for us, sequence in document.get("truncations", ())]
            known["truncation_count"] = document.get("truncation_count", 0)
            known |= {name: document[name] for name in ("closed_us", "firsts", "lasts") if name in document}
            return cls(loads=loads, marks=marks, past=past, spans=spans, truncations=cut, **known)
        steps: list[Mark] = []
        for us, sequence in sorted(marks):
            if sequence > (steps[-1][1] if steps else ""):
                steps.append((us, sequence))
        # Rows keep the positions from the older version: everything seen so far is treated as read.
        until_us = 1 + max([0, *(us for us, _ in steps), *(load.ended_us for load in loads)])
        settled = f"{document['settled']}{LOAD_MARK}" if document["settled"] else ""
        highest = steps[-1][1] if steps else ""
        return cls(loads, until_us, highest, document["changed_us"], past=steps, settled=settled)


def _is_load(changes: pa.Table) -> pa.Array:
    return pc.equal(changes["_hs_operation"], pa.scalar(_REFRESH, pa.int8())).combine_chunks()


def _logged(changes: pa.Table) -> npt.NDArray[np.int64]:
    logged: npt.NDArray[np.int64] = pc.fill_null(changes["_hs_logged_us"], 0).combine_chunks().to_numpy()
    return logged
