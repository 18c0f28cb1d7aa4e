from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headstream.errors import InvalidOptionError
from headstream.spark.source.bounds import Bound, Times, parse_ending, parse_starting, resolve
from headstream.spark.source.offsets import Available, TopicPartition
from headstream.spark.source.subscription import parse_subscription

A, B, C = TopicPartition("shop/orders", 1), TopicPartition("shop/orders", 2), TopicPartition("shop/returns", 1)
AVAILABLE = {A: Available(10, 100), B: Available(0, 0), C: Available(0, 7)}
SUBSCRIPTION = parse_subscription({"subscribe": "shop/orders,shop/returns"})


def find(place: TopicPartition, time_us: int) -> int:
    """A message a second, from the first offset on."""
    first, end = AVAILABLE[place]
    return min(end, first + -(-time_us // 1_000_000))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {A: 10, B: 0, C: 0}),
        ({"startingOffsets": "earliest"}, {A: 10, B: 0, C: 0}),
        ({"startingOffsets": " Latest "}, {A: 100, B: 0, C: 7}),
        ({"startingOffsets": '{"shop/orders": {"1": 20, "2": -1}, "shop/returns": {"1": -2}}'}, {A: 20, B: 0, C: 0}),
        ({"startingOffsets": '{"shop/orders": {"1": -2, "2": 5}, "shop/returns": {"1": -1}}'}, {A: 10, B: 5, C: 7}),
        ({"startingTimestamp": "3000", "startingOffsetsByTimestampStrategy": "latest"}, {A: 13, B: 0, C: 3}),
        ({"startingTimestamp": "50000", "startingOffsetsByTimestampStrategy": "LATEST"}, {A: 60, B: 0, C: 7}),
        (
            {
                "startingOffsetsByTimestamp": '{"shop/orders": {"1": 2000, "2": 0}, "shop/returns": {"1": 1001}}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {A: 12, B: 0, C: 2},
        ),
    ],
)
def test_starting_options_give_each_partition_its_offset(given: dict[str, str], expected: dict[TopicPartition, int]) -> None:
    lowered = {name.lower(): value for name, value in given.items()}
    assert resolve(parse_starting(lowered, SUBSCRIPTION), AVAILABLE, find) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {A: 100, B: 0, C: 7}),
        ({"endingTimestamp": "3000"}, {A: 13, B: 0, C: 3}),
        ({"endingTimestamp": "900000"}, {A: 100, B: 0, C: 7}),  # nothing is that new: all of it
        ({"endingOffsetsByTimestamp": '{"shop/orders": {"1": 1000, "2": 1}, "shop/returns": {"1": 99000}}'}, {A: 11, B: 0, C: 7}),
        ({"endingOffsets": '{"shop/orders": {"1": 50, "2": -1}, "shop/returns": {"1": 3}}'}, {A: 50, B: 0, C: 3}),
    ],
)
def test_ending_options_give_each_partition_its_offset(given: dict[str, str], expected: dict[TopicPartition, int]) -> None:
    lowered = {name.lower(): value for name, value in given.items()}
    assert resolve(parse_ending(lowered, SUBSCRIPTION), AVAILABLE, find) == expected


@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_time_that_is_too_new_is_an_error_unless_told_otherwise(option: str) -> None:
    by_place = json.dumps({"shop/orders": {"1": 8000, "2": 8000}, "shop/returns": {"1": 8000}})
    bound = parse_starting({option.lower(): "8000" if option == "startingTimestamp" else by_place}, SUBSCRIPTION)
    with pytest.raises(InvalidOptionError, match=f"{option}: shop/orders partition 2 has no message with a time of 8000 ms"):
        resolve(bound, AVAILABLE, find)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ({A: 1}, "omits shop/orders partition 2, shop/returns partition 1"),
        ({A: 1, B: 1, C: 1, TopicPartition("shop/orders", 9): 1}, "names shop/orders partition 9"),
        (Times(None, {A: 1}, True), "omits shop/orders partition 2"),
        (Times(None, {A: 1, B: 1, C: 1, TopicPartition("shop/orders", 9): 1}, True), "names shop/orders partition 9"),
    ],
)
def test_resolve_names_partitions_when_they_do_not_match(at: Mapping[TopicPartition, int] | Times, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"endingOffsets {said}"):
        resolve(Bound("endingOffsets", at), AVAILABLE, find)


@pytest.mark.parametrize(
    ("parse", "given", "said"),
    [
        (parse_starting, {"startingOffsets": "first"}, "startingOffsets cannot be read"),
        (parse_starting, {"startingOffsets": "[1]"}, "startingOffsets cannot be read"),
        (parse_starting, {"startingOffsets": '{"shop/orders": 5}'}, "startingOffsets cannot be read"),
        (parse_starting, {"startingOffsets": '{"shop/orders": {"1": true}}'}, "startingOffsets cannot be read"),
        (parse_starting, {"startingOffsets": '{"shop/orders": {"1": -3}}'}, "-3 is not an offset of shop/orders partition 1"),
        (parse_starting, {"startingOffsets": '{"shop/other": {"1": 5}}'}, "shop/other partition 1, which is not in subscribe"),
        (parse_starting, {"startingTimestamp": "-1"}, "startingTimestamp=-1 is not a time"),
        (parse_starting, {"startingTimestamp": "yesterday"}, "startingTimestamp=yesterday is not a time"),
        (parse_starting, {"startingOffsetsByTimestamp": "5"}, "startingOffsetsByTimestamp cannot be read"),
        (
            parse_starting,
            {"startingOffsetsByTimestamp": '{"shop/orders": {"1": -1}}'},
            "-1 is not a valid time for shop/orders partition 1",
        ),
        (
            parse_starting,
            {"startingOffsets": "earliest", "startingTimestamp": "5"},
            "startingOffsets and startingTimestamp contradict",
        ),
        (parse_starting, {"startingOffsetsByTimestampStrategy": "latest"}, "requires a start time"),
        (
            parse_starting,
            {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "first"},
            "Strategy=first is not a valid strategy",
        ),
        (parse_ending, {"endingOffsets": "earliest"}, "endingOffsets=earliest"),
        (parse_ending, {"endingOffsets": '{"shop/orders": {"1": -2}}'}, "leaves nothing to read in shop/orders partition 1"),
        (parse_ending, {"endingOffsetsByTimestamp": "{}", "endingTimestamp": "1"}, "contradict each other"),
    ],
)
def test_bounds_name_the_option_when_it_cannot_be_used(parse: Any, given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        parse({name.lower(): value for name, value in given.items()}, SUBSCRIPTION)
    assert said in str(raised.value)
