"""Groups whose members keep what they have while others come and go, how far groups are behind, and offsets of many
partitions at once. An offset that is committed here is that of the next message, not of the last one processed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from headstream.wire.codes import Code
from headstream.wire.extensions.shapes import AnyConsumer, ByNumber, MaybeU64, MemberId, NoNumbers, Numbers
from headstream.wire.records import Command, Record, Records, many, one
from headstream.wire.shapes import U32, U64, Default, Flag, GroupId, StreamId, Text32, TopicId

__all__ = [
    "CommitMember",
    "CommitOffsets",
    "CommittedOffsets",
    "EnterGroup",
    "ExitGroup",
    "GetGroupLag",
    "GroupGeneration",
    "GroupLag",
    "ListGroupLags",
    "ListOffsets",
    "MemberAssignment",
    "MemberLag",
    "Membership",
    "PartitionLag",
    "ReportMember",
    "SeekGroup",
]


@dataclass(frozen=True, slots=True)
class MemberLag(Record):
    """A member and its partitions."""

    id: U64
    partitions: Numbers


@dataclass(frozen=True, slots=True)
class PartitionLag(Record):
    """How far a group has come in a partition, as model/groups.py has it."""

    number: U32
    committed: MaybeU64
    first_offset: U64
    end_offset: U64
    member: MaybeU64


@dataclass(frozen=True, slots=True)
class GroupLag(Record):
    """One group, as model/groups.py has it."""

    name: Text32
    generation: U64
    process: MaybeU64
    members: Annotated[tuple[MemberLag, ...], Records(MemberLag, is_counted=True)]
    partitions: Annotated[tuple[PartitionLag, ...], Records(PartitionLag, is_counted=True)]

    @property
    def lag(self) -> int:
        """How many messages are there to be read in all partitions."""
        begins = [max(part.committed or 0, part.first_offset) for part in self.partitions]
        return sum(max(part.end_offset - begin, 0) for part, begin in zip(self.partitions, begins, strict=True))

    def spell(self) -> dict[str, Any]:
        """Return it as a JSON object, with its lag."""
        return Record.spell(self) | {"lag": self.lag}


@dataclass(frozen=True, slots=True)
class GetGroupLag(Command[GroupLag]):
    """Return how far a group is behind."""

    code = Code.GET_GROUP_LAG
    reply = one(GroupLag)
    stream: StreamId
    topic: TopicId
    group: GroupId


@dataclass(frozen=True, slots=True)
class ListGroupLags(Command[tuple[GroupLag, ...]]):
    """Return how far all groups of a topic are behind."""

    code = Code.LIST_GROUP_LAGS
    reply = many(GroupLag)
    stream: StreamId
    topic: TopicId


@dataclass(frozen=True, slots=True)
class SeekGroup(Command[GroupLag]):
    """Say where a group without members goes on, by partition."""

    code = Code.SEEK_GROUP
    reply = one(GroupLag)
    stream: StreamId
    topic: TopicId
    group: GroupId
    offsets: ByNumber


@dataclass(frozen=True, slots=True)
class Membership(Record):
    """Who a member is."""

    member_id: U64


@dataclass(frozen=True, slots=True)
class EnterGroup(Command[Membership]):
    """Take a new member into a group; it reports within the timeout, or is let go."""

    code = Code.ENTER_GROUP
    reply = one(Membership)
    stream: StreamId
    topic: TopicId
    group: GroupId
    session_timeout_ms: U32


@dataclass(frozen=True, slots=True)
class ExitGroup(Command[None]):
    """Let a member go."""

    code = Code.EXIT_GROUP
    stream: StreamId
    topic: TopicId
    group: GroupId
    member: MemberId


@dataclass(frozen=True, slots=True)
class MemberAssignment(Record):
    """What a member reads and what it is to give up: the generation since which it has a partition, by its number."""

    generation: U64
    partitions: ByNumber
    revoked: ByNumber


@dataclass(frozen=True, slots=True)
class ReportMember(Command[MemberAssignment]):
    """Say that a member is alive and what it gives up."""

    code = Code.REPORT_MEMBER
    reply = one(MemberAssignment)
    stream: StreamId
    topic: TopicId
    group: GroupId
    member: MemberId
    released: Numbers
    is_resting: Annotated[Flag, Default(False)] = False


@dataclass(frozen=True, slots=True)
class GroupGeneration(Record):
    """Grows with every change of who has what."""

    generation: U64


@dataclass(frozen=True, slots=True)
class CommitMember(Command[GroupGeneration]):
    """Commit where a group goes on, for one of its members, by partition."""

    code = Code.COMMIT_MEMBER
    reply = one(GroupGeneration)
    stream: StreamId
    topic: TopicId
    group: GroupId
    member: MemberId
    generation: U64
    offsets: ByNumber
    generations: NoNumbers
    is_resting: Annotated[Flag, Default(False)] = False


@dataclass(frozen=True, slots=True)
class CommitOffsets(Command[None]):
    """Commit where a consumer goes on, by partition; `generations` are those of the partitions it polled."""

    code = Code.COMMIT_OFFSETS
    stream: StreamId
    topic: TopicId
    consumer: AnyConsumer
    offsets: ByNumber
    generations: NoNumbers


@dataclass(frozen=True, slots=True)
class CommittedOffsets(Record):
    """Where a consumer goes on, by partition."""

    offsets: ByNumber


@dataclass(frozen=True, slots=True)
class ListOffsets(Command[CommittedOffsets]):
    """Return where a consumer goes on."""

    code = Code.LIST_OFFSETS
    reply = one(CommittedOffsets)
    stream: StreamId
    topic: TopicId
    consumer: AnyConsumer
