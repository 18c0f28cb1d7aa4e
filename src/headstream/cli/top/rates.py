"""Rates of topics and groups: the changes between two samples of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headstream.core.model.groups import Group
from headstream.core.model.topology import Topic

ORDERS: Final = ("rate", "size", "messages", "name")


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a log at a point in time.

    Args:
        time_us: Microseconds since 1970 UTC.
        server: The load of a server, or the statistics of a Kafka cluster; empty for a directory.
        pipelines: Checkpoint -> the status of its Replicate pipeline.
    """

    time_us: int
    topics: tuple[Topic, ...]
    groups: tuple[Group, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    pipelines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicRates:
    """The size and rates of one topic.

    Args:
        topic: `stream/topic`.
        size_bytes: Size of all segments.
        bytes_per_second: Rate of appended bytes, or None if bytes were removed between the samples.
    """

    topic: str
    partitions: int
    messages: int
    size_bytes: int
    messages_per_second: float
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class GroupRates:
    """The lag and rate of one consumer group.

    Args:
        lag: Number of messages that the group has not read yet.
        messages_per_second: Rate of committed messages.
        caught_up_in_seconds: Time until the lag is 0 at the current rates; 0 if the lag is 0, None if the lag does not shrink.
    """

    topic: str
    group: str
    members: int
    lag: int
    messages_per_second: float
    caught_up_in_seconds: float | None


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of a log at a point in time, and its rates since the previous sample.

    Args:
        time_us: Microseconds since 1970 UTC.
        topics: All topics, in the requested order.
        groups: Groups, in descending order of lag.
    """

    time_us: int
    interval_seconds: float
    messages_per_second: float
    topics: tuple[TopicRates, ...]
    groups: tuple[GroupRates, ...]
    server: Mapping[str, Any]
    pipelines: Mapping[str, Mapping[str, Any]]


def compare(before: Sample, after: Sample, order: str = "rate") -> Overview:
    """Compute the rates between two samples; `order`, one of ORDERS, sorts the topics."""
    seconds = max(after.time_us - before.time_us, 1) / 1e6
    earlier = {topic.full_name: topic for topic in before.topics}
    topics = [_compare_topic(earlier.get(topic.full_name), topic, seconds) for topic in after.topics]
    earlier_groups = {(group.topic, group.name): group for group in before.groups}
    arrivals = {topic.topic: topic.messages_per_second for topic in topics}
    groups = [
        _compare_group(earlier_groups.get((group.topic, group.name)), group, seconds, arrivals.get(group.topic, 0.0))
        for group in after.groups
    ]
    return Overview(
        *(after.time_us, seconds, sum(arrivals.values())),
        topics=tuple(sort_topics(topics, order)),
        groups=tuple(sorted(groups, key=lambda group: (-group.lag, group.topic, group.group))),
        server=after.server,
        pipelines=after.pipelines,
    )


def sort_topics(topics: Iterable[TopicRates], order: str) -> list[TopicRates]:
    """Sort topics by one of ORDERS: by name, or with the largest value first."""
    return sorted(
        topics,
        key=lambda found: (
            {"rate": -found.messages_per_second, "size": -found.size_bytes, "messages": -found.messages}.get(order, 0),
            found.topic,
        ),
    )


def _compare_topic(before: Topic | None, after: Topic, seconds: float) -> TopicRates:
    earlier = {} if before is None else {(part.number, part.generation): part for part in before.partitions}
    arrived, grown, is_removed = 0, 0, False
    for part in after.partitions:
        known = earlier.get((part.number, part.generation))
        arrived += part.end_offset - (0 if known is None else known.end_offset)
        grown += part.size_bytes - (0 if known is None else known.size_bytes)
        if known is not None:
            is_removed |= (part.first_offset, part.compacted_count) != (known.first_offset, known.compacted_count)
    return TopicRates(
        topic=after.full_name,
        partitions=len(after.partitions),
        messages=after.messages_count,
        size_bytes=after.size_bytes,
        messages_per_second=max(arrived, 0) / seconds,
        bytes_per_second=None if is_removed or grown < 0 else grown / seconds,
    )


def _compare_group(before: Group | None, after: Group, seconds: float, arrivals: float) -> GroupRates:
    earlier = {} if before is None else {part.number: part for part in before.partitions}
    done = 0
    for part in after.partitions:
        known = earlier.get(part.number)
        if part.committed is not None and known is not None:
            done += max(part.committed - (known.first_offset if known.committed is None else known.committed), 0)
    shrinking = done / seconds - arrivals
    caught_up = 0.0 if not after.lag else after.lag / shrinking if shrinking > 0 else None
    return GroupRates(after.topic, after.name, len(after.members), after.lag, done / seconds, caught_up)
