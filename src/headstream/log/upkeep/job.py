"""Job: the interface of a log's background jobs, and the common parts of the four jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from headstream.errors import HeadstreamError, StorageError
from headstream.log.catalog.catalog import is_current, topics_of
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.closed_reading import PassCancelledError

if TYPE_CHECKING:
    from headstream.log.access import LogAccess

_LOGGER: Final = logging.getLogger("headstream.log")

LONG_PAUSE_US: Final = 3600 * 1_000_000
_SHORT_PAUSE_US: Final = 60 * 1_000_000


class Job(Protocol):
    """A background job of a log, created with a LogAccess and a clock (microseconds since 1970 UTC)."""

    interval_s: ClassVar[float]

    def apply(self) -> int:
        """Do the due work; return its amount. Stops early when the log closes, and raises no error."""


def goes_on(log: LogAccess, topic: TopicRecord) -> bool:
    """Return whether work on a topic should continue: the log is not closing and the topic is unchanged."""
    return is_current(log.snapshot(), topic) and not log.is_closing


def sum_over_partitions(log: LogAccess, apply: Callable[[TopicRecord, int], int]) -> int:
    """Call a function for each partition (topic, number); return the sum of the results. Partitions that fail are skipped."""
    done = 0
    with suppress(HeadstreamError):
        for topic in topics_of(log.snapshot()):
            for number in range(1, topic.partitions + 1):
                with suppress(HeadstreamError, PassCancelledError):
                    done += apply(topic, number)
    return done


def retry_time_us(task: str, error: HeadstreamError, now_us: int) -> int:
    """Log a failed task; return the time of its retry: in an hour, or in a minute if the operating system reported an error."""
    is_refused = isinstance(error, StorageError)
    _LOGGER.warning("%s failed and will be retried in %s: %s", task, "a minute" if is_refused else "an hour", error)
    return now_us + (_SHORT_PAUSE_US if is_refused else LONG_PAUSE_US)
