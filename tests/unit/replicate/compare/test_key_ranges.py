"""Ranges of keys that the source is asked for."""

from __future__ import annotations

from headstream.replicate.compare.key_ranges import join_ranges


def test_join_ranges_joins_adjacent_ones_and_covers_all_with_few() -> None:
    assert join_ranges([(0, 10), (10, 20), (30, 40)]) == [(0, 20), (30, 40)]
    scattered = [(number * 10, number * 10 + 5) for number in range(1000)]
    joined = join_ranges(scattered)
    assert len(joined) == 100
    assert all(any(begin <= first and until <= end for begin, end in joined) for first, until in scattered)
