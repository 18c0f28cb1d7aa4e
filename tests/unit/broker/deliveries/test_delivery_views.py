"""What people see of deliveries: counts by status, the story of a message, and the transitions that are counted and audited."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from headstream.broker.deliveries.delivery_audit import DeliveryAudit
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.deliveries import DeliveryStep, RetryOrder
from headstream.core.model.delivery_views import DeliveryCounts, DeliveryStatus
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import LeaseStep
from headstream.core.model.message import Message, MessageState
from headstream.core.model.polling import PollingStrategy
from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.topics import DeleteTopic
from headstream.core.wire.extensions.deliveries import ChangedDelivery, SettleDeliveries
from headstream.core.wire.extensions.delivery_views import GetDelivery, GetGroupDeliveries, ToldMessage
from headstream.core.wire.extensions.groups import CommitMember, EnterGroup, ReportMember
from headstream.core.wire.extensions.leases import ChangedLease, LeaseMessages, SettleLeases
from headstream.core.wire.extensions.messages import AppendMessages, SetState
from headstream.core.wire.extensions.topics import CreateOpenTopic
from headstream.errors import GroupNotFoundError, OffsetOutOfRangeError
from tests.support.server.servers import Peer, Server

AT = ("shop", "jobs")
AUDIT = TopicName("ops", "audit")
SECOND = 1_000_000
ALL_OF_THEM = 60.0


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.connect()
    peer.ask(Login("iggy", "iggy", "1.0.0", EXTENSION_CONTEXT))
    for name in ("jobs", "dead"):
        peer.ask(CreateOpenTopic("shop", name, 1))
    peer.ask(AppendMessages(*AT, 1, encode_sent([Message(payload=b"%d" % number) for number in range(20)])))
    return peer


def lease(peer: Peer, token: int, count: int, worker: str = "host-1", attempts: int = 3) -> None:
    member = peer.ask(EnterGroup(*AT, "workers", 60_000, True)).member_id
    lent = LeaseMessages(*AT, "workers", member, token, count, 30 * SECOND, {}, worker, RetryOrder.SKIP, attempts, "shop/dead")
    peer.ask(lent)


def say(peer: Peer, step: LeaseStep, token: int, begin: int, until: int | None = None, **options: Any) -> None:
    change = ChangedLease(step, token, begin, begin + 1 if until is None else until, **options)
    assert peer.ask(SettleLeases(*AT, "workers", 1, (change,), dead_letter="shop/dead")).refused == ()


def story(peer: Peer, offset: int, group: str = "workers") -> ToldMessage:
    return peer.ask(GetDelivery(*AT, group, 1, offset))


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
    (told,) = peer.ask(GetGroupDeliveries(*AT, "workers")).partitions
    assert (told.leased, told.open_letters, told.oldest_leased_us) == (2, 1, server.clock.now_us() - 5 * SECOND)
    assert told.oldest_poisoned_us == server.clock.now_us() - 67 * SECOND


def test_a_message_of_each_status_tells_its_story(server: Server, peer: Peer) -> None:
    start_us = server.clock.now_us()
    fill_every_status(server, peer)
    now_us = server.clock.now_us()
    statuses = [story(peer, offset).status for offset in range(8)]
    assert statuses == ["done", "delayed", "deferred", "poisoned", "leased", "leased", "pending", "pending"]
    delayed = story(peer, 1)
    assert (delayed.failures, delayed.next_attempt_us, delayed.first_failed_us) == (1, start_us + 600 * SECOND, start_us)
    rejected = story(peer, 3)
    assert (rejected.reason, rejected.first_error, rejected.letter_topic) == ("rejected", "unwanted", "shop/dead")
    assert (rejected.letter_partition, rejected.letter_offset) == (1, 0)
    leased = story(peer, 4)
    assert (leased.worker, leased.leased_us, leased.lease_until_us) == ("host-2", now_us, now_us + 30 * SECOND)
    assert [(each.number, each.begun_us, each.worker, each.error) for each in leased.attempts] == [
        (1, start_us, "host-1", "its lease ended before it was settled"),
        (2, start_us + 31 * SECOND, "host-1", "again"),
        (3, start_us + 31 * SECOND, "host-1", "the lease of host-1 ended before it was settled"),
    ]


def test_the_story_of_an_ordered_group_names_its_consumers(server: Server, peer: Peer) -> None:
    for number in (1, 2):
        failed = ChangedDelivery(DeliveryStep.FAILED, 0, 1, number, 5 * SECOND, "", f"error {number}")
        peer.ask(SettleDeliveries(*AT, "billing", 1, 1, (failed,), worker=f"host-{number}"))
        server.clock.now_s += 1
    told = story(peer, 0, "billing")
    assert told.status is DeliveryStatus.DELAYED
    assert [(each.number, each.worker, each.error) for each in told.attempts] == [
        (1, "host-1", "error 1"),
        (2, "host-2", "error 2"),
    ]
    peer.ask(SettleDeliveries(*AT, "billing", 1, 1, (ChangedDelivery(DeliveryStep.BEGUN, 0, 1),)))
    assert story(peer, 0, "billing").status is DeliveryStatus.LEASED


def test_a_missing_group_and_a_message_that_never_was_are_refused(server: Server, peer: Peer) -> None:
    with pytest.raises(GroupNotFoundError):
        story(peer, 0, "none")
    lease(peer, 1, 1)
    with pytest.raises(OffsetOutOfRangeError, match="has no message 20"):
        story(peer, 20)


def test_a_letter_is_open_until_it_is_discarded_or_gone(server: Server, peer: Peer) -> None:
    lease(peer, 1, 3)
    for offset in (0, 1):
        say(peer, LeaseStep.POISONED, 1, offset, reason="rejected", error="no")
        server.clock.now_s += 1
    first_us = server.clock.now_us() - 2 * SECOND
    assert (counts_of(server).open_letters, counts_of(server).oldest_poisoned_us) == (2, first_us)
    peer.ask(SetState("shop", "dead", 1, (0,), MessageState.MARKED_FOR_DELETION.value, "discarded"))
    assert (counts_of(server).open_letters, counts_of(server).oldest_poisoned_us) == (1, first_us + SECOND)
    peer.ask(DeleteTopic("shop", "dead"))
    assert (counts_of(server).open_letters, counts_of(server).oldest_poisoned_us, counts_of(server).poisoned) == (0, None, 2)


def test_transitions_are_counted_once(server: Server, peer: Peer) -> None:
    fill_every_status(server, peer)
    counts = server.broker.transitions.counts
    expected = {"leased": 10, "acked": 1, "retried": 2, "rejected": 1, "deferred": 1, "expired": 2, "released": 1}
    assert {kind: count for kind, count in counts.items() if count} == expected


def test_what_owners_of_partitions_finish_is_acked_once(server: Server, peer: Peer) -> None:
    member = peer.ask(EnterGroup(*AT, "billing", 60_000)).member_id
    generation = peer.ask(ReportMember(*AT, "billing", member, ())).generation

    def acked() -> int:
        return server.broker.transitions.counts[TransitionKind.ACKED]

    for _ in range(2):
        peer.ask(CommitMember(*AT, "billing", member, generation, {1: 4}, {}))
    assert acked() == 4
    failed = (ChangedDelivery(DeliveryStep.FAILED, 6, 7, 1, SECOND, "", "no"),)
    for _ in range(2):
        peer.ask(SettleDeliveries(*AT, "billing", 1, 9, failed, member, generation))
    assert acked() == 8  # 4, 5, 7 and 8
    done = (ChangedDelivery(DeliveryStep.DONE, 6, 7),)
    for _ in range(2):
        peer.ask(SettleDeliveries(*AT, "billing", 1, 9, done, member, generation))
    assert acked() == 9
    peer.ask(CommitMember(*AT, "billing", member, generation, {1: 12}, {}))
    assert acked() == 12


def rows_of(server: Server) -> list[dict[str, Any]]:
    polled = server.broker.messages.poll(AUDIT, 1, PollingStrategy.first(), 1000)
    found = [message for chunk in polled.chunks for message in decode_polled(chunk)]
    assert all(message.headers["transition"] == json.loads(message.payload or b"")["transition"] for message in found)
    return [json.loads(message.payload or b"") for message in found]


def test_an_audit_has_a_row_of_each_transition(server: Server, peer: Peer) -> None:
    audit = DeliveryAudit(server.broker, AUDIT, lambda user_id: {1: "iggy"}.get(user_id, ""))
    start_us = server.clock.now_us()
    fill_every_status(server, peer)
    audit.close()
    rows = rows_of(server)
    assert [row["transition"] for row in rows] == [
        *("leased", "acked", "retried", "deferred", "rejected", "expired", "leased", "retried", "leased", "expired"),
        *("leased", "leased", "released"),
    ]
    assert rows[2] == {
        "time_us": start_us,
        "transition": "retried",
        "topic": "shop/jobs",
        "group": "workers",
        "partition": 1,
        "from_offset": 1,
        "until_offset": 2,
        "worker": "host-1",
        "user": "iggy",
        "failures": 1,
        "delay_us": 600 * SECOND,
        "reason": "",
        "error": "ValueError: no",
        "state": None,
    }
    assert (rows[4]["reason"], rows[4]["error"], rows[4]["worker"]) == ("rejected", "unwanted", "host-1")


def test_states_that_are_set_are_counted_and_audited_with_who_and_why(server: Server, peer: Peer) -> None:
    audit = DeliveryAudit(server.broker, AUDIT, lambda user_id: {1: "iggy"}.get(user_id, ""))
    peer.ask(SetState(*AT, 1, (3, 4, 9), 20, "not JSON"))
    peer.ask(SetState(*AT, 1, (4,), 1))
    with pytest.raises(OffsetOutOfRangeError):
        peer.ask(SetState(*AT, 1, (99,), 20))
    audit.close()
    rows = rows_of(server)
    told = [(row["from_offset"], row["until_offset"], row["state"], row["reason"]) for row in rows]
    assert told == [(3, 5, "poisoned", "not JSON"), (9, 10, "poisoned", "not JSON"), (4, 5, "available", "")]
    assert {(row["transition"], row["user"], row["group"]) for row in rows} == {("state_set", "iggy", None)}
    counts = server.broker.transitions.state_counts
    assert (counts["poisoned"], counts["available"], counts["unavailable"]) == (3, 1, 0)


def test_the_audit_topic_is_not_audited(server: Server, peer: Peer) -> None:
    audit = DeliveryAudit(server.broker, AUDIT, lambda _: "")
    lease(peer, 1, 1)
    member = peer.ask(EnterGroup("ops", "audit", "auditors", 60_000, True)).member_id
    peer.ask(LeaseMessages("ops", "audit", "auditors", member, 1, 10, 30 * SECOND, {}))
    audit.close()
    assert {row["topic"] for row in rows_of(server)} == {"shop/jobs"}


def test_a_lost_row_loses_no_transition_and_is_counted(server: Server, peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    audit = DeliveryAudit(server.broker, AUDIT, lambda _: "")
    peer.ask(DeleteTopic("ops", "audit"))
    with caplog.at_level(logging.WARNING, "headstream.log"):
        lease(peer, 1, 3)
        say(peer, LeaseStep.DONE, 1, 0, 3)
        audit.close()
    assert audit.lost_count == 2
    assert "audit rows of deliveries are lost" in caplog.text
    assert "there is no topic 'ops/audit'" in caplog.text
    assert story(peer, 0).status is DeliveryStatus.DONE
    assert server.broker.transitions.counts[TransitionKind.ACKED] == 3


def test_a_transition_never_waits_for_the_audit(server: Server, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.broker.deliveries.delivery_audit._MAX_WAITING", 5)
    held, goes_on = threading.Event(), threading.Event()
    audit = DeliveryAudit(server.broker, AUDIT, lambda _: "")
    send = server.broker.messages.send

    def wait_and_send(topic: TopicName, partition: int, batch: Any) -> int:
        held.set()
        assert goes_on.wait(ALL_OF_THEM)
        return send(topic, partition, batch)

    monkeypatch.setattr(server.broker.messages, "send", wait_and_send)
    lease(peer, 1, 10)
    assert held.wait(ALL_OF_THEM)
    for offset in range(10):
        say(peer, LeaseStep.DONE, 1, offset)
    assert audit.lost_count == 5
    goes_on.set()
    audit.close()
    assert len(rows_of(server)) == 6
