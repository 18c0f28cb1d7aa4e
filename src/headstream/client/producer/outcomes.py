"""Batch outcomes: errors that contain the failed messages, counts, and callbacks."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headstream.client.producer.receipts import Undelivered
from headstream.client.producer.sending import Batch
from headstream.core.model.identifiers import TopicName
from headstream.errors import HeadstreamError

_log: Final = logging.getLogger("headstream.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStats:
    """Counts of a producer's messages by outcome.

    Args:
        sent_count: Messages accepted by send().
        stored_count: Messages stored.
        failed_count: Messages that are not stored and whose retries have ended.
        in_doubt_count: Messages whose outcome is unknown and whose retries have ended.
        pending_count: Messages not yet acknowledged.
        pending_bytes: Bytes not yet acknowledged.
        batches_count: Batches stored.
        repeated_count: Batches that were retried and found to be stored already.
        producer_id: The producer id of numbered batches; None if batches are unnumbered or no batch was sent.
    """

    sent_count: int
    stored_count: int
    failed_count: int
    in_doubt_count: int
    pending_count: int
    pending_bytes: int
    batches_count: int
    repeated_count: int
    producer_id: int | None


class OutcomeCounter:
    """Counts batches by outcome; callers hold the producer's lock."""

    def __init__(self) -> None:
        self._stored = self._failed = self._in_doubt = self._batches = self._repeated = 0

    def add(self, batch: Batch) -> None:
        """Count a settled batch."""
        if batch.appended is not None:
            self._stored += batch.count
            self._batches += 1
            self._repeated += batch.appended.is_repeat
        elif batch.is_in_doubt:
            self._in_doubt += batch.count
        else:
            self._failed += batch.count

    def describe(self, pending_count: int, pending_bytes: int, producer_id: int | None) -> ProducerStats:
        """Return the counts, including pending messages."""
        settled = self._stored + self._failed + self._in_doubt
        return ProducerStats(
            sent_count=settled + pending_count,
            stored_count=self._stored,
            failed_count=self._failed,
            in_doubt_count=self._in_doubt,
            pending_count=pending_count,
            pending_bytes=pending_bytes,
            batches_count=self._batches,
            repeated_count=self._repeated,
            producer_id=producer_id,
        )


def explain(failed: Sequence[Batch], topic: TopicName, error: Exception | None = None) -> Exception:
    """Return an error that contains the messages of failed batches; the cause defaults to the first batch's error."""
    if error is None:
        error = failed[0].error
        if error is None:
            raise AssertionError("an abandoned batch must have an error")
        if len(failed) == 1:
            return error
        error = copy.copy(error)
        error.__notes__ = []
    doubtful = [batch for batch in failed if batch.is_in_doubt]
    count, doubt_count = sum(batch.count for batch in failed), sum(batch.count for batch in doubtful)
    if isinstance(error, HeadstreamError):
        error.messages = _undelivered(failed, topic, count)
        error.in_doubt = _undelivered(doubtful, topic, doubt_count)
    parts = [f"{doubt_count} messages sent to {topic} may or may not be stored"] if doubt_count else []
    if count > doubt_count:
        parts.append(f"{count - doubt_count} messages sent to {topic} were not stored")
    error.add_note(f"{', '.join(parts)}: error.messages contains them; the producer continues with other messages.")
    return error


def _undelivered(batches: Sequence[Batch], topic: TopicName, count: int) -> Undelivered:
    return Undelivered([(batch.partition, batch.data) for batch in batches], str(topic), count)


def call_all(callbacks: Iterable[Callable[[], Any]]) -> None:
    """Call user callbacks; exceptions are logged."""
    for callback in callbacks:
        try:
            callback()
        except Exception:
            _log.exception("a callback of a receipt failed")
