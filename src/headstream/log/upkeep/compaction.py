"""Compaction: compacts topics that retain only the last message of each key, in the background.

A pass (compaction_pass.py) reads and writes all closed segments, so it runs only when it is due. A partition is due in three
cases: when the bytes appended since the last pass equal the bytes that the pass retained, so that each byte is rewritten about
once; when the appended bytes are an hour old; or when a null payload has reached the topic's delay. The newest segment is closed
first, so that a pass compacts all messages that exist at its start.

A failed pass changes nothing, is logged (logger `headstream.log`), and is retried after an hour, or after a minute if the
operating system reported an error.

Compaction takes no lock that appends need, except to start a new segment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from headstream.errors import HeadstreamError
from headstream.log.catalog.records import TopicRecord
from headstream.log.catalog.state_records import marked_before
from headstream.log.partition.closed_segments import Closed, list_closed
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.layout import base_offsets
from headstream.log.upkeep.compaction_pass import CompactionPass, Outcome
from headstream.log.upkeep.job import goes_on, retry_time_us, sum_over_partitions
from headstream.log.upkeep.segment_rewrite import PassContext, encode_offsets

if TYPE_CHECKING:
    from headstream.log.access import LogAccess

_MOST_AGE_US: Final = 3600 * 1_000_000
_LEAST_PART: Final = 64
"""A pass requires appended bytes of at least a segment's size divided by this number."""


@dataclass(slots=True)
class _CompactionState:
    """State of a partition between two rounds; `null_us` is the time of the oldest retained null payload."""

    changed: int | None = None
    closed: tuple[Closed, ...] = ()
    not_before_us: int = 0
    null_us: int | None = None


class Compaction:
    """Compacts the topics of a log for which compaction is enabled."""

    interval_s: ClassVar[float] = 10.0

    def __init__(self, log: LogAccess, clock_us: Callable[[], int]) -> None:
        self._log = log
        self._clock_us = clock_us
        self._known: dict[str, _CompactionState] = {}

    def apply(self) -> int:
        """Compact due partitions; return the number of dropped messages."""
        return sum_over_partitions(self._log, self._apply)

    def _apply(self, topic: TopicRecord, number: int) -> int:
        if topic.options.compaction_delay_us is None or topic.options.legal_hold:
            return 0
        known = self._known.setdefault(self._log.partition_directory(topic, number), _CompactionState())
        now_us = self._clock_us()
        if self._log.is_closing or now_us < known.not_before_us:
            return 0
        try:
            if self._is_due(topic, number, known, now_us):
                outcome = self.compact(topic, number)
                known.null_us = outcome.oldest_null_us
                return outcome.dropped_count
        except HeadstreamError as error:
            known.not_before_us = retry_time_us(f"compaction of {topic.name} partition {number}", error, now_us)
        return 0

    def _is_due(self, topic: TopicRecord, number: int, known: _CompactionState, now_us: int) -> bool:
        directory, files = self._log.partition_directory(topic, number), self._log.files
        changed = files.changed(directory)
        if changed != known.changed:
            known.closed, known.changed = tuple(list_closed(directory, files)), changed
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
        """Compact a partition even if it is not due; after a CorruptLogError, damaged and newer segments are unchanged."""
        with self._log.passing:
            return self.compact_holding(topic, number)

    def compact_holding(self, topic: TopicRecord, number: int, due: Sequence[int] | None = None) -> Outcome:
        """Compact a partition; the caller holds log.passing. `due`: ascending offsets to remove if marked for deletion; by
        default, all offsets whose grace has ended."""
        log = self._log
        directory = log.partition_directory(topic, number)

        with log.administration:
            if not goes_on(log, topic):
                return Outcome(is_whole=False)
            log.partition(topic, number).roll()
            due = self._find_due(topic, number) if due is None else due
        outcome = CompactionPass(
            directory,
            log.files,
            segment_bytes=log.segment_bytes,
            null_before_us=self._clock_us() - (topic.options.compaction_delay_us or 0),
            seed=os.urandom(16),
            dropped=encode_offsets(due),
            around=PassContext(log.administration, lambda: goes_on(log, topic), lambda: log.states.writes_count),
        ).run()
        log.note_removed(topic, number)
        if outcome.dropped_count or due:
            log.states.forget_missing(topic, number)
        return outcome

    def _find_due(self, topic: TopicRecord, number: int) -> Sequence[int]:
        grace_us, catalog = topic.options.deletion_grace_us, self._log.catalog()
        if grace_us is None or catalog is None:
            return ()
        return marked_before(catalog, topic.number, number, self._clock_us() - grace_us + 1)
