"""Consumer groups: Iggy groups, which connections join, and Headstream groups, whose members keep their partitions.

The stored offsets of a group belong to the group's name, so that embedded and remote consumers continue from the same offsets. A
group cannot have connections (Iggy) and members (Headstream) at the same time (GROUP_IN_USE), because the two kinds of groups
assign partitions differently.

Headstream's commands identify a group by name; a number is the id of a group that an Iggy client has created.
"""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition, group_key
from headstream.broker.commands.topic_lookup import FoundTopic, consumer_of, find_group
from headstream.core.model.groups import Group as GroupState
from headstream.core.model.polling import OffsetOwner
from headstream.core.wire.commands.groups import (
    CreateGroup,
    DeleteGroup,
    GetGroup,
    Group,
    GroupAssignment,
    GroupDetails,
    GroupMember,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    SyncGroup,
)
from headstream.core.wire.extensions.groups import (
    CommitMember,
    CommitOffsets,
    CommittedOffsets,
    EnterGroup,
    ExitGroup,
    GetGroupLag,
    GroupGeneration,
    GroupLag,
    ListGroupLags,
    ListOffsets,
    MemberAssignment,
    MemberLag,
    NewMember,
    PartitionLag,
    ReportMember,
    SeekGroup,
)
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import Identifier
from headstream.core.wire.statuses import Status
from headstream.errors import ConsumersLimitError
from headstream.log.administration import create_group as add_group
from headstream.log.catalog.records import GroupRecord


def _permitted(server: Dispatcher, session: Session, command: ListGroups | CreateGroup) -> FoundTopic:
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).read_topic(target.stream.id, target.topic.id)
    return target


def _find(
    server: Dispatcher, session: Session, command: GetGroup | DeleteGroup | JoinGroup | LeaveGroup | SyncGroup
) -> tuple[FoundTopic, GroupRecord]:
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).read_topic(target.stream.id, target.topic.id)
    return target, find_group(target.topic, command.group)


def _detail(server: Dispatcher, target: FoundTopic, group: GroupRecord) -> GroupDetails:
    members = server.connection_groups.members(group_key(target, group), target.topic.partitions)
    shown = tuple(GroupMember(client, partitions) for client, partitions in sorted(members.items()))
    return GroupDetails(group.id, target.topic.partitions, len(members), group.name, shown)


def get_group(server: Dispatcher, session: Session, command: GetGroup) -> GroupDetails | None:
    """Return a group with its members."""
    target, group = _find(server, session, command)
    return _detail(server, target, group)


def list_groups(server: Dispatcher, session: Session, command: ListGroups) -> tuple[Group, ...]:
    """Return the groups of a topic, ordered by id."""
    target = _permitted(server, session, command)
    topic, count = target.topic, server.connection_groups.count
    return tuple(Group(each.id, topic.partitions, count(group_key(target, each)), each.name) for each in topic.groups)


def create_group(server: Dispatcher, session: Session, command: CreateGroup) -> GroupDetails:
    """Create a group; if offsets are committed for its name, the group continues from these offsets."""
    with (log := server.broker.backing.writable_log()).administration:
        target = _permitted(server, session, command)
        OffsetOwner.group(command.name)  # rejects names under which offsets cannot be stored
        for group in target.topic.groups:
            if group.name == command.name:
                status, taken = Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS, repr(group.name)
                raise refusal(status, f"the consumer group {taken} already exists", where=str(target.topic.name))
        if any(group.id == command.id for group in target.topic.groups):
            status = Status.CONSUMER_GROUP_ID_ALREADY_EXISTS
            raise refusal(status, f"the consumer group {command.id} already exists", where=str(target.topic.name))
        if len(target.topic.groups) >= server.settings.most_consumers:
            raise ConsumersLimitError(
                f"the limit of {server.settings.most_consumers} consumer groups per topic is reached",
                where=str(target.topic.name),
                advice="Delete groups that are not needed, or raise headstream.max_consumers_per_user",
            )
        number = add_group(log, target.topic, command.name, command.id or None)
    return _detail(server, target, GroupRecord(number, command.name))


def delete_group(server: Dispatcher, session: Session, command: DeleteGroup) -> None:
    """Delete a group with its members and stored offsets; for a group that was never created, only the offsets."""
    with server.broker.backing.writable_log().administration:
        if session.is_extended and isinstance(command.group, str):
            target = server.lookup.topic(command.stream, command.topic)
            server.rights(session).read_topic(target.stream.id, target.topic.id)
            if command.group not in {group.name for group in target.topic.groups}:
                server.broker.groups.delete(target.topic.name, command.group)
                return
        (stream, topic), group = _find(server, session, command)
        server.connection_groups.forget(stream.number, topic.id, group.id)
        server.broker.groups.delete(topic.name, group.name)


def join_group(server: Dispatcher, session: Session, command: JoinGroup) -> None:
    """Add the client's connection to a group."""
    target, group = _find(server, session, command)
    if session.transport is None:
        raise refusal(Status.FEATURE_UNAVAILABLE, "a request over HTTP cannot join a group", advice="Connect over TCP")
    where = group_key(target, group)
    groups = server.broker.groups
    server.connection_groups.join(session.client_id, where, lambda: groups.hold(target.topic.name, group.name))


def leave_group(server: Dispatcher, session: Session, command: LeaveGroup) -> None:
    """Remove the client's connection from a group; idempotent."""
    target, group = _find(server, session, command)
    server.connection_groups.leave(session.client_id, group_key(target, group))


