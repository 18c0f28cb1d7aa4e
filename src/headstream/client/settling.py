"""Settling: a consumer's calls for single messages: done, try again, give up, and with `mode="shared"` longer and later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, NoReturn

from headstream.errors import InvalidOptionError
from headstream.model.message import Message, ReceivedMessage

__all__ = ["DelayInput", "Settling"]

DelayInput = str | int | timedelta
"""A delay: text as `10s`, microseconds, or a timedelta."""

_ADVICE: Final = 'Create it with on_error, as in log.consumer("shop/orders", group="billing", on_error=hs.Retry(attempts=5), …)'


class Settling:
    """The part of a consumer that settles single messages."""

    def __iter__(self) -> Iterator[ReceivedMessage]:
        raise NotImplementedError

    def ack(self, message: Message) -> None:
        """Record that a message is done, in any order; it is stored when this returns.

        Args:
            message: A message that this consumer has delivered.

        Raises:
            InvalidOptionError: the consumer has no `on_error`.
            InvalidInputError: the message is not in progress.
            RebalancedError: another member of the group owns its partition now.
        """
        self._needs_on_error()

    def retry(self, message: Message, *, delay: DelayInput | None = None, reason: str | BaseException = "") -> None:
        """Record that a message failed: it is tried again, or after its last attempt put into the dead letter.

        Args:
            message: A message that this consumer has delivered.
            delay: How long it waits; None is the delay of `on_error`.
            reason: The error, or a text.

        Raises, in addition to ack():
            LimitError: too many messages of the partition are unfinished, or it does not fit into the dead-letter topic.
        """
        self._needs_on_error()

    def reject(self, message: Message, *, reason: str | BaseException = "") -> None:
        """Give up a message: it is put into the dead letter, without another attempt.

        Args:
            message: A message that this consumer has delivered.
            reason: The error, or a text.

        Raises, in addition to retry():
            InvalidOptionError: the consumer has no `dead_letter`.
        """
        self._needs_on_error()

    def extend(self, message: Message, lease: DelayInput) -> None:
        """Have the lease of a message end later, for work that takes long.

        Args:
            message: A message that this consumer has delivered.
            lease: How long from now, as text (`1m`), a timedelta or microseconds; at most 12 hours.

        Raises:
            InvalidOptionError: the consumer does not have `mode="shared"`, or the lease is out of range.
            InvalidInputError: the message is not in progress.
            LeaseLostError: its lease has ended; the error says what has happened to it since.
        """
        self._needs_shared()

    def defer(self, message: Message) -> None:
        """Set a message aside: no worker gets it, until fetch_deferred() asks for it by its offset.

        Args:
            message: A message that this consumer has delivered.

        Raises:
            InvalidOptionError: the consumer does not have `mode="shared"`.
            InvalidInputError: the message is not in progress.
            LeaseLostError: its lease has ended.
        """
        self._needs_shared()

    def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage:
        """Return a message that was set aside, with a new lease; settle it as any other.

        Args:
            partition: Its partition.
            offset: Its offset.

        Raises:
            InvalidOptionError: the consumer does not have `mode="shared"`.
            InvalidInputError: it is not deferred; the error says what it is.
        """
        self._needs_shared()

    def attempting(self, message: Message) -> AbstractContextManager[None]:
        """Return a context for the work on a message: an Exception in it is recorded by retry(), and goes no further.

        Args:
            message: A message that this consumer has delivered.
        """
        self._needs_on_error()

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of messages: they are in progress no more, and delivered next.

        Args:
            messages: All that the last take() or poll() returned, in their order.
        """
        raise NotImplementedError

    def run(self, handler: Callable[[ReceivedMessage], Any]) -> None:
        """Call a function with each message; an Exception of it is recorded by retry(), and the next message follows.

        Args:
            handler: The function. Iteration ends as that of a loop, by `timeout_ms` or close().
        """
        for message in self:
            with self.attempting(message):
                handler(message)

    def record_failure(self, error: BaseException) -> None:
        """Record that the loop's body raised an error, as leaving the `with` block does; nothing without `on_error`.

        Args:
            error: The error; only an Exception counts as a failure.
        """

    def _needs_shared(self) -> NoReturn:
        raise InvalidOptionError(
            "the consumer does not lease messages",
            advice='Create it with mode="shared", as in log.consumer("shop/jobs", group="workers", mode="shared")',
        )

    def _needs_on_error(self) -> NoReturn:
        raise InvalidOptionError("the consumer does not remember single messages", advice=_ADVICE)
