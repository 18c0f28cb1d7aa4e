from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import InvalidOptionError, LogError, OffsetOutOfRangeError
from headstream.spark.offsets import (
    LARGE_RANGE,
    SMALL_RANGE,
    Available,
    OffsetRange,
    Offsets,
    Place,
    StartingPoint,
    admit,
    plan_ranges,
    plan_tasks,
    resolve,
)

A, B, C = Place("shop/orders", 1), Place("shop/orders", 2), Place("shop/returns", 1)
AVAILABLE = {A: Available(10, 100), B: Available(0, 0), C: Available(0, 7)}


def test_offsets_encode_to_json_a_person_can_read() -> None:
    offsets = Offsets({C: 7, B: 0, A: 100}, "3b1f", {"shop/returns": "1/2", "shop/orders": "1/1"})
    assert json.dumps(offsets.encode()) == (
        '{"shop/orders": {"1": 100, "2": 0}, "shop/returns": {"1": 7}, '
        '"identity": {"log": "3b1f", "shop/orders": "1/1", "shop/returns": "1/2"}}'
    )


def test_offsets_decode_what_they_encode_when_it_went_through_a_checkpoint() -> None:
    offsets = Offsets({A: 100, Place("shop/orders", 10): 3, C: 7}, "3b1f", {"shop/orders": "1/1", "shop/returns": "1/2"})
    assert Offsets.decode(json.loads(json.dumps(offsets.encode()))) == offsets
    assert json.dumps(Offsets.decode(offsets.encode()).encode()) == json.dumps(offsets.encode())


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"shop/orders": {"1": 5}},
        {"identity": {}},
        {"identity": {"log": "x"}, "shop/orders": {"one": 5}},
        {"identity": {"log": "x"}, "shop/orders": 5},
        {"identity": "x"},
        {"identity": {"log": "x"}, "shop/orders": {"1": None}},
    ],
)
def test_offsets_decode_refuses_what_is_not_of_their_form(value: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError, match="offsets cannot be read"):
        Offsets.decode(value)


def test_offsets_check_same_log_notices_a_recreated_log_and_a_recreated_topic() -> None:
    before = Offsets({A: 5}, "log-1", {"shop/orders": "1/1"})
    before.check_same_log(Offsets({A: 9, C: 1}, "log-1", {"shop/orders": "1/1", "shop/returns": "1/2"}))
    before.check_same_log(Offsets({C: 1}, "log-1", {"shop/returns": "1/2"}))  # subscribed to something else
    with pytest.raises(LogError, match="the log has been deleted and made again"):
        before.check_same_log(Offsets({A: 9}, "log-2", {"shop/orders": "1/1"}))
    with pytest.raises(LogError, match="topic shop/orders has been deleted and made again"):
        before.check_same_log(Offsets({A: 9}, "log-1", {"shop/orders": "1/4"}))


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("earliest", {A: 10, B: 0, C: 0}),
        ("latest", {A: 100, B: 0, C: 7}),
        ({A: 20, B: -1, C: -2}, {A: 20, B: 0, C: 0}),
        ({A: -2, B: 5, C: -1}, {A: 10, B: 5, C: 7}),
    ],
)
def test_resolve_gives_each_partition_its_offset(point: StartingPoint, expected: dict[Place, int]) -> None:
    assert resolve(point, AVAILABLE, "startingOffsets") == expected


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ({A: 1}, "leaves out shop/orders partition 2, shop/returns partition 1"),
        ({A: 1, B: 1, C: 1, Place("shop/orders", 9): 1}, "names shop/orders partition 9"),
    ],
)
def test_resolve_names_partitions_when_they_do_not_match(point: dict[Place, int], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"endingOffsets {said}"):
        resolve(point, AVAILABLE, "endingOffsets")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ({A: 10, B: 0, C: 0}, {A: 100, B: 0, C: 7}, [(A, 10, 100), (C, 0, 7)]),
        ({A: 100, B: 0, C: 7}, {A: 100, B: 0, C: 7}, []),
        ({A: 50}, {A: 60, C: 3}, [(A, 50, 60), (C, 0, 3)]),  # C came while the query ran
        ({A: 50, C: 2}, {A: 60}, [(A, 50, 60)]),  # C is not subscribed to any more
        ({}, {}, []),
    ],
)
def test_plan_ranges_gives_what_lies_between(
    start: dict[Place, int], end: dict[Place, int], expected: list[tuple[Place, int, int]]
) -> None:
    ranges = plan_ranges(start, end, AVAILABLE, fail_on_data_loss=True)
    assert ranges == [OffsetRange(*place, first, last) for place, first, last in expected]


GONE = Place("shop/gone", 1)


