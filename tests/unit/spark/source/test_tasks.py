from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import OffsetOutOfRangeError
from headstream.spark.source.offsets import Available, OffsetRange, TopicPartition
from headstream.spark.source.tasks import LARGE_COST, MESSAGE_BYTES, SMALL_COST, plan_ranges, plan_tasks

A, B, C = TopicPartition("shop/orders", 1), TopicPartition("shop/orders", 2), TopicPartition("shop/returns", 1)
AVAILABLE = {A: Available(10, 100), B: Available(0, 0), C: Available(0, 7)}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ({A: 10, B: 0, C: 0}, {A: 100, B: 0, C: 7}, [(A, 10, 100), (C, 0, 7)]),
        ({A: 100, B: 0, C: 7}, {A: 100, B: 0, C: 7}, []),
        ({A: 50}, {A: 60, C: 3}, [(A, 50, 60), (C, 0, 3)]),  # C came while the query ran
        ({}, {}, []),
    ],
)
def test_plan_ranges_gives_what_lies_between(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], expected: list[tuple[TopicPartition, int, int]]
) -> None:
    ranges = plan_ranges(start, end, AVAILABLE, fail_on_data_loss=True)
    assert ranges == [OffsetRange(*place, first, last) for place, first, last in expected]


GONE = TopicPartition("shop/gone", 1)


@pytest.mark.parametrize(
    ("start", "end", "said", "left"),
    [
        ({A: 5}, {A: 60}, "offsets 5 to 60 cannot all be read: only 10 to 100 exist", [(A, 10, 60)]),  # dropped
        ({A: 50}, {A: 160}, "offsets 50 to 160", [(A, 50, 100)]),  # cut
        ({A: 150}, {A: 160}, "offsets 150 to 160", []),
        ({A: 1}, {A: 3}, "offsets 1 to 3", []),
        ({A: 150}, {A: 100}, "offsets 150 to 100", []),  # the log has lost messages that were read
        ({GONE: 0}, {GONE: 4}, "no longer exists", []),
    ],
)
def test_plan_ranges_fails_or_passes_over_when_messages_are_gone(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], said: str, left: list[tuple[TopicPartition, int, int]]
) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=said) as raised:
        plan_ranges(start, end, AVAILABLE, fail_on_data_loss=True)
    assert str(next(iter(start))) in str(raised.value)
    ranges = plan_ranges(start, end, AVAILABLE, fail_on_data_loss=False)
    assert ranges == [OffsetRange(*place, first, last) for place, first, last in left]


def _range(place: TopicPartition, first: int, last: int) -> OffsetRange:
    return OffsetRange(*place, first, last)


def test_plan_tasks_puts_small_ranges_together_when_nothing_else_is_asked() -> None:
    ranges = [_range(TopicPartition("s/t", number), 0, 10) for number in range(1, 21)]
    assert plan_tasks(ranges) == [tuple(ranges)]


def test_plan_tasks_fills_a_task_up_to_the_small_size_only() -> None:
    half = SMALL_COST // 2 + 1
    ranges = [_range(A, 0, half), _range(B, 0, half), _range(C, 0, 5)]
    assert plan_tasks(ranges) == [(ranges[0],), (ranges[1], ranges[2])]


