"""Leases at a server: rights, repeated requests, members, and what purges and seeks do to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.deliveries import DeliveryStep, RetryOrder
from headstream.core.model.leases import LeaseStep
from headstream.core.model.message import Message
from headstream.core.model.polling import ConsumerKind
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.topics import PurgeTopic
from headstream.core.wire.extensions.deliveries import ChangedDelivery, GetDeliveries, OffsetRange, SettleDeliveries
from headstream.core.wire.extensions.groups import EnterGroup, ExitGroup, ListOffsets, SeekGroup
from headstream.core.wire.extensions.leases import ChangedLease, LeasedOffsets, LeaseMessages, SettleLeases
from headstream.core.wire.extensions.messages import AppendMessages
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from headstream.errors import ClosedError, GroupInUseError, InvalidOptionError, OffsetOutOfRangeError, PermissionDeniedError
from tests.support.server.servers import Peer, Server

AT = ("shop", "jobs")
WORKERS = ConsumerRef(ConsumerKind.GROUP, "workers")
ENTER = EnterGroup(*AT, "workers", 60_000, True)
SECOND = 1_000_000


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.ours()
    for name in ("jobs", "dead"):
        peer.ask(CreateOpenTopic("shop", name, 2))
    for partition in (1, 2):
        peer.ask(AppendMessages(*AT, partition, encode_sent([Message(payload=b"%d" % number) for number in range(5)])))
    return peer


def ask(member: int, token: int, count: int = 2, **options: Any) -> LeaseMessages:
    return LeaseMessages(*AT, "workers", member, token, count, 30 * SECOND, {}, **options)


def settle(*changes: ChangedLease, partition: int = 1) -> SettleLeases:
    return SettleLeases(*AT, "workers", partition, changes)


def done(token: int, begin: int, until: int) -> ChangedLease:
    return ChangedLease(LeaseStep.DONE, token, begin, until)


def test_a_repeated_request_returns_the_same_lease(peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    first = peer.ask(ask(member, 7))
    assert (first.partition, first.ranges) == (1, (LeasedOffsets(0, 2, 0),))
    assert peer.ask(ask(member, 7)) == first
    assert peer.ask(ask(member, 7, partitions=(2, 1))) == first
    other = peer.ask(ask(member, 8))
    assert (other.partition, other.ranges) == (1, (LeasedOffsets(2, 4, 0),))


def test_a_repeated_step_is_accepted_and_a_late_one_is_refused(server: Server, peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    peer.ask(ask(member, 7, count=5))
    for _ in range(2):
        assert peer.ask(settle(done(7, 0, 2))).refused == ()
    server.clock.now_s += 31
    (refused,) = peer.ask(settle(done(7, 0, 5))).refused  # 0 and 1 are repeated
    assert (refused.from_offset, refused.until_offset) == (2, 5)
    assert "the lease ended at" in refused.what
    assert peer.ask(ListOffsets(*AT, WORKERS)).offsets[1] == 2
    (refused,) = peer.ask(settle(done(99, 0, 1))).refused
    assert refused.what == "the lease is unknown; the message is done"


def test_nothing_to_lease_says_where_and_how_long_to_wait(server: Server, peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    assert peer.ask(ask(member, 1, count=10)).partition == 1
    assert peer.ask(ask(member, 2, count=10)).partition == 2
    server.clock.now_s += 10
    found = peer.ask(ask(member, 3))
    assert (found.partition, found.ends, found.wait_us) == (0, {1: 5, 2: 5}, 20 * SECOND)


def test_rights_are_those_of_polls_and_of_sends_to_the_dead_letter(server: Server, peer: Peer) -> None:
    peers = server.users_of_two_topics()
    commands: list[Command[Any]] = [ENTER, ask(1, 1), settle(done(1, 0, 1))]
    assert [peers["nobody"].status(command) for command in commands] == [Status.UNAUTHORIZED] * 3
    reader = peers["reader"].ask(ENTER).member_id
    with pytest.raises(PermissionDeniedError):
        peers["reader"].ask(ask(reader, 1, dead_letter="shop/dead"))
    assert peers["reader"].ask(ask(reader, 1)).partition == 1
    with pytest.raises(ClosedError):
        peers["worker"].ask(ask(reader, 2))  # another user's member
    with pytest.raises(PermissionDeniedError):
        peers["reader"].ask(replace(settle(done(1, 0, 1)), dead_letter="shop/dead"))
    worker = peers["worker"].ask(ENTER).member_id
    assert peers["worker"].ask(ask(worker, 2, dead_letter="shop/dead")).partition == 1


def test_members_of_a_group_have_one_mode(peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    with pytest.raises(GroupInUseError, match="mode 'shared'"):
        peer.ask(EnterGroup(*AT, "workers", 60_000))
    with pytest.raises(GroupInUseError):
        peer.ask(SeekGroup(*AT, "workers", {1: 0}))
    peer.ask(ExitGroup(*AT, "workers", member))
    peer.ask(EnterGroup(*AT, "workers", 60_000))
    with pytest.raises(GroupInUseError, match="mode 'ordered'"):
        peer.ask(ENTER)


def test_a_seek_and_a_purge_end_the_leases(peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    peer.ask(ask(member, 1, count=5))
    peer.ask(ExitGroup(*AT, "workers", member))
    peer.ask(SeekGroup(*AT, "workers", {1: 3}))
    member = peer.ask(ENTER).member_id
    assert peer.ask(ask(member, 2, count=9)).ranges == (LeasedOffsets(3, 5, 0),)
    assert peer.ask(settle(done(1, 3, 4))).refused
    generation = peer.ask(ask(member, 2)).partition_generation
    peer.ask(PurgeTopic(*AT))
    with pytest.raises(OffsetOutOfRangeError, match="purged"):
        peer.ask(replace(settle(done(2, 3, 5)), partition_generation=generation))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"count": 0}, "0 messages"),
        ({"count": 10_001}, "10001 messages"),
        ({"order": RetryOrder.PARTITION}, "receive these messages in order"),
        ({"deferred": (1,)}, "without a partition"),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused(peer: Peer, options: dict[str, Any], problem: str) -> None:
    member = peer.ask(ENTER).member_id
    with pytest.raises(InvalidOptionError, match=problem):
        peer.ask(replace(ask(member, 1), **options))
    with pytest.raises(InvalidOptionError, match="invalid lease"):
        peer.ask(replace(ask(member, 1), lease_us=1))


def test_an_owner_of_partitions_takes_over_what_is_leased(peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    peer.ask(ask(member, 7, count=4))
    peer.ask(settle(done(7, 1, 2)))
    peer.ask(ExitGroup(*AT, "workers", member))
    found = peer.ask(GetDeliveries(*AT, "workers", 1))
    assert (found.frontier, found.pending) == (4, (OffsetRange(0, 1), OffsetRange(2, 4)))  # what is done is not repeated
    peer.ask(SettleDeliveries(*AT, "workers", 1, 4, (ChangedDelivery(DeliveryStep.DONE, 0, 1),)))
    (refused,) = peer.ask(settle(done(7, 0, 1))).refused
    assert refused.what.endswith("the message is done")
    assert peer.ask(settle(done(7, 2, 4))).refused == ()
    assert peer.ask(ListOffsets(*AT, WORKERS)).offsets[1] == 4
