"""Deliveries: what a group has not finished in a partition, and the steps of its messages; see model/deliveries.py.

A step can be repeated without effect. A poisoned message is copied into the dead-letter topic once, which needs the right to send
there; then the group's offset passes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.model.deliveries import DeadLetterReason, DeliveryStep
from headstream.wire.codes import Code
from headstream.wire.commands.checks import check_bytes
from headstream.wire.extensions.groups import GroupGeneration
from headstream.wire.extensions.shapes import MaybeU64
from headstream.wire.records import Command, Record, Records, one
from headstream.wire.refusals import refusal
from headstream.wire.shapes import U32, U64, Default, Flag, GroupId, PartitionId, StreamId, Text8, Text32, TextCode, TopicId
from headstream.wire.statuses import Status

__all__ = ["ChangedDelivery", "GetDeliveries", "OffsetRange", "OpenDeliveries", "OpenDelivery", "SettleDeliveries"]

_MAX_CHANGES = 20_000


@dataclass(frozen=True, slots=True)
class OffsetRange(Record):
    """Offsets from the first one up to and without the last one."""

    from_offset: U64
    until_offset: U64


@dataclass(frozen=True, slots=True)
class OpenDelivery(Record):
    """A message that a group has not finished, with the members of model.deliveries.Delivery."""

    offset: U64
    failures: U32
    is_begun: Flag
    failed_us: U64
    first_failed_us: U64
    delay_us: U64
    first_error: Text8
    last_error: Text8
    reason: Text8


@dataclass(frozen=True, slots=True)
class OpenDeliveries(Record):
    """What a group has not finished in a partition, with the members of model.deliveries.PartitionDeliveries."""

    base: MaybeU64
    frontier: U64
    now_us: U64
    poisoned_count: U64
    pending: Annotated[tuple[OffsetRange, ...], Records(OffsetRange, is_counted=True)]
    failing: Annotated[tuple[OpenDelivery, ...], Records(OpenDelivery, is_counted=True)]


@dataclass(frozen=True, slots=True)
class GetDeliveries(Command[OpenDeliveries]):
    """Return what a group has not finished in a partition."""

    code = Code.GET_DELIVERIES
    reply = one(OpenDeliveries)
    stream: StreamId
    topic: TopicId
    group: GroupId
    partition: PartitionId


@dataclass(frozen=True, slots=True)
class ChangedDelivery(Record):
    """A step of a message, with the members of model.deliveries.DeliveryChange."""

    step: Annotated[DeliveryStep, TextCode(DeliveryStep)]
    from_offset: U64
    until_offset: U64
    failures: Annotated[U32, Default(0)] = 0
    delay_us: Annotated[U64, Default(0)] = 0
    reason: Annotated[Text8, Default("")] = ""
    error: Annotated[Text8, Default("")] = ""


@dataclass(frozen=True, slots=True)
class SettleDeliveries(Command[GroupGeneration]):
    """Record steps of messages of a group, and commit the offset of the first one that is not done.

    Args:
        stream: The stream.
        topic: The topic.
        group: The group.
        partition: The partition's number.
        frontier: One past the last message that the group has begun.
        changes: The steps.
        member_id: The member that owns the partition; None for a consumer of partitions of its own.
        generation: The generation of the member's last report.
        partition_generation: The generation of the partition that was polled, or None.
        dead_letter: `stream/topic` for poisoned messages, or empty.
        is_resting: As in ReportMember.
    """

    code = Code.SETTLE_DELIVERIES
    reply = one(GroupGeneration)
    stream: StreamId
    topic: TopicId
    group: GroupId
    partition: PartitionId
    frontier: U64
    changes: Annotated[tuple[ChangedDelivery, ...], Records(ChangedDelivery, is_counted=True)]
    member_id: MaybeU64 = None
    generation: Annotated[U64, Default(0)] = 0
    partition_generation: MaybeU64 = None
    dead_letter: Annotated[Text32, Default("")] = ""
    is_resting: Annotated[Flag, Default(False)] = False

    def validate(self) -> None:
        """Check the count of changes, and each one's reason and range."""
        if len(self.changes) > _MAX_CHANGES:
            raise refusal(Status.INVALID_FORMAT, f"{len(self.changes)} steps; one request has at most {_MAX_CHANGES}")
        check_bytes(self.dead_letter, 0, 511, Status.INVALID_FORMAT, "the name of the dead-letter topic")
        for change in self.changes:
            if change.from_offset >= change.until_offset:
                raise refusal(Status.INVALID_FORMAT, f"the range {change.from_offset} to {change.until_offset} is empty")
            if change.step is DeliveryStep.POISONED and change.reason not in list(DeadLetterReason):
                raise refusal(Status.INVALID_FORMAT, f"{change.reason!r} is not a reason: use {', '.join(DeadLetterReason)}")
