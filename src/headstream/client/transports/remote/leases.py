"""Leases of groups on a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.progress import as_rebalanced
from headstream.core.model.deliveries import cut_error
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import Grant, LeaseChange, LeasedRange, LeaseRefusal, LeaseRequest, SettledLeases
from headstream.core.model.pauses import PauseRule
from headstream.core.wire.extensions.leases import ChangedLease, LeaseMessages, SettleLeases
from headstream.errors import ClosedError

__all__ = ["RemoteLeases"]

_NO_RULE: Final = 0, 0, 0


class RemoteLeases:
    """Commands of workers that share partitions."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def lease(self, topic: TopicName, member: Member, request: LeaseRequest) -> Grant:
        """Lease messages of the first partition that has some; see Leases.lease()."""
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

    def settle(
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
        """Record steps of leased messages; see Leases.settle()."""
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
