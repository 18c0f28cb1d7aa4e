"""Stored offsets: those of existing clients, who store the last message that is done, where the log keeps the next one.

Storing 0 in an empty partition is taken, as it always was, and skips nothing: what comes next is the first message.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.places import Place, consumer_of, find_group
from headstream.broker.connection_groups import GroupPlace
from headstream.broker.sessions import Session
from headstream.log.catalog import GroupRecord
from headstream.model.polling import Consumer, ConsumerKind
from headstream.wire.commands.offsets import ConsumerRef, DeleteOffset, GetOffset, StoredOffset, StoreOffset
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.shapes import Identifier
from headstream.wire.statuses import Status

__all__ = ["HANDLERS", "ReadPlace", "check_any_partition", "check_partition", "end_offset", "find_read_place", "group_place"]


class ReadPlace(NamedTuple):
    """Who reads, and which partition; 0 where a member of a group has none."""

    consumer: Consumer
    partition: int


def group_place(place: Place, group: GroupRecord) -> GroupPlace:
    """Return what the members of a group are kept by."""
    topic = place.topic
    return GroupPlace(topic.stream_number, topic.created_us, place.stream.id, topic.id, group.id)


def find_read_place(
    server: Dispatcher, session: Session, place: Place, named: ConsumerRef, partition: int, *, is_poll: bool = False
) -> ReadPlace:
    """Return who reads, and the partition that a consumer, or a member of a group, means.

    Args:
        server: The server.
        session: Whose command it is.
        place: The topic.
        named: The consumer or group.
        partition: Its number; 0 leaves it: the first one for a consumer, for a member of a group the one that is its turn.
        is_poll: Whether a member's turn goes on to its next partition.

    Raises:
        NotFoundError: 3007, 3008 (a poll alone), 5000, 5003, or 5006 where the client is no member.
    """
    topic = place.topic
    if is_poll:
        check_any_partition(place)
    consumer = consumer_of(topic, named, must_exist=True)
    if partition or consumer.kind is ConsumerKind.CONSUMER:
        return ReadPlace(consumer, check_partition(place, partition or 1))
    where = group_place(place, find_group(topic, named.id))
    groups = server.connection_groups
    turn = (groups.take_turn if is_poll else groups.last_turn)(session.client_id, where, topic.partitions)
    if turn is None:
        raise refusal(
            Status.CONSUMER_GROUP_MEMBER_NOT_FOUND,
            f"this client is no member of group {consumer.name!r}",
            where=str(topic.name),
            advice="Join the group, or name the partition",
        )
    return ReadPlace(consumer, turn)


def check_partition(place: Place, partition: int) -> int:
    """Return a partition's number, or refuse (3007) one that there is not."""
    topic = place.topic
    if 1 <= partition <= topic.partitions:
        return partition
    raise refusal(
        Status.PARTITION_NOT_FOUND,
        f"topic {str(topic.name)!r} has no partition {partition}",
        advice=f"Its partitions are 1 to {topic.partitions}" if topic.partitions else "Create some first",
    )


def check_any_partition(place: Place) -> None:
    """Refuse (3008) a topic without partitions, as sends and polls do before they choose one."""
    if not place.topic.partitions:
        raise refusal(Status.NO_PARTITIONS, f"topic {str(place.topic.name)!r} has no partitions", advice="Create some first")


def end_offset(server: Dispatcher, place: Place, partition: int) -> int:
    """Return what the next message of a partition gets."""
    with server.broker.backing.log.reading(place.topic, partition) as follower:
        follower.refresh()
        return follower.end_offset


def _find(server: Dispatcher, session: Session, command: GetOffset | StoreOffset | DeleteOffset) -> tuple[Place, ReadPlace]:
    place = _permitted(server, session, command.stream, command.topic)
    found = find_read_place(server, session, place, command.consumer, command.partition)
    if not found.partition:
        raise refusal(Status.CONSUMER_OFFSET_NOT_FOUND, "this member has no partition", where=str(place.topic.name))
    return place, found


def _permitted(server: Dispatcher, session: Session, stream: Identifier, topic: Identifier) -> Place:
    place = server.places.topic(stream, topic)
    server.rights(session).poll(place.stream.id, place.topic.id)
    return place


def get_offset(server: Dispatcher, session: Session, command: GetOffset) -> StoredOffset | None:
    """Return how far a consumer has come in a partition, None where it has stored nothing."""
    place, (consumer, partition) = _find(server, session, command)
    next_offset = server.broker.backing.log.offsets(place.topic).committed(consumer, partition)
    if next_offset is None:
        return None
    end = end_offset(server, place, partition)
    return StoredOffset(partition, max(end - 1, 0), max(next_offset - 1, 0))


def store_offset(server: Dispatcher, session: Session, command: StoreOffset) -> None:
    """Store the offset of the last message that is done."""
    place, (consumer, partition) = _find(server, session, command)
    end = end_offset(server, place, partition)
    if command.offset > max(end - 1, 0):
        raise refusal(
            Status.INVALID_OFFSET,
            f"offset {command.offset} is not in partition {partition} of {str(place.topic.name)!r}",
            advice=f"Its newest one is {max(end - 1, 0)}",
        )
    server.broker.offsets.commit(place.topic.name, consumer, {partition: min(command.offset + 1, end)})


def delete_offset(server: Dispatcher, session: Session, command: DeleteOffset) -> None:
    """Forget what a consumer has stored in a partition."""
    place, (consumer, partition) = _find(server, session, command)
    store = server.broker.backing.log.offsets(place.topic)
    if store.committed(consumer, partition) is None:
        raise refusal(Status.CONSUMER_OFFSET_NOT_FOUND, f"{consumer} has stored nothing there", where=str(place.topic.name))
    store.forget(consumer, partition)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    GetOffset: get_offset,
    StoreOffset: store_offset,
    DeleteOffset: delete_offset,
}
