from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.spark.source.limits import BatchLimits, admit, admit_bytes, is_held_back
from headstream.spark.source.offsets import TopicPartition

A, C = TopicPartition("shop/orders", 1), TopicPartition("shop/returns", 1)


@pytest.mark.parametrize(
    ("start", "latest", "limit", "expected"),
    [
        ({A: 0, C: 0}, {A: 100, C: 50}, None, {A: 100, C: 50}),
        ({A: 0, C: 0}, {A: 100, C: 50}, 150, {A: 100, C: 50}),
        ({A: 0, C: 0}, {A: 100, C: 50}, 30, {A: 20, C: 10}),
        ({A: 0, C: 0}, {A: 1_000_000, C: 1}, 10, {A: 9, C: 1}),  # a small one is not starved by a big one
        ({A: 5}, {A: 9, C: 4}, 4, {A: 7, C: 2}),  # C is new
        ({A: 9, C: 4}, {A: 9, C: 4}, 1, {A: 9, C: 4}),
        ({A: 0, C: 0}, {A: 100, C: 100}, 1, {A: 1, C: 0}),
        ({A: 1, C: 0}, {A: 100, C: 100}, 1, {A: 1, C: 1}),  # and then the other one
        ({A: 50, C: 0}, {A: 20, C: 5}, 100, {A: 20, C: 5}),  # A lost messages: on from its end
    ],
)
def test_admit_takes_from_each_partition_in_proportion(
    start: dict[TopicPartition, int], latest: dict[TopicPartition, int], limit: int | None, expected: dict[TopicPartition, int]
) -> None:
    assert admit(start, latest, limit) == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=1, max_size=8), st.integers(1, 2_000_000))
@settings(max_examples=150, deadline=None)
def test_admit_takes_just_as_much_as_is_allowed(partitions: list[tuple[int, int]], limit: int) -> None:
    start = {TopicPartition("s/t", number): first for number, (first, _) in enumerate(partitions)}
    latest = {TopicPartition("s/t", number): first + waiting for number, (first, waiting) in enumerate(partitions)}
    end = admit(start, latest, limit)
    assert all(start[place] <= end[place] <= latest[place] for place in latest)
    total = sum(waiting for _, waiting in partitions)
    assert sum(end.values()) - sum(start.values()) == min(limit, total)
    moving = [place for place in latest if latest[place] > start[place]]
    if limit >= len(moving):
        assert all(end[place] > start[place] for place in moving)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_admit_drains_everything_when_it_is_asked_again_and_again(waiting: list[int], limit: int) -> None:
    latest = {TopicPartition("s/t", number): count for number, count in enumerate(waiting)}
    position: Mapping[TopicPartition, int] = dict.fromkeys(latest, 0)
    for _ in range(-(-sum(waiting) // limit)):
        position = admit(position, latest, limit)
    assert position == latest


class Sends:
    """Partitions with sends of given sizes, ten messages each, from offset 0 on."""

    def __init__(self, sizes: Mapping[TopicPartition, list[int]]) -> None:
        self.sizes = sizes

    @property
    def latest(self) -> dict[TopicPartition, int]:
        return {place: 10 * len(sizes) for place, sizes in self.sizes.items()}

    def size_between(self, place: TopicPartition, from_offset: int, until_offset: int) -> int:
        return sum(self.sizes[place][from_offset // 10 : until_offset // 10])

    def offset_after(self, place: TopicPartition, from_offset: int, size_bytes: int) -> int:
        number = from_offset // 10 + 1
        while number < len(self.sizes[place]) and self.size_between(place, from_offset, 10 * number + 10) <= size_bytes:
            number += 1
        return 10 * number


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ({A: [100] * 10, C: [100] * 10}, 5000, {A: 100, C: 100}),
        ({A: [100] * 10, C: [100] * 10}, 1000, {A: 50, C: 50}),
        ({A: [100] * 30, C: [100] * 10}, 400, {A: 30, C: 10}),
        ({A: [5000, 10]}, 100, {A: 10}),  # one send that is too big goes alone
        ({A: [10, 5000, 10]}, 100, {A: 10}),
        ({A: [], C: [7]}, 1, {A: 0, C: 10}),
        ({A: []}, 1, {A: 0}),
    ],
)
def test_admit_bytes_takes_whole_sends_from_each_partition_in_proportion(
    sizes: dict[TopicPartition, list[int]], limit: int, expected: dict[TopicPartition, int]
) -> None:
    sends = Sends(sizes)
    assert admit_bytes({}, sends.latest, limit, sends) == expected


@given(st.lists(st.lists(st.integers(1, 500), max_size=8), min_size=1, max_size=5), st.integers(1, 1500))
@settings(max_examples=150, deadline=None)
def test_admit_bytes_takes_no_more_than_a_send_too_much_and_comes_to_the_end(sizes: list[list[int]], limit: int) -> None:
    sends = Sends({TopicPartition("s/t", number): list_ for number, list_ in enumerate(sizes)})
    position: Mapping[TopicPartition, int] = dict.fromkeys(sends.latest, 0)
    largest = max((size for list_ in sizes for size in list_), default=0)
    for _ in range(sum(map(len, sizes))):
        end = admit_bytes(position, sends.latest, limit, sends)
        taken = sum(sends.size_between(place, position[place], end[place]) for place in end)
        assert taken <= limit + largest
        assert all(position[place] <= end[place] <= sends.latest[place] for place in end)
        assert end != position or position == sends.latest
        position = end
    assert position == sends.latest


@pytest.mark.parametrize(
    ("waiting", "since_us", "now_us", "held"),
    [
        (5, None, 1_000, False),  # the first batch does not wait
        (5, 1_000, 2_000, True),
        (10, 1_000, 2_000, False),
        (5, 1_000, 61_000, False),
        (5, 1_000, 60_999, True),
    ],
)
def test_is_held_back_waits_for_enough_until_the_delay_is_over(
    waiting: int, since_us: int | None, now_us: int, held: bool
) -> None:
    assert is_held_back(waiting, BatchLimits(min_offsets=10, max_delay_us=60_000), since_us, now_us) is held
    assert not is_held_back(waiting, BatchLimits(max_offsets=3), since_us, now_us)
