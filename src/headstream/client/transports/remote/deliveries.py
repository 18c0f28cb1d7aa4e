"""Groups' unfinished messages on a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.progress import as_rebalanced
from headstream.core.model.deliveries import Attempt, Delivery, PartitionDeliveries, Settled, SettleRequest, cut_error
from headstream.core.model.delivery_views import DeliveryCounts, GroupDeliveries, MessageStory
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import Grant, LeaseChange, LeasedRange, LeaseRefusal, LeaseRequest, SettledLeases
from headstream.core.model.pauses import GroupPause, PauseRule
from headstream.core.wire.extensions.deliveries import ChangedDelivery, GetDeliveries, SettleDeliveries
from headstream.core.wire.extensions.delivery_views import GetDelivery, GetGroupDeliveries
from headstream.core.wire.extensions.leases import ChangedLease, LeaseMessages, SettleLeases
from headstream.errors import ClosedError

_NO_RULE: Final = 0, 0, 0


class RemoteLeases:
    """Commands for workers that lease messages."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def lease(self, topic: TopicName, member: Member, request: LeaseRequest) -> Grant:
        """Lease messages of the first partition that has messages; see Leases.lease()."""
        command = LeaseMessages(
            topic.stream,
            topic.topic,
            member.group,
            member.id,
            request.token,
            request.count,
            request.lease_us,
            request.starts,
            request.worker,
            request.order,
            request.attempts or 0,
            "" if request.dead_letter is None else str(request.dead_letter),
            request.partitions,
            request.deferred,
            *(request.pause_rule or _NO_RULE),
        )
        try:
            found = self._caller.call(command)
        except ClosedError as error:
            raise as_rebalanced(error) from None
        ranges = tuple(LeasedRange(each.from_offset, each.until_offset, each.failures) for each in found.ranges)
        return Grant(found.partition, ranges, found.partition_generation, found.ends, found.wait_us, found.is_paused)

    def settle_leases(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[LeaseChange],
        *,
        dead_letter: TopicName | None = None,
        partition_generation: int | None = None,
        pause_rule: PauseRule | None = None,
    ) -> SettledLeases:
        """Record delivery steps of leased messages; see Leases.settle_leases()."""
        command = SettleLeases(
            topic.stream,
            topic.topic,
            group,
            partition,
            tuple(ChangedLease(*each[:-1], cut_error(each.error)) for each in changes),
            partition_generation,
            "" if dead_letter is None else str(dead_letter),
            *(pause_rule or _NO_RULE),
        )
        found = self._caller.call(command)
        refused = [LeaseRefusal(each.from_offset, each.until_offset, each.what) for each in found.refused]
        return SettledLeases(refused, found.paused_us)


class RemoteDeliveryViews:
    """Views of groups' unfinished messages."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def group(self, topic: TopicName, group: str) -> GroupDeliveries:
        """Return the counts of a group's unfinished messages; see DeliveryViews.group()."""
        found = self._caller.call(GetGroupDeliveries(topic.stream, topic.topic, group))
        pause = GroupPause(
            *(found.paused_until_us, found.paused_since_us, found.failed_attempts, found.last_attempts, found.pauses)
        )
        return GroupDeliveries(found.now_us, pause, tuple(DeliveryCounts(**each.values()) for each in found.partitions))

    def message(self, topic: TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return the delivery history of one message in a group; see DeliveryViews.message()."""
        found = self._caller.call(GetDelivery(topic.stream, topic.topic, group, partition, offset))
        known = found.values()
        letter = known.pop("letter_topic"), known.pop("letter_partition"), known.pop("letter_offset")
        known["attempts"] = tuple(Attempt(**each.values()) for each in found.attempts)
        return MessageStory(**known, letter=letter if found.letter_topic else None)


class RemoteDeliveries:
    """Commands for groups' unfinished messages."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def unfinished(self, topic: TopicName, group: str, partition: int) -> PartitionDeliveries:
        """Return a group's unfinished messages in a partition; see Deliveries.unfinished()."""
        found = self._caller.call(GetDeliveries(topic.stream, topic.topic, group, partition))
        failing = tuple(Delivery(**each.values()) for each in found.failing)
        pending = tuple((each.from_offset, each.until_offset) for each in found.pending)
        counts = found.now_us, found.poisoned_count, found.paused_us
        return PartitionDeliveries(found.base, found.frontier, pending, failing, *counts)

    def settle_deliveries(self, topic: TopicName, group: str, partition: int, request: SettleRequest) -> Settled:
        """Record delivery steps, and commit the group's offset; see Deliveries.settle_deliveries()."""
        command = SettleDeliveries(
            topic.stream,
            topic.topic,
            group,
            partition,
            request.begun_until,
            tuple(ChangedDelivery(*each[:-1], cut_error(each.error)) for each in request.changes),
            None if request.member is None else request.member.id,
            max(request.generation, 0),
            request.partition_generation,
            "" if request.dead_letter is None else str(request.dead_letter),
            request.is_resting,
            request.worker,
            request.succeeded,
            *(request.pause_rule or _NO_RULE),
        )
        try:
            found = self._caller.call(command)
            return Settled(found.generation, found.paused_us)
        except ClosedError as error:
            if request.member is None:
                raise
            raise as_rebalanced(error) from None
