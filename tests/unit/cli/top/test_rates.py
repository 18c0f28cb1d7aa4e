"""Rates between two samples of a log, and how they are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from headstream.cli.top.rates import Overview, Sample, compare
from headstream.cli.top.view import draw
from headstream.core.model.groups import Group, GroupMember, GroupPartition
from headstream.core.model.topology import Limits, Partition, Topic


def topic(name: str, *partitions: Partition) -> Topic:
    return Topic("shop", name, 1, 0, Limits.IGGY, partitions)


def sample(time_s: float, *topics: Topic, groups: tuple[Group, ...] = (), **more: Any) -> Sample:
    return Sample(int(time_s * 1e6), topics, groups, **more)


def group(committed: int | None, end: int, *, first: int = 0, members: int = 1) -> Group:
    part = GroupPartition(1, committed, first, end)
    return Group("shop/orders", "billing", members=tuple(GroupMember(n, ()) for n in range(members)), partitions=(part,))


def show(overview: Overview, lines: int | None = None, watched_count: int = 1000) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(draw(overview, "file:///log", "rate", watched_count, lines))
    return capture.get()


def test_rates_are_what_arrived_in_the_interval() -> None:
    before = sample(10, topic("orders", Partition(1, 0, 100, 5000), Partition(2, 50, 60, 100)))
    after = sample(12, topic("orders", Partition(1, 0, 300, 9000), Partition(2, 50, 60, 100)))
    overview = compare(before, after)
    [found] = overview.topics
    assert (found.messages_per_second, found.bytes_per_second) == (100.0, 2000.0)
    assert (found.messages, found.size_bytes, found.partitions) == (310, 9100, 2)
    assert (overview.interval_seconds, overview.messages_per_second) == (2.0, 100.0)


def test_new_topics_and_purged_partitions_count_from_their_beginning() -> None:
    before = sample(0, topic("orders", Partition(1, 0, 1000, 9000, generation=1)))
    after = sample(1, topic("orders", Partition(1, 0, 5, 40, generation=2)), topic("new", Partition(1, 0, 7, 70)))
    assert {found.topic: found.messages_per_second for found in compare(before, after).topics} == {
        "shop/orders": 5.0,
        "shop/new": 7.0,
    }


@pytest.mark.parametrize("removed", [{"first_offset": 10}, {"compacted_count": 4}])
def test_rate_of_bytes_is_unknown_when_some_were_removed(removed: dict[str, int]) -> None:
    part = Partition(1, 0, 100, 5000)
    after = replace(part, end_offset=200, size_bytes=9000, **removed)
    [found] = compare(sample(0, topic("orders", part)), sample(1, topic("orders", after))).topics
    assert (found.messages_per_second, found.bytes_per_second) == (100.0, None)


@pytest.mark.parametrize(
    ("before", "after", "rate", "caught_up"),
    [
        (group(100, 500), group(300, 500), 100.0, 2.0),
        (group(100, 100), group(100, 100), 0.0, 0.0),
        (group(100, 500), group(100, 500), 0.0, None),
        (group(None, 500, first=40), group(60, 500, first=40), 10.0, 44.0),
        (group(300, 500), group(100, 500), 0.0, None),  # moved back
    ],
    ids=["catches up", "caught up", "stands still", "first commit", "moved back"],
)
def test_group_is_caught_up_when_its_lag_is_gone_at_this_rate(
    before: Group, after: Group, rate: float, caught_up: float | None
) -> None:
    parts = topic("orders", Partition(1, 0, 500, 5000))
    [found] = compare(sample(0, parts, groups=(before,)), sample(2, parts, groups=(after,))).groups
    assert (found.messages_per_second, found.caught_up_in_seconds) == (rate, caught_up)


def test_group_falls_behind_when_more_arrives_than_it_reads() -> None:
    old, new = topic("orders", Partition(1, 0, 100, 1)), topic("orders", Partition(1, 0, 300, 1))
    [found] = compare(sample(0, old, groups=(group(50, 100),)), sample(1, new, groups=(group(150, 300),))).groups
    assert (found.lag, found.messages_per_second, found.caught_up_in_seconds) == (150, 100.0, None)


@pytest.mark.parametrize(("order", "names"), [("rate", "cab"), ("size", "bca"), ("messages", "abc"), ("name", "abc")])
def test_topics_come_in_the_requested_order(order: str, names: str) -> None:
    before = sample(0, *(topic(name, Partition(1, 0, 0, 0)) for name in "abc"))
    counts = {"a": (0, 100, 1), "b": (0, 50, 3), "c": (0, 40, 2)}
    grown = [topic(name, Partition(1, first, end, size)) for name, (first, end, size) in counts.items()]
    if order == "rate":
        before = sample(0, *(topic(name, Partition(1, 0, end, 0)) for name, end in (("a", 95), ("b", 50), ("c", 10))))
    assert "".join(found.topic[-1] for found in compare(before, sample(1, *grown), order).topics) == names


def test_names_cannot_control_the_terminal() -> None:
    overview = compare(sample(0), sample(1, topic("a\x1b[31m", Partition(1, 0, 1, 1))))
    assert "\x1b" not in show(overview)
    assert "[31m" in show(overview)


def test_pipelines_are_shown_with_what_is_wrong() -> None:
    status: dict[str, Any] = {"state": "failed: disk", "run": None, "waiting": 3, "dead": 12_000, "failing_tables": [{}, {}]}
    text = show(compare(sample(0), sample(1, pipelines={"/data/checkpoint": status})))
    assert all(part in text for part in ("/data/checkpoint", "failed: disk", "12 k"))
