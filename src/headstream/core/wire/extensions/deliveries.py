"""Commands for deliveries, the unfinished messages of a group in a partition; see core/model/deliveries.py.

Repeating a step has no effect. A poisoned message is copied to the dead-letter topic once, which requires the right to send to
this topic. Then the message is done for the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from headstream.core.model.deliveries import DeadLetterReason, DeliveryStep
from headstream.core.model.pauses import PauseRule
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.extensions.shapes import MaybeU64, TrailingText8, TrailingU32, TrailingU64
from headstream.core.wire.records import GroupCommand, Record, Records, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import U32, U64, Default, Flag, PartitionId, Text8, Text32, TextCode
from headstream.core.wire.statuses import Status

_MAX_CHANGES = 20_000


@dataclass(frozen=True, slots=True)
class OffsetRange(Record):
    """A half-open range of offsets."""

    from_offset: U64
    until_offset: U64


@dataclass(frozen=True, slots=True)
class OpenDelivery(Record):
    """An unfinished message of a group, with the members of model.deliveries.Delivery."""

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
    """The unfinished messages of a group in a partition, with the members of model.deliveries.PartitionDeliveries."""

    base: MaybeU64
    frontier: U64
    now_us: U64
    poisoned_count: U64
    pending: Annotated[tuple[OffsetRange, ...], Records(OffsetRange, is_counted=True)]
    failing: Annotated[tuple[OpenDelivery, ...], Records(OpenDelivery, is_counted=True)]
    paused_us: TrailingU64 = 0


@dataclass(frozen=True, slots=True)
class GetDeliveries(GroupCommand[OpenDeliveries]):
    """Return a group's unfinished messages in a partition."""

    code = Code.GET_DELIVERIES
    reply = one(OpenDeliveries)
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
class SettledDeliveries(Record):
    """The generation of a group and its remaining pause, as in model.deliveries.Settled."""

    generation: U64
    paused_us: TrailingU64 = 0


@dataclass(frozen=True, slots=True)
class SettleDeliveries(GroupCommand[SettledDeliveries]):
    """Record steps of a group's messages, and commit the offset of the first unfinished message.

    Args:
        frontier: One past the last message that the group has begun.
        member_id: The member that owns the partition; None for a consumer without a group.
        partition_generation: The generation of the partition that was polled, or None.
        dead_letter: `stream/topic` for poisoned messages, or empty.
        succeeded: Number of successful attempts since the last request, counted for pauses.
        pause_failures: The group is paused after this number of failures among the last `pause_attempts` attempts.
        pause_attempts: Number of last attempts that are evaluated.
        pause_us: Length of the pause, microseconds; 0 disables pauses.
    """

    code = Code.SETTLE_DELIVERIES
    reply = one(SettledDeliveries)
    partition: PartitionId
    frontier: U64
    changes: Annotated[tuple[ChangedDelivery, ...], Records(ChangedDelivery, is_counted=True)]
    member_id: MaybeU64 = None
    generation: Annotated[U64, Default(0)] = 0
    partition_generation: MaybeU64 = None
    dead_letter: Annotated[Text32, Default("")] = ""
    is_resting: Annotated[Flag, Default(False)] = False
    worker: TrailingText8 = ""
    succeeded: TrailingU32 = 0
    pause_failures: TrailingU32 = 0
    pause_attempts: TrailingU32 = 0
    pause_us: TrailingU64 = 0

    def validate(self) -> None:
        pause_rule_of(self)
        if len(self.changes) > _MAX_CHANGES:
            raise refusal(Status.INVALID_FORMAT, f"{len(self.changes)} steps exceed the limit of one request, {_MAX_CHANGES}")
        check_bytes(self.dead_letter, 0, 511, Status.INVALID_FORMAT, "the dead-letter topic name")
        for change in self.changes:
            if change.from_offset >= change.until_offset:
                raise refusal(Status.INVALID_FORMAT, f"the range {change.from_offset} to {change.until_offset} is empty")
            if change.step is DeliveryStep.POISONED and change.reason not in list(DeadLetterReason):
                raise refusal(Status.INVALID_FORMAT, f"{change.reason!r} is not a reason: use {', '.join(DeadLetterReason)}")


class _Pausing(Protocol):
    """The command fields that define a group's pause rule."""

    @property
    def pause_failures(self) -> int: ...
    @property
    def pause_attempts(self) -> int: ...
    @property
    def pause_us(self) -> int: ...


def pause_rule_of(command: _Pausing) -> PauseRule | None:
    """Return the rule for pausing a group, or None; InvalidOptionError if a number is out of range."""
    if not command.pause_us:
        return None
    return PauseRule(command.pause_failures, command.pause_attempts, command.pause_us).check()
