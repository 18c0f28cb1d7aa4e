"""Commands for the unfinished messages of a group as shown to users; see core/model/delivery_views.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.core.model.delivery_views import DeliveryStatus, GroupDeliveries
from headstream.core.wire.codes import Code
from headstream.core.wire.extensions.shapes import Choice, MaybeU64
from headstream.core.wire.records import GroupCommand, Record, Records, one
from headstream.core.wire.shapes import U32, U64, PartitionId, Text8, Text32


@dataclass(frozen=True, slots=True)
class PartitionCounts(Record):
    """The messages of a group in a partition, with the members of model.delivery_views.DeliveryCounts."""

    partition: U32
    pending: U64
    leased: U64
    delayed: U64
    deferred: U64
    poisoned: U64
    open_letters: U32
    oldest_leased_us: MaybeU64
    oldest_poisoned_us: MaybeU64


@dataclass(frozen=True, slots=True)
class GroupCounts(Record):
    """The counts of a group's unfinished messages, and the group's pause with the members of model.pauses.GroupPause."""

    now_us: U64
    paused_until_us: U64
    paused_since_us: U64
    failed_attempts: U32
    last_attempts: U32
    pauses: U64
    partitions: Annotated[tuple[PartitionCounts, ...], Records(PartitionCounts, is_counted=True)]


def encode_counts(found: GroupDeliveries) -> GroupCounts:
    """Return the counts of a group's unfinished messages as a reply."""
    return GroupCounts(found.now_us, *found.pause, tuple(PartitionCounts.of(each) for each in found.partitions))


@dataclass(frozen=True, slots=True)
class GetGroupDeliveries(GroupCommand[GroupCounts]):
    """Return the counts of a group's unfinished messages, and whether the group is paused."""

    code = Code.GET_GROUP_DELIVERIES
    reply = one(GroupCounts)


@dataclass(frozen=True, slots=True)
class FailedAttempt(Record):
    """A failed attempt, with the members of model.deliveries.Attempt."""

    number: U32
    ended_us: U64
    begun_us: U64
    worker: Text8
    error: Text8


@dataclass(frozen=True, slots=True)
class ToldMessage(Record):
    """The history of a message in a group, with the members of model.delivery_views.MessageStory."""

    partition: U32
    offset: U64
    status: Annotated[DeliveryStatus, Choice(DeliveryStatus)]
    failures: U32
    attempts: Annotated[tuple[FailedAttempt, ...], Records(FailedAttempt, is_counted=True)]
    worker: Text8
    leased_us: MaybeU64
    lease_until_us: MaybeU64
    next_attempt_us: MaybeU64
    first_failed_us: MaybeU64
    first_error: Text8
    reason: Text8
    letter_topic: Text32
    letter_partition: U32
    letter_offset: U64


@dataclass(frozen=True, slots=True)
class GetDelivery(GroupCommand[ToldMessage]):
    """Return the delivery history of a message in a group, as far as the group's journal retains it."""

    code = Code.GET_DELIVERY
    reply = one(ToldMessage)
    partition: PartitionId
    offset: U64
