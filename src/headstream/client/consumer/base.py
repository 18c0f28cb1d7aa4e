"""BaseConsumer: loops, `with`, and calls for single messages, for consumers of one or several topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from headstream.client.closing import closing
from headstream.client.consumer.settling import LeaseSettler, Place, Settler, warning_of_lost_leases
from headstream.core.model.deliveries import DeadLetterReason
from headstream.core.model.leases import check_lease_us
from headstream.core.model.message import Message, ReceivedMessage
from headstream.core.model.quantities import parse_duration_us
from headstream.errors import ClosedError, InvalidInputError, InvalidOptionError
from headstream.forks import closed_by_fork, register_for_forks

DelayInput = str | int | timedelta
"""A delay: a string such as `10s`, microseconds, or a timedelta."""


class BaseConsumer(ABC):
    """A consumer of one or several topics; not thread-safe.

    Args:
        timeout_ms: Iteration ends after this time without a message; None waits without limit.
    """

    def __init__(self, timeout_ms: float | None, where: str | None = None) -> None:
        self._timeout_ms = timeout_ms
        self._where = where
        self._is_closed = self._is_parents = False
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: leave the messages, the membership and the leases to the parent process."""
        self._is_parents = self._is_closed = True

    def _check_open(self) -> None:
        if self._is_parents:
            raise closed_by_fork("consumer")
        if self._is_closed:
            raise ClosedError("the consumer is closed", where=self._where, advice="Create a new consumer with log.consumer()")

    # -- loops --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Begin a loop."""

    @abstractmethod
    def take(self) -> ReceivedMessage | None:
        """Commit the previous message; return the next message if it is buffered, else None."""

    @abstractmethod
    def fetch(self, timeout_ms: float | None = 0) -> bool:
        """Fetch messages without delivering any; return whether messages are buffered."""

    def take_within(self, timeout_ms: float | None) -> ReceivedMessage | None:
        """Commit the previous message; return the next message, or None if none arrives within the timeout.

        Args:
            timeout_ms: Maximum wait for the next message, milliseconds; None waits without limit.
        """
        while True:
            message = self.take()
            if message is not None or not self.fetch(timeout_ms):
                return message

    def __next__(self) -> ReceivedMessage:
        """Commit the previous message and return the next message; wait for it up to timeout_ms."""
        message = self.take_within(self._timeout_ms)
        if message is None:
            raise StopIteration
        return message

    def run(self, handler: Callable[[ReceivedMessage], Any]) -> None:
        """Call a function with each message. If the function raises an Exception, retry() records the failure.

        Args:
            handler: The function. As in a loop, iteration ends after `timeout_ms` or close().
        """
        for message in self:
            with self.attempting(message):
                handler(message)

    @abstractmethod
    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of all messages that the last take() or poll() returned; the next call delivers them again."""

    # -- single messages ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _find_settler(self, message: Message) -> Settler | None:
        """Return the Settler that records single messages of a message's topic, or None."""

    def _settler_of(self, message: Message) -> Settler:
        settler = self._find_settler(message)
        if settler is None:
            raise InvalidOptionError(
                "the consumer does not record the outcome of individual messages",
                advice='Set on_error, as in log.consumer("shop/orders", group="billing", on_error=hs.Retry(attempts=5), …)',
            )
        return settler

    def _in_progress(self, message: Message) -> Place | None:
        """Return the place of a message, or None if it is already settled."""
        with suppress(InvalidInputError):
            return self._settler_of(message).place_of(message)
        return None

    def ack(self, message: Message) -> None:
        """Record that a message is done; messages can be acknowledged in any order. The record is stored when ack() returns.

        Args:
            message: A message that this consumer has delivered.

        Raises:
            InvalidOptionError: the consumer has no `on_error`.
            InvalidInputError: the message is not in progress.
            RebalancedError: another member of the group now owns the message's partition.
        """
        settler = self._settler_of(message)
        settler.settle_done(settler.place_of(message))

    def retry(self, message: Message, *, delay: DelayInput | None = None, reason: str | BaseException = "") -> None:
        """Record that a message failed: the message is retried, or dead-lettered after its last attempt.

        Args:
            message: A message that this consumer has delivered.
            delay: Time until the next attempt; None uses the delay of `on_error`.
            reason: The error, or a string.

        Raises, in addition to ack():
            LimitError: too many messages of the partition are unfinished, or the message is too large for the dead-letter topic.
        """
        settler = self._settler_of(message)
        delay_us = None if delay is None else parse_duration_us(delay, plain_unit="us")
        settler.fail(settler.place_of(message), reason, delay_us=delay_us)

    def reject(self, message: Message, *, reason: str | BaseException = "") -> None:
        """Reject a message: the message is moved to the dead-letter topic without another attempt.

        Args:
            message: A message that this consumer has delivered.
            reason: The error, or a string.

        Raises, in addition to retry():
            InvalidOptionError: the consumer has no `dead_letter`.
        """
        settler = self._settler_of(message)
        place = settler.place_of(message)
        if settler.policy.dead_letter is None:
            raise InvalidOptionError(
                "the consumer has no dead-letter topic", where=message.topic or "", advice="Create the consumer with dead_letter="
            )
        failures = settler.failures_of(place) + 1
        settler.settle_failed(place, settler.policy.give_up(failures, reason, DeadLetterReason.REJECTED))

    def extend(self, message: Message, lease: DelayInput) -> None:
        """Extend the lease of a message whose processing takes longer than the lease.

        Args:
            message: A message that this consumer has delivered.
            lease: New duration, starting now: a string (`1m`), a timedelta or microseconds; at most 12 hours.

        Raises:
            InvalidOptionError: the consumer does not have `mode="shared"`, or the lease is out of range.
            InvalidInputError: the message is not in progress.
            LeaseLostError: the lease has ended; the error describes what has happened to the message since then.
        """
        settler = lease_settler(self._find_settler(message))
        settler.extend(settler.place_of(message), check_lease_us(parse_duration_us(lease, plain_unit="us")))

    def defer(self, message: Message) -> None:
        """Defer a message: no worker receives it until fetch_deferred() requests it by offset.

        Args:
            message: A message that this consumer has delivered.

        Raises:
            InvalidOptionError: the consumer does not have `mode="shared"`.
            InvalidInputError: the message is not in progress.
            LeaseLostError: the message's lease has ended.
        """
        settler = lease_settler(self._find_settler(message))
        settler.defer(settler.place_of(message))

    @contextmanager
    def attempting(self, message: Message) -> Iterator[None]:
        """Return a context for processing a message. An Exception in the context is recorded with retry() and suppressed.

        Args:
            message: A message that this consumer has delivered.
        """
        settler = self._settler_of(message)
        try:
            yield
        except Exception as error:
            place = self._in_progress(message)
            if place is None:  # settled in the context
                raise
            with warning_of_lost_leases():
                settler.fail(place, error)
        else:
            place = self._in_progress(message)
            if place is not None and place != settler.current:  # a loop records its message when it requests the next message
                with warning_of_lost_leases():
                    settler.settle_done(place)

    def end_cancelled(self, message: ReceivedMessage, is_done: bool) -> None:
        """Record that the message of a cancelled run() is done. If it is not done and no failure is recorded, deliver it next."""
        settler = self._settler_of(message)
        place = settler.place_of(message)
        if is_done:
            settler.settle_done(place)
        elif settler.failures_of(place) + 1 == message.attempt:
            self.put_back([message])

    # -- the end ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def record_failure(self, error: BaseException) -> None:
        """Record that the loop's body raised an error."""

    @abstractmethod
    def close(self, *, commit: bool = True) -> None:
        """Close the consumer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with closing():
            if error is not None:
                self.record_failure(error)
            self.close(commit=error is None)


def lease_settler(settler: Settler | None) -> LeaseSettler:
    """Return the settler as a LeaseSettler; InvalidOptionError if messages are not leased."""
    if not isinstance(settler, LeaseSettler):
        raise InvalidOptionError(
            "the consumer does not lease messages",
            advice='Set mode="shared", as in log.consumer("shop/jobs", group="workers", mode="shared")',
        )
    return settler
