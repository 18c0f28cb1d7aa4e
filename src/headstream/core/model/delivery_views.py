"""Delivery views: the unfinished messages of a group, as shown to users: counts, and the history of one message."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from headstream.core.model.deliveries import Attempt
from headstream.core.model.pauses import GroupPause


class DeliveryStatus(enum.StrEnum):
    """The status of a message in a group: it waits for its first attempt, is in progress, waits for the next attempt, …"""

    PENDING = "pending"
    LEASED = "leased"
    DELAYED = "delayed"
    DEFERRED = "deferred"
    POISONED = "poisoned"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """The messages of a group in a partition, counted by their status.

    Args:
        pending: Messages that wait for their first attempt.
        leased: Messages that a worker has, or that are in work.
        delayed: Messages that have failed, and wait for their next attempt.
        deferred: Messages that are set aside.
        poisoned: Messages that have ever failed permanently.
        open_letters: The newest poisoned messages whose dead letter is neither redriven nor discarded, at most 100.
        oldest_leased_us: Time at which the oldest lease began, microseconds since 1970 UTC, or None.
        oldest_poisoned_us: Time of the permanent failure of the oldest open dead letter, microseconds since 1970 UTC, or None.
    """

    partition: int
    pending: int
    leased: int
    delayed: int
    deferred: int
    poisoned: int
    open_letters: int = 0
    oldest_leased_us: int | None = None
    oldest_poisoned_us: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDeliveries:
    """The unfinished messages of a group, counted by partition."""

    now_us: int
    pause: GroupPause
    partitions: tuple[DeliveryCounts, ...]


@dataclass(frozen=True, slots=True)
class MessageStory:
    """History of one message in a group, as far as the group's journal retains it; times are microseconds since 1970 UTC.

    `letter` is topic, partition and offset of its dead letter, or None.
    """

    partition: int
    offset: int
    status: DeliveryStatus
    failures: int = 0
    attempts: tuple[Attempt, ...] = field(default=())
    worker: str = ""
    leased_us: int | None = None
    lease_until_us: int | None = None
    next_attempt_us: int | None = None
    first_failed_us: int | None = None
    first_error: str = ""
    reason: str = ""
    letter: tuple[str, int, int] | None = None
