"""Commands for consumer groups.

group    id u32 | partitions_count u32 | members_count u32 | name text8
member   id u32 | partitions_count u32 | partition u32 ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from headstream.core.codec.buffer import Reader, Writer
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.records import GroupCommand, Record, Records, TopicCommand, many, maybe, one
from headstream.core.wire.shapes import U32, U64, AbsentU32, Json, Shape, Text8, invalid_value
from headstream.core.wire.statuses import Status


class PartitionsShape(Shape):
    """count u32 | number u32 ..."""

    def push(self, writer: Writer, value: tuple[int, ...]) -> None:
        writer.push_u32(len(value))
        for number in value:
            writer.push_u32(number)

    def pull(self, reader: Reader, what: str) -> tuple[int, ...]:
        inner = Reader(reader.pull_view(4 * reader.pull_u32(f"the number of {what}"), what))
        return tuple(inner.pull_u32(what) for _ in range(inner.remaining // 4))

    def from_json_value(self, json_value: Any, where: str) -> tuple[int, ...]:
        if not isinstance(json_value, list) or not all(type(number) is int for number in json_value):
            raise invalid_value(json_value, "a list of numbers", where)
        return tuple(json_value)

    def to_json_value(self, value: tuple[int, ...]) -> list[int]:
        return list(value)


@dataclass(frozen=True, slots=True)
class Group(Record):
    """One group."""

    id: U32
    partitions_count: U32
    members_count: U32
    name: Text8


@dataclass(frozen=True, slots=True)
class GroupMember(Record):
    """A member, whose id is the client id of its connection, and the member's partitions."""

    id: U32
    partitions: Annotated[tuple[int, ...], PartitionsShape()]

    def spell(self) -> dict[str, Any]:
        return {"id": self.id, "partitions_count": len(self.partitions), "partitions": list(self.partitions)}


@dataclass(frozen=True, slots=True)
class GroupDetails(Group):
    """One group with its members, which extend to the end of the bytes."""

    members: Annotated[tuple[GroupMember, ...], Records(GroupMember)] = ()


@dataclass(frozen=True, slots=True)
class GroupAssignment(Record):
    """The partitions of a member; the generation increases with each change of the group."""

    generation: U64
    partitions: Annotated[tuple[int, ...], PartitionsShape()]


@dataclass(frozen=True, slots=True)
class GetGroup(GroupCommand[GroupDetails | None]):
    """Return a group, or None."""

    code = Code.GET_GROUP
    reply = maybe(GroupDetails)


@dataclass(frozen=True, slots=True)
class ListGroups(TopicCommand[tuple[Group, ...]]):
    """Return the groups of a topic."""

    code = Code.LIST_GROUPS
    reply = many(Group)


@dataclass(frozen=True, slots=True)
class CreateGroup(TopicCommand[GroupDetails]):
    """Create a group; if the id is 0, the server chooses an id."""

    code = Code.CREATE_GROUP
    reply = one(GroupDetails)
    id: Annotated[AbsentU32, Json("group_id")]
    name: Text8

    def validate(self) -> None:
        check_bytes(self.name, 1, 255, Status.INVALID_CONSUMER_GROUP_NAME, "a consumer group name")


@dataclass(frozen=True, slots=True)
class DeleteGroup(GroupCommand[None]):
    """Delete a group with its offsets."""

    code = Code.DELETE_GROUP


@dataclass(frozen=True, slots=True)
class JoinGroup(GroupCommand[None]):
    """Make this connection a member of a group."""

    code = Code.JOIN_GROUP


@dataclass(frozen=True, slots=True)
class LeaveGroup(GroupCommand[None]):
    """Leave a group."""

    code = Code.LEAVE_GROUP


@dataclass(frozen=True, slots=True)
class SyncGroup(GroupCommand[GroupAssignment | None]):
    """Return this connection's partitions in a group, or None if the connection is not a member."""

    code = Code.SYNC_GROUP
    reply = maybe(GroupAssignment)
