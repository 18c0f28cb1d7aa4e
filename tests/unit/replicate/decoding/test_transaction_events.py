"""Unit tests of headstream.replicate.decoding.transaction_events."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from headstream.replicate.decoding.transaction_events import add_numbers, is_whole


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_kept_as_ranges_and_whole_ones_are_told(seed: int) -> None:
    chance = random.Random(seed)
    last, ranges, seen = 12, list[list[int]](), set[int]()
    while len(seen) < last:
        some = [chance.randint(1, last) for _ in range(chance.randint(1, 4))]
        seen |= set(some)
        ranges = add_numbers(ranges, np.array(some, np.int64))
        assert [number for first, end in ranges for number in range(first, end + 1)] == sorted(seen)
        assert all(later[0] > sooner[1] + 1 for sooner, later in itertools.pairwise(ranges))
        assert is_whole(ranges, last) == (len(seen) == last)
        assert not is_whole(ranges, None)
