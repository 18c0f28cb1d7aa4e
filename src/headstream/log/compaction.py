"""Compaction: topics that keep the last message of each key, looked after in the background.

A pass (compaction_pass.py) reads and writes all that it goes through, so it waits until it is worth that. A partition is
due when what has come since the last pass is as much as what that has left, so that a byte is written about once more;
or is an hour old; or when a null payload that stayed for a while has come to its time. What is written to is closed
first, so what is there when a pass begins is compacted when it ends.

A pass that fails leaves everything as it was, says so (logger `headstream.log`), and is tried again an hour later, or a
minute where the system refused.

This takes no lock that an append needs, but to begin a new segment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headstream.errors import HeadstreamError, StorageError
from headstream.log.catalog import TopicRecord
from headstream.log.closed_segments import Closed, look_at_closed
from headstream.log.compaction_pass import CompactionPass, Outcome, Surroundings
from headstream.log.rounds import Rounds
from headstream.log.segment_removal import open_index
from headstream.segments.layout import base_offsets

if TYPE_CHECKING:
    from headstream.log.log import Log

__all__ = ["COMPACTION_INTERVAL_S", "Compaction"]

_LOGGER: Final = logging.getLogger("headstream.log")

COMPACTION_INTERVAL_S: Final = 10.0
"""How often it is looked for what is due."""

_MOST_AGE_US: Final = 3600 * 1_000_000
_LEAST_PART: Final = 64
"""What has come is worth a pass from this part of a segment's size on."""
_PAUSE_US: Final = 3600 * 1_000_000
_SHORT_PAUSE_US: Final = 60 * 1_000_000


@dataclass(slots=True)
class _Known:
    """What is known of a partition between two rounds.

    Args:
        changed: The directory's number when `closed` was looked up.
        closed: Its closed segments.
        not_before_us: No pass is tried before this time.
        null_us: The time of the oldest null payload that a pass has left, or None.
    """

    changed: int | None = None
    closed: tuple[Closed, ...] = ()
    not_before_us: int = 0
    null_us: int | None = None


class Compaction:
    """Compacts a log's topics that ask for it, in a thread of its own once started.

    Args:
        log: The log; this process is its writer.
        clock_us: Returns the time, microseconds since 1970 UTC.
        interval_s: Seconds between two rounds.
    """

    def __init__(self, log: Log, clock_us: Callable[[], int], interval_s: float | None = None) -> None:
        self._log = log
        self._clock_us = clock_us
        self._known: dict[str, _Known] = {}
        self._rounds = Rounds(self.apply, COMPACTION_INTERVAL_S if interval_s is None else interval_s, "headstream-compaction")

    def start(self) -> None:
        """Start the thread; its first round is at once."""
        self._rounds.start()

    def close(self) -> None:
        """End the thread, after the group of segments it is at."""
        self._rounds.close()

    def apply(self) -> int:
        """Compact what is due now, and return how many messages have gone."""
        dropped = 0
        with suppress(HeadstreamError):
            for stream in self._log.snapshot().values():
                for topic in stream.topics.values():
                    if topic.options.compaction_delay_us is not None:
                        for number in range(1, topic.partitions + 1):
                            dropped += self._apply(topic, number)
        return dropped

    def _apply(self, topic: TopicRecord, number: int) -> int:
        known = self._known.setdefault(self._log.partition_directory(topic, number), _Known())
        now_us = self._clock_us()
        if self._rounds.is_closing or now_us < known.not_before_us:
            return 0
        try:
            if self._is_due(topic, number, known, now_us):
                outcome = self.compact(topic, number)
                known.null_us = outcome.oldest_null_us
                return outcome.dropped_count
        except StorageError as error:
            known.not_before_us = now_us + _SHORT_PAUSE_US
            _LOGGER.warning("compaction of %s partition %d is put off for a minute: %s", topic.name, number, error)
        except HeadstreamError as error:
            known.not_before_us = now_us + _PAUSE_US
            _LOGGER.warning("compaction of %s partition %d is put off for an hour: %s", topic.name, number, error)
        return 0

    def _is_due(self, topic: TopicRecord, number: int, known: _Known, now_us: int) -> bool:
        directory, files = self._log.partition_directory(topic, number), self._log.files
        changed = files.changed(directory)
        if changed != known.changed:
            known.closed, known.changed = tuple(look_at_closed(directory, files)), changed
        clean_bytes = sum(segment.size_bytes for segment in known.closed if segment.is_compacted)
        dirty = [segment for segment in known.closed if not segment.is_compacted]
        bases = base_offsets(files.list_names(directory) or [])
        newest = open_index(directory, bases[-1], files) if bases else None
        newest_bytes, first_us = 0, now_us
        if newest is not None:
            if newest.last is not None:
                newest_bytes, first_us = newest.last.end_position, newest.entry(0).timestamp_us
            newest.close()
        dirty_bytes = newest_bytes + sum(segment.size_bytes for segment in dirty)
        first_us = dirty[0].first_us if dirty else first_us
        delay_us = topic.options.compaction_delay_us or 0
        return bool(
            (dirty_bytes and dirty_bytes >= max(clean_bytes, self._log.segment_bytes // _LEAST_PART))
            or (dirty_bytes and first_us + _MOST_AGE_US < now_us)
            or (known.null_us is not None and known.null_us + delay_us < now_us)
        )

    def compact(self, topic: TopicRecord, number: int) -> Outcome:
        """Compact a partition now, whether it is due or not.

        Args:
            topic: The topic, with its delay.
            number: The partition's, from 1.

        Raises:
            CorruptLogError: a segment is damaged; it and all newer ones stay as they are.
            StorageError: the system refused; what is not done stays as it is.
        """
        log = self._log
        directory = log.partition_directory(topic, number)

        def is_wanted() -> bool:
            stream = log.snapshot().get(topic.name.stream)
            return not self._rounds.is_closing and stream is not None and stream.topics.get(topic.name.topic) == topic

        with log.administration:
            if not is_wanted():
                return Outcome(is_whole=False)
            log.roll(topic, number)
        outcome = CompactionPass(
            directory,
            log.files,
            segment_bytes=log.segment_bytes,
            null_before_us=self._clock_us() - (topic.options.compaction_delay_us or 0),
            seed=os.urandom(16),
            around=Surroundings(log.administration, is_wanted, lambda: log.states.writes_count),
        ).run()
        if outcome.dropped_count:
            log.states.forget_missing(topic, number)
        return outcome
