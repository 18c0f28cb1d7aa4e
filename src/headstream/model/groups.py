"""Consumer groups, as a user sees them, and what a member of one is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["DEFAULT_SESSION_TIMEOUT_MS", "Assignment", "Group", "GroupMember", "GroupPartition", "Member"]

DEFAULT_SESSION_TIMEOUT_MS: Final = 60_000
"""How long a member may be silent while others wait for its partitions: longer than a message should take."""


@dataclass(frozen=True, slots=True)
class Member:
    """Who takes part in a group.

    Args:
        group: The group's name.
        id: Tells it from all other members of groups of the log.
    """

    group: str
    id: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which partitions a member has.

    Args:
        generation: Grows with every change of who has what in the group.
        partitions: Those it reads, nobody else does, each with the generation since which it has it without a break.
        revoked: Those it still has, and is to give up as soon as what it has in hand of them is done; likewise.
    """

    generation: int
    partitions: Mapping[int, int] = field(default_factory=dict)
    revoked: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group, in this process.

    Args:
        id: From 1.
        partitions: The partitions it has, sorted.
    """

    id: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """How far a group has come in a partition.

    Args:
        number: From 1.
        committed: Offset of the next message to read, or None where nothing is committed.
        first_offset: Offset of the oldest message that is there.
        end_offset: One past the newest.
        member: The id of the member that has it, or None.
    """

    number: int
    committed: int | None
    first_offset: int
    end_offset: int
    member: int | None = None

    @property
    def lag(self) -> int:
        """How many messages are there to be read; all where nothing is committed."""
        begin = self.first_offset if self.committed is None else max(self.committed, self.first_offset)
        return max(self.end_offset - begin, 0)


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group of a topic.

    Args:
        topic: `stream/topic`.
        name: Its name.
        generation: Grows with every change of who has what; 0 while it has no members in this process.
        members: Its members in this process.
        partitions: How far it has come, by partition.
        process: The id of another process whose members read for it, or None.
    """

    topic: str
    name: str
    generation: int = 0
    members: tuple[GroupMember, ...] = field(default=())
    partitions: tuple[GroupPartition, ...] = field(default=())
    process: int | None = None

    @property
    def lag(self) -> int:
        """How many messages are there to be read in all partitions."""
        return sum(partition.lag for partition in self.partitions)
