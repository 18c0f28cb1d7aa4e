"""The unfinished messages of a group as shown to users: counts by status, and the history of one message."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from headstream.core.model.deliveries import Attempt
from headstream.core.model.pauses import GroupPause


class DeliveryStatus(enum.StrEnum):
    """The status of a message in a group, from waiting for its first attempt to done or failed permanently."""

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
        leased: Messages that a worker has leased or a consumer is processing.
        delayed: Messages that failed and wait for their next attempt.
        deferred: Messages that a worker has deferred; they are delivered only on request.
        poisoned: All messages that have failed permanently since the group was created.
        open_letters: Number of messages, among the newest 100 poisoned messages, whose dead letter is neither redriven nor
            discarded.
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
    """The unfinished messages of a group, counted per partition."""

    now_us: int
    pause: GroupPause
    partitions: tuple[DeliveryCounts, ...]


@dataclass(frozen=True, slots=True)
class MessageStory:
    """The history of one message in a group, as far as the group's journal retains it; times are in microseconds since 1970 UTC.

    `letter` is the topic, partition and offset of the message's dead letter, or None.
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