def test_plan_tasks_splits_a_big_range_when_one_partition_holds_it_all() -> None:
    tasks = plan_tasks([_range(A, 100, 100 + 2 * LARGE_COST + 1)])
    assert len(tasks) == 3
    assert [part.from_offset for (part,) in tasks[1:]] == [part.until_offset for (part,) in tasks[:-1]]
    assert {part.count for (part,) in tasks} <= {LARGE_COST * 2 // 3, LARGE_COST * 2 // 3 + 1}


@pytest.mark.parametrize(
    ("counts", "min_partitions", "tasks"),
    [
        ([100], 4, 4),
        ([3], 8, 3),  # no more tasks than messages
        ([100, 100], 1, 1),
        ([1000, 10], 4, 5),
        ([10] * 20, 4, 4),
        ([LARGE_COST * 4], 2, 4),
        ([], 4, 0),
    ],
)
def test_plan_tasks_makes_as_many_tasks_as_asked_for(counts: list[int], min_partitions: int, tasks: int) -> None:
    ranges = [_range(TopicPartition("s/t", number), 0, count) for number, count in enumerate(counts)]
    assert len(plan_tasks(ranges, min_partitions)) == tasks


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 3_000_000)), max_size=10), st.one_of(st.none(), st.integers(1, 40))
)
@settings(max_examples=150, deadline=None)
def test_plan_tasks_covers_every_offset_once_in_order(partitions: list[tuple[int, int]], min_partitions: int | None) -> None:
    ranges = [_range(TopicPartition("s/t", number), first, first + count) for number, (first, count) in enumerate(partitions)]
    tasks = plan_tasks(ranges, min_partitions)
    merged: list[OffsetRange] = []
    for part in (part for task in tasks for part in task):
        assert part.count > 0
        if merged and merged[-1].topic_partition == part.topic_partition:
            assert merged[-1].until_offset == part.from_offset
            merged[-1] = _range(part.topic_partition, merged[-1].from_offset, part.until_offset)
        else:
            merged.append(part)
    assert merged == ranges
    total = sum(part.count for part in ranges)
    assert len(tasks) >= min(min_partitions or 1, total)
    assert all(sum(part.count for part in task) <= LARGE_COST for task in tasks)


@pytest.mark.parametrize(
    ("start", "end", "deleted"),
    [
        ({A: 50, B: 3}, {A: 60}, True),
        ({A: 50, C: 3}, {A: 60}, False),  # C is not subscribed to any more
    ],
)
def test_plan_ranges_notices_a_partition_that_was_deleted(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], deleted: bool
) -> None:
    def plan(fail: bool) -> list[OffsetRange]:
        return plan_ranges(start, end, AVAILABLE, fail_on_data_loss=fail, is_read=lambda place: place.topic == "shop/orders")

    if deleted:
        with pytest.raises(OffsetOutOfRangeError, match=r"read up to offset 3 was deleted.*shop/orders partition 2"):
            plan(True)
    else:
        assert plan(True) == [_range(A, 50, 60)]
    assert plan(False) == [_range(A, 50, 60)]


def test_plan_tasks_makes_smaller_tasks_of_big_messages() -> None:
    part = _range(A, 0, 1000)
    big = plan_tasks([part], size_of=lambda part: 3 * LARGE_COST * MESSAGE_BYTES)
    assert [piece.count for (piece,) in big] == [333, 333, 334]
    parts = [_range(A, 0, 10), _range(B, 0, 10)]
    assert len(plan_tasks(parts, size_of=lambda part: SMALL_COST * MESSAGE_BYTES)) == 2
    assert len(plan_tasks(parts, size_of=lambda part: SMALL_COST * MESSAGE_BYTES // 2)) == 1
    assert len(plan_tasks([_range(A, 0, 1)], size_of=lambda part: 9 * LARGE_COST * MESSAGE_BYTES)) == 1


def test_plan_tasks_divides_by_number_when_one_message_has_most_of_the_bytes() -> None:
    sizes = {A: 1 << 30, B: 100}
    tasks = plan_tasks([_range(A, 0, 1), _range(B, 0, 10)], 5, lambda part: sizes[part.topic_partition])
    assert len(tasks) >= 5


@given(
    st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 1 << 34)), min_size=1, max_size=8),
    st.one_of(st.none(), st.integers(1, 40)),
)
@settings(max_examples=150, deadline=None)
def test_plan_tasks_covers_everything_once_whatever_its_bytes(parts: list[tuple[int, int]], min_partitions: int | None) -> None:
    ranges = [_range(TopicPartition("s/t", number), 0, count) for number, (count, _) in enumerate(parts)]
    tasks = plan_tasks(ranges, min_partitions, lambda part: parts[part.partition][1])
    offsets = [
        (part.topic_partition, offset) for task in tasks for part in task for offset in range(part.from_offset, part.until_offset)
    ]
    assert offsets == [(part.topic_partition, offset) for part in ranges for offset in range(part.count)]
    assert len(tasks) >= min(min_partitions or 1, len(offsets))
