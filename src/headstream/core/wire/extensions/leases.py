"""Commands for leases: a message of a shared group is leased to one worker at a time; see core/model/leases.py.

Repeating a step has no effect. The reply lists the steps that were refused because their lease had ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.core.model.deliveries import DeadLetterReason, RetryOrder
from headstream.core.model.leases import MAX_LEASE_US, LeaseStep
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.extensions.deliveries import pause_rule_of
from headstream.core.wire.extensions.shapes import (
    ByNumber,
    ByNumberOrEmpty,
    Choice,
    MaybeU64,
    Numbers,
    TrailingFlag,
    TrailingU32,
    TrailingU64,
)
from headstream.core.wire.records import GroupCommand, Record, Records, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import U32, U64, Default, PartitionId, Text8, Text32, TextCode
from headstream.core.wire.statuses import Status

_MAX_CHANGES = 20_000


@dataclass(frozen=True, slots=True)
class LeasedOffsets(Record):
    """A range of leased messages, and the number of failures of each message."""

    from_offset: U64
    until_offset: U64
    failures: U32


@dataclass(frozen=True, slots=True)
class LeasedMessages(Record):
    """The reply to LeaseMessages, with the members of model.leases.Grant."""

    partition: U32
    partition_generation: U64
    wait_us: MaybeU64
    ends: ByNumber
    ranges: Annotated[tuple[LeasedOffsets, ...], Records(LeasedOffsets, is_counted=True)]
    is_paused: Annotated[bool, TrailingFlag(), Default(False)] = False


@dataclass(frozen=True, slots=True)
class LeaseMessages(GroupCommand[LeasedMessages]):
    """Lease messages to a shared member, from the first of the given partitions that has messages to lease.

    Args:
        token: The lease's id, a random number that the worker chooses. Repeating a request returns the messages leased with its
            token.
        lease_us: Duration of the lease, microseconds.
        starts: Partition -> the offset where a group without a committed offset begins; 0 if missing here, or past the end.
        order: `key` if later messages of a key wait for earlier messages, otherwise `skip`.
        attempts: Number of attempts after which a message whose lease ends fails permanently; 0 sets no limit.
        dead_letter: `stream/topic` for messages that fail permanently, or empty.
        partitions: Partitions to lease from, in order of preference; empty for all.
        deferred: Offsets of deferred messages to lease; `partitions` must then contain exactly one partition.
        pause_failures: The group is paused after this number of failures among the last `pause_attempts` attempts.
        pause_attempts: Number of last attempts that are evaluated.
        pause_us: Length of the pause, microseconds; 0 disables pauses.
    """

    code = Code.LEASE_MESSAGES
    reply = one(LeasedMessages)
    member_id: U64
    token: U64
    count: U32
    lease_us: U64
    starts: ByNumberOrEmpty
    worker: Annotated[Text8, Default("")] = ""
    order: Annotated[RetryOrder, Choice(RetryOrder), Default(RetryOrder.SKIP)] = RetryOrder.SKIP
    attempts: Annotated[U32, Default(0)] = 0
    dead_letter: Annotated[Text32, Default("")] = ""
    partitions: Annotated[Numbers, Default(())] = ()
    deferred: Annotated[Numbers, Default(())] = ()
    pause_failures: TrailingU32 = 0
    pause_attempts: TrailingU32 = 0
    pause_us: TrailingU64 = 0

    def validate(self) -> None:
        pause_rule_of(self)
        check_bytes(self.dead_letter, 0, 511, Status.INVALID_FORMAT, "the dead-letter topic name")


@dataclass(frozen=True, slots=True)
class ChangedLease(Record):
    """A step of leased messages, with the members of model.leases.LeaseChange."""

    step: Annotated[LeaseStep, TextCode(LeaseStep)]
    token: U64
    from_offset: U64
    until_offset: U64
    delay_us: Annotated[U64, Default(0)] = 0
    reason: Annotated[Text8, Default("")] = ""
    error: Annotated[Text8, Default("")] = ""


@dataclass(frozen=True, slots=True)
class RefusedChange(Record):
    """A step that was refused, with the members of model.leases.LeaseRefusal."""

    from_offset: U64
    until_offset: U64
    what: Text32


@dataclass(frozen=True, slots=True)
class RefusedChanges(Record):
    """The steps that were refused because their lease had ended, and the remaining pause of the group."""

    refused: Annotated[tuple[RefusedChange, ...], Records(RefusedChange, is_counted=True)]
    paused_us: TrailingU64 = 0


@dataclass(frozen=True, slots=True)
class SettleLeases(GroupCommand[RefusedChanges]):
    """Record steps of a group's leased messages, and commit the offset of the first unfinished message.

    Args:
        partition_generation: The generation of the partition from which the messages were leased, or None.
        dead_letter: `stream/topic` for poisoned messages, or empty.
    """

    code = Code.SETTLE_LEASES
    reply = one(RefusedChanges)
    partition: PartitionId
    changes: Annotated[tuple[ChangedLease, ...], Records(ChangedLease, is_counted=True)]
    partition_generation: MaybeU64 = None
    dead_letter: Annotated[Text32, Default("")] = ""
    pause_failures: TrailingU32 = 0
    pause_attempts: TrailingU32 = 0
    pause_us: TrailingU64 = 0

    def validate(self) -> None:
        pause_rule_of(self)
        if len(self.changes) > _MAX_CHANGES:
            raise refusal(Status.INVALID_FORMAT, f"{len(self.changes)} steps exceed the limit of one request, {_MAX_CHANGES}")
        check_bytes(self.dead_letter, 0, 511, Status.INVALID_FORMAT, "the dead-letter topic name")
        for change in self.changes:
            is_single = change.step in (LeaseStep.FAILED, LeaseStep.POISONED)
            if change.from_offset >= change.until_offset or (is_single and change.until_offset - change.from_offset > 1):
                raise refusal(Status.INVALID_FORMAT, f"the range {change.from_offset} to {change.until_offset} is not valid")
            if change.step is LeaseStep.POISONED and change.reason not in list(DeadLetterReason):
                raise refusal(Status.INVALID_FORMAT, f"{change.reason!r} is not a reason: use {', '.join(DeadLetterReason)}")
            if change.step is LeaseStep.EXTENDED and change.delay_us > MAX_LEASE_US:
                raise refusal(Status.INVALID_FORMAT, f"a lease of {change.delay_us} us exceeds the maximum of {MAX_LEASE_US}")
