"""Membership: who takes part in one group, and who has which partition. Sans-IO: time is an argument.

    membership.join(7, 60, now)                       a member comes: partitions are divided anew
    membership.report(7, [1, 2, 3], now)              what it has now; with it a member says that it is alive
    membership.report(7, [1, 2, 3], now, released=(2,))   it has finished what it was asked to give up
    membership.owns(7, 2, generation)                 whether it has had it since then, and so may commit there
    membership.leave(7, now)                          it goes

A partition goes from one member to another when the first has finished what it has in hand: it is asked for it
(Assignment.revoked), and gives it up (released). It is taken away

- at once from a member that rests: one with nothing in hand, that reports before it takes anything in hand again;
- after the session timeout from a member that does not give it up;
- from a member that has been silent for its session timeout while there are others. It is a member no more, and joins again.

Who has lost a partition may not commit there any more; what it had in hand goes to the next owner again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headstream.broker.assignment import assign
from headstream.errors import RebalancedError
from headstream.model.groups import Assignment, GroupMember

__all__ = ["Membership"]


@dataclass(slots=True)
class _Member:
    session_timeout_s: float
    seen_s: float
    is_resting: bool = True
    told: Assignment = field(default_factory=lambda: Assignment(-1))


class Membership:
    """The members of one group; one thread at a time."""

    def __init__(self) -> None:
        self.generation = 0
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
        """Partition -> the member that has it."""
        return dict(self._owners)

    def members(self) -> tuple[GroupMember, ...]:
        """Return the members and what they have, in the order they joined."""
        return tuple(
            GroupMember(member, tuple(partition for partition, owner in sorted(self._owners.items()) if owner == member))
            for member in self._members
        )

    def join(self, member: int, session_timeout_s: float, now_s: float) -> None:
        """Take in a member; one that is there already begins anew, without partitions.

        Args:
            member: Its id.
            session_timeout_s: How long it may be silent, or keep what it is asked for, seconds.
            now_s: The time, in seconds that never go back.
        """
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner != member}
        self._members[member] = _Member(session_timeout_s, now_s)
        self._divide(now_s)

    def leave(self, member: int, now_s: float) -> None:
        """Let a member go; what it has is for the others at once. Leaving twice is fine."""
        if self._members.pop(member, None) is not None:
            self._divide(now_s)

    def report(
        self, member: int, partitions: Sequence[int], now_s: float, *, released: Iterable[int] = (), is_resting: bool = False
    ) -> Assignment:
        """Take note that a member is alive and what it gives up, and return what it has.

        Args:
            member: Its id.
            partitions: The numbers of the topic's partitions as they are now, ascending.
            now_s: The time, in seconds that never go back.
            released: Partitions it was asked for and has finished.
            is_resting: Whether it has nothing in hand, and will report before it takes anything.

        Raises:
            RebalancedError: it is no member (any more); it may join again.
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
        """Take note that a member is alive; nothing where it is none any more."""
        state = self._members.get(member)
        if state is not None:
            state.seen_s, state.is_resting = now_s, is_resting
            if is_resting and self._asked_s:
                self._divide(now_s)

    def owns(self, member: int, partition: int, generation: int) -> bool:
        """Return whether a member has a partition, and has had it since a generation; also one it is asked to give up."""
        return self._owners.get(partition) == member and self._since[partition] <= generation

    def _known(self, member: int) -> _Member:
        state = self._members.get(member)
        if state is None:
            raise RebalancedError(
                f"member {member} is not in the group any more: it was silent for too long, and others took its partitions",
                advice="Its last messages come again to another; a longer session_timeout_ms leaves more time for a message",
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
        """Say anew who is to have what, and hand over what can be."""
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
        if state.told.generation != self.generation:
            kept: dict[int, int] = {}
            revoked: dict[int, int] = {}
            for partition, owner in self._owners.items():
                if owner == member:
                    (kept if self._targets[partition] == member else revoked)[partition] = self._since[partition]
            state.told = Assignment(self.generation, kept, revoked)
        return state.told
