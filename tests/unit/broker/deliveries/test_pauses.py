"""Pauses of groups at a server: one decision for all members, one message on trial, and what outlives the process."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.deliveries import DeliveryStep
from headstream.core.model.leases import SKIPPED, LeaseStep
from headstream.core.model.message import Message
from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.extensions import deliveries, delivery_views, groups, leases, messages, topic_options
from headstream.log.opening import close_log
from tests.support.server.servers import Peer, Server

AT = ("shop", "jobs")
ENTER = groups.EnterGroup(*AT, "workers", 60_000, True)
SECOND = 1_000_000
DAY_S = 86_400
RULE: dict[str, Any] = {"pause_failures": 2, "pause_attempts": 4, "pause_us": 60 * SECOND}


@pytest.fixture
def peer(server: Server) -> Peer:
    peer = server.ours()
    peer.ask(topic_options.CreateOpenTopic("shop", "jobs", 2))
    for partition in (1, 2):
        peer.ask(messages.AppendMessages(*AT, partition, encode_sent([Message(payload=b"%d" % number) for number in range(20)])))
    return peer


def lease(peer: Peer, member: int, token: int, count: int = 10, lease_s: int = 30, **options: Any) -> leases.LeasedMessages:
    return peer.ask(leases.LeaseMessages(*AT, "workers", member, token, count, lease_s * SECOND, {}, **(RULE | options)))


def say(peer: Peer, step: LeaseStep, token: int, begin: int, until: int | None = None, reason: str = "") -> leases.RefusedChanges:
    change = leases.ChangedLease(step, token, begin, begin + 1 if until is None else until, SECOND, reason, "no")
    return peer.ask(leases.SettleLeases(*AT, "workers", 1, (change,), **RULE))


def pause_two_of_four(peer: Peer, member: int) -> None:
    """Lease ten messages of partition 1; two attempts succeed and two fail."""
    lease(peer, member, 1)
    assert say(peer, LeaseStep.DONE, 1, 0, 2).paused_us == 0
    assert say(peer, LeaseStep.FAILED, 1, 2).paused_us == 0
    assert say(peer, LeaseStep.FAILED, 1, 3).paused_us == 60 * SECOND


def wait_for_trial(server: Server, peer: Peer) -> list[int]:
    """Pause the group with two members, and let the pause end; no other message of partition 1 is leased."""
    members = [peer.ask(ENTER).member_id for _ in range(2)]
    pause_two_of_four(peer, members[0])
    say(peer, LeaseStep.RELEASED, 1, 4, 10)
    server.clock.now_s += 60
    return members


def test_a_paused_group_leases_nothing_to_any_worker_until_the_pause_is_over(server: Server, peer: Peer) -> None:
    members = [peer.ask(ENTER).member_id for _ in range(2)]
    pause_two_of_four(peer, members[0])
    server.clock.now_s += 20
    for member in members:
        found = lease(peer, member, 10 + member)
        assert (found.partition, found.is_paused, found.wait_us) == (0, True, 40 * SECOND)
    assert say(peer, LeaseStep.DONE, 1, 4).paused_us == 40 * SECOND  # what was leased before can be settled
    counts = peer.ask(delivery_views.GetGroupDeliveries(*AT, "workers"))
    assert (counts.paused_until_us - counts.now_us, counts.failed_attempts, counts.last_attempts, counts.pauses) == (
        *(40 * SECOND, 2, 4, 1),
    )


def test_after_a_pause_one_message_is_on_trial_for_all_workers(server: Server, peer: Peer) -> None:
    members = wait_for_trial(server, peer)
    trial = lease(peer, members[0], 2)
    assert sum(each.until_offset - each.from_offset for each in trial.ranges) == 1
    other = lease(peer, members[1], 3)
    assert (other.partition, other.is_paused) == (0, True)
    (each,) = trial.ranges
    assert say(peer, LeaseStep.DONE, 2, each.from_offset).paused_us == 0
    again = lease(peer, members[1], 4, partitions=(2,))
    assert sum(each.until_offset - each.from_offset for each in again.ranges) == 10


def test_a_failed_trial_and_one_whose_lease_ends_pause_the_group_again(server: Server, peer: Peer) -> None:
    members = wait_for_trial(server, peer)
    (each,) = lease(peer, members[0], 2).ranges
    assert say(peer, LeaseStep.FAILED, 2, each.from_offset).paused_us == 60 * SECOND
    server.clock.now_s += 60
    assert lease(peer, members[0], 3).partition == 1
    server.clock.now_s += 31
    other = lease(peer, members[1], 4)
    assert (other.partition, other.is_paused, other.wait_us) == (0, True, 60 * SECOND)
    assert peer.ask(delivery_views.GetGroupDeliveries(*AT, "workers")).pauses == 3


def test_leases_from_before_a_pause_that_end_meanwhile_do_not_decide_its_trial(server: Server, peer: Peer) -> None:
    members = [peer.ask(ENTER).member_id for _ in range(2)]
    pause_two_of_four(peer, members[0])  # messages 4 to 9 stay leased
    server.clock.now_s += 60
    assert lease(peer, members[1], 2).ranges
    assert peer.ask(delivery_views.GetGroupDeliveries(*AT, "workers")).pauses == 1


def test_messages_whose_lease_ends_during_a_trial_are_leased_again(server: Server, peer: Peer) -> None:
    members = [peer.ask(ENTER).member_id for _ in range(2)]
    assert lease(peer, members[0], 9, 20, 100, partitions=(2,)).partition == 2
    pause_two_of_four(peer, members[0])
    server.clock.now_s += 61
    assert not lease(peer, members[1], 2, partitions=(2,)).ranges  # all of them are leased
    server.clock.now_s += 40
    (each,) = lease(peer, members[1], 3, partitions=(2,)).ranges
    assert (each.from_offset, each.until_offset) == (0, 1)


def test_a_released_trial_goes_to_another_worker(server: Server, peer: Peer) -> None:
    members = wait_for_trial(server, peer)
    (each,) = lease(peer, members[0], 2).ranges
    say(peer, LeaseStep.RELEASED, 2, each.from_offset)
    assert lease(peer, members[1], 3).partition == 1


def test_ended_leases_count_as_failed_attempts_and_passed_over_messages_as_none(server: Server, peer: Peer) -> None:
    member = peer.ask(ENTER).member_id
    lease(peer, member, 1, count=8)
    say(peer, LeaseStep.DONE, 1, 0, 4, SKIPPED)  # a filter left them out
    server.clock.now_s += 31
    assert lease(peer, member, 2).is_paused  # four leases ended: 4 failures of 4 attempts
    counts = peer.ask(delivery_views.GetGroupDeliveries(*AT, "workers"))
    assert (counts.failed_attempts, counts.last_attempts) == (4, 4)


def test_deferred_messages_and_workers_without_the_option_are_not_held_up(server: Server, peer: Peer) -> None:
    members = [peer.ask(ENTER).member_id for _ in range(2)]
    lease(peer, members[0], 1)
    say(peer, LeaseStep.DEFERRED, 1, 9)
    for offset in range(4):
        say(peer, LeaseStep.FAILED, 1, offset)
    assert lease(peer, members[0], 2).is_paused
    assert lease(peer, members[0], 3, partitions=(1,), deferred=(9,)).partition == 1
    assert lease(peer, members[1], 4, pause_us=0).ranges


def test_a_seek_ends_a_pause(server: Server, peer: Peer) -> None:
    steps = tuple(deliveries.ChangedDelivery(DeliveryStep.FAILED, number, number + 1, 1, 0, "", "no") for number in range(4))
    settle = deliveries.SettleDeliveries(*AT, "billing", 1, 4, steps, **RULE)
    assert peer.ask(settle).paused_us == 60 * SECOND
    assert peer.ask(settle).paused_us == 60 * SECOND  # a repeated request
    assert peer.ask(deliveries.GetDeliveries(*AT, "billing", 2)).paused_us == 60 * SECOND
    assert peer.ask(delivery_views.GetGroupDeliveries(*AT, "billing")).pauses == 1
    peer.ask(groups.SeekGroup(*AT, "billing", {1: 0}))
    assert peer.ask(deliveries.GetDeliveries(*AT, "billing", 2)).paused_us == 0


def test_owners_of_partitions_report_their_successes(server: Server, peer: Peer) -> None:
    def settle(partition: int, succeeded: int, *failed: int) -> deliveries.SettledDeliveries:
        steps = tuple(deliveries.ChangedDelivery(DeliveryStep.FAILED, each, each + 1, 1, 0, "", "no") for each in failed)
        return peer.ask(deliveries.SettleDeliveries(*AT, "billing", partition, 9, steps, succeeded=succeeded, **RULE))

    assert settle(1, 3, 3).paused_us == 0
    assert settle(2, 3, 2).paused_us == 0  # 1 of the last 4, in both partitions
    assert settle(1, 1, 4).paused_us == 60 * SECOND


def test_a_pause_outlives_the_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(directory=tmp_path / "log")
    peer = server.ours()
    peer.ask(topic_options.CreateOpenTopic("shop", "jobs", 2))
    peer.ask(messages.AppendMessages(*AT, 1, encode_sent([Message(payload=b"x")] * 20)))
    with caplog.at_level(logging.WARNING, "headstream.log"):
        pause_two_of_four(peer, member := peer.ask(ENTER).member_id)
    assert "group 'workers' of shop/jobs is paused for 60 s: 2 of its last 4 attempts failed" in caplog.text
    assert server.broker.transitions.counts[TransitionKind.PAUSED] == 1
    peer.ask(groups.ExitGroup(*AT, "workers", member))
    close_log(server.broker.backing.log)
    again = Server(directory=tmp_path / "log")
    peer = again.ours()
    assert lease(peer, peer.ask(ENTER).member_id, 9).is_paused
    again.clock.now_s += 60
    (each,) = lease(peer, peer.ask(ENTER).member_id, 10).ranges
    assert each.until_offset - each.from_offset == 1
    close_log(again.broker.backing.log)


def test_a_pause_that_followed_the_clock_back_is_over_for_the_next_process_too(tmp_path: Path) -> None:
    server = Server(directory=tmp_path / "log")
    peer = server.ours()
    peer.ask(topic_options.CreateOpenTopic("shop", "jobs", 2))
    peer.ask(messages.AppendMessages(*AT, 1, encode_sent([Message(payload=b"x")] * 20)))
    pause_two_of_four(peer, member := peer.ask(ENTER).member_id)
    say(peer, LeaseStep.RELEASED, 1, 4, 10)
    server.clock.now_s -= DAY_S
    assert lease(peer, member, 9).wait_us == 60 * SECOND
    peer.ask(groups.ExitGroup(*AT, "workers", member))
    close_log(server.broker.backing.log)
    again = Server(directory=tmp_path / "log")
    again.clock.now_s = server.clock.now_s + 60
    peer = again.ours()
    (each,) = lease(peer, peer.ask(ENTER).member_id, 10).ranges  # on trial
    assert say(peer, LeaseStep.DONE, 10, each.from_offset).paused_us == 0
    close_log(again.broker.backing.log)


def test_a_pause_of_a_group_without_members_ends_after_the_clock_was_set_back(server: Server, peer: Peer) -> None:
    def settle(succeeded: int, *failed: int) -> deliveries.SettledDeliveries:
        steps = tuple(deliveries.ChangedDelivery(DeliveryStep.FAILED, each, each + 1, 1, 0, "", "no") for each in failed)
        return peer.ask(deliveries.SettleDeliveries(*AT, "billing", 1, 9, steps, succeeded=succeeded, **RULE))

    assert settle(2, 1, 2).paused_us == 60 * SECOND
    server.clock.now_s -= DAY_S
    assert settle(1).paused_us == 60 * SECOND
    server.clock.now_s += 60
    assert settle(1).paused_us == 0