@pytest.mark.parametrize(
    ("start", "end", "said", "left"),
    [
        ({A: 5}, {A: 60}, "offsets 5 to 60 were to be read, 10 to 100 are there", [(A, 10, 60)]),  # dropped
        ({A: 50}, {A: 160}, "offsets 50 to 160", [(A, 50, 100)]),  # cut
        ({A: 150}, {A: 160}, "offsets 150 to 160", []),
        ({A: 1}, {A: 3}, "offsets 1 to 3", []),
        ({A: 150}, {A: 100}, "offsets 150 to 100", []),  # the log has lost messages that were read
        ({GONE: 0}, {GONE: 4}, "not read any more", []),
    ],
)
def test_plan_ranges_fails_or_passes_over_when_messages_are_gone(
    start: dict[Place, int], end: dict[Place, int], said: str, left: list[tuple[Place, int, int]]
) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=said) as raised:
        plan_ranges(start, end, AVAILABLE, fail_on_data_loss=True)
    assert str(next(iter(start))) in str(raised.value)
    ranges = plan_ranges(start, end, AVAILABLE, fail_on_data_loss=False)
    assert ranges == [OffsetRange(*place, first, last) for place, first, last in left]


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
    start: dict[Place, int], latest: dict[Place, int], limit: int | None, expected: dict[Place, int]
) -> None:
    assert admit(start, latest, limit) == expected


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=1, max_size=8),
    st.integers(1, 2_000_000),
)
@settings(max_examples=150, deadline=None)
def test_admit_takes_just_as_much_as_is_allowed(partitions: list[tuple[int, int]], limit: int) -> None:
    start = {Place("s/t", number): first for number, (first, _) in enumerate(partitions)}
    latest = {Place("s/t", number): first + waiting for number, (first, waiting) in enumerate(partitions)}
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
    latest = {Place("s/t", number): count for number, count in enumerate(waiting)}
    position: Mapping[Place, int] = dict.fromkeys(latest, 0)
    for _ in range(-(-sum(waiting) // limit)):
        position = admit(position, latest, limit)
    assert position == latest


def _range(place: Place, first: int, last: int) -> OffsetRange:
    return OffsetRange(*place, first, last)


def test_plan_tasks_puts_small_ranges_together_when_nothing_else_is_asked() -> None:
    ranges = [_range(Place("s/t", number), 0, 10) for number in range(1, 21)]
    assert plan_tasks(ranges) == [tuple(ranges)]


def test_plan_tasks_fills_a_task_up_to_the_small_size_only() -> None:
    half = SMALL_RANGE // 2 + 1
    ranges = [_range(A, 0, half), _range(B, 0, half), _range(C, 0, 5)]
    assert plan_tasks(ranges) == [(ranges[0],), (ranges[1], ranges[2])]


def test_plan_tasks_splits_a_big_range_when_one_partition_holds_it_all() -> None:
    tasks = plan_tasks([_range(A, 100, 100 + 2 * LARGE_RANGE + 1)])
    assert len(tasks) == 3
    assert [part.from_offset for (part,) in tasks[1:]] == [part.until_offset for (part,) in tasks[:-1]]
    assert {part.count for (part,) in tasks} <= {LARGE_RANGE * 2 // 3, LARGE_RANGE * 2 // 3 + 1}


@pytest.mark.parametrize(
    ("counts", "min_partitions", "tasks"),
    [
        ([100], 4, 4),
        ([3], 8, 3),  # no more tasks than messages
        ([100, 100], 1, 1),
        ([1000, 10], 4, 5),
        ([10] * 20, 4, 4),
        ([LARGE_RANGE * 4], 2, 4),
        ([], 4, 0),
    ],
)
def test_plan_tasks_makes_as_many_tasks_as_asked_for(counts: list[int], min_partitions: int, tasks: int) -> None:
    ranges = [_range(Place("s/t", number), 0, count) for number, count in enumerate(counts)]
    assert len(plan_tasks(ranges, min_partitions)) == tasks


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 3_000_000)), max_size=10),
    st.one_of(st.none(), st.integers(1, 40)),
)
@settings(max_examples=150, deadline=None)
def test_plan_tasks_covers_every_offset_once_in_order(partitions: list[tuple[int, int]], min_partitions: int | None) -> None:
    ranges = [_range(Place("s/t", number), first, first + count) for number, (first, count) in enumerate(partitions)]
    tasks = plan_tasks(ranges, min_partitions)
    merged: list[OffsetRange] = []
    for part in (part for task in tasks for part in task):
        assert part.count > 0
        if merged and merged[-1].place == part.place:
            assert merged[-1].until_offset == part.from_offset
            merged[-1] = _range(part.place, merged[-1].from_offset, part.until_offset)
        else:
            merged.append(part)
    assert merged == ranges
    total = sum(part.count for part in ranges)
    assert len(tasks) >= min(min_partitions or 1, total)
    assert all(sum(part.count for part in task) <= LARGE_RANGE for task in tasks)
