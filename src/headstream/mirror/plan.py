"""The plan of a mirror: the topics that it copies and creates, and how they will differ in the destination."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headstream.client.transports.transport import ClusterCounts
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import DEFAULT_DELETION_GRACE_US, Limits, Topic
from headstream.errors import InvalidOptionError, NotFoundError, TopicNotFoundError

if TYPE_CHECKING:
    from headstream.client.client import Client

_ALWAYS = (
    "messages get new offsets",
    "the append time becomes the header hs.timestamp, unless the message already has this header",
    "the header hs.mirror is added",
)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The plan of one topic.

    Args:
        topic: `stream/topic`.
        is_created: Whether the mirror creates the topic, because it does not exist in the destination yet.
        differences: Differences of this topic, in addition to MirrorPlan.differences.
    """

    topic: str
    is_created: bool
    partitions: int
    messages_count: int
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """The plan of a mirror: one plan per topic, in order of name, and the differences that apply to every topic."""

    topics: tuple[TopicPlan, ...]
    differences: tuple[str, ...] = _ALWAYS


def match_topics(source: Client, patterns: Iterable[str]) -> list[Topic]:
    """Return the topics of a log that match patterns, in order of name.

    Args:
        patterns: Names `stream/topic`, or patterns with `*`, `?` and `[...]`.

    Raises:
        TopicNotFoundError: a topic that is named without a pattern does not exist.
        InvalidOptionError: no pattern is given.
    """
    wanted = list(patterns)
    if not wanted:
        raise InvalidOptionError("the list of topics is empty", advice="Specify one or more topics, or a pattern")
    there = {f"{topic.stream}/{topic.name}": topic for topic in source.topics()}
    for name in wanted:
        if name not in there and not any(character in name for character in "*?["):
            raise TopicNotFoundError(
                f"topic {name!r} does not exist in the source", advice="Specify an existing topic, or a pattern"
            )
    return [topic for name, topic in sorted(there.items()) if any(fnmatch.fnmatchcase(name, each) for each in wanted)]


def plan_mirror(source: Client, target: Client, patterns: Iterable[str]) -> MirrorPlan:
    """Return the plan for mirroring topics (patterns as for match_topics()) to topics of the same names."""
    return MirrorPlan(tuple(_plan_topic(topic, target) for topic in match_topics(source, patterns)))


def _plan_topic(topic: Topic, target: Client) -> TopicPlan:
    name = f"{topic.stream}/{topic.name}"
    count = sum(partition.messages_count for partition in topic.partitions)
    differences: list[str] = []
    try:
        there = target.topic(name)
    except NotFoundError:
        return TopicPlan(name, True, len(topic.partitions), count, ())
    if len(there.partitions) != len(topic.partitions):
        differences.append(
            f"{len(topic.partitions)} partitions become {len(there.partitions)}: messages are distributed by key or in rotation"
        )
    if topic.limits is Limits.WIDE and there.limits is Limits.IGGY:
        differences.append("the destination has iggy limits: a message that needs wide limits stops the mirror")
    if there.deduplication_count is not None and topic.deduplication_count is None:
        differences.append("the destination drops messages with an id that it already contains")
    if there.compaction_delay_us is not None and topic.compaction_delay_us is None:
        differences.append("the destination is compacted: a message without a key stops the mirror")
    if any(partition.end_offset for partition in there.partitions):
        differences.append("the destination already has messages")
    return TopicPlan(name, False, len(topic.partitions), count, tuple(differences))


def create_like(target: Client, topic: Topic, name: str) -> Topic:
    """Create the topic `name` with the options and partition count of a source topic, and return the new topic."""
    return target.create_topic(
        TopicName.parse(name),
        len(topic.partitions),
        limits=topic.limits.value,
        fsync=topic.fsync.value,
        if_not_exists=True,
        retention_us=topic.retention_us,
        retention_bytes=topic.retention_bytes,
        compaction_delay_us=topic.compaction_delay_us,
        deduplication_count=topic.deduplication_count,
        summary_headers=None if isinstance(target.transport, ClusterCounts) else topic.summary_headers,
        kafka_headers=None if isinstance(target.transport, ClusterCounts) else topic.kafka_headers,
        deletion_grace_us=DEFAULT_DELETION_GRACE_US if topic.deletion_grace_us is None else topic.deletion_grace_us,
    )
