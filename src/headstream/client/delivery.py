"""Delivery: one batch after the other to where it is stored, again and again until that is known, each message once.

Over a network the batches are numbered (model/producers.py), so that one whose answer was lost can be sent again:

    sent                  appended, or there already      the next one
    connection broke      sent again, with its number     until delivery_timeout_ms is over: then it is in doubt
    given up, refused     a new epoch begins: what may still be on its way of the old one is not taken any more

A server that knows no numbers is sent to without: there a broken connection leaves the batch in doubt, unless the topic
finds repeats by the messages' ids. An embedded log answers itself, and needs no numbers.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from headstream.client.remote.backoff import Backoff
from headstream.client.sending import Batch
from headstream.client.transport import MessageCommands, NumberedCommands
from headstream.errors import (
    ClosedError,
    HeadstreamError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ProducersLimitError,
    SequenceError,
    ServerError,
    ServerUnreachableError,
)
from headstream.model.identifiers import TopicName
from headstream.model.producers import MAX_EPOCH, Appended, BatchNumber, ProducerId, next_sequence

__all__ = ["Delivery"]

_UNKNOWN_COMMAND: Final = 3
"""The status of a server that does not know a command."""

_SERVER_FAULT: Final = 1
"""The status of a server whose own code has failed: at what step is not known."""

_MOST_IDS: Final = 3
"""A batch that was never in doubt and does not follow is sent as the first one of another id, so often."""


class Delivery:
    """Delivers the batches of one producer; one thread.

    Args:
        messages: Where they go.
        topic: The topic.
        finds_repeats: Whether the topic passes over messages whose ids it has.
    """

    def __init__(self, messages: MessageCommands, topic: TopicName, *, finds_repeats: bool) -> None:
        self._finds_repeats = finds_repeats
        self._messages = messages
        self._numbered = messages if isinstance(messages, NumberedCommands) else None
        self._topic = topic
        self._producer: ProducerId | None = None
        self._sequences: dict[int, int] = {}
        self._has_sent = False
        self._stop = threading.Event()

    @property
    def producer_id(self) -> int | None:
        """The id by which batches are numbered, None where they are not, or not yet."""
        return None if self._producer is None else self._producer.producer_id

    def deliver(self, batch: Batch) -> Appended:
        """Return where a batch is, having tried until its deadline.

        Raises:
            OutcomeUnknownError: it may be stored or not.
            HeadstreamError: it is not stored.
        """
        backoff = Backoff(0, random.random, until_s=batch.deadline_us / 1e6)
        ids_left = _MOST_IDS
        while True:
            try:
                return self._deliver(batch, backoff)
            except (SequenceError, PermissionDeniedError, ServerError) as error:
                if not ids_left or not self._may_begin_anew(error):
                    self._begin_epoch()
                    raise
                ids_left -= 1
            except BaseException:
                self._begin_epoch()
                raise

    def _may_begin_anew(self, error: HeadstreamError) -> bool:
        """Return whether a batch that was never in doubt may be sent as the first one of another producer."""
        if self._producer is None or (isinstance(error, ServerError) and error.status != _UNKNOWN_COMMAND):
            return False
        self._producer = None
        if isinstance(error, ServerError):
            self._numbered = None  # an older server has taken its place
            return True
        # The log has lost what it knew of the producer, or another one is there by now, or there is no right to send.
        return True

    def _deliver(self, batch: Batch, backoff: Backoff) -> Appended:
        doubt: HeadstreamError | None = None
        while True:
            left_s = batch.deadline_us / 1e6 - time.monotonic()
            if left_s <= 0 and doubt is None:
                raise self._too_late()
            try:
                number = self._number(batch, left_s)
                appended = self._messages.append(
                    self._topic, batch.partition, batch.data, number, patience_s=None if number is None else max(left_s, 0.1)
                )
            except HeadstreamError as error:
                if isinstance(error, ClosedError) and error.status is not None:  # the server is about to end
                    doubt = _doubt(error)
                elif isinstance(error, ServerError) and error.status == _SERVER_FAULT:
                    raise _doubt(error) from error
                elif not isinstance(error, ProducersLimitError):
                    if doubt is None or isinstance(error, OutcomeUnknownError):
                        raise
                    raise doubt from error
                self._pause(backoff, doubt or error)
            else:
                if number is not None:
                    self._sequences[batch.partition] = next_sequence(number.sequence, batch.count)
                    self._has_sent = True
                elif appended.count < 0 and not self._finds_repeats:
                    appended = replace(appended, count=batch.count)
                return appended

    def _number(self, batch: Batch, left_s: float) -> BatchNumber | None:
        """Return the number of a batch; the same until the batch is settled or a new epoch begins."""
        if self._numbered is None:
            return None
        if self._producer is None:
            self._producer = self._numbered.init_producer(patience_s=max(left_s, 0.1))
            self._sequences.clear()
            if self._producer is None:
                self._numbered = None
                return None
        return BatchNumber(*self._producer, self._sequences.get(batch.partition, 0))

    def _begin_epoch(self) -> None:
        """Number from 0 on in a new epoch, so that a batch which is given up cannot come after the next one."""
        if self._producer is not None:
            identity, epoch = self._producer
            self._producer = ProducerId(identity, epoch + 1) if epoch < MAX_EPOCH else None
            self._sequences.clear()

    def _pause(self, backoff: Backoff, error: HeadstreamError) -> None:
        wait_s = backoff.next_wait(time.monotonic())
        if wait_s is None or self._stop.wait(wait_s):
            raise error

    def _too_late(self) -> ServerUnreachableError:
        return ServerUnreachableError(
            "the messages could not be sent before their delivery_timeout_ms was over",
            where=str(self._topic),
            advice="Send them again, or give the producer more time: what was sent before them took too long",
        )

    def release(self) -> None:
        """Have the server forget the producer, which sends nothing more; it forgets in time where it cannot be told."""
        if self._numbered is not None and self._producer is not None and self._has_sent:
            with suppress(HeadstreamError):
                self._numbered.release_producer(self._topic, self._producer.producer_id)


def _doubt(error: HeadstreamError) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"the server did not say whether the messages are stored: {error.what}", where=error.where, advice=error.advice
    )
