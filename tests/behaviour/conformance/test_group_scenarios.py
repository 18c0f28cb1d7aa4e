"""The original suite's scenarios about groups: who has which partition, and in which order a member is given them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import PollingKind
from headstream.core.wire.commands.groups import CreateGroup, DeleteGroup, GetGroup, JoinGroup, LeaveGroup
from headstream.core.wire.commands.offsets import DeleteOffset, GetOffset, StoreOffset
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.system import ClientGroup, GetMe
from headstream.core.wire.commands.users import CreateUser, UserStatus
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import CONSUMER, GROUP, build, poll, polled, send
from tests.support.server.peers import TcpPeer, refused

Connect = Callable[..., TcpPeer]


@pytest.fixture
def members(root: TcpPeer, connect: Connect) -> list[TcpPeer]:
    """Three users, each on a connection of its own, on a topic of three partitions with group 1, which none has joined."""
    build(root)
    root.ask(CreateGroup(1, 1, 1, "test-consumer-group"))
    for name in ("user1", "user2", "user3"):
        root.ask(CreateUser(name, "secret", UserStatus.ACTIVE, Permissions(GlobalPermissions.all())))
    return [connect(name) for name in ("user1", "user2", "user3")]


def owned(peer: TcpPeer) -> dict[int, tuple[int, ...]]:
    """Return the partitions of each member, by its client id."""
    group = peer.ask(GetGroup(1, 1, 1))
    assert group is not None
    assert group.members_count == len(group.members)
    return {member.id: member.partitions for member in group.members}


def take(peer: TcpPeer, count: int = 1) -> Sequence[Message]:
    """Poll as a member, whose turn says which partition."""
    return polled(poll(peer, PollingKind.NEXT, count=count, partition=0, consumer=GROUP, auto_commit=True))


def test_every_member_gets_its_share_as_others_join_and_leave(root: TcpPeer, members: list[TcpPeer]) -> None:
    ids = [member.ask(GetMe()).client_id for member in members]
    for count, shares in ((1, [3]), (2, [1, 2]), (3, [1, 1, 1])):
        members[count - 1].ask(JoinGroup(1, 1, 1))
        parts = owned(root)
        assert parts.keys() == set(ids[:count])
        assert sorted(map(len, parts.values())) == shares
        assert sorted(number for part in parts.values() for number in part) == [1, 2, 3]
    for member in members:
        assert member.ask(GetMe()).groups == (ClientGroup(1, 1, 1),)
    members[0].ask(JoinGroup(1, 1, 1))
    assert sorted(number for part in owned(root).values() for number in part) == [1, 2, 3]
    members[0].ask(LeaveGroup(1, 1, 1))
    members[0].ask(LeaveGroup(1, 1, 1))
    assert owned(root).keys() == set(ids[1:])


def test_a_member_whose_connection_ends_has_left(root: TcpPeer, members: list[TcpPeer], connect: Connect) -> None:
    for member in members[:2]:
        member.ask(JoinGroup(1, 1, 1))
    members[0].close()
    watcher = connect("iggy", "iggy")
    for _ in range(1000):  # the server learns of it when it reads the end of the connection
        if len(owned(watcher)) == 1:
            break
    assert list(owned(watcher).values()) == [(1, 2, 3)]


def test_one_member_takes_every_keyed_message_once(members: list[TcpPeer]) -> None:
    member = members[0]
    member.ask(JoinGroup(1, 1, 1))
    for number in range(1, 301):
        send(member, [b"message-%d" % number], Partitioning.key(number.to_bytes(4, "little")))
    taken = [message.payload for _ in range(900) for message in take(member)]
    assert len(taken) == 300
    assert set(taken) == {b"message-%d" % number for number in range(1, 301)}


def test_members_take_the_messages_of_their_own_partition_in_order(members: list[TcpPeer]) -> None:
    for member in members:
        member.ask(JoinGroup(1, 1, 1))
    parts = owned(members[0])
    for number in range(300):
        send(members[0], [b"message-%d" % number], Partitioning.balanced())
    for member in members:
        [partition] = parts[member.ask(GetMe()).client_id]
        taken = [message for _ in range(100) for message in take(member)]
        assert [message.offset for message in taken] == list(range(100))
        assert [message.payload for message in taken] == [b"message-%d" % number for number in range(partition - 1, 300, 3)]
        assert take(member) == []


def test_poll_of_a_group_without_joining_needs_a_partition_number(members: list[TcpPeer]) -> None:
    send(members[0], [b"hello"])
    with pytest.raises(Exception, match=f"status {Status.CONSUMER_GROUP_MEMBER_NOT_FOUND}"):
        poll(members[0], PollingKind.NEXT, partition=0, consumer=GROUP)
    assert poll(members[0], PollingKind.NEXT, partition=1, consumer=GROUP, auto_commit=True).count == 1
    assert poll(members[1], PollingKind.NEXT, partition=1, consumer=GROUP).count == 0


def test_the_offsets_of_a_group_are_its_own_and_end_with_it(members: list[TcpPeer]) -> None:
    member = members[0]
    send(member, [b"%d" % number for number in range(10)])
    member.ask(StoreOffset(GROUP, 1, 1, 1, 4))
    found = member.ask(GetOffset(GROUP, 1, 1, 1))
    assert found is not None
    assert found.stored_offset == 4
    assert member.ask(GetOffset(CONSUMER, 1, 1, 1)) is None
    assert refused(member, StoreOffset(GROUP, 1, 1, 0, 4)) == Status.CONSUMER_GROUP_MEMBER_NOT_FOUND
    member.ask(JoinGroup(1, 1, 1))
    member.ask(StoreOffset(GROUP, 1, 1, 0, 5))
    found = member.ask(GetOffset(GROUP, 1, 1, 0))
    assert found is not None
    assert (found.partition, found.stored_offset) == (1, 5)
    member.ask(DeleteOffset(GROUP, 1, 1, 0))
    assert refused(member, DeleteOffset(GROUP, 1, 1, 0)) == Status.CONSUMER_OFFSET_NOT_FOUND
    member.ask(StoreOffset(GROUP, 1, 1, 1, 6))
    member.ask(DeleteGroup(1, 1, 1))
    assert member.ask(GetMe()).groups == ()
    member.ask(CreateGroup(1, 1, 1, "test-consumer-group"))
    assert member.ask(GetOffset(GROUP, 1, 1, 1)) is None
