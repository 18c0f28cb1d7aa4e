"""Unit tests of headstream.broker.deliveries.delivery_audit."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from headstream.broker.deliveries.delivery_audit import DeliveryAudit
from headstream.core.codec.binary import decode_polled
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.delivery_views import DeliveryStatus
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import LeaseStep
from headstream.core.model.polling import PollingStrategy
from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.commands.topics import DeleteTopic
from headstream.core.wire.extensions import groups, leases, messages
from headstream.errors import OffsetOutOfRangeError
from tests.support.server.servers import Peer, Server
from tests.unit.broker.deliveries.test_delivery_views import AT, SECOND, fill_every_status, history, lease, peer, say

__all__ = ["peer"]  # fixtures

AUDIT = TopicName("ops", "audit")
ALL_OF_THEM = 60.0


def rows_of(server: Server) -> list[dict[str, Any]]:
    polled = server.broker.messages.poll(AUDIT, 1, PollRequest(PollingStrategy.first(), 1000))
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
    peer.ask(messages.SetState(*AT, 1, (3, 4, 9), 20, "not JSON"))
    peer.ask(messages.SetState(*AT, 1, (4,), 1))
    with pytest.raises(OffsetOutOfRangeError):
        peer.ask(messages.SetState(*AT, 1, (99,), 20))
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
    member = peer.ask(groups.EnterGroup("ops", "audit", "auditors", 60_000, True)).member_id
    peer.ask(leases.LeaseMessages("ops", "audit", "auditors", member, 1, 10, 30 * SECOND, {}))
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
    assert "delivery audit rows were lost" in caplog.text
    assert "there is no topic 'ops/audit'" in caplog.text
    assert history(peer, 0).status is DeliveryStatus.DONE
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
