"""Unfinished messages of groups at a server: rights, limits, members, and what purges and rewinds do to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headstream import errors
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.deliveries import DeliveryStep
from headstream.core.model.message import Message
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands.groups import DeleteGroup
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.topics import PurgeTopic
from headstream.core.wire.extensions.deliveries import ChangedDelivery, GetDeliveries, OffsetRange, SettleDeliveries
from headstream.core.wire.extensions.groups import EnterGroup, ListOffsets, ReportMember, SeekGroup
from headstream.core.wire.extensions.messages import AppendMessages, FetchMessages
from headstream.core.wire.extensions.topic_options import ChangeTopicOptions, CreateOpenTopic
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from tests.support.server.servers import Peer, Server

AT = ("shop", "orders")
FAILED = ChangedDelivery(DeliveryStep.FAILED, 2, 3, 1, 1_000_000, "", "no")
POISONED = ChangedDelivery(DeliveryStep.POISONED, 2, 3, 2, 0, "max_attempts", "no")
DONE = ChangedDelivery(DeliveryStep.DONE, 2, 3)
BILLING = ConsumerRef(ConsumerKind.GROUP, "billing")


@pytest.fixture
def peer(server: Server) -> Peer:
    return prepare(server)


def prepare(server: Server) -> Peer:
    peer = server.ours()
    for name in ("orders", "dead"):
        peer.ask(CreateOpenTopic("shop", name, 1))
    peer.ask(AppendMessages(*AT, 1, encode_sent([Message(payload=b"%d" % number) for number in range(5)])))
    return peer


def settle(*changes: ChangedDelivery, frontier: int = 5, group: str = "billing") -> SettleDeliveries:
    return SettleDeliveries(*AT, group, 1, frontier, changes)


def committed(peer: Peer) -> int | None:
    return peer.ask(ListOffsets(*AT, BILLING)).offsets.get(1)


def test_the_offset_stays_at_the_first_open_message(peer: Peer) -> None:
    peer.ask(settle(FAILED, ChangedDelivery(DeliveryStep.PENDING, 3, 4)))
    found = peer.ask(GetDeliveries(*AT, "billing", 1))
    assert (found.base, found.frontier, found.pending) == (2, 5, (OffsetRange(3, 4),))
    assert [(each.offset, each.failures, each.last_error) for each in found.failing] == [(2, 1, "no")]
    assert committed(peer) == 2
    peer.ask(settle(DONE))
    assert committed(peer) == 3
    peer.ask(settle(ChangedDelivery(DeliveryStep.DONE, 3, 4)))
    assert committed(peer) == 5


def test_a_poisoned_message_is_copied_once_however_often_the_request_comes(peer: Peer) -> None:
    command = replace(settle(FAILED, POISONED), dead_letter="shop/dead")
    peer.ask(command)
    peer.ask(replace(settle(), dead_letter="shop/dead"))
    fetched = peer.ask(FetchMessages("shop", "dead", 1, PollingKind.FIRST, 0, 10))
    assert [message.payload for message in decode_polled(fetched.messages)] == [b"2"]
    found = peer.ask(GetDeliveries(*AT, "billing", 1))
    assert (found.base, found.failing, found.poisoned_count) == (5, (), 1)


def test_a_message_that_cannot_be_copied_stays_open_until_it_can(peer: Peer) -> None:
    with pytest.raises(errors.InvalidOptionError, match="no dead-letter topic"):
        peer.ask(settle(POISONED))
    peer.ask(ChangeTopicOptions("shop", "dead", {"deduplication_count": 10}))
    with pytest.raises(errors.InvalidOptionError, match="deduplicates"):
        peer.ask(replace(settle(POISONED), dead_letter="shop/dead"))
    (left,) = peer.ask(GetDeliveries(*AT, "billing", 1)).failing
    assert (left.offset, left.reason) == (2, "max_attempts")
    peer.ask(ChangeTopicOptions("shop", "dead", {"deduplication_count": None}))
    peer.ask(replace(settle(POISONED), dead_letter="shop/dead"))
    assert committed(peer) == 5


def test_rights_are_those_of_polls_and_of_sends_to_the_dead_letter(server: Server, peer: Peer) -> None:
    peers = server.users_of_two_topics()
    poisoned = replace(settle(POISONED), dead_letter="shop/dead")
    commands: list[Command[Any]] = [GetDeliveries(*AT, "billing", 1), settle(FAILED), poisoned]
    assert [peers["nobody"].status(command) for command in commands] == [Status.UNAUTHORIZED] * 3
    peers["reader"].ask(settle(FAILED))
    with pytest.raises(errors.PermissionDeniedError):
        peers["reader"].ask(poisoned)
    peers["worker"].ask(poisoned)
    assert committed(peer) == 5


def test_groups_that_are_made_by_steps_count_against_the_users_limit() -> None:
    server = Server(most_consumers=2)
    try:
        peer = prepare(server)
        for number in range(2):
            peer.ask(settle(FAILED, group=f"g{number}"))
        with pytest.raises(errors.ConsumersLimitError):
            peer.ask(settle(FAILED, group="g2"))
    finally:
        server.broker.close()


def test_a_member_that_lost_its_partition_settles_nothing(peer: Peer) -> None:
    one = peer.ask(EnterGroup(*AT, "billing", 60_000)).member_id
    generation = peer.ask(ReportMember(*AT, "billing", one, ())).generation
    peer.ask(replace(settle(FAILED), member_id=one, generation=generation))
    two = peer.ask(EnterGroup(*AT, "billing", 60_000)).member_id
    peer.ask(ReportMember(*AT, "billing", two, ()))
    with pytest.raises(errors.RebalancedError, match="another member"):
        peer.ask(replace(settle(DONE), member_id=two, generation=generation))
    assert committed(peer) == 2


@pytest.mark.parametrize("seek", [(), (ChangedDelivery(DeliveryStep.SOUGHT, 1, 2),)], ids=["without a seek", "with a seek"])
def test_steps_before_the_committed_offset_are_kept(server: Server, peer: Peer, seek: tuple[ChangedDelivery, ...]) -> None:
    server.clock.step_us = 1
    peer.ask(settle(frontier=5))
    assert committed(peer) == 5
    peer.ask(settle(*seek, FAILED, ChangedDelivery(DeliveryStep.PENDING, 1, 2)))
    found = peer.ask(GetDeliveries(*AT, "billing", 1))
    assert [(each.offset, each.failures) for each in found.failing] == [(2, 1)]
    assert (found.pending, committed(peer)) == ((OffsetRange(1, 2),), 1)


def test_a_seek_a_deletion_and_a_purge_forget_what_was_open(peer: Peer) -> None:
    def unfinished() -> int:
        return len(peer.ask(GetDeliveries(*AT, "billing", 1)).failing)

    peer.ask(settle(FAILED))
    assert unfinished() == 1
    peer.ask(SeekGroup(*AT, "billing", {1: 1}))
    assert (unfinished(), peer.ask(GetDeliveries(*AT, "billing", 1)).frontier) == (0, 1)
    peer.ask(settle(FAILED))
    peer.ask(DeleteGroup(*AT, "billing"))
    assert (unfinished(), committed(peer)) == (0, None)
    peer.ask(settle(FAILED))
    peer.ask(PurgeTopic(*AT))
    assert (unfinished(), committed(peer)) == (0, None)
    with pytest.raises(errors.OffsetOutOfRangeError, match="purged"):
        peer.ask(replace(settle(FAILED), partition_generation=1))
