"""OffsetRanges: a set of offsets, stored compactly as half-open ranges.

A million consecutive unavailable messages are one range. Without ranges, a poll that begins before them would read the state of
each message and block the event loop for seconds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class OffsetRanges:
    """A mutable set of offsets. Added ranges can overlap; a search takes logarithmic time in the number of ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._begins = array("Q")
        self._ends = array("Q")
        for from_offset, until_offset in ranges:
            self.add(from_offset, until_offset)

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._begins)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._begins, self._ends, strict=True)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._begins, offset) - 1
        return at >= 0 and offset < self._ends[at]

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(self._ends) - sum(self._begins)

    @property
    def first(self) -> int | None:
        """The smallest offset, or None."""
        return self._begins[0] if self._begins else None

    def add(self, from_offset: int, until_offset: int) -> None:
        """Add a range."""
        if from_offset >= until_offset:
            return
        low = bisect_left(self._ends, from_offset)
        high = bisect_right(self._begins, until_offset)
        if low < high:  # the range touches these ranges and is merged with them
            from_offset = min(from_offset, self._begins[low])
            until_offset = max(until_offset, self._ends[high - 1])
        self._begins[low:high] = array("Q", [from_offset])
        self._ends[low:high] = array("Q", [until_offset])

    def remove(self, from_offset: int, until_offset: int) -> None:
        """Remove the offsets of a range from the set."""
        if from_offset >= until_offset:
            return
        low = bisect_right(self._ends, from_offset)
        high = bisect_left(self._begins, until_offset)
        if low >= high:
            return
        edges = (self._begins[low], from_offset), (until_offset, self._ends[high - 1])
        left = [(begin, end) for begin, end in edges if begin < end]
        self._begins[low:high] = array("Q", [begin for begin, _ in left])
        self._ends[low:high] = array("Q", [end for _, end in left])

    def skip(self, offset: int) -> int:
        """Return the first offset at or after the given offset that is not in the set."""
        at = bisect_right(self._begins, offset) - 1
        return max(offset, self._ends[at]) if at >= 0 else offset

    def within(self, from_offset: int, until_offset: int) -> list[tuple[int, int]]:
        """Return the parts of a range that are in the set."""
        low = bisect_right(self._ends, from_offset)
        high = bisect_left(self._begins, until_offset)
        pairs = zip(self._begins[low:high], self._ends[low:high], strict=True)
        return [(max(begin, from_offset), min(end, until_offset)) for begin, end in pairs]


def ranges_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive numbers in a series of ascending offsets."""
    begin = end = -1
    for offset in offsets:
        if offset != end:
            if begin >= 0:
                yield begin, end
            begin = offset
        end = offset + 1
    if begin >= 0:
        yield begin, end
