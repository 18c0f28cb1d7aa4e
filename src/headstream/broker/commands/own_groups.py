"""Our own commands about groups: members that keep what they have, how far groups are behind, offsets of many partitions.

A group goes by its name; a number is that of one that an existing client has made.
"""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import check_partition, group_place
from headstream.broker.commands.places import Place, consumer_of, find_group
from headstream.broker.sessions import Session
from headstream.log.administration import create_group
from headstream.model.groups import Group
from headstream.wire.extensions.groups import (
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
    Membership,
    PartitionLag,
    ReportMember,
    SeekGroup,
)
from headstream.wire.records import Command
from headstream.wire.shapes import Identifier

__all__ = ["HANDLERS"]


def _readable(server: Dispatcher, session: Session, stream: Identifier, topic: Identifier) -> Place:
    place = server.places.topic(stream, topic)
    server.rights(session).poll(place.stream.id, place.topic.id)
    return place


def _name_of(place: Place, group: Identifier) -> str:
    return group if isinstance(group, str) else find_group(place.topic, group).name


def get_group_lag(server: Dispatcher, session: Session, command: GetGroupLag) -> GroupLag:
    """Return how far a group is behind."""
    place = _readable(server, session, command.stream, command.topic)
    return _describe(server, place, server.broker.groups.get(place.topic.name, _name_of(place, command.group)))


def list_group_lags(server: Dispatcher, session: Session, command: ListGroupLags) -> tuple[GroupLag, ...]:
    """Return how far all groups of a topic are behind."""
    place = _readable(server, session, command.stream, command.topic)
    return tuple(_describe(server, place, group) for group in server.broker.groups.list(place.topic.name))


def seek_group(server: Dispatcher, session: Session, command: SeekGroup) -> GroupLag:
    """Say where a group goes on that nobody reads for; one that is not there is made, so that existing clients can join it."""
    place = _readable(server, session, command.stream, command.topic)
    name = _name_of(place, command.group)
    if name not in {made.name for made in place.topic.groups}:
        server.rights(session).read_topic(place.stream.id, place.topic.id)  # as who makes a group
    found = server.broker.groups.seek(place.topic.name, name, command.offsets)
    log = server.broker.backing.writable_log()
    with log.administration:
        place = _readable(server, session, command.stream, command.topic)
        if found.name not in {made.name for made in place.topic.groups}:
            create_group(log, place.topic, found.name)
    return _describe(server, place, found)


def enter_group(server: Dispatcher, session: Session, command: EnterGroup) -> Membership:
    """Take a new member into a group."""
    place = _readable(server, session, command.stream, command.topic)
    name = _name_of(place, command.group)
    return Membership(server.members.enter(session, place.topic.name, name, command.session_timeout_ms).id)


def exit_group(server: Dispatcher, session: Session, command: ExitGroup) -> None:
    """Let a member go."""
    server.members.exit(session, command.member)


def report_member(server: Dispatcher, session: Session, command: ReportMember) -> MemberAssignment:
    """Say that a member is alive and what it gives up."""
    place = _readable(server, session, command.stream, command.topic)
    member = server.members.find(session, command.member)
    found = server.broker.groups.report(place.topic.name, member, released=command.released, is_resting=command.is_resting)
    return MemberAssignment(found.generation, found.partitions, found.revoked)


def commit_member(server: Dispatcher, session: Session, command: CommitMember) -> GroupGeneration:
    """Commit where a group goes on, for one of its members."""
    place = _readable(server, session, command.stream, command.topic)
    member = server.members.find(session, command.member)
    return GroupGeneration(
        server.broker.groups.commit(
            place.topic.name,
            member,
            command.offsets,
            generation=command.generation,
            generations=command.generations,
            is_resting=command.is_resting,
        )
    )


def commit_offsets(server: Dispatcher, session: Session, command: CommitOffsets) -> None:
    """Commit where a consumer goes on, by partition."""
    place = _readable(server, session, command.stream, command.topic)
    for partition in command.offsets:
        check_partition(place, partition)
    consumer = consumer_of(place.topic, command.consumer, must_exist=False)
    server.broker.offsets.commit(place.topic.name, consumer, command.offsets, generations=command.generations)


def list_offsets(server: Dispatcher, session: Session, command: ListOffsets) -> CommittedOffsets:
    """Return where a consumer goes on, by partition."""
    place = _readable(server, session, command.stream, command.topic)
    consumer = consumer_of(place.topic, command.consumer, must_exist=False)
    return CommittedOffsets(server.broker.offsets.committed(place.topic.name, consumer))


def _describe(server: Dispatcher, place: Place, group: Group) -> GroupLag:
    """Return what is told of a group; the connections of existing clients that read for it are its members too."""
    members = {member.id: tuple(member.partitions) for member in group.members}
    for made in place.topic.groups:
        if made.name == group.name:
            members |= server.connection_groups.members(group_place(place, made), place.topic.partitions)
    owners = {partition: member for member, partitions in members.items() for partition in partitions}
    return GroupLag(
        group.name,
        group.generation,
        group.process,
        tuple(MemberLag(member, partitions) for member, partitions in members.items()),
        tuple(
            PartitionLag(part.number, part.committed, part.first_offset, part.end_offset, owners.get(part.number))
            for part in group.partitions
        ),
    )


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    GetGroupLag: get_group_lag,
    ListGroupLags: list_group_lags,
    SeekGroup: seek_group,
    EnterGroup: enter_group,
    ExitGroup: exit_group,
    ReportMember: report_member,
    CommitMember: commit_member,
    CommitOffsets: commit_offsets,
    ListOffsets: list_offsets,
}
