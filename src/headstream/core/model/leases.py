"""Leases: the workers of a consumer group share its messages; a message is leased to one worker at a time, for a limited time.

pending    waits, or was never leased          leased     assigned to one worker until the lease ends
delayed    failed: waits for its next attempt  deferred   delivered only when requested by its offset
done       never delivered again               poisoned   done, with a copy in the dead-letter topic

A grant leases ranges of messages under one token, which every step of these messages must carry. A step that a worker sends after
its lease has ended has no effect; the refusal states what has happened to the message since.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.identifiers import TopicName
from headstream.core.model.pauses import PauseRule
from headstream.errors import InvalidOptionError

DEFAULT_LEASE_US: Final = 30_000_000
"""Default lease duration, microseconds, as in Kafka's share groups; processing a message usually takes less time."""

MIN_LEASE_US: Final = 10_000
"""Minimum duration of a lease, microseconds; a shorter lease would end before the messages arrive."""

MAX_LEASE_US: Final = 12 * 3_600_000_000
"""Maximum duration of a lease or an extension, microseconds: how long a message of a killed worker can wait."""

MAX_LEASE_COUNT: Final = 10_000
"""Maximum number of messages per grant."""

SKIPPED: Final = "skipped"
"""The reason of a DONE for messages that were not delivered, because they were removed or did not match the filter."""


class LeaseStep(enum.IntEnum):
    """A step in the delivery of leased messages."""

    DONE = 1
    FAILED = 2
    POISONED = 3
    RELEASED = 4
    EXTENDED = 5
    DEFERRED = 6


class LeaseChange(NamedTuple):
    """A step of messages that were leased together. Recording a step twice has no effect.

    Args:
        until_offset: One past the last message; a FAILED or POISONED step concerns exactly one message.
        delay_us: Microseconds. For FAILED: how long the message waits. For EXTENDED: the new remaining duration of the lease.
    """

    step: LeaseStep
    token: int
    from_offset: int
    until_offset: int
    delay_us: int = 0
    reason: str = ""
    error: str = ""


class LeaseRefusal(NamedTuple):
    """A step that was refused because the lease had ended. `what` states what has happened to the first message since."""

    from_offset: int
    until_offset: int
    what: str


class SettledLeases(NamedTuple):
    """The response to a worker that recorded steps; `paused_us` is 0 while the group runs."""

    refused: list[LeaseRefusal]
    paused_us: int = 0


class LeasedRange(NamedTuple):
    """Messages leased together that have the same number of failures; an expired lease is a failure."""

    from_offset: int
    until_offset: int
    failures: int = 0


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A worker's request for messages.

    Args:
        token: The lease's id, a random number. A request that repeats a token returns the messages leased with this token.
        lease_us: Duration of the lease, microseconds.
        attempts: Number of attempts after which a message whose lease ends fails permanently; None sets no limit.
        order: SKIP, or KEY: later messages of a key wait for earlier messages.
        partitions: Partitions to lease from, in order of preference; empty for all.
        starts: Partition -> the offset where a group without a committed offset begins; 0 if missing here, or past the end.
        deferred: Offsets of deferred messages to lease; `partitions` must then contain exactly one partition.
    """

    token: int
    count: int
    lease_us: int = DEFAULT_LEASE_US
    worker: str = ""
    attempts: int | None = None
    order: RetryOrder = RetryOrder.SKIP
    dead_letter: TopicName | None = None
    partitions: tuple[int, ...] = ()
    starts: Mapping[int, int] = field(default_factory=dict)
    deferred: tuple[int, ...] = ()
    pause_rule: PauseRule | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """Leased messages of one partition, or, if nothing was leased (partition 0), when to request again.

    Args:
        ends: Partition without messages to lease -> its end offset, at which the worker waits for new messages.
        wait_us: Time until the next delay or lease ends and messages can be leased again, microseconds; None if no delay or lease
            is active.
        is_paused: Whether the group is paused for this time, or another worker has the trial message.
    """

    partition: int = 0
    ranges: tuple[LeasedRange, ...] = ()
    generation: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    wait_us: int | None = None
    is_paused: bool = False


def check_lease_us(lease_us: int) -> int:
    """Return the duration of a lease; InvalidOptionError if the duration is out of range."""
    if not MIN_LEASE_US <= lease_us <= MAX_LEASE_US:
        raise InvalidOptionError(
            f"invalid lease: {lease_us / 1e6:g} s", advice=f"Use {MIN_LEASE_US / 1e3:g} ms to {MAX_LEASE_US / 3_600_000_000:g} h"
        )
    return lease_us
