"""GroupMembers: the members of one group and the owners of its partitions. Sans-IO: time is an argument.

    membership.join(7, 60, now)                       a member joins: partitions are reassigned
    membership.report(7, [1, 2, 3], now)              heartbeat; returns the member's assignment
    membership.report(7, [1, 2, 3], now, released=(2,))   the member has finished a revoked partition
    membership.owns(7, 2, generation)                 whether the member has owned partition 2 since a generation
    membership.leave(7, now)                          the member leaves

To move a partition to another member, the group revokes it (Assignment.revoked); the owner finishes its messages in progress and
then releases the partition (released). The group reassigns a partition without waiting for a release

- immediately from a resting member, which has no messages in progress and reports before it takes more;
- after the session timeout from a member that does not release the partition;
- from a member without a report for its session timeout, if other members exist. The member can join again.

A member cannot commit in a partition that it has lost; the next owner receives the uncommitted messages again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headstream.core.model.groups import Assignment, GroupMember
from headstream.errors import RebalancedError

# assign(): distributes partitions over the members of a group. Pure.
#
#     assign([7, 9], [1, 2, 3], {})                   {1: 7, 2: 9, 3: 7}     balanced, round-robin
#     assign([7, 9, 8], [1, 2, 3], {1: 7, 2: 9, 3: 7})  {1: 7, 2: 9, 3: 8}     owners keep partitions if balance allows
#
# The partition counts of any two members differ by at most one; no balanced assignment moves fewer partitions.


def assign(members: Sequence[int], partitions: Sequence[int], owners: Mapping[int, int]) -> dict[int, int]:
    """Return partition -> member, with few changes to `owners`; partitions are ascending, members in joining order."""
    if not members:
        return {}
    held: dict[int, list[int]] = {member: [] for member in members}
    for partition in partitions:
        owner = owners.get(partition)
        if owner in held:
            held[owner].append(partition)
    least, extra = divmod(len(partitions), len(members))
    by_count = sorted(members, key=lambda member: -len(held[member]))  # stable: the member that joined first wins a tie
    quotas = {member: least + (i < extra) for i, member in enumerate(by_count)}
    result = {partition: member for member in members for partition in held[member][: quotas[member]]}
    spare = {member: quotas[member] - min(len(held[member]), quotas[member]) for member in members}
    free = [partition for partition in partitions if partition not in result]
    while free:
        for member in members:
            if spare[member] and free:
                spare[member] -= 1
                result[free.pop(0)] = member
    return dict(sorted(result.items()))


@dataclass(slots=True)
class _Member:
    session_timeout_s: float
    seen_s: float
    is_resting: bool = True
    assigned: Assignment = field(default_factory=lambda: Assignment(-1))


class GroupMembers:
    """The members of one group; not thread-safe. `generation`: the initial generation."""

    def __init__(self, generation: int = 0) -> None:
        self.generation = generation
        self._members: dict[int, _Member] = {}
        self._partitions: tuple[int, ...] = ()
        self._owners: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._targets: dict[int, int] = {}
        self._asked_s: dict[int, float] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no members."""
        return not self._members

    @property
    def owners(self) -> dict[int, int]:
        """Partition -> owner."""
        return dict(self._owners)

    def members(self) -> tuple[GroupMember, ...]:
        """Return the members and their partitions, in joining order."""
        return tuple(
            GroupMember(member, tuple(partition for partition, owner in sorted(self._owners.items()) if owner == member))
            for member in self._members
        )

    def join(self, member: int, session_timeout_s: float, now_s: float) -> None:
        """Add a member; an existing member loses its partitions. The timeout also limits holding revoked partitions."""
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner != member}
        self._members[member] = _Member(session_timeout_s, now_s)
        self._divide(now_s)

    def leave(self, member: int, now_s: float) -> None:
        """Remove a member and free its partitions immediately; a second call does nothing."""
        if self._members.pop(member, None) is not None:
            self._divide(now_s)

    def report(
        self, member: int, partitions: Sequence[int], now_s: float, *, released: Iterable[int] = (), is_resting: bool = False
    ) -> Assignment:
        """Record a member's heartbeat and released partitions; return the member's assignment.

        Raises:
            RebalancedError: the caller is not a member or was removed; it can join again.
        """
        state = self._known(member)
        state.seen_s, state.is_resting = now_s, is_resting
        is_changed = self._expire(now_s, apart_from=member)
        if tuple(partitions) != self._partitions:
            self._partitions, is_changed = tuple(partitions), True
        for partition in released:
            if self._owners.get(partition) == member and self._targets.get(partition) != member:
                del self._owners[partition]
                is_changed = True
        if is_changed or self._asked_s:
            self._divide(now_s)
        return self._assignment(member, state)

    def touch(self, member: int, now_s: float, *, is_resting: bool) -> None:
        """Record a member's heartbeat; no effect after the member's removal."""
        state = self._members.get(member)
        if state is not None:
            state.seen_s, state.is_resting = now_s, is_resting
            if is_resting and self._asked_s:
                self._divide(now_s)

    def owns(self, member: int, partition: int, generation: int) -> bool:
        """Return whether a member has owned a partition since a generation; True for a revoked partition until its release."""
        return self._owners.get(partition) == member and self._since[partition] <= generation

    def _known(self, member: int) -> _Member:
        state = self._members.get(member)
        if state is None:
            raise RebalancedError(
                f"member {member} timed out and left the group; its partitions were assigned to other members",
                advice="Uncommitted messages are delivered again; set a longer session_timeout_ms if messages take longer",
            )
        return state

    def _expire(self, now_s: float, *, apart_from: int) -> bool:
        silent = [
            member
            for member, state in self._members.items()
            if member != apart_from and now_s - state.seen_s > state.session_timeout_s
        ]
        for member in silent:
            del self._members[member]
        return bool(silent)

    def _divide(self, now_s: float) -> None:
        """Recompute the assignment, and move free partitions."""
        targets = assign(list(self._members), self._partitions, self._owners)
        owners: dict[int, int] = {}
        asked_s: dict[int, float] = {}
        for partition, target in targets.items():
            owner = self._owners.get(partition)
            state = None if owner is None else self._members.get(owner)
            owners[partition] = target
            if owner is None or state is None or owner == target or state.is_resting:
                continue
            since = self._asked_s.get(partition, now_s)
            if now_s - since <= state.session_timeout_s:
                owners[partition], asked_s[partition] = owner, since
        self._asked_s = asked_s
        if (owners, targets) != (self._owners, self._targets):
            self.generation += 1
            for partition, owner in owners.items():
                if self._owners.get(partition) != owner:
                    self._since[partition] = self.generation
            self._owners, self._targets = owners, targets

    def _assignment(self, member: int, state: _Member) -> Assignment:
        if state.assigned.generation != self.generation:
            kept: dict[int, int] = {}
            revoked: dict[int, int] = {}
            for partition, owner in self._owners.items():
                if owner == member:
                    (kept if self._targets[partition] == member else revoked)[partition] = self._since[partition]
            state.assigned = Assignment(self.generation, kept, revoked)
        return state.assigned