def sync_group(server: Dispatcher, session: Session, command: SyncGroup) -> GroupAssignment | None:
    """Return the partitions that a group assigns to the client's connection, or None."""
    target, group = _find(server, session, command)
    found = server.connection_groups.assignment(session.client_id, group_key(target, group), target.topic.partitions)
    return None if found is None else GroupAssignment(*found)


def _name_of(target: FoundTopic, group: Identifier) -> str:
    return group if isinstance(group, str) else find_group(target.topic, group).name


def get_group_lag(server: Dispatcher, session: Session, command: GetGroupLag) -> GroupLag:
    """Return the lag of a group."""
    target = server.readable_topic(session, command.stream, command.topic)
    return _describe(server, target, server.broker.groups.get(target.topic.name, _name_of(target, command.group)))


def list_group_lags(server: Dispatcher, session: Session, command: ListGroupLags) -> tuple[GroupLag, ...]:
    """Return the lags of all of a topic's groups."""
    target = server.readable_topic(session, command.stream, command.topic)
    return tuple(_describe(server, target, group) for group in server.broker.groups.list(target.topic.name))


def seek_group(server: Dispatcher, session: Session, command: SeekGroup) -> GroupLag:
    """Set the offsets of a group without members; a missing group is created, so that Iggy clients can join it."""
    target = server.readable_topic(session, command.stream, command.topic)
    name = _name_of(target, command.group)
    if name not in {made.name for made in target.topic.groups}:
        server.rights(session).read_topic(target.stream.id, target.topic.id)  # as for creating a group
    found = server.broker.groups.seek(target.topic.name, name, command.offsets, user_id=session.user_id)
    with (log := server.broker.backing.writable_log()).administration:
        target = server.readable_topic(session, command.stream, command.topic)
        if found.name not in {made.name for made in target.topic.groups}:
            add_group(log, target.topic, found.name)
    return _describe(server, target, found)


def enter_group(server: Dispatcher, session: Session, command: EnterGroup) -> NewMember:
    """Add a new member to a group."""
    target = server.readable_topic(session, command.stream, command.topic)
    name = _name_of(target, command.group)
    timeout_ms = command.session_timeout_ms
    return NewMember(server.members.enter(session, target.topic.name, name, timeout_ms, is_shared=command.is_shared).id)


def exit_group(server: Dispatcher, session: Session, command: ExitGroup) -> None:
    """Remove a member."""
    server.members.exit(session, command.member)


def report_member(server: Dispatcher, session: Session, command: ReportMember) -> MemberAssignment:
    """Record a member's heartbeat and the partitions that it releases."""
    target = server.readable_topic(session, command.stream, command.topic)
    member = server.members.find(session, command.member)
    found = server.broker.groups.report(target.topic.name, member, released=command.released, is_resting=command.is_resting)
    return MemberAssignment(found.generation, found.partitions, found.revoked)


def commit_member(server: Dispatcher, session: Session, command: CommitMember) -> GroupGeneration:
    """Commit offsets of a group for one of its members."""
    target = server.readable_topic(session, command.stream, command.topic)
    member = server.members.find(session, command.member)
    return GroupGeneration(
        server.broker.groups.commit(
            target.topic.name,
            member,
            command.offsets,
            generation=command.generation,
            generations=command.generations,
            is_resting=command.is_resting,
            user_id=session.user_id,
        )
    )


def commit_offsets(server: Dispatcher, session: Session, command: CommitOffsets) -> None:
    """Commit the offsets of a consumer's next messages, by partition."""
    target = server.readable_topic(session, command.stream, command.topic)
    for partition in command.offsets:
        check_partition(target, partition)
    consumer = consumer_of(target.topic, command.consumer, must_exist=False)
    server.broker.offsets.commit(
        target.topic.name, consumer, command.offsets, generations=command.generations, user_id=session.user_id
    )


def list_offsets(server: Dispatcher, session: Session, command: ListOffsets) -> CommittedOffsets:
    """Return the offsets of a consumer's next messages, by partition."""
    target = server.readable_topic(session, command.stream, command.topic)
    consumer = consumer_of(target.topic, command.consumer, must_exist=False)
    return CommittedOffsets(server.broker.offsets.committed(target.topic.name, consumer))


def _describe(server: Dispatcher, target: FoundTopic, group: GroupState) -> GroupLag:
    """Return the details of a group; connections of Iggy clients are also listed as members."""
    members = {member.id: tuple(member.partitions) for member in group.members}
    for made in target.topic.groups:
        if made.name == group.name:
            members |= server.connection_groups.members(group_key(target, made), target.topic.partitions)
    owners = {partition: member for member, partitions in members.items() for partition in partitions}
    return GroupLag.of(
        group,
        members=tuple(MemberLag(member, partitions) for member, partitions in members.items()),
        partitions=tuple(PartitionLag.of(part, member=owners.get(part.number)) for part in group.partitions),
    )


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetGroup: CommandRow(get_group),
    ListGroups: CommandRow(list_groups),
    CreateGroup: CommandRow(create_group, is_slow=True),
    DeleteGroup: CommandRow(delete_group, is_slow=True),
    JoinGroup: CommandRow(join_group),
    LeaveGroup: CommandRow(leave_group),
    SyncGroup: CommandRow(sync_group),
    GetGroupLag: CommandRow(get_group_lag, is_slow=True),
    ListGroupLags: CommandRow(list_group_lags, is_slow=True, threads="scans"),
    SeekGroup: CommandRow(seek_group, is_slow=True),
    EnterGroup: CommandRow(enter_group),
    ExitGroup: CommandRow(exit_group),
    ReportMember: CommandRow(report_member),
    CommitMember: CommandRow(commit_member),
    CommitOffsets: CommandRow(commit_offsets),
    ListOffsets: CommandRow(list_offsets),
}
