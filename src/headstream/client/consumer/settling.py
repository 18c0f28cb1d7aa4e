"""Settling: records the outcome of single messages: done, failed, or dead-lettered."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from headstream.core.model.deliveries import DeadLetterReason
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import InvalidInputError, LeaseLostError, SerializerError

if TYPE_CHECKING:
    from headstream.client.consumer.retrying.attempts import Failure, RetryPolicy

Place: TypeAlias = tuple[int, int]
"""Partition and offset of a message."""

_log: Final = logging.getLogger("headstream.client")


class Settler(ABC):
    """The part of a Reading that records single messages."""

    policy: RetryPolicy

    @property
    @abstractmethod
    def current(self) -> Place | None:
        """The message that the loop body processes, or None."""

    @abstractmethod
    def place_of(self, message: Message) -> Place:
        """Return a message's place; InvalidInputError if it is not in progress, RebalancedError if its partition is lost."""

    @abstractmethod
    def failures_of(self, place: Place) -> int:
        """Return the number of earlier failures of a message in progress."""

    @abstractmethod
    def settle_done(self, place: Place) -> None:
        """Durably record that a message is done; LeaseLostError, with nothing recorded, if its lease has ended."""

    @abstractmethod
    def settle_failed(self, place: Place, failure: Failure) -> None:
        """Record that a message failed, temporarily or permanently; LeaseLostError if its lease has ended."""

    def fail(
        self,
        place: Place,
        error: str | BaseException,
        reason: DeadLetterReason = DeadLetterReason.MAX_ATTEMPTS,
        delay_us: int | None = None,
    ) -> None:
        """Record that an attempt failed: the message is retried, or dead-lettered after the last attempt.

        Args:
            reason: Reason that is stored if this was the last attempt.
            delay_us: Delay before the next attempt, microseconds; None uses the policy's delay.
        """
        self.settle_failed(place, self.policy.failure(self.failures_of(place) + 1, error, reason, delay_us))

    def fail_transform(self, place: Place, error: Exception) -> None:
        """Record that the decoder or an interceptor failed for a message."""
        is_decoding = isinstance(error, SerializerError)
        with warning_of_lost_leases():
            self.fail(place, error, DeadLetterReason.DECODE_ERROR if is_decoding else DeadLetterReason.MAX_ATTEMPTS)


class LeaseSettler(Settler):
    """A Settler of leased messages."""

    @abstractmethod
    def extend(self, place: Place, lease_us: int) -> None:
        """Extend the lease of a message to `lease_us` microseconds from now; see BaseConsumer.extend()."""

    @abstractmethod
    def defer(self, place: Place) -> None:
        """Defer a message; see BaseConsumer.defer()."""

    @abstractmethod
    def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage | None:
        """Return a deferred message, or None if it cannot be delivered."""


@contextmanager
def warning_of_lost_leases() -> Iterator[None]:
    """Log a lost lease as a warning if the user did not request the step; the loop continues."""
    try:
        yield
    except LeaseLostError as lost:
        _log.warning("%s", lost)


def not_in_progress(place: Place, topic: TopicName) -> InvalidInputError:
    """Return the error for a message that was not delivered or is already settled."""
    return InvalidInputError(
        f"message {place[1]} of partition {place[0]} is not in progress",
        where=str(topic),
        advice="Call ack(), retry(), reject() or defer() once per message, before the next message is requested",
    )
