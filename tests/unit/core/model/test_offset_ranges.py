"""Ranges of offsets are what a set of offsets is."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headstream.core.model.offset_ranges import OffsetRanges

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 12)), max_size=30)


@given(STEPS)
def test_ranges_hold_the_offsets_of_a_set(steps: list[tuple[bool, int, int]]) -> None:
    ranges, expected = OffsetRanges(), set[int]()
    for is_added, begin, count in steps:
        if is_added:
            ranges.add(begin, begin + count)
            expected |= set(range(begin, begin + count))
        else:
            ranges.remove(begin, begin + count)
            expected -= set(range(begin, begin + count))
        found = list(ranges)
        assert {offset for each in found for offset in range(*each)} == expected
        assert all(end < begin for (_, end), (begin, _) in pairwise(found))  # apart, and ascending
        assert all(begin < end for begin, end in found)
        assert (ranges.count, len(ranges), ranges.first) == (len(expected), len(found), min(expected, default=None))
        assert [offset for offset in range(60) if offset in ranges] == sorted(expected)
