"""Unit tests of headstream.broker.groups.members."""

from __future__ import annotations

import pytest

from headstream.broker.groups.membership import GroupMembers
from headstream.errors import RebalancedError
from tests.unit.broker.groups.test_membership import PARTITIONS, group_of_two, parts


def test_touch_lets_a_resting_member_lose_what_it_was_asked_for() -> None:
    membership = group_of_two()
    membership.touch(1, 2, is_resting=False)
    assert parts(membership.report(2, PARTITIONS, 2)) == (set(), set())
    membership.touch(1, 3, is_resting=True)
    assert parts(membership.report(2, PARTITIONS, 3)) == ({3, 4}, set())


def test_a_silent_member_is_out_when_others_report_and_may_join_again() -> None:
    membership = group_of_two()
    assert parts(membership.report(2, PARTITIONS, 60.5)) == ({1, 2, 3, 4}, set())
    with pytest.raises(RebalancedError, match="member 1 timed out and left the group"):
        membership.report(1, PARTITIONS, 61)
    assert not membership.owns(1, 1, membership.generation)
    membership.join(1, 60, 61)
    membership.report(2, PARTITIONS, 62, is_resting=True)
    assert len(membership.report(1, PARTITIONS, 62).partitions) == 2


def test_report_keeps_a_silent_member_when_it_is_the_only_one() -> None:
    membership = GroupMembers()
    membership.join(1, 60, 0)
    membership.report(1, PARTITIONS, 0)
    assert parts(membership.report(1, PARTITIONS, 10_000)) == ({1, 2, 3, 4}, set())
