"""Delivery: sends batches in sequence and retries each batch until its outcome is known, so that each message is stored once.

Over a network, batches are numbered (core/model/producers.py), so that a batch whose response was lost can be retried:

    sent                  appended, or a duplicate      the next batch follows
    connection broke      retried with the same number until delivery_timeout_ms; after that, the outcome is unknown
    failed, rejected      a new epoch begins, which fences requests of the old epoch that are still in flight

Servers that do not support numbers receive unnumbered batches. Without numbers, a broken connection leaves the outcome unknown,
unless the topic deduplicates by message id. An embedded log cannot lose a response and needs no numbers.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from headstream.client.producer.sending import Batch
from headstream.client.transports.remote.backoff import Backoff
from headstream.client.transports.transport import MessageCommands, NumberedCommands
from headstream.core.model.identifiers import TopicName
from headstream.core.model.producers import MAX_EPOCH, Appended, BatchNumber, ProducerId, next_sequence
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

_UNKNOWN_COMMAND: Final = 3
"""Iggy status of an unknown command."""

_SERVER_FAULT: Final = 1
"""Iggy status of an internal server error; the step that failed is unknown."""

_MOST_IDS: Final = 3
"""Maximum number of retries of a rejected batch, each under a new producer id."""


class BatchDelivery(Protocol):
    """Delivers the batches of one producer."""

    @property
    def producer_id(self) -> int | None:
        """The producer id of numbered batches; None if unnumbered or not yet assigned."""

    def deliver(self, batch: Batch) -> Appended:
        """Send a batch, with retries until its deadline; return its position. OutcomeUnknownError if the batch may be stored."""

    def release(self) -> None:
        """Release the producer's state on the server."""


class Delivery:
    """Delivers the batches of one producer; not thread-safe. `finds_repeats`: the topic deduplicates by message id."""

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
        """The producer id of numbered batches; None if unnumbered or not yet assigned."""
        return None if self._producer is None else self._producer.producer_id

    def deliver(self, batch: Batch) -> Appended:
        """Send a batch, with retries until its deadline; return its position. OutcomeUnknownError if the batch may be stored."""
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
        """Return whether a batch that is known not to be stored can be retried as the first batch of a new producer id."""
        if self._producer is None or (isinstance(error, ServerError) and error.status != _UNKNOWN_COMMAND):
            return False
        self._producer = None
        if isinstance(error, ServerError):
            self._numbered = None  # the server was replaced by an older version
            return True
        # The log lost the producer's state, the log was replaced, or the user lost the permission to send.
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
                    self._topic, batch.partition, batch.data, number, retry_timeout_s=max(left_s, 0.1)
                )
            except HeadstreamError as error:
                if isinstance(error, ClosedError) and error.status is not None:  # the server is shutting down
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
        """Return the number of a batch, which stays the same until the batch is settled or a new epoch begins."""
        if self._numbered is None:
            return None
        if self._producer is None:
            self._producer = self._numbered.init_producer(retry_timeout_s=max(left_s, 0.1))
            self._sequences.clear()
            if self._producer is None:
                self._numbered = None
                return None
        return BatchNumber(*self._producer, self._sequences.get(batch.partition, 0))

    def _begin_epoch(self) -> None:
        """Restart numbering at 0 in a new epoch, so that a failed batch cannot be appended after the next batch."""
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
            "the messages could not be sent within delivery_timeout_ms",
            where=str(self._topic),
            advice="Send the messages again, or raise delivery_timeout_ms: earlier messages took too long",
        )

    def release(self) -> None:
        """Release the producer's state on the server; if the request fails, the state expires."""
        if self._numbered is not None and self._producer is not None and self._has_sent:
            with suppress(HeadstreamError):
                self._numbered.release_producer(self._topic, self._producer.producer_id)


def _doubt(error: HeadstreamError) -> OutcomeUnknownError:
    return OutcomeUnknownError(f"the messages may or may not be stored: {error.what}", where=error.where, advice=error.advice)
