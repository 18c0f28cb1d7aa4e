"""Groups of Kafka's clients, by a clock that the test moves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from headstream.server.kafka.groups.group_members import GroupState, Joining
from headstream.server.kafka.groups.membership import KafkaGroup
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError


class Group:
    """A group, and what its members were answered."""

    def __init__(self) -> None:
        self.group = KafkaGroup("g", 1)
        self.now_s = 100.0
        self._ids = itertools.count(1)

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        returns: bool = False,
        can_skip: bool = False,
        **protocols: bytes,
    ) -> list[Any]:
        answers: list[Any] = []
        asked = Joining(member_id, instance, "consumer", protocols or {"range": b"m"}, 10.0, 30.0, "c", "h", returns, can_skip)
        self.group.join(asked, lambda client: f"c-{next(self._ids)}", answers.append, self.now_s)
        return answers

    def tick(self, seconds: float) -> None:
        self.now_s += seconds
        self.group.tick(self.now_s)

    def sync(self, member_id: str, generation: int, **assignments: bytes) -> list[Any]:
        answers: list[Any] = []
        given = [{"member_id": name.replace("_", "-"), "assignment": data} for name, data in assignments.items()]
        request = {"member_id": member_id, "generation_id": generation, "assignments": given}
        self.group.sync(request, answers.append, self.now_s)
        return answers

    def beat(self, member_id: str, generation: int) -> ErrorCode:
        return self.group.beat({"member_id": member_id, "generation_id": generation}, self.now_s)


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def stable(group: Group) -> Group:
    """Return a group of c-1, who leads, and c-2, in generation 1."""
    group.join(), group.join()
    group.tick(0.3)
    group.sync("c-2", 1)
    group.sync("c-1", 1, c_1=b"one", c_2=b"two")
    return group


def _refused(fault: ErrorCode) -> Any:
    return pytest.raises(ProtocolError, check=lambda error: error.fault is fault)


def test_group_tells_the_leader_alone_who_is_there_when_all_have_joined(group: Group) -> None:
    first, second = group.join(range=b"a", sticky=b"A"), group.join(sticky=b"B", range=b"b")
    assert not first
    group.tick(0.3)
    assert [member["metadata"] for member in first[0]["members"]] == [b"a", b"b"]
    assert (first[0]["generation_id"], first[0]["leader"], first[0]["protocol_name"]) == (1, "c-1", "range")
    assert (second[0]["member_id"], second[0]["members"]) == ("c-2", [])


def test_group_gives_everybody_the_leaders_assignment_when_it_has_come(group: Group) -> None:
    group.join(), group.join()
    group.tick(0.3)
    waiting = group.sync("c-2", 1)
    assert not waiting
    leading = group.sync("c-1", 1, c_1=b"one", c_2=b"two")
    assert (leading[0]["assignment"], waiting[0]["assignment"]) == (b"one", b"two")
    assert group.group.state is GroupState.STABLE


def test_group_has_all_join_again_when_another_member_comes(stable: Group) -> None:
    third = stable.join()
    assert stable.beat("c-1", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    with _refused(ErrorCode.REBALANCE_IN_PROGRESS):
        stable.sync("c-1", 1)
    stable.join("c-1"), stable.join("c-2")
    assert third[0]["generation_id"] == 2
    with _refused(ErrorCode.ILLEGAL_GENERATION):
        stable.beat("c-1", 1)


def test_group_goes_on_without_members_when_they_do_not_join_in_time(stable: Group) -> None:
    first = stable.join("c-1")
    stable.tick(9)
    assert not first
    stable.tick(22)
    assert first[0]["generation_id"] == 2
    assert list(stable.group.members) == ["c-1"]
    with _refused(ErrorCode.UNKNOWN_MEMBER_ID):
        stable.beat("c-2", 1)


def test_group_lets_a_member_go_when_it_is_silent_for_its_session(stable: Group) -> None:
    stable.tick(8)
    stable.beat("c-1", 1)
    stable.tick(3)
    assert list(stable.group.members) == ["c-1"]
    assert stable.group.state is GroupState.PREPARING


def test_group_is_empty_and_in_another_generation_when_the_last_member_leaves(stable: Group) -> None:
    stable.group.leave("c-1", None, stable.now_s)
    stable.group.leave("c-2", None, stable.now_s)
    assert (stable.group.state, stable.group.is_unused) == (GroupState.EMPTY, True)
    assert stable.group.generation > 1
    with _refused(ErrorCode.UNKNOWN_MEMBER_ID):
        stable.beat("c-1", 1)


def test_group_tells_a_new_member_its_id_first_when_the_client_comes_back_with_it(group: Group) -> None:
    told = group.join(returns=True)
    assert told == [{"error_code": ErrorCode.MEMBER_ID_REQUIRED, "member_id": "c-1"}]
    assert not group.group.is_unused
    group.join("c-1", returns=True)
    assert list(group.group.members) == ["c-1"]
    with _refused(ErrorCode.UNKNOWN_MEMBER_ID):
        group.join("c-9", returns=True)


def test_group_forgets_an_id_when_nobody_comes_back_with_it(group: Group) -> None:
    group.join(returns=True)
    group.tick(11)
    assert group.group.is_unused


def test_group_answers_at_once_when_a_follower_joins_again_unchanged(stable: Group) -> None:
    assert stable.join("c-2")[0]["generation_id"] == 1
    assert stable.group.state is GroupState.STABLE


@pytest.mark.parametrize(("member", "protocols"), [("c-1", {"range": b"m"}), ("c-2", {"range": b"other"})])
def test_group_divides_anew_when_the_leader_joins_again_or_a_member_wants_something_else(
    stable: Group, member: str, protocols: dict[str, bytes]
) -> None:
    named: Any = protocols
    assert not stable.join(member, **named)
    assert stable.group.state is GroupState.PREPARING


def test_group_refuses_a_member_when_it_shares_no_way_of_dividing(stable: Group) -> None:
    with _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        stable.join(sticky=b"x")


@pytest.fixture
def static(group: Group) -> Group:
    """Return a group of the static members a, who leads, and b, in generation 1."""
    group.join(instance="a"), group.join(instance="b")
    group.tick(0.3)
    group.sync("c-1", 1, c_1=b"one", c_2=b"two")
    return group


def test_group_fences_a_static_member_when_another_takes_its_place(static: Group) -> None:
    static.join(instance="b")
    with _refused(ErrorCode.FENCED_INSTANCE_ID):
        static.join("c-2", instance="b")
    assert list(static.group.members) == ["c-1", "c-3"]


@pytest.mark.parametrize(("instance", "assignment"), [("a", b"one"), ("b", b"two")])
@pytest.mark.parametrize("can_skip", [True, False])
def test_static_member_keeps_its_assignment_without_a_rebalance_when_it_returns(
    static: Group, instance: str, assignment: bytes, can_skip: bool
) -> None:
    (answer,) = static.join(instance=instance, can_skip=can_skip)
    assert (answer["error_code"], answer["generation_id"], answer["member_id"]) == (ErrorCode.NONE, 1, "c-3")
    leads = answer["leader"] == "c-3"
    assert (leads, answer.get("skip_assignment", False)) == ((True, True) if instance == "a" and can_skip else (False, False))
    assert bool(answer["members"]) is leads
    assert static.sync("c-3", 1)[0]["assignment"] == assignment
    assert static.group.state is GroupState.STABLE
    assert static.beat("c-2" if instance == "a" else "c-1", 1) is ErrorCode.NONE
    assert static.group.leader == ("c-3" if instance == "a" else "c-1")


def test_group_divides_anew_when_a_static_member_returns_with_another_protocol(static: Group) -> None:
    with _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        static.join(instance="b", sticky=b"x")
    static.group.leave("", "a", static.now_s)
    static.tick(0.3)
    static.join("c-2", instance="b")
    assert not static.group.members["c-2"].joining
    static.sync("c-2", 2, c_2=b"all")
    static.join(instance="b", sticky=b"x")
    assert (static.group.generation, static.group.protocol) == (3, "sticky")


def test_group_divides_anew_when_a_static_member_returns_before_the_leader_has_assigned(group: Group) -> None:
    group.join(instance="a"), group.join(instance="b")
    group.tick(0.3)
    waiting = group.sync("c-2", 1)
    assert not group.join(instance="b")
    assert waiting[0]["error_code"] is ErrorCode.FENCED_INSTANCE_ID
    assert group.group.state is GroupState.PREPARING


def test_group_lets_members_go_when_the_leader_assigns_nothing_in_time(group: Group) -> None:
    group.join(), group.join()
    group.tick(0.3)
    waiting = group.sync("c-2", 1)
    group.tick(9)
    group.tick(2)
    assert list(group.group.members) == ["c-2"]
    assert waiting[0]["error_code"] is ErrorCode.REBALANCE_IN_PROGRESS


def test_group_ends_the_wait_for_an_assignment_when_another_member_comes(group: Group) -> None:
    group.join(), group.join()
    group.tick(0.3)
    waiting = group.sync("c-2", 1)
    group.join()
    assert waiting == [{"error_code": ErrorCode.REBALANCE_IN_PROGRESS}]
