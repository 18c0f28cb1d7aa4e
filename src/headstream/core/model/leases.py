"""Leases: messages of a consumer group that workers share, each lent to one worker at a time until an end.

pending    waits, or was never leased          leased one worker has it, until the lease ends
delayed    failed: waits for its next attempt  deferred   set aside until it is asked for by its offset
done       never delivered again               poisoned   done, with a copy in the dead letter

A grant lends ranges of messages under one token. A step of a message needs this token: a step that a
worker sends after its lease has ended changes nothing; the refusal describes the later events.
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
"""The lease of Kafka's share groups: longer than most messages take."""

MIN_LEASE_US: Final = 10_000
"""A shorter lease ends before its messages have arrived."""

MAX_LEASE_US: Final = 12 * 3_600_000_000
"""The longest lease, and the longest extension at once: a message of a worker that died waits as long."""

MAX_LEASE_COUNT: Final = 10_000
"""Messages of one grant."""

SKIPPED: Final = "skipped"
"""The reason of a DONE for messages that were not delivered, since they are gone or a filter left them out: no attempt."""


class LeaseStep(enum.IntEnum):
    """One step of leased messages."""

    DONE = 1
    FAILED = 2
    POISONED = 3
    RELEASED = 4
    EXTENDED = 5
    DEFERRED = 6


class LeaseChange(NamedTuple):
    """A step of messages that were leased together; repeating it has no effect.

    Args:
        until_offset: One past the last message; FAILED and POISONED are steps of one message.
        delay_us: For FAILED: how long it waits; for EXTENDED: how long the lease lasts from now; microseconds.
    """

    step: LeaseStep
    token: int
    from_offset: int
    until_offset: int
    delay_us: int = 0
    reason: str = ""
    error: str = ""


class LeaseRefusal(NamedTuple):
    """A step that was refused, because the lease had ended; `what` has happened to the first message since."""

    from_offset: int
    until_offset: int
    what: str


class SettledLeases(NamedTuple):
    """The reply to a worker that has recorded steps; `paused_us` is 0 while the group runs."""

    refused: list[LeaseRefusal]
    paused_us: int = 0


class LeasedRange(NamedTuple):
    """Messages leased together that have failed equally often, a lease that ended included."""

    from_offset: int
    until_offset: int
    failures: int = 0


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A worker's request for messages.

    Args:
        token: The lease's id, a random number. A repeated request returns the messages that it leased before.
        lease_us: Time for which the worker has the messages, microseconds.
        attempts: Number of attempts after which a message fails permanently when its lease ends; None sets no limit.
        order: SKIP, or KEY: later messages of a key wait for earlier messages.
        partitions: Partitions to try, in this order; empty tries all.
        starts: Partition -> where the group begins if it has no committed offset; else the first message.
        deferred: Offsets of deferred messages to lease; `partitions` then has exactly one partition.
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
    """Leased messages of one partition (0 if nothing was leased), or when to request again.

    Args:
        ends: Partition -> its end when nothing in it could be leased: a worker waits for messages from that offset on.
        wait_us: When a delay or a lease ends, so that messages can be leased without a new message, microseconds; None if nothing
            is.
        is_paused: Whether the group is paused until then, or another worker has the trial message.
    """

    partition: int = 0
    ranges: tuple[LeasedRange, ...] = ()
    generation: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    wait_us: int | None = None
    is_paused: bool = False


def check_lease_us(lease_us: int) -> int:
    """Return the length of a lease; InvalidOptionError if it is out of range."""
    if not MIN_LEASE_US <= lease_us <= MAX_LEASE_US:
        raise InvalidOptionError(
            f"the lease is {lease_us / 1e6:g} s", advice=f"Use {MIN_LEASE_US / 1e3:g} ms to {MAX_LEASE_US / 3_600_000_000:g} h"
        )
    return lease_us
