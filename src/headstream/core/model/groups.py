"""Consumer groups, their members, and the partitions assigned to a member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

DEFAULT_SESSION_TIMEOUT_MS: Final = 60_000
"""Maximum time between reports of a member whose partitions other members need; exceeds the processing time of a message."""


@dataclass(frozen=True, slots=True)
class Member:
    """A group member with an id that is unique among all members of the log's groups."""

    group: str
    id: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions assigned to a member.

    Args:
        generation: Increases with every change of the group's assignments.
        partitions: Number of each partition that only this member reads -> the generation since which the member has owned it.
        revoked: Partitions to release once their messages in progress are processed, with generations as in `partitions`.
    """

    generation: int
    partitions: Mapping[int, int] = field(default_factory=dict)
    revoked: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group in this process.

    Args:
        id: From 1.
        partitions: The member's partitions, sorted.
    """

    id: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """The progress of a group in a partition.

    Args:
        number: From 1.
        committed: Offset of the next message to read, or None if nothing is committed.
        first_offset: Offset of the oldest existing message.
        end_offset: One past the newest offset.
        member: Id of the member that reads the partition, or None.
    """

    number: int
    committed: int | None
    first_offset: int
    end_offset: int
    member: int | None = None

    @property
    def lag(self) -> int:
        """Number of existing messages after the committed offset; all existing messages if nothing is committed."""
        begin = self.first_offset if self.committed is None else max(self.committed, self.first_offset)
        return max(self.end_offset - begin, 0)


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group of a topic.

    Args:
        topic: `stream/topic`.
        generation: Increases with every change of assignments; 0 while the group has no members in this process.
        members: The group's members in this process.
        partitions: The group's progress by partition.
        process: The id of another process whose members read for the group, or None.
    """

    topic: str
    name: str
    generation: int = 0
    members: tuple[GroupMember, ...] = field(default=())
    partitions: tuple[GroupPartition, ...] = field(default=())
    process: int | None = None

    @property
    def lag(self) -> int:
        """Sum of the lags of all partitions."""
        return sum(partition.lag for partition in self.partitions)
