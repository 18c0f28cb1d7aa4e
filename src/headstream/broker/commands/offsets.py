"""Stored offsets of Iggy clients. A client stores the offset of the last processed message; the log stores the next offset.

As in Iggy's server, storing 0 for an empty partition is accepted; no message is skipped.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.topic_lookup import FoundTopic, consumer_of, find_group
from headstream.broker.groups.connection_groups import GroupKey
from headstream.core.model.polling import ConsumerKind, OffsetOwner
from headstream.core.wire.commands.offsets import ConsumerRef, DeleteOffset, GetOffset, StoredOffset, StoreOffset
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.log.catalog.records import GroupRecord


class ConsumerPartition(NamedTuple):
    """The reader and its partition; partition 0 for a group member without partitions."""

    consumer: OffsetOwner
    partition: int


def group_key(target: FoundTopic, group: GroupRecord) -> GroupKey:
    """Return the key that identifies a group's connections."""
    topic = target.topic
    return GroupKey(topic.stream_number, topic.created_us, target.stream.id, topic.id, group.id)


def find_consumer_partition(
    server: Dispatcher, session: Session, target: FoundTopic, named: ConsumerRef, partition: int, *, is_poll: bool = False
) -> ConsumerPartition:
    """Return the reader and the partition of a command from a consumer or group member.

    Args:
        partition: 0: the first partition for a consumer, the next partition in rotation for a group member.
        is_poll: Whether a group member advances to its next partition.

    Raises:
        NotFoundError: there is no such partition (3007, 3008 for polls), group (5000, 5003) or member (5006).
    """
    topic = target.topic
    if is_poll:
        check_any_partition(target)
    consumer = consumer_of(topic, named, must_exist=True)
    if partition or consumer.kind is ConsumerKind.CONSUMER:
        return ConsumerPartition(consumer, check_partition(target, partition or 1))
    where = group_key(target, find_group(topic, named.id))
    groups = server.connection_groups
    chosen = (groups.next_partition if is_poll else groups.last_partition)(session.client_id, where, topic.partitions)
    if chosen is None:
        raise refusal(
            Status.CONSUMER_GROUP_MEMBER_NOT_FOUND,
            f"this client is not a member of group {consumer.name!r}",
            where=str(topic.name),
            advice="Join the group, or specify the partition",
        )
    return ConsumerPartition(consumer, chosen)


def is_of_another(server: Dispatcher, session: Session, target: FoundTopic, named: ConsumerRef, partition: int) -> bool:
    """Return whether a different connection owns a partition in the group that the client names."""
    if named.kind is ConsumerKind.CONSUMER:
        return False
    members = server.connection_groups.members(group_key(target, find_group(target.topic, named.id)), target.topic.partitions)
    return any(partition in owned for client, owned in members.items() if client != session.client_id)


def check_partition(target: FoundTopic, partition: int) -> int:
    """Return a partition's number; error (3007) if the partition does not exist."""
    topic = target.topic
    if 1 <= partition <= topic.partitions:
        return partition
    raise refusal(
        Status.PARTITION_NOT_FOUND,
        f"topic {str(topic.name)!r} has no partition {partition}",
        advice=f"Use a partition from 1 to {topic.partitions}" if topic.partitions else "Add partitions first",
    )


def check_any_partition(target: FoundTopic) -> None:
    """Raise the error (3008) for a topic without partitions, for sends and polls that choose a partition."""
    if not target.topic.partitions:
        raise refusal(Status.NO_PARTITIONS, f"topic {str(target.topic.name)!r} has no partitions", advice="Add partitions first")


def end_offset(server: Dispatcher, target: FoundTopic, partition: int) -> int:
    """Return the offset of the next message of a partition."""
    with server.broker.backing.log.reading(target.topic, partition) as follower:
        follower.refresh()
        return follower.end_offset


def _find(
    server: Dispatcher, session: Session, command: GetOffset | StoreOffset | DeleteOffset
) -> tuple[FoundTopic, ConsumerPartition]:
    target = server.readable_topic(session, command.stream, command.topic)
    found = find_consumer_partition(server, session, target, command.consumer, command.partition)
    if not found.partition:
        raise refusal(Status.CONSUMER_OFFSET_NOT_FOUND, "no partition is assigned to this member", where=str(target.topic.name))
    return target, found


def get_offset(server: Dispatcher, session: Session, command: GetOffset) -> StoredOffset | None:
    """Return a consumer's stored offset in a partition, or None."""
    target, (consumer, partition) = _find(server, session, command)
    next_offset = server.broker.backing.log.offsets(target.topic).committed(consumer, partition)
    if next_offset is None:
        return None
    end = end_offset(server, target, partition)
    return StoredOffset(partition, max(end - 1, 0), max(next_offset - 1, 0))


def store_offset(server: Dispatcher, session: Session, command: StoreOffset) -> None:
    """Store the offset of the last processed message."""
    target, (consumer, partition) = _find(server, session, command)
    if command.must_own and is_of_another(server, session, target, command.consumer, partition):
        raise refusal(
            Status.CONSUMER_GROUP_PARTITION_NOT_OWNED,
            f"another member of group {consumer.name!r} owns partition {partition}",
            where=str(target.topic.name),
            advice="Request this member's partitions again",
        )
    end = end_offset(server, target, partition)
    if command.offset > max(end - 1, 0):
        raise refusal(
            Status.INVALID_OFFSET,
            f"offset {command.offset} is not in partition {partition} of {str(target.topic.name)!r}",
            advice=f"The newest offset is {max(end - 1, 0)}",
        )
    next_offset = min(command.offset + 1, end)
    server.broker.offsets.commit_in(target.topic, consumer, partition, next_offset, session.user_id)


def delete_offset(server: Dispatcher, session: Session, command: DeleteOffset) -> None:
    """Delete a consumer's stored offset in a partition."""
    target, (consumer, partition) = _find(server, session, command)
    store = server.broker.backing.log.offsets(target.topic)
    if store.committed(consumer, partition) is None:
        raise refusal(Status.CONSUMER_OFFSET_NOT_FOUND, f"{consumer} has no stored offset here", where=str(target.topic.name))
    server.broker.offsets.forget(target.topic, consumer, partition)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetOffset: CommandRow(get_offset, is_quick=True),
    StoreOffset: CommandRow(store_offset, is_quick=True),
    DeleteOffset: CommandRow(delete_offset, is_quick=True),
}
