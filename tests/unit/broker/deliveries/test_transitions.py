"""Unit tests of headstream.broker.deliveries.transitions."""

from __future__ import annotations

from headstream.core.model.deliveries import DeliveryStep
from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.extensions.deliveries import ChangedDelivery, SettleDeliveries
from headstream.core.wire.extensions.groups import CommitMember, EnterGroup, ReportMember
from tests.support.server.servers import Peer, Server
from tests.unit.broker.deliveries.test_delivery_views import AT, SECOND, fill_every_status, peer

__all__ = ["peer"]  # fixtures


def test_transitions_are_counted_once(server: Server, peer: Peer) -> None:
    fill_every_status(server, peer)
    counts = server.broker.transitions.counts
    expected = {"leased": 10, "acked": 1, "retried": 2, "rejected": 1, "deferred": 1, "expired": 2, "released": 1}
    assert {kind: count for kind, count in counts.items() if count} == expected


def test_messages_that_partition_owners_finish_count_as_acked_once(server: Server, peer: Peer) -> None:
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
