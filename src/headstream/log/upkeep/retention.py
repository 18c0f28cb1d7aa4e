"""Retention: drops the oldest messages of topics with an age or size limit.

Only entire closed segments are dropped, oldest first, never the newest segment. The age of a segment is the age of its newest
message. The size limit applies to a topic's partitions together: their oldest closed segment is dropped first.

If a segment contains a message that failed permanently in a group, the segment and all newer segments of its partition are kept
until the group's delivery journal confirms the dead letter. `headstream.log` warns of this every hour, because the partition
grows.

segment_removal.py removes segments, and completes removals after a crash.

Retention takes no lock that appends need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from headstream.core.model.topology import check_legal_hold
from headstream.errors import HeadstreamError
from headstream.log.catalog.catalog import is_current, topics_of
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.segment_removal import drop_segment, finish_drops, open_index
from headstream.log.partition.stored_journals import find_unconfirmed
from headstream.log.segments.layout import DROPPED_SUFFIX, IndexEntry, base_offsets

if TYPE_CHECKING:
    from headstream.log.access import LogAccess

_WARNING_US: Final = 3600 * 1_000_000
_LOGGER: Final = logging.getLogger("headstream.log")


class _Closed(NamedTuple):
    """A closed segment, in the order of dropping."""

    timestamp_us: int
    partition: int
    base_offset: int
    size_bytes: int
    end_offset: int


class Retention:
    """Drops expired messages of a log's topics."""

    interval_s: ClassVar[float] = 10.0

    def __init__(self, log: LogAccess, clock_us: Callable[[], int]) -> None:
        self._log = log
        self._clock_us = clock_us
        self._warn_at_us: dict[str, int] = {}
        self._looked: dict[str, tuple[int | None, list[_Closed]]] = {}

    def apply(self) -> int:
        """Drop expired segments; return their number. The next round retries segments that could not be dropped."""
        dropped = 0
        with suppress(HeadstreamError):
            for topic in topics_of(self._log.snapshot()):
                is_limited = topic.options.retention_us is not None or topic.options.retention_bytes is not None
                if is_limited and not topic.options.legal_hold:
                    with suppress(HeadstreamError):
                        dropped += self._apply(topic)
        return dropped

    def drop_oldest(self, topic: TopicRecord, number: int, count: int) -> int:
        """Drop the oldest closed segments of a partition, regardless of their age; return their number. Raises LegalHoldError."""
        check_legal_hold(topic.name, topic.options.legal_hold)
        directory = self._log.partition_directory(topic, number)
        with self._log.administration:
            bases = base_offsets(self._log.files.list_names(directory) or [])
            oldest = self._closed_of(directory, number, bases[:-1])[:count]
            dropped = sum(self._drop(topic, segment) for segment in oldest)
        self._log.states.note_replaced()
        return dropped

    def _apply(self, topic: TopicRecord) -> int:
        closed, size_bytes = self._list_closed(topic)
        oldest_us = -1 if topic.options.retention_us is None else self._clock_us() - topic.options.retention_us
        dropped, kept = 0, set[int]()
        for segment in sorted(closed):
            is_too_much = topic.options.retention_bytes is not None and size_bytes > topic.options.retention_bytes
            if self._log.is_closing or not (is_too_much or segment.timestamp_us < oldest_us):
                break
            if segment.partition in kept or self._has_unconfirmed(topic, segment):
                kept.add(segment.partition)
                size_bytes -= segment.size_bytes  # messages that must stay do not cause drops in other partitions
                continue
            if not self._drop(topic, segment):
                break
            size_bytes -= segment.size_bytes
            dropped += 1
        return dropped

    def _has_unconfirmed(self, topic: TopicRecord, segment: _Closed) -> bool:
        """Return whether a segment has a failed message whose dead letter is not confirmed; log a warning every hour."""
        log, number = self._log, segment.partition
        given_up = find_unconfirmed(log.offsets(topic), log.files, number, topic.generation(number))
        offset = min((each for each in given_up if segment.base_offset <= each < segment.end_offset), default=None)
        if offset is None:
            return False
        directory, now_us = log.partition_directory(topic, number), self._clock_us()
        if now_us >= self._warn_at_us.get(directory, 0):
            self._warn_at_us[directory] = now_us + _WARNING_US
            _LOGGER.warning(
                "retention keeps %s, partition %d, from offset %d: in the group %s, message %d failed permanently, but no "
                "dead-letter copy was confirmed. Run a consumer of the group with dead_letter, or seek the group past the "
                "message",
                *(topic.name, number, segment.base_offset, given_up[offset], offset),
            )
        return True

    def _list_closed(self, topic: TopicRecord) -> tuple[list[_Closed], int]:
        """Return the closed segments of all partitions, and the size of all segments."""
        files = self._log.files
        closed, size_bytes = [], 0
        for number in range(1, topic.partitions + 1):
            directory = self._log.partition_directory(topic, number)
            names = files.list_names(directory) or []
            if any(name.endswith(DROPPED_SUFFIX) for name in names):
                with self._log.administration:
                    finish_drops(directory, files)
                names = files.list_names(directory) or []
            bases = base_offsets(names)
            found = self._closed_of(directory, number, bases[:-1])
            closed += found
            size_bytes += sum(segment.size_bytes for segment in found)
            if bases:
                newest = self._last_entry(directory, bases[-1])
                size_bytes += 0 if newest is None else newest.end_position
        return closed, size_bytes

    def _closed_of(self, directory: str, number: int, bases: list[int]) -> list[_Closed]:
        """Return the closed segments of a partition, cached until its directory changes."""
        changed = self._log.files.changed(directory)
        known = self._looked.get(directory)
        if known is not None and known[0] == changed and [each.base_offset for each in known[1]] == bases:
            return known[1]
        found: list[_Closed] = []
        for base in bases:
            last = self._last_entry(directory, base)
            # A segment without messages is left by a power failure or a compaction: drop it together with earlier segments.
            before_us = found[-1].timestamp_us if found else 0
            last = IndexEntry(0, 0, base, 0, before_us, 0) if last is None else last
            found.append(_Closed(last.timestamp_us, number, base, last.end_position, last.end_offset))
        self._looked[directory] = changed, found
        return found

    def _last_entry(self, directory: str, base: int) -> IndexEntry | None:
        index = open_index(directory, base, self._log.files)
        if index is None:
            return None
        index.close()
        return index.last

    def _drop(self, topic: TopicRecord, segment: _Closed) -> bool:
        """Drop a segment; return False if the topic was changed or deleted meanwhile."""
        log, number = self._log, segment.partition
        directory = log.partition_directory(topic, number)
        with log.administration:
            if not is_current(log.snapshot(), topic):
                return False
            index = open_index(directory, segment.base_offset, log.files)
            if index is None:
                return False  # compaction has merged the segment with another segment
            index.close()
            drop_segment(directory, segment.base_offset, index.generation, log.files)
            log.note_removed(topic, number)
            log.states.forget(topic, number, segment.end_offset)
        return True
