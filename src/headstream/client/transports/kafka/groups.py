"""Groups and committed offsets of a Kafka cluster.

A Kafka group can span topics; these commands show groups per topic. A single consumer commits as group `hs.name.<name>`, because
Kafka stores offsets only for groups.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from headstream.client.transports.kafka.cluster import Cluster
from headstream.client.transports.kafka.members import KafkaMembership
from headstream.client.transports.kafka.offset_clients import OffsetClients
from headstream.client.transports.kafka.refusals import unsupported
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS, Assignment, Group, GroupMember, GroupPartition, Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import ConsumerKind, OffsetOwner
from headstream.errors import GroupInUseError, GroupNotFoundError, OffsetOutOfRangeError, PartitionNotFoundError, RebalancedError
from headstream.forks import register_for_forks

NAME_PREFIX: Final = "hs.name."
"""Prefix of the groups of single consumers."""


def group_id(consumer: OffsetOwner) -> str:
    """Return the Kafka group that a consumer or a group commits as."""
    return consumer.name if consumer.kind is ConsumerKind.GROUP else NAME_PREFIX + consumer.name


class KafkaOffsets:
    """Commands for committed offsets; `clients` read and commit the offsets."""

    def __init__(self, cluster: Cluster, clients: OffsetClients) -> None:
        self._cluster = cluster
        self._clients = clients

    def committed(self, topic: TopicName, consumer: OffsetOwner) -> dict[int, int]:
        """Return the committed offsets by partition; TopicNotFoundError if the topic does not exist."""
        numbers = range(self._cluster.count_partitions(topic))
        return self._clients.committed(group_id(consumer), self._cluster.names.kafka_name(topic), numbers)

    def committed_by(self, group: str, name: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return the committed offsets of a Kafka group in partitions of one topic, given by its Kafka name."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(name, number) for number in numbers])
        found = self._cluster.ask(
            group, lambda admin, timeout_s: admin.list_consumer_group_offsets([wanted], request_timeout=timeout_s)
        )
        return {each.partition: each.offset for each in found[group].topic_partitions if each.offset >= 0}

    def all_of(self, group: str) -> dict[str, dict[int, int]]:
        """Return all committed offsets of a Kafka group, by Kafka topic and partition."""
        wanted = ConsumerGroupTopicPartitions(group)
        found = self._cluster.ask(
            group, lambda admin, timeout_s: admin.list_consumer_group_offsets([wanted], request_timeout=timeout_s)
        )
        topics: dict[str, dict[int, int]] = {}
        for each in found[group].topic_partitions:
            if each.offset >= 0:
                topics.setdefault(each.topic, {})[each.partition] = each.offset
        return topics

    def commit(
        self, topic: TopicName, consumer: OffsetOwner, offsets: Mapping[int, int], *, generations: Mapping[int, int] | None = None
    ) -> None:
        """Commit offsets for a single consumer or a group; GroupInUseError if the group has members."""
        if not offsets:
            return
        name, group = self._cluster.names.kafka_name(topic), group_id(consumer)
        count = self._cluster.count_partitions(topic)
        for number in offsets:
            if number not in range(count):
                raise PartitionNotFoundError(
                    f"topic {str(topic)!r} has no partition {number}", advice=f"Use a partition from 0 to {count - 1}"
                )
        try:
            self._clients.commit(group, name, offsets)
        except RebalancedError as error:  # UNKNOWN_MEMBER_ID: only the members of the group can commit
            raise in_use(str(topic), group) from error


class KafkaGroups:
    """Consumer group commands; the first five are for members."""

    def __init__(self, cluster: Cluster, offsets: KafkaOffsets) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._lock = threading.Lock()
        self._members: dict[int, KafkaMembership] = {}
        self._made = 0
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: start without members, which belong to the parent process."""
        self._lock = threading.Lock()
        self._members = {}

    def join(
        self,
        topic: TopicName,
        group: str,
        *,
        session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS,
        is_shared: bool = False,
    ) -> Member:
        """Join a group and wait until it has accepted the member; TopicNotFoundError, or an error of the coordinator."""
        self._cluster.count_partitions(topic)
        membership = KafkaMembership(self._cluster, topic, group, session_timeout_ms)
        try:
            membership.wait_until_joined()
        except BaseException:
            membership.close()
            raise
        with self._lock:
            self._made += 1
            member = Member(group, self._made)
            self._members[member.id] = membership
        return member

    def _membership(self, member: Member) -> KafkaMembership:
        try:
            return self._members[member.id]
        except KeyError:
            raise RebalancedError(f"the consumer has left the group {member.group!r}", advice="Create a new consumer") from None

    def leave(self, topic: TopicName, member: Member) -> None:
        """Remove a member."""
        membership = self._members.pop(member.id, None)
        if membership is not None:
            membership.close()

    def abandon(self, topic: TopicName, member: Member) -> None:
        """Remove a member in the background; safe to call from a finalizer."""
        membership = self._members.pop(member.id, None)
        if membership is not None:
            membership.close_soon()

    def has_changed(self, member: Member, generation: int) -> bool:
        """Return whether a member's partitions have changed since the given generation."""
        return self._membership(member).generation != generation

    def report(self, topic: TopicName, member: Member, *, released: Iterable[int] = (), is_resting: bool = False) -> Assignment:
        """Release partitions that other members wait for; return this member's partitions."""
        return self._membership(member).report(list(released), is_resting=is_resting)

    def commit(
        self,
        topic: TopicName,
        member: Member,
        offsets: Mapping[int, int],
        *,
        generation: int,
        generations: Mapping[int, int] | None = None,
        is_resting: bool = False,
    ) -> int:
        """Commit a member's offsets; return the generation. RebalancedError if a partition is lost."""
        membership = self._membership(member)
        membership.commit(offsets, generation=generation, is_resting=is_resting)
        return membership.generation

    def list(self, topic: TopicName) -> builtins.list[Group]:
        """Return the groups that have members or offsets in a topic."""
        name, numbers, firsts, ends = self._partitions(topic)
        listed = self._cluster.ask(
            self._cluster.address.place, lambda admin, timeout_s: {0: admin.list_consumer_groups(request_timeout=timeout_s)}
        )[0]
        names = sorted(each.group_id for each in listed.valid if not each.group_id.startswith(NAME_PREFIX))
        found = (self._describe(topic, name, numbers, firsts, ends, group) for group in names)
        return [group for group in found if group is not None]

    def get(self, topic: TopicName, group: str) -> Group:
        """Return one group; GroupNotFoundError if the group has neither members nor offsets in the topic."""
        found = self._describe(topic, *self._partitions(topic), group)
        if found is None:
            raise GroupNotFoundError(f"topic {str(topic)!r} has no group {group!r}", advice="List the groups with log.groups()")
        return found

    def _partitions(self, topic: TopicName) -> tuple[str, range, Mapping[Any, int], Mapping[Any, int]]:
        name, numbers = self._cluster.names.kafka_name(topic), range(self._cluster.count_partitions(topic))
        firsts, ends = self._cluster.ends((name, number) for number in numbers)
        return name, numbers, firsts, ends

    def _describe(
        self, topic: TopicName, name: str, numbers: range, firsts: Mapping[Any, int], ends: Mapping[Any, int], group: str
    ) -> Group | None:
        committed = self._offsets.committed_by(group, name, numbers)
        members = self._readers(group, name)
        if not committed and not members:
            return None
        readers = {number: index for index, held in enumerate(members, 1) for number in held}
        return Group(
            topic=str(topic),
            name=group,
            members=tuple(GroupMember(index, held) for index, held in enumerate(members, 1)),
            partitions=tuple(
                GroupPartition(number, committed.get(number), firsts[name, number], ends[name, number], readers.get(number))
                for number in numbers
            ),
        )

    def _readers(self, group: str, name: str) -> builtins.list[tuple[int, ...]]:
        """Return the partitions of a topic by group member; members without partitions come last."""
        try:
            described = self._cluster.ask(
                group, lambda admin, timeout_s: admin.describe_consumer_groups([group], request_timeout=timeout_s)
            )[group]
        except GroupNotFoundError:
            return []
        held = [
            tuple(sorted(each.partition for each in member.assignment.topic_partitions if each.topic == name))
            for member in sorted(described.members, key=lambda member: member.member_id)
        ]
        elsewhere = any(each.topic != name for member in described.members for each in member.assignment.topic_partitions)
        return [each for each in held if each or not elsewhere]

    def delete(self, topic: TopicName, group: str) -> None:
        """Delete a group; GroupNotFoundError, GroupInUseError, or UnsupportedError if the group has offsets in other topics."""
        found = self.get(topic, group)
        if found.members:
            raise in_use(str(topic), group)
        name = self._cluster.names.kafka_name(topic)
        others = sorted(other for other in self._offsets.all_of(group) if other != name)
        if others:
            raise unsupported(
                f"the group {group!r} also has offsets in other topics ({', '.join(others)}), which Kafka would also delete",
                "Use kafka-consumer-groups --delete-offsets, or delete the topic",
            )
        self._cluster.ask(group, lambda admin, timeout_s: admin.delete_consumer_groups([group], request_timeout=timeout_s))

    def seek(self, topic: TopicName, group: str, offsets: Mapping[int, int]) -> Group:
        """Set a group's committed offsets; OffsetOutOfRangeError; GroupInUseError if the group has members."""
        name, numbers, firsts, ends = self._partitions(topic)
        for number, offset in offsets.items():
            if number not in numbers:
                raise PartitionNotFoundError(
                    f"topic {str(topic)!r} has no partition {number}", advice=f"Use a partition from 0 to {numbers[-1]}"
                )
            if not 0 <= offset <= ends[name, number]:
                raise OffsetOutOfRangeError(
                    f"offset {offset} is not in partition {number}",
                    where=str(topic),
                    advice=f"Use {firsts[name, number]} to {ends[name, number]}",
                )
        if self._readers(group, name):
            raise in_use(str(topic), group)
        self._offsets.commit(topic, OffsetOwner.group(group), offsets)
        return self.get(topic, group)

    def close(self) -> None:
        """Remove all members."""
        for number in list(self._members):
            membership = self._members.pop(number, None)
            if membership is not None:
                membership.close()


def in_use(topic: str, group: str) -> GroupInUseError:
    """Return the error for a change that is impossible while the group has members."""
    return GroupInUseError(
        f"the group {group!r} has active members", where=topic, advice="Stop the members first, or call seek() in a member"
    )
