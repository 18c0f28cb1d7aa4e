"""Consumer groups: any history of members divides the partitions, balanced, and never gives one to two."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headstream.broker.groups.membership import GroupMembers, assign
from headstream.core.model.groups import Assignment
from headstream.errors import RebalancedError

MEMBERS = st.lists(st.integers(1, 9), unique=True, max_size=6)


@given(MEMBERS, st.integers(0, 20), st.dictionaries(st.integers(1, 25), st.integers(1, 9)))
@settings(max_examples=200, deadline=None)
def test_assign_is_balanced_and_moves_as_little_as_balance_lets_it(
    members: list[int], count: int, owners: dict[int, int]
) -> None:
    partitions = list(range(1, count + 1))
    result = assign(members, partitions, owners)
    if not members:
        assert result == {}
        return
    assert list(result) == partitions
    counts = Counter(result.values())
    sizes = [counts[member] for member in members]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert result == assign(members, partitions, owners)
    assert assign(members, partitions, result) == result
    # The most that can stay: as many members as there are rests may have one more than the others.
    held = sorted((sum(owners.get(partition) == member for partition in partitions) for member in members), reverse=True)
    least, extra = divmod(count, len(members))
    most = sum(min(number, least + (place < extra)) for place, number in enumerate(held))
    assert sum(owners.get(partition) == member for partition, member in result.items()) == most


class Groups(RuleBasedStateMachine):
    """Members that come, work, rest, stall and go, against what must hold whatever they do."""

    def __init__(self) -> None:
        super().__init__()
        self.membership = GroupMembers()
        self.now = 0.0
        self.count = 3
        self.next_member = 0
        self.told: dict[int, Assignment] = {}
        self.busy: set[int] = set()

    def report(self, member: int, *, is_resting: bool, released: Iterable[int] = ()) -> None:
        try:
            partitions = range(1, self.count + 1)
            self.told[member] = self.membership.report(member, partitions, self.now, released=released, is_resting=is_resting)
        except RebalancedError:
            del self.told[member]
            self.busy.discard(member)
            return
        (self.busy.discard if is_resting else self.busy.add)(member)

    @rule()
    def join(self) -> None:
        self.next_member += 1
        self.membership.join(self.next_member, 10, self.now)
        self.told[self.next_member] = Assignment(-1)
        self.report(self.next_member, is_resting=True)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), is_resting=st.booleans())
    def work(self, data: st.DataObject, is_resting: bool) -> None:
        self.report(data.draw(st.sampled_from(sorted(self.told))), is_resting=is_resting)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(self.told)))
        released = self.told[member].revoked
        kept = self.told[member].partitions
        self.told[member] = Assignment(-1, kept)
        self.report(member, is_resting=False, released=released)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(self.told)))
        del self.told[member]
        self.busy.discard(member)
        self.membership.leave(member, self.now)

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(count=st.integers(1, 8))
    def change_partitions(self, count: int) -> None:
        self.count = count
        for member, told in self.told.items():  # what is deleted is nobody's, also when it is made anew
            kept, revoked = ({p: since for p, since in part.items() if p <= count} for part in (told.partitions, told.revoked))
            self.told[member] = Assignment(told.generation, kept, revoked)

    @invariant()
    def no_two_work_on_a_partition(self) -> None:
        """What a member that is not resting was told, nobody else is told, unless it has been too long about it."""
        if self.now > 10:
            return
        busy = [partition for member in self.busy for partition in {**self.told[member].partitions, **self.told[member].revoked}]
        given = {
            partition
            for member in set(self.told) - self.busy
            for partition in range(1, 9)
            if self.membership.owns(member, partition, self.membership.generation)
        }
        assert len(busy) == len(set(busy))
        assert not given & set(busy)

    @invariant()
    def all_is_divided_in_balance_once_everybody_has_reported(self) -> None:
        probe = copy.deepcopy(self.membership)
        for _ in range(2):
            for member in sorted(self.told):
                try:
                    told = probe.report(member, range(1, self.count + 1), self.now)
                    probe.report(member, range(1, self.count + 1), self.now, released=told.revoked)
                except RebalancedError:
                    continue
        sizes = [len(member.partitions) for member in probe.members()]
        assert sum(sizes) == (self.count if sizes else 0)
        assert not sizes or max(sizes) - min(sizes) <= 1


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestGroups = Groups.TestCase
