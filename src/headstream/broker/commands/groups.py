"""Consumer groups of existing clients: made in a topic, joined by connections.

What a group has stored lies under its name, with what our own groups of that name have committed: whoever reads on
embedded, or over the network, goes on at the same place. While connections read for a group, members that keep what they
have are not let in, nor the other way round (GROUP_IN_USE): they divide partitions in different ways.
"""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import group_place
from headstream.broker.commands.places import Place, find_group
from headstream.broker.sessions import Session
from headstream.log.administration import create_group as add_group
from headstream.log.catalog import GroupRecord
from headstream.model.polling import Consumer
from headstream.wire.commands.groups import (
    CreateGroup,
    DeleteGroup,
    GetGroup,
    Group,
    GroupDetails,
    GroupMember,
    JoinGroup,
    LeaveGroup,
    ListGroups,
)
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["HANDLERS"]


def _permitted(server: Dispatcher, session: Session, command: ListGroups | CreateGroup) -> Place:
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).read_topic(place.stream.id, place.topic.id)
    return place


def _find(
    server: Dispatcher, session: Session, command: GetGroup | DeleteGroup | JoinGroup | LeaveGroup
) -> tuple[Place, GroupRecord]:
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).read_topic(place.stream.id, place.topic.id)
    return place, find_group(place.topic, command.group)


def _detail(server: Dispatcher, place: Place, group: GroupRecord) -> GroupDetails:
    members = server.connection_groups.members(group_place(place, group), place.topic.partitions)
    shown = tuple(GroupMember(client, partitions) for client, partitions in sorted(members.items()))
    return GroupDetails(group.id, place.topic.partitions, len(members), group.name, shown)


def get_group(server: Dispatcher, session: Session, command: GetGroup) -> GroupDetails | None:
    """Return a group with its members."""
    place, group = _find(server, session, command)
    return _detail(server, place, group)


def list_groups(server: Dispatcher, session: Session, command: ListGroups) -> tuple[Group, ...]:
    """Return the groups of a topic, in the order of their ids."""
    place = _permitted(server, session, command)
    topic, count = place.topic, server.connection_groups.count
    return tuple(Group(each.id, topic.partitions, count(group_place(place, each)), each.name) for each in topic.groups)


def create_group(server: Dispatcher, session: Session, command: CreateGroup) -> GroupDetails:
    """Make a group; one of its name that has committed something goes on there."""
    log = server.broker.backing.writable_log()
    with log.administration:
        place = _permitted(server, session, command)
        Consumer.group(command.name)  # refuses what offsets cannot be kept under
        for group in place.topic.groups:
            if group.name == command.name:
                status, taken = Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS, repr(group.name)
                raise refusal(status, f"there is a consumer group {taken} already", where=str(place.topic.name))
        if any(group.id == command.id for group in place.topic.groups):
            status = Status.CONSUMER_GROUP_ID_ALREADY_EXISTS
            raise refusal(status, f"there is a consumer group {command.id} already", where=str(place.topic.name))
        number = add_group(log, place.topic, command.name, command.id or None)
    return _detail(server, place, GroupRecord(number, command.name))


def delete_group(server: Dispatcher, session: Session, command: DeleteGroup) -> None:
    """Delete a group, with its members and with what it has stored; of our own ones, that nobody made, what they have stored."""
    with server.broker.backing.writable_log().administration:
        if session.is_extended and isinstance(command.group, str):
            place = server.places.topic(command.stream, command.topic)
            server.rights(session).read_topic(place.stream.id, place.topic.id)
            if command.group not in {group.name for group in place.topic.groups}:
                server.broker.groups.delete(place.topic.name, command.group)
                return
        (stream, topic), group = _find(server, session, command)
        server.connection_groups.forget(stream.number, topic.id, group.id)
        server.broker.groups.delete(topic.name, group.name)


def join_group(server: Dispatcher, session: Session, command: JoinGroup) -> None:
    """Make the connection that asks a member."""
    place, group = _find(server, session, command)
    if session.transport is None:
        raise refusal(Status.FEATURE_UNAVAILABLE, "a request over HTTP cannot join a group", advice="Connect over TCP")
    where = group_place(place, group)
    groups = server.broker.groups
    server.connection_groups.join(session.client_id, where, lambda: groups.hold(place.topic.name, group.name))


def leave_group(server: Dispatcher, session: Session, command: LeaveGroup) -> None:
    """Let the connection that asks leave a group; not being a member is fine."""
    place, group = _find(server, session, command)
    server.connection_groups.leave(session.client_id, group_place(place, group))


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    GetGroup: get_group,
    ListGroups: list_groups,
    CreateGroup: create_group,
    DeleteGroup: delete_group,
    JoinGroup: join_group,
    LeaveGroup: leave_group,
}
