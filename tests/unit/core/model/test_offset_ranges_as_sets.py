"""OffsetRanges against a set of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headstream.core.model.offset_ranges import OffsetRanges, ranges_of

OFFSETS = st.lists(st.integers(0, 40), unique=True).map(sorted)


@given(OFFSETS, st.lists(st.tuples(st.booleans(), OFFSETS)))
def test_runs_agree_with_a_set_when_offsets_are_added_and_removed(
    first: list[int], changes: list[tuple[bool, list[int]]]
) -> None:
    runs, expected = OffsetRanges(ranges_of(first)), set(first)
    for is_added, offsets in changes:
        for begin, end in ranges_of(offsets):
            (runs.add if is_added else runs.remove)(begin, end)
        expected = expected | set(offsets) if is_added else expected - set(offsets)
    for offset in range(43):
        assert runs.skip(offset) == next(at for at in range(offset, 100) if at not in expected)
    assert len(runs) == sum(offset - 1 not in expected for offset in expected)


def test_runs_are_few_when_many_offsets_are_next_to_each_other() -> None:
    runs = OffsetRanges(ranges_of(range(200_000)))
    runs.remove(100_000, 100_001)
    assert (len(runs), runs.skip(0), runs.skip(100_001), runs.skip(1 << 63)) == (2, 100_000, 200_000, 1 << 63)
