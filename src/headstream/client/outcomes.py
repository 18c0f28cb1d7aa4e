"""What becomes of batches: the errors that name their messages, counts, and callbacks."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headstream.client.receipts import Undelivered
from headstream.client.sending import Batch
from headstream.errors import HeadstreamError
from headstream.model.identifiers import TopicName

__all__ = ["Counts", "ProducerStats", "call_all", "explain"]

_log: Final = logging.getLogger("headstream.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStats:
    """What has become of the messages of a producer.

    Args:
        sent_count: Messages that send() has taken.
        stored_count: Those that are stored.
        failed_count: Those that are not, and are not tried any more.
        in_doubt_count: Those that were given up and may be stored or not.
        pending_count: Those that are on their way.
        pending_bytes: Bytes of the messages that are on their way.
        batches_count: Batches that are stored.
        repeated_count: Batches that were found to be there when they were sent again.
        producer_id: By which batches are numbered; None where they are not, or nothing was sent yet.
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


class Counts:
    """Counts what has become of batches; under the producer's lock."""

    def __init__(self) -> None:
        self._stored = self._failed = self._in_doubt = self._batches = self._repeated = 0

    def add(self, batch: Batch) -> None:
        """Count a batch that is settled."""
        if batch.appended is not None:
            self._stored += batch.count
            self._batches += 1
            self._repeated += batch.appended.is_repeat
        elif batch.is_in_doubt:
            self._in_doubt += batch.count
        else:
            self._failed += batch.count

    def describe(self, pending_count: int, pending_bytes: int, producer_id: int | None) -> ProducerStats:
        """Return the counts, with what is on its way."""
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
    """Return an error that names the messages of batches that were given up.

    Args:
        failed: The batches, one or more.
        topic: Where they were to go.
        error: What went wrong; else it is that of the first batch.
    """
    if error is None:
        error = failed[0].error
        if error is None:
            raise AssertionError("a batch that was given up has an error")
        if len(failed) == 1:
            return error
        error = copy.copy(error)
        error.__notes__ = []
    doubtful = [batch for batch in failed if batch.is_in_doubt]
    count, doubt_count = sum(batch.count for batch in failed), sum(batch.count for batch in doubtful)
    if isinstance(error, HeadstreamError):
        error.messages = _undelivered(failed, topic, count)
        error.in_doubt = _undelivered(doubtful, topic, doubt_count)
    parts = [f"{doubt_count} messages sent to {topic} may have been stored or not"] if doubt_count else []
    if count > doubt_count:
        parts.append(f"{count - doubt_count} messages sent to {topic} were not stored")
    error.add_note(f"{', '.join(parts)}: error.messages has them, the producer goes on with others.")
    return error


def _undelivered(batches: Sequence[Batch], topic: TopicName, count: int) -> Undelivered:
    return Undelivered([(batch.partition, batch.data) for batch in batches], str(topic), count)


def call_all(callbacks: Iterable[Callable[[], Any]]) -> None:
    """Call functions of users; what they raise is logged."""
    for callback in callbacks:
        try:
            callback()
        except Exception:
            _log.exception("a callback of a receipt failed")
