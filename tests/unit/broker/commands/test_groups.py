"""Groups by their commands: those that connections join, our own members, and how the two keep out of each other's way."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.polling import ConsumerKind, OffsetOwner, PollingKind
from headstream.core.wire.commands import messages, offsets, partitions, permissions, streams, system, topics
from headstream.core.wire.commands.groups import (
    CreateGroup,
    DeleteGroup,
    GetGroup,
    Group,
    GroupDetails,
    JoinGroup,
    LeaveGroup,
    ListGroups,
)
from headstream.core.wire.extensions.groups import (
    CommitMember,
    EnterGroup,
    ExitGroup,
    GetGroupLag,
    ListGroupLags,
    ReportMember,
    SeekGroup,
)
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.core.wire.records import Command
from headstream.errors import ClosedError, GroupInUseError
from tests.support.server.servers import Peer, Server

GROUP = offsets.ConsumerRef(ConsumerKind.GROUP, "billing")
NAME = TopicName("shop", "orders")
AT = ("shop", "orders")
JOIN = JoinGroup(*AT, "billing")


@pytest.fixture
def shop(server: Server) -> Server:
    """A server with a topic of 3 partitions and a group `billing`."""
    root = server.root()
    root.ask(streams.CreateStream(0, "shop"))
    root.ask(topics.CreateTopic("shop", 0, 3, topics.Compression.NONE, 0, 0, 0, "orders"))
    root.ask(CreateGroup(*AT, 0, "billing"))
    return server


def send(peer: Peer, partition: int, *payloads: bytes) -> None:
    where = Partitioning(PartitioningKind.PARTITION_ID, partition.to_bytes(4, "little"))
    peer.ask(messages.SendMessages(*AT, where, encode_sent([Message(payload=payload) for payload in payloads])))


def poll(peer: Peer, partition: int = 0, count: int = 1) -> tuple[int, list[bytes]]:
    polled = peer.ask(messages.PollMessages(GROUP, *AT, partition, PollingKind.NEXT, 0, count, True))
    return polled.partition, [message.payload or b"" for message in decode_polled(polled.messages)]


def shares(peer: Peer) -> dict[int, tuple[int, ...]]:
    group = peer.ask(GetGroup(*AT, "billing"))
    assert group is not None
    return {member.id: member.partitions for member in group.members}


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (CreateGroup(*AT, 0, "billing"), 5004),
        (CreateGroup(*AT, 1, "billing"), 5004),
        (CreateGroup(*AT, 1, "other"), 5001),
        (CreateGroup(*AT, 0, ""), 5005),
        (CreateGroup("shop", 9, 0, "other"), 2010),
        (ListGroups("nope", 1), 1010),
        (DeleteGroup(*AT, 9), 5000),
        (DeleteGroup(*AT, "nope"), 5003),
        (JoinGroup(*AT, 9), 5000),
        (JoinGroup(*AT, "nope"), 5003),
        (LeaveGroup(*AT, "nope"), 5003),
        (LeaveGroup(*AT, 1), 0),
        (messages.PollMessages(GROUP, *AT, 0, PollingKind.NEXT, 0, 1, True), 5006),
        (messages.PollMessages(GROUP, *AT, 2, PollingKind.NEXT, 0, 1, True), 0),  # who names a partition need not join
        (offsets.StoreOffset(GROUP, *AT, 0, 0), 5006),
        (offsets.DeleteOffset(GROUP, *AT, 0), 5006),
    ],
)
def test_command_is_answered_with_its_status_when_asked_by_root(shop: Server, command: Command[Any], status: int) -> None:
    assert shop.root().status(command) == status


def test_group_commands_are_refused_when_a_user_may_not_look_at_the_topic(shop: Server) -> None:
    guest = shop.connect_as("guest")
    commands = (CreateGroup(*AT, 0, "other"), ListGroups(*AT), DeleteGroup(*AT, 1), JOIN, LeaveGroup(*AT, 1), system.GetMe())
    assert [guest.status(command) for command in commands] == [41] * 6
    assert guest.ask(GetGroup(*AT, 1)) is None


def test_groups_are_listed_with_the_smallest_free_ids_when_made(shop: Server) -> None:
    root = shop.root()
    assert root.ask(CreateGroup(*AT, 5, "five")) == GroupDetails(5, 3, 0, "five", ())
    assert root.ask(CreateGroup(*AT, 0, "two")).id == 2
    root.ask(DeleteGroup(*AT, 1))
    assert root.ask(ListGroups(*AT)) == (Group(2, 3, 0, "two"), Group(5, 3, 0, "five"))
    assert root.ask(GetGroup(*AT, 1)) is None


def test_partitions_are_divided_anew_when_connections_join_and_leave(shop: Server) -> None:
    peers = [shop.root() for _ in range(4)]
    ids = [peer.session.client_id for peer in peers]
    expected: list[dict[int, tuple[int, ...]]] = [
        {ids[0]: (1, 2, 3)},
        {ids[0]: (1, 3), ids[1]: (2,)},
        {ids[0]: (1,), ids[1]: (2,), ids[2]: (3,)},
        {ids[0]: (1,), ids[1]: (2,), ids[2]: (3,), ids[3]: ()},
    ]
    for peer, share in zip(peers, expected, strict=True):
        peer.ask(JOIN)
        assert shares(peer) == share
    assert poll(peers[3]) == (0, [])
    assert peers[3].status(offsets.StoreOffset(GROUP, *AT, 0, 0)) == 3021
    peers[0].ask(LeaveGroup(*AT, 1))
    shop.dispatcher.sessions.close(peers[1].session)
    assert shares(peers[2]) == {ids[2]: (1, 3), ids[3]: (2,)}
    peers[2].ask(partitions.CreatePartitions(*AT, 2))
    assert shares(peers[2]) == {ids[2]: (1, 3, 5), ids[3]: (2, 4)}
    peers[2].ask(partitions.DeletePartitions(*AT, 4))
    assert shares(peers[2]) == {ids[2]: (1,), ids[3]: ()}


def test_member_reads_its_partitions_in_turn_when_it_names_none(shop: Server) -> None:
    peer = shop.root()
    peer.ask(JOIN)
    for partition in (1, 2, 3):
        send(peer, partition, *[f"{partition}-{number}".encode() for number in range(2)])
    assert [poll(peer) for _ in range(7)] == [
        *[(partition, [f"{partition}-{number}".encode()]) for number in range(2) for partition in (1, 2, 3)],
        (1, []),
    ]
    assert peer.ask(offsets.GetOffset(GROUP, *AT, 0)) == offsets.StoredOffset(1, 1, 1)  # of the partition it polled last
    peer.ask(offsets.StoreOffset(GROUP, *AT, 0, 0))
    assert poll(peer, 1) == (1, [b"1-1"])


def test_clients_show_their_groups_when_asked(shop: Server) -> None:
    peer = shop.root()
    peer.ask(JOIN)
    me = peer.ask(system.GetMe())
    assert (me.client_id, me.user_id, me.groups) == (peer.session.client_id, 1, (system.ClientGroup(1, 1, 1),))
    assert peer.ask(system.GetClient(me.client_id)) == me
    assert peer.ask(system.GetClient(me.client_id ^ 1)) is None
    assert [client.groups_count for client in peer.ask(system.ListClients())] == [0, 1]  # the fixture's client, and this one
    peer.ask(topics.PurgeTopic(*AT))
    assert peer.ask(system.GetMe()) == me
    peer.ask(streams.DeleteStream("shop"))
    assert peer.ask(system.GetMe()).groups == ()


def test_me_is_refused_and_the_connection_ended_when_the_session_is_gone(shop: Server) -> None:
    peer = shop.root()
    shop.dispatcher.sessions.close(peer.session)
    assert (peer.status(system.GetMe()), peer.session.is_ended) == (100, True)


def test_group_goes_on_at_the_same_place_when_read_in_both_ways(shop: Server) -> None:
    peer = shop.root()
    peer.ask(JOIN)
    send(peer, 1, b"a", b"b", b"c")
    assert poll(peer, 1, 2) == (1, [b"a", b"b"])
    consumer = OffsetOwner.group("billing")
    assert shop.broker.offsets.committed(NAME, consumer) == {1: 2}
    shop.broker.offsets.commit(NAME, consumer, {1: 1})
    assert poll(peer, 1, 2) == (1, [b"b", b"c"])
    peer.ask(DeleteGroup(*AT, 1))
    assert shop.broker.offsets.committed(NAME, consumer) == {}


def test_one_kind_of_members_keeps_the_other_out_when_a_group_has_some(shop: Server) -> None:
    peer, member = shop.root(), shop.ours()
    peer.ask(JOIN)
    with pytest.raises(GroupInUseError, match="Iggy clients"):
        member.ask(EnterGroup(*AT, "billing", 60_000))
    with pytest.raises(GroupInUseError):
        member.ask(SeekGroup(*AT, "billing", {1: 0}))
    peer.ask(LeaveGroup(*AT, 1))
    entered = member.ask(EnterGroup(*AT, 1, 60_000)).member_id
    with pytest.raises(GroupInUseError):
        peer.ask(JOIN)
    member.ask(ExitGroup(*AT, "billing", entered))
    peer.ask(JOIN)


def test_members_report_and_commit_when_they_are_ours(shop: Server) -> None:
    peer = shop.ours()
    one, two = (peer.ask(EnterGroup(*AT, "billing", 60_000)).member_id for _ in range(2))
    first = peer.ask(ReportMember(*AT, "billing", one, (), True))
    second = peer.ask(ReportMember(*AT, "billing", two, (), True))
    first = peer.ask(ReportMember(*AT, "billing", one, (), True))
    assert sorted([*first.partitions, *second.partitions]) == [1, 2, 3]
    (mine, *_) = second.partitions
    send(peer, mine, b"a", b"b")
    peer.ask(CommitMember(*AT, "billing", two, second.generation, {mine: 1}, {}, False))
    lag = peer.ask(GetGroupLag(*AT, "billing"))
    assert (lag.lag, {member.id for member in lag.members}) == (1, {one, two})


def test_members_go_with_the_connection_that_spoke_for_them_last_when_it_ends(shop: Server) -> None:
    peers = [shop.ours(), shop.ours()]
    member = peers[0].ask(EnterGroup(*AT, "billing", 60_000)).member_id
    report = ReportMember(*AT, "billing", member, (), True)
    peers[1].ask(report)
    shop.dispatcher.sessions.close(peers[0].session)
    assert set(peers[1].ask(report).partitions) == {1, 2, 3}
    shop.dispatcher.sessions.close(peers[1].session)
    with pytest.raises(ClosedError):
        shop.ours().ask(report)
    assert [group.members for group in shop.broker.groups.list(NAME)] == [()]


def test_groups_of_both_kinds_are_listed_made_and_deleted_alike(shop: Server) -> None:
    member, client = shop.ours(), shop.root()
    send(client, 1, b"a", b"b")
    assert [(found.name, found.lag) for found in member.ask(ListGroupLags(*AT))] == [("billing", 2)]
    member.ask(SeekGroup(*AT, "audit", {1: 1, 2: 0, 3: 0}))
    assert [group.name for group in client.ask(ListGroups(*AT))] == ["billing", "audit"]
    client.ask(JoinGroup(*AT, "audit"))
    polled = client.ask(
        messages.PollMessages(offsets.ConsumerRef(ConsumerKind.GROUP, "audit"), *AT, 1, PollingKind.NEXT, 0, 9, False)
    )
    assert [message.payload for message in decode_polled(polled.messages)] == [b"b"]
    found = member.ask(GetGroupLag(*AT, "audit"))
    mine = client.ask(system.GetMe()).client_id
    assert [(each.id, [*each.partitions]) for each in found.members] == [(mine, [1, 2, 3])]
    assert [part.member for part in found.partitions] == [mine] * 3
    member.ask(DeleteGroup(*AT, "billing"))
    member.ask(DeleteGroup(*AT, "audit"))
    assert (client.ask(ListGroups(*AT)), member.ask(ListGroupLags(*AT))) == ((), ())


def test_member_is_its_users_alone_when_others_name_it(shop: Server) -> None:
    shop.add_user("other", permissions.Permissions(permissions.GlobalPermissions.all()))
    member = shop.ours().ask(EnterGroup(*AT, "billing", 60_000)).member_id
    thief = shop.ours("other")
    with pytest.raises(ClosedError):
        thief.ask(ReportMember(*AT, "billing", member, (1,), True))


def test_group_is_made_by_seeking_only_by_those_who_may_make_one(server: Server) -> None:
    root = server.ours()
    root.ask(CreateOpenTopic("store", "goods", 1))
    server.add_user("reader", permissions.Permissions(permissions.GlobalPermissions(poll_messages=True)))
    reader = server.ours("reader")
    seek = SeekGroup("store", "goods", "audit", {1: 0})
    assert reader.status(seek) == 41
    assert root.ask(ListGroups("store", "goods")) == ()
    root.ask(seek)
    assert reader.status(seek) == 0
