"""Deliveries: the unfinished messages of a consumer group in a partition, and the retries of messages that fail.

base         the committed offset: all messages before this offset are done
begun_until  one past the last message that the group has begun; messages from base to begun_until are done, except
pending      ranges of offsets that wait for an attempt, and
failing      messages that failed: number, time and reason of the failures, and the next step
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Final, NamedTuple

from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.pauses import PauseRule
from headstream.core.model.quantities import parse_duration_us
from headstream.errors import InvalidOptionError

MAX_FAILING: Final = 10_000
"""Maximum number of failing messages of a group in one partition; a consumer stops fetching before the limit is reached."""

MAX_PENDING_RANGES: Final = 20_000
"""Maximum number of ranges of pending messages of a group in one partition: one range between two failing messages."""

MAX_ERROR_BYTES: Final = 255
"""Maximum stored size of an error's text, bytes: the maximum size of a header value in a topic with limits `iggy`."""

MAX_KEPT_ATTEMPTS: Final = 5
"""Number of last attempts of a message that are stored individually: the default number of attempts of a message."""

MAX_ATTEMPT_BYTES: Final = 100
"""Maximum stored size of an attempt's error and of the worker's name, bytes: at most 11 MB for 10,000 failing messages."""


class RetryOrder(enum.StrEnum):
    """Which messages wait while a failed message is retried."""

    PARTITION = "partition"
    KEY = "key"
    SKIP = "skip"


class DeadLetterReason(enum.StrEnum):
    """Why a message was moved to the dead-letter topic."""

    MAX_ATTEMPTS = "max_attempts"
    REJECTED = "rejected"
    DECODE_ERROR = "decode_error"


class DeliveryStep(enum.IntEnum):
    """A step in the delivery of a message to a group; SOUGHT restarts the group at an offset."""

    DONE = 1
    PENDING = 2
    BEGUN = 3
    RELEASED = 4
    FAILED = 5
    POISONED = 6
    SOUGHT = 7


class DeliveryChange(NamedTuple):
    """A step of one message, or, for DONE and PENDING, of a range. Recording a step twice has no effect.

    Args:
        failures: For FAILED and POISONED: the number of failures, including this failure.
        delay_us: For FAILED: how long the message waits for its next attempt, microseconds.
    """

    step: DeliveryStep
    from_offset: int
    until_offset: int
    failures: int = 0
    delay_us: int = 0
    reason: str = ""
    error: str = ""


class Attempt(NamedTuple):
    """A failed attempt. `worker` and `error` have at most MAX_ATTEMPT_BYTES each; `begun_us` is 0 if unknown."""

    number: int
    ended_us: int
    begun_us: int = 0
    worker: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """A request to record steps of a group's messages in one partition.

    Args:
        begun_until: One past the last message that the group has begun. Earlier messages are done, pending or failing.
        member: The member that owns the partition; None for a consumer without a group.
        generation: The group's generation in the member's last report.
        partition_generation: The generation of the partition that was polled, if known.
        is_resting: As for Groups.report().
        succeeded: Number of successful attempts since the last request, counted for pauses.
    """

    changes: Sequence[DeliveryChange]
    begun_until: int
    member: Member | None = None
    generation: int = 0
    partition_generation: int | None = None
    dead_letter: TopicName | None = None
    is_resting: bool = False
    worker: str = ""
    succeeded: int = 0
    pause_rule: PauseRule | None = None


class Settled(NamedTuple):
    """The response to a SettleRequest; the generation is 0 if the request has no member."""

    generation: int
    paused_us: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """An unfinished message of a group that has failed or is in progress.

    Args:
        is_begun: Whether an attempt has begun but not ended: its consumer is processing the message, or was killed.
        failed_us: Time of the last failure, microseconds since 1970 UTC; 0 if there is none.
        delay_us: How long the message waits after the last failure, microseconds.
        reason: Why the message is dead-lettered; empty while it can still be attempted.
        copied_to: Dead-letter topic, partition and offset: the partition's end before the message is copied, then the copy's
            offset.
    """

    offset: int
    failures: int = 0
    is_begun: bool = False
    failed_us: int = 0
    first_failed_us: int = 0
    delay_us: int = 0
    first_error: str = ""
    last_error: str = ""
    reason: str = ""
    copied_to: tuple[str, int, int] | None = None
    attempts: tuple[Attempt, ...] = ()

    def left_us(self, now_us: int) -> int:
        """Return the remaining delay, microseconds; at most `delay_us`, even if the clock was set back."""
        return max(0, min(self.delay_us, self.failed_us + self.delay_us - now_us)) if self.failures else 0


