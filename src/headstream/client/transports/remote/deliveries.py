"""Unfinished messages of groups on a server."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.progress import as_rebalanced
from headstream.core.model.deliveries import Delivery, DeliveryChange, PartitionDeliveries, Settled, cut_error
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.pauses import PauseRule
from headstream.core.wire.extensions.deliveries import ChangedDelivery, GetDeliveries, SettleDeliveries
from headstream.errors import ClosedError

__all__ = ["RemoteDeliveries"]


class RemoteDeliveries:
    """Commands for the unfinished messages of groups."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def unfinished(self, topic: TopicName, group: str, partition: int) -> PartitionDeliveries:
        """Return what a group has not finished in a partition; see Deliveries.unfinished()."""
        found = self._caller.call(GetDeliveries(topic.stream, topic.topic, group, partition))
        failing = tuple(
            Delivery(
                *(each.offset, each.failures, each.is_begun, each.failed_us, each.first_failed_us),
                *(each.delay_us, each.first_error, each.last_error, each.reason),
            )
            for each in found.failing
        )
        pending = tuple((each.from_offset, each.until_offset) for each in found.pending)
        counts = found.now_us, found.poisoned_count, found.paused_us
        return PartitionDeliveries(found.base, found.frontier, pending, failing, *counts)

    def settle(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[DeliveryChange],
        *,
        frontier: int,
        member: Member | None = None,
        generation: int = 0,
        partition_generation: int | None = None,
        dead_letter: TopicName | None = None,
        is_resting: bool = False,
        worker: str = "",
        succeeded: int = 0,
        pause_rule: PauseRule | None = None,
    ) -> Settled:
        """Record steps of messages, and commit the group's offset; see Deliveries.settle()."""
        command = SettleDeliveries(
            topic.stream,
            topic.topic,
            group,
            partition,
            frontier,
            tuple(ChangedDelivery(*each[:-1], cut_error(each.error)) for each in changes),
            None if member is None else member.id,
            max(generation, 0),
            partition_generation,
            "" if dead_letter is None else str(dead_letter),
            is_resting,
            worker,
            succeeded,
            *(pause_rule or (0, 0, 0)),
        )
        try:
            found = self._caller.call(command)
            return Settled(found.generation, found.paused_us)
        except ClosedError as error:
            if member is None:
                raise
            raise as_rebalanced(error) from None
