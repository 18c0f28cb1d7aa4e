"""Partitions go from one member to another when they are finished, at once when they rest, in time at the latest."""

from __future__ import annotations

from headstream.broker.groups.membership import GroupMembers, assign
from headstream.core.model.groups import Assignment

PARTITIONS = range(1, 5)


def parts(assignment: Assignment) -> tuple[set[int], set[int]]:
    return set(assignment.partitions), set(assignment.revoked)


def group_of_two() -> GroupMembers:
    """One busy member that has all four partitions, and a second that has just come."""
    membership = GroupMembers()
    membership.join(1, 60, 0)
    assert parts(membership.report(1, PARTITIONS, 0)) == ({1, 2, 3, 4}, set())
    membership.join(2, 60, 1)
    return membership


def test_assign_goes_round_and_keeps_what_it_can() -> None:
    assert assign([7, 9], [1, 2, 3], {}) == {1: 7, 2: 9, 3: 7}
    assert assign([7, 9, 8], [1, 2, 3], {1: 7, 2: 9, 3: 7}) == {1: 7, 2: 9, 3: 8}
    assert assign([], [1, 2], {1: 7}) == {}
    assert assign([1, 2, 3], [1], {1: 3}) == {1: 3}


def test_a_busy_member_gives_up_what_it_is_asked_for_when_it_has_finished() -> None:
    membership = group_of_two()
    assert parts(membership.report(2, PARTITIONS, 1)) == (set(), set())
    assert parts(membership.report(1, PARTITIONS, 2)) == ({1, 2}, {3, 4})
    assert membership.owns(1, 3, membership.generation)
    assert parts(membership.report(1, PARTITIONS, 3, released=[3])) == ({1, 2}, {4})
    assert not membership.owns(1, 3, membership.generation)
    assert parts(membership.report(2, PARTITIONS, 4)) == ({3}, set())
    membership.report(1, PARTITIONS, 5, released=[4])
    assert parts(membership.report(2, PARTITIONS, 6)) == ({3, 4}, set())


def test_a_resting_member_loses_partitions_at_once() -> None:
    membership = group_of_two()
    membership.report(1, PARTITIONS, 2, is_resting=True)
    assert parts(membership.report(2, PARTITIONS, 2)) == ({3, 4}, set())
    assert parts(membership.report(1, PARTITIONS, 3)) == ({1, 2}, set())
    membership.leave(2, 4)
    assert parts(membership.report(1, PARTITIONS, 4)) == ({1, 2, 3, 4}, set())


def test_a_partition_that_is_not_given_up_is_taken_after_the_session_timeout() -> None:
    membership = group_of_two()
    membership.report(2, PARTITIONS, 30)
    membership.report(1, PARTITIONS, 59)
    assert parts(membership.report(2, PARTITIONS, 61)) == (set(), set())
    membership.report(1, PARTITIONS, 61.5)
    assert parts(membership.report(2, PARTITIONS, 62)) == ({3, 4}, set())
    assert parts(membership.report(1, PARTITIONS, 62)) == ({1, 2}, set())
    assert not membership.owns(1, 3, membership.generation)


def test_new_partitions_are_divided_and_deleted_ones_gone() -> None:
    membership = group_of_two()
    membership.report(1, PARTITIONS, 1, is_resting=True)
    before = membership.generation
    membership.report(2, range(1, 7), 2)
    assert membership.generation > before
    assert [len(member.partitions) for member in membership.members()] == [3, 3]
    membership.report(2, range(1, 2), 3)
    assert sorted(member.partitions for member in membership.members()) == [(), (1,)]


def test_commit_of_a_former_owner_is_refused() -> None:
    membership = GroupMembers()
    membership.join(1, 60, 0)
    known = membership.report(1, [1], 0, is_resting=True).generation
    membership.join(2, 60, 1)
    membership.leave(1, 2)
    membership.join(1, 60, 3)
    membership.leave(2, 4)
    assert membership.owns(1, 1, membership.generation)
    assert not membership.owns(1, 1, known)
    assert membership.report(1, [1], 5).partitions[1] > known


def test_the_generation_stays_when_nothing_changes() -> None:
    membership = group_of_two()
    membership.report(1, PARTITIONS, 1, is_resting=True)
    before = membership.generation
    for second in range(5):
        membership.report(1, PARTITIONS, second)
        membership.report(2, PARTITIONS, second, is_resting=True)
    assert membership.generation == before