@dataclass(frozen=True, slots=True)
class PartitionDeliveries:
    """The unfinished messages of a group in a partition.

    Args:
        begun_until: One past the last message that the group has begun.
        now_us: The current time of the log's clock, microseconds since 1970 UTC.
        paused_us: Remaining pause of the group, microseconds; 1 while the group is on trial, 0 while it runs.
    """

    base: int | None
    begun_until: int = 0
    pending: tuple[tuple[int, int], ...] = ()
    failing: tuple[Delivery, ...] = field(default=())
    now_us: int = 0
    poisoned_count: int = 0
    paused_us: int = 0


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How a consumer handles a message whose processing fails.

    Args:
        attempts: Maximum number of attempts before a message is dead-lettered; None sets no limit.
        delay: Delay before the second attempt, as a string (`1s`), a timedelta or microseconds; doubled per attempt, up to
            `max_delay`.
        order: Which messages wait while a failed message is retried: all later messages of its `partition`, later messages of its
            `key`, or no message (`skip`). The default is `partition`; for a consumer with `mode="shared"` it is `skip`.
        pause: How long the group is paused if too many of its attempts fail, a duration like `delay`; None disables pauses.
        pause_share: The group is paused at this share of failures among the last `pause_attempts` attempts; above 0, at most 1.
        pause_attempts: Number of last attempts that are evaluated; before this number of attempts, the group is not paused.

    Raises:
        InvalidOptionError: a value is out of range.
        InvalidInputError: a duration is invalid.
    """

    attempts: int | None
    delay_us: int
    max_delay_us: int
    order: RetryOrder | None
    pause_rule: PauseRule | None

    def __init__(
        self,
        attempts: int | None = 5,
        delay: str | int | timedelta = "1s",
        max_delay: str | int | timedelta = "5m",
        order: str | None = None,
        *,
        pause: str | int | timedelta | None = None,
        pause_share: float = 0.5,
        pause_attempts: int = 100,
    ) -> None:
        if attempts is not None and (type(attempts) is not int or not 1 <= attempts <= 1000):
            raise InvalidOptionError(f"attempts must be 1 to 1000, or None for no limit, not {attempts!r}")
        if order is not None and order not in list(RetryOrder):
            raise InvalidOptionError(f"order must be one of {', '.join(RetryOrder)}, not {order!r}")
        delay_us, max_delay_us = (parse_duration_us(each, plain_unit="us") for each in (delay, max_delay))
        if delay_us > max_delay_us:
            raise InvalidOptionError(f"max_delay must be at least delay ({delay!r}), not {max_delay!r}")
        chosen = None if order is None else RetryOrder(order)
        rule = _pause_rule(pause, pause_share, pause_attempts)
        for name, value in zip(self.__slots__, (attempts, delay_us, max_delay_us, chosen, rule), strict=True):
            object.__setattr__(self, name, value)

    def is_last(self, failures: int) -> bool:
        """Return whether a message with this number of failures fails permanently."""
        return self.attempts is not None and failures >= self.attempts

    def delay_after(self, failures: int, jitter: float) -> int:
        """Return the delay after a failure, microseconds. The delay doubles with each failure; its second half is random.

        Args:
            failures: Number of failures so far, from 1.
            jitter: A random number from 0 to 1.
        """
        longest = min(self.delay_us << min(failures - 1, 63), self.max_delay_us)
        return longest - int(longest / 2 * jitter)


def _pause_rule(pause: str | int | timedelta | None, share: float, attempts: int) -> PauseRule | None:
    if type(attempts) is not int or attempts < 1:
        raise InvalidOptionError(f"pause_attempts must be at least 1, not {attempts!r}")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise InvalidOptionError(f"pause_share must be above 0 and at most 1, not {share!r}")
    if pause is None:
        return None
    return PauseRule(ceil(round(share * attempts, 9)), attempts, parse_duration_us(pause, plain_unit="us")).check()


def cut_error(text: str, size_bytes: int = MAX_ERROR_BYTES) -> str:
    """Return an error's text, truncated to the size that is stored."""
    return text.encode(errors="replace")[:size_bytes].decode(errors="ignore")
