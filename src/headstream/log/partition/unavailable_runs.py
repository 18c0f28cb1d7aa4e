"""UnavailableRuns: which offsets of a partition are set aside, as runs, so that a poll steps over each run at once.

A million messages set aside one after the other are one run. Without runs, a poll that begins before them would read the
state of each message, and block the event loop for seconds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["UnavailableRuns"]


class UnavailableRuns:
    """Runs of offsets, sorted and apart from each other; a search takes the logarithm of their number.

    Args:
        offsets: The first ones, in ascending order.
    """

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._starts = array("Q")
        self._ends = array("Q")
        for start, end in _runs_of(offsets):
            self._starts.append(start)
            self._ends.append(end)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._starts)

    def add(self, offsets: Iterable[int]) -> None:
        """Add offsets, in ascending order."""
        for start, end in _runs_of(offsets):
            first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)  # the runs that it overlaps or touches
            if first < last:
                start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._replace(first, last, [(start, end)])

    def remove(self, offsets: Iterable[int]) -> None:
        """Remove offsets, in ascending order; missing ones are ignored."""
        for start, end in _runs_of(offsets):
            first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
            if first < last:
                rest = [(self._starts[first], start), (end, self._ends[last - 1])]
                self._replace(first, last, [run for run in rest if run[0] < run[1]])

    def skip(self, offset: int) -> int:
        """Return the first offset at or after one that is not set aside."""
        run = bisect_right(self._starts, offset) - 1
        return max(offset, self._ends[run]) if run >= 0 else offset

    def _replace(self, first: int, last: int, runs: list[tuple[int, int]]) -> None:
        self._starts[first:last] = array("Q", [start for start, _ in runs])
        self._ends[first:last] = array("Q", [end for _, end in runs])


def _runs_of(offsets: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Yield the runs of ascending offsets, as first offset and one past the last."""
    start = end = -1
    for offset in offsets:
        if offset != end:
            if start >= 0:
                yield start, end
            start = offset
        end = offset + 1
    if start >= 0:
        yield start, end
