"""What people see of the unfinished messages of groups on a server."""

from __future__ import annotations

from headstream.client.transports.remote.caller import Caller
from headstream.core.model.deliveries import Attempt
from headstream.core.model.delivery_views import DeliveryCounts, GroupDeliveries, MessageStory
from headstream.core.model.identifiers import TopicName
from headstream.core.model.pauses import GroupPause
from headstream.core.wire.extensions.delivery_views import GetDelivery, GetGroupDeliveries

__all__ = ["RemoteDeliveryViews"]


class RemoteDeliveryViews:
    """Views of the unfinished messages of groups."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def group(self, topic: TopicName, group: str) -> GroupDeliveries:
        """Return what a group has not finished, counted; see DeliveryViews.group()."""
        found = self._caller.call(GetGroupDeliveries(topic.stream, topic.topic, group))
        pause = GroupPause(
            *(found.paused_until_us, found.paused_since_us, found.failed_attempts, found.last_attempts, found.pauses)
        )
        counts = tuple(
            DeliveryCounts(
                *(each.partition, each.pending, each.leased, each.delayed, each.deferred, each.poisoned, each.open_letters),
                *(each.oldest_leased_us, each.oldest_poisoned_us),
            )
            for each in found.partitions
        )
        return GroupDeliveries(found.now_us, pause, counts)

    def message(self, topic: TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return what a group has done with one message; see DeliveryViews.message()."""
        found = self._caller.call(GetDelivery(topic.stream, topic.topic, group, partition, offset))
        return MessageStory(
            *(found.partition, found.offset, found.status, found.failures),
            tuple(Attempt(each.number, each.ended_us, each.begun_us, each.worker, each.error) for each in found.attempts),
            *(found.worker, found.leased_us, found.lease_until_us, found.next_attempt_us),
            *(found.first_failed_us, found.first_error, found.reason),
            (found.letter_topic, found.letter_partition, found.letter_offset) if found.letter_topic else None,
        )
