"""What people see of deliveries: counts by status, the history of a message, and the transitions that are counted and audited."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.deliveries import DeliveryStep, RetryOrder
from headstream.core.model.delivery_views import DeliveryCounts, DeliveryStatus
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import LeaseStep
from headstream.core.model.message import Message, MessageState
from headstream.core.wire.commands.topics import DeleteTopic
from headstream.core.wire.extensions import deliveries, delivery_views, groups, leases, messages, topic_options
from headstream.errors import GroupNotFoundError, OffsetOutOfRangeError
from tests.support.server.servers import Peer, Server

AT = ("shop", "jobs")
SECOND = 1_000_000


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.ours()
    for name in ("jobs", "dead"):
        peer.ask(topic_options.CreateOpenTopic("shop", name, 1))
    peer.ask(messages.AppendMessages(*AT, 1, encode_sent([Message(payload=b"%d" % number) for number in range(20)])))
    return peer


def lease(peer: Peer, token: int, count: int, worker: str = "host-1", attempts: int = 3) -> None:
    member = peer.ask(groups.EnterGroup(*AT, "workers", 60_000, True)).member_id
    leased = leases.LeaseMessages(
        *AT, "workers", member, token, count, 30 * SECOND, {}, worker, RetryOrder.SKIP, attempts, "shop/dead"
    )
    peer.ask(leased)


def say(peer: Peer, step: LeaseStep, token: int, begin: int, until: int | None = None, **options: Any) -> None:
    change = leases.ChangedLease(step, token, begin, begin + 1 if until is None else until, **options)
    assert peer.ask(leases.SettleLeases(*AT, "workers", 1, (change,), dead_letter="shop/dead")).refused == ()


def history(peer: Peer, offset: int, group: str = "workers") -> delivery_views.ToldMessage:
    return peer.ask(delivery_views.GetDelivery(*AT, group, 1, offset))


def counts_of(server: Server, group: str = "workers") -> DeliveryCounts:
    (counts,) = server.broker.delivery_views.group(TopicName(*AT), group).partitions
    return counts


def fill_every_status(server: Server, peer: Peer) -> None:
    """0 done, 1 delayed, 2 deferred, 3 rejected, 4 its lease has ended, 5 leased, 6 released, 7 and later never leased."""
    lease(peer, 1, 5)
    say(peer, LeaseStep.DONE, 1, 0)
    say(peer, LeaseStep.FAILED, 1, 1, delay_us=600 * SECOND, error="ValueError: no")
    say(peer, LeaseStep.DEFERRED, 1, 2)
    say(peer, LeaseStep.POISONED, 1, 3, reason="rejected", error="unwanted")
    server.clock.now_s += 31
    lease(peer, 2, 1)  # 4 again, alone
    say(peer, LeaseStep.FAILED, 2, 4, delay_us=0, error="again")
    lease(peer, 3, 1)
    server.clock.now_s += 31
    lease(peer, 4, 2, worker="host-2", attempts=9)
    lease(peer, 5, 2, worker="host-2", attempts=9)
    say(peer, LeaseStep.RELEASED, 5, 6)


def test_counts_tell_how_many_messages_have_each_status(server: Server, peer: Peer) -> None:
    fill_every_status(server, peer)
    counts = counts_of(server)
    assert (counts.pending, counts.leased, counts.delayed, counts.deferred, counts.poisoned) == (14, 2, 1, 1, 1)
    assert counts.oldest_leased_us == server.clock.now_us()
    server.clock.now_s += 5
    (told,) = peer.ask(delivery_views.GetGroupDeliveries(*AT, "workers")).partitions
    assert (told.leased, told.open_letters, told.oldest_leased_us) == (2, 1, server.clock.now_us() - 5 * SECOND)
    assert told.oldest_poisoned_us == server.clock.now_us() - 67 * SECOND


def test_a_message_of_each_status_tells_its_story(server: Server, peer: Peer) -> None:
    start_us = server.clock.now_us()
    fill_every_status(server, peer)
    now_us = server.clock.now_us()
    statuses = [history(peer, offset).status for offset in range(8)]
    assert statuses == ["done", "delayed", "deferred", "poisoned", "leased", "leased", "pending", "pending"]
    delayed = history(peer, 1)
    assert (delayed.failures, delayed.next_attempt_us, delayed.first_failed_us) == (1, start_us + 600 * SECOND, start_us)
    rejected = history(peer, 3)
    assert (rejected.reason, rejected.first_error, rejected.letter_topic) == ("rejected", "unwanted", "shop/dead")
    assert (rejected.letter_partition, rejected.letter_offset) == (1, 0)
    leased = history(peer, 4)
    assert (leased.worker, leased.leased_us, leased.lease_until_us) == ("host-2", now_us, now_us + 30 * SECOND)
    assert [(each.number, each.begun_us, each.worker, each.error) for each in leased.attempts] == [
        (1, start_us, "host-1", "the lease expired"),
        (2, start_us + 31 * SECOND, "host-1", "again"),
        (3, start_us + 31 * SECOND, "host-1", "the lease of host-1 expired"),
    ]


def test_the_story_of_an_ordered_group_names_its_consumers(server: Server, peer: Peer) -> None:
    for number in (1, 2):
        failed = deliveries.ChangedDelivery(DeliveryStep.FAILED, 0, 1, number, 5 * SECOND, "", f"error {number}")
        peer.ask(deliveries.SettleDeliveries(*AT, "billing", 1, 1, (failed,), worker=f"host-{number}"))
        server.clock.now_s += 1
    told = history(peer, 0, "billing")
    assert told.status is DeliveryStatus.DELAYED
    assert [(each.number, each.worker, each.error) for each in told.attempts] == [
        (1, "host-1", "error 1"),
        (2, "host-2", "error 2"),
    ]
    peer.ask(deliveries.SettleDeliveries(*AT, "billing", 1, 1, (deliveries.ChangedDelivery(DeliveryStep.BEGUN, 0, 1),)))
    assert history(peer, 0, "billing").status is DeliveryStatus.LEASED


def test_a_missing_group_and_a_message_that_never_was_are_refused(server: Server, peer: Peer) -> None:
    with pytest.raises(GroupNotFoundError):
        history(peer, 0, "none")
    lease(peer, 1, 1)
    with pytest.raises(OffsetOutOfRangeError, match="has no message 20"):
        history(peer, 20)


def test_a_letter_is_open_until_it_is_discarded_or_gone(server: Server, peer: Peer) -> None:
    lease(peer, 1, 3)
    for offset in (0, 1):
        say(peer, LeaseStep.POISONED, 1, offset, reason="rejected", error="no")
        server.clock.now_s += 1
    first_us = server.clock.now_us() - 2 * SECOND
    assert (counts_of(server).open_letters, counts_of(server).oldest_poisoned_us) == (2, first_us)
    peer.ask(messages.SetState("shop", "dead", 1, (0,), MessageState.MARKED_FOR_DELETION.value, "discarded"))
    assert (counts_of(server).open_letters, counts_of(server).oldest_poisoned_us) == (1, first_us + SECOND)
    peer.ask(DeleteTopic("shop", "dead"))
    assert (counts_of(server).open_letters, counts_of(server).oldest_poisoned_us, counts_of(server).poisoned) == (0, None, 2)
