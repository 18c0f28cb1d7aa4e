"""Commands for groups with sticky partition assignments, group lags, and offsets of several partitions.

An offset committed with these commands is the offset of the next message, not of the last processed message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from headstream.core.wire.codes import Code
from headstream.core.wire.extensions.shapes import (
    AnyConsumer,
    ByNumber,
    ByNumberOrEmpty,
    MaybeU64,
    MemberId,
    Numbers,
    TrailingFlag,
)
from headstream.core.wire.records import GroupCommand, Record, Records, TopicCommand, many, one
from headstream.core.wire.shapes import U32, U64, Default, Flag, Text32


@dataclass(frozen=True, slots=True)
class MemberLag(Record):
    """A member and its partitions."""

    id: U64
    partitions: Numbers


@dataclass(frozen=True, slots=True)
class PartitionLag(Record):
    """The progress of a group in a partition, with members as in core/model/groups.py."""

    number: U32
    committed: MaybeU64
    first_offset: U64
    end_offset: U64
    member: MaybeU64


@dataclass(frozen=True, slots=True)
class GroupLag(Record):
    """One group, with members as in core/model/groups.py."""

    name: Text32
    generation: U64
    process: MaybeU64
    members: Annotated[tuple[MemberLag, ...], Records(MemberLag, is_counted=True)]
    partitions: Annotated[tuple[PartitionLag, ...], Records(PartitionLag, is_counted=True)]

    @property
    def lag(self) -> int:
        """The number of unread messages in all partitions."""
        begins = [max(part.committed or 0, part.first_offset) for part in self.partitions]
        return sum(max(part.end_offset - begin, 0) for part, begin in zip(self.partitions, begins, strict=True))

    def spell(self) -> dict[str, Any]:
        """Return the lag as a JSON object, with the total."""
        return Record.spell(self) | {"lag": self.lag}


@dataclass(frozen=True, slots=True)
class GetGroupLag(GroupCommand[GroupLag]):
    """Return the lag of a group."""

    code = Code.GET_GROUP_LAG
    reply = one(GroupLag)


@dataclass(frozen=True, slots=True)
class ListGroupLags(TopicCommand[tuple[GroupLag, ...]]):
    """Return the lags of all of a topic's groups."""

    code = Code.LIST_GROUP_LAGS
    reply = many(GroupLag)


@dataclass(frozen=True, slots=True)
class SeekGroup(GroupCommand[GroupLag]):
    """Set the next offsets, by partition, of a group that has no members."""

    code = Code.SEEK_GROUP
    reply = one(GroupLag)
    offsets: ByNumber


@dataclass(frozen=True, slots=True)
class NewMember(Record):
    """The id of a new member."""

    member_id: U64


@dataclass(frozen=True, slots=True)
class EnterGroup(GroupCommand[NewMember]):
    """Add a member to a group. The member is removed if it does not report within the session timeout.

    A shared member leases messages and owns no partitions; then all members of the group must be shared members.
    """

    code = Code.ENTER_GROUP
    reply = one(NewMember)
    session_timeout_ms: U32
    is_shared: Annotated[bool, TrailingFlag(), Default(False)] = False


@dataclass(frozen=True, slots=True)
class ExitGroup(GroupCommand[None]):
    """Remove a member from a group."""

    code = Code.EXIT_GROUP
    member: MemberId


@dataclass(frozen=True, slots=True)
class MemberAssignment(Record):
    """The partitions that a member reads, and the partitions that it must release: number -> generation of the assignment."""

    generation: U64
    partitions: ByNumber
    revoked: ByNumber


@dataclass(frozen=True, slots=True)
class ReportMember(GroupCommand[MemberAssignment]):
    """Send a heartbeat of a member, with the partitions that the member releases."""

    code = Code.REPORT_MEMBER
    reply = one(MemberAssignment)
    member: MemberId
    released: Numbers
    is_resting: Annotated[Flag, Default(False)] = False


@dataclass(frozen=True, slots=True)
class GroupGeneration(Record):
    """The generation of a group, which increases with every change of assignments."""

    generation: U64


@dataclass(frozen=True, slots=True)
class CommitMember(GroupCommand[GroupGeneration]):
    """Commit a group's next offsets, by partition, on behalf of a member."""

    code = Code.COMMIT_MEMBER
    reply = one(GroupGeneration)
    member: MemberId
    generation: U64
    offsets: ByNumber
    generations: ByNumberOrEmpty
    is_resting: Annotated[Flag, Default(False)] = False


@dataclass(frozen=True, slots=True)
class CommitOffsets(TopicCommand[None]):
    """Commit a consumer's next offsets by partition; `generations` are the generations of the polled partitions."""

    code = Code.COMMIT_OFFSETS
    consumer: AnyConsumer
    offsets: ByNumber
    generations: ByNumberOrEmpty


@dataclass(frozen=True, slots=True)
class CommittedOffsets(Record):
    """The next offsets of a consumer, by partition."""

    offsets: ByNumber


@dataclass(frozen=True, slots=True)
class ListOffsets(TopicCommand[CommittedOffsets]):
    """Return the next offsets of a consumer."""

    code = Code.LIST_OFFSETS
    reply = one(CommittedOffsets)
    consumer: AnyConsumer
