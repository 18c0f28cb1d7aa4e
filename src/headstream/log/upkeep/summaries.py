"""Summaries: summarizes closed segments of topics with the option `summary_headers`, in the background.

A segment is summarized a few seconds after it was closed, after a compaction or an erasure has rewritten it, when the option
names other headers, and when its summary is missing or damaged. If the option is not set, the topic's summaries are removed.
Filters read every segment that has no summary.

The messages are read without a lock. The file is written while holding the removal lock, so that a summary is only written if
its segment still exists. The file identifies its segment, so that it is never used for a different segment. A summary that is
unfinished when the log closes is restarted at the next opening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from headstream.core.filters.summarizing import HeaderSummarizer
from headstream.errors import HeadstreamError
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.closed_reading import PassCancelledError, read_closed
from headstream.log.partition.closed_segments import Closed, list_closed
from headstream.log.partition.segment_removal import SIDE_SUFFIXES, open_index, remove_side_files
from headstream.log.segments.files import BufferPool
from headstream.log.segments.layout import SUMMARY_SUFFIX, segment_path
from headstream.log.segments.summaries import SegmentSummary, encode_summary, read_summary
from headstream.log.system.files import Files
from headstream.log.upkeep.job import goes_on, retry_time_us, sum_over_partitions

if TYPE_CHECKING:
    from headstream.log.access import LogAccess

_NEVER_US: Final = 1 << 63


@dataclass(slots=True)
class _Known:
    """State of a partition: last complete round, segments with a summary, and times of retries."""

    changed: int | None = None
    names: tuple[str, ...] = ()
    done: set[tuple[int, int]] = field(default_factory=set)
    not_before_us: dict[int, int] = field(default_factory=dict)


class Summaries:
    """Summarizes the closed segments of a log's topics."""

    interval_s: ClassVar[float] = 5.0

    def __init__(self, log: LogAccess, clock_us: Callable[[], int]) -> None:
        self._log = log
        self._clock_us = clock_us
        self._known: dict[str, _Known] = {}
        self._buffers = BufferPool()

    def apply(self) -> int:
        """Write missing summaries and remove unwanted summaries; return the number of new summaries."""
        return sum_over_partitions(self._log, self._apply)

    def _apply(self, topic: TopicRecord, number: int) -> int:
        directory, names = self._log.partition_directory(topic, number), topic.options.summarized
        known = self._known.setdefault(directory, _Known())
        if names != known.names:
            known.done.clear()
            known.changed = None
        elif not names and known.changed is not None:
            return 0  # already examined; without the option, no summaries are written
        changed = self._log.files.changed(directory)
        if changed == known.changed and self._clock_us() < min(known.not_before_us.values(), default=_NEVER_US):
            return 0
        known.names = names
        closed = list_closed(directory, self._log.files) if names else []
        self._remove_unwanted(topic, directory, closed)
        wanted = [segment for segment in closed if not segment.fault and not self._is_done(directory, segment, known)]
        results = [self._summarize(topic, directory, segment, known) for segment in wanted]
        known.done &= {(segment.base_offset, segment.generation) for segment in closed}
        bases = {segment.base_offset for segment in closed}
        known.not_before_us = {base: time_us for base, time_us in known.not_before_us.items() if base in bases}
        known.changed = changed  # the state before this round, so that the next round examines the new files
        return sum(results)

    def _is_done(self, directory: str, segment: Closed, known: _Known) -> bool:
        key = segment.base_offset, segment.generation
        if key not in known.done and is_summarized(directory, segment, known.names, self._log.files):
            known.done.add(key)
        return key in known.done

    def _summarize(self, topic: TopicRecord, directory: str, segment: Closed, known: _Known) -> bool:
        """Write the summary of a segment; return whether it was written."""
        base, now_us = segment.base_offset, self._clock_us()
        if now_us < known.not_before_us.get(base, 0):
            return False
        try:
            content = summarize_segment(
                directory, segment, known.names, self._log.files, self._buffers, lambda: self._check_wanted(topic)
            )
            self._write(topic, directory, segment, content)
        except HeadstreamError as error:
            known.not_before_us[base] = retry_time_us(f"summarizing a segment of {topic.name}", error, now_us)
            return False
        known.not_before_us.pop(base, None)
        return True

    def _write(self, topic: TopicRecord, directory: str, segment: Closed, content: bytes) -> None:
        with self._log.administration:
            self._check_wanted(topic)
            self._check_unchanged(directory, segment)
            # Not durably: a summary that a power failure has damaged is detected and written again.
            self._log.files.replace(segment_path(directory, segment.base_offset, SUMMARY_SUFFIX), content, durably=False)
            try:  # the writer of a partition removes leftovers of an interrupted pass without this lock
                self._check_unchanged(directory, segment)
            except PassCancelledError:
                remove_side_files(directory, segment.base_offset, self._log.files)
                raise

    def _check_unchanged(self, directory: str, segment: Closed) -> None:
        """Raise PassCancelledError if a segment was dropped or replaced: the values of erased messages are not written again."""
        index = open_index(directory, segment.base_offset, self._log.files)
        if index is None:
            raise PassCancelledError
        index.close()
        if index.generation != segment.generation:
            raise PassCancelledError

    def _check_wanted(self, topic: TopicRecord) -> None:
        if not goes_on(self._log, topic):
            raise PassCancelledError

    def _remove_unwanted(self, topic: TopicRecord, directory: str, closed: list[Closed]) -> None:
        """Remove unfinished summaries, and summaries of segments that are not in `closed` or have no messages."""
        bases = {f"{segment.base_offset:020d}{SUMMARY_SUFFIX}" for segment in closed if segment.size_bytes}
        names = self._log.files.list_names(directory) or []
        unwanted = [name for name in names if name.endswith(SIDE_SUFFIXES) and name not in bases]
        if unwanted:
            with self._log.administration:
                self._check_wanted(topic)
                for name in unwanted:
                    self._log.files.remove(f"{directory}/{name}")


def is_summarized(directory: str, segment: Closed, names: Sequence[str], files: Files) -> bool:
    """Return whether a segment has a valid summary of these headers, or no messages to summarize."""
    index = open_index(directory, segment.base_offset, files)
    if index is None:
        return True  # dropped meanwhile
    try:
        if index.last is None:
            return True
        found = read_summary(directory, index, files)
    finally:
        index.close()
    return found is not None and set(found.headers) == set(names)


def summarize_segment(
    directory: str, segment: Closed, names: Sequence[str], files: Files, buffers: BufferPool, check_wanted: Callable[[], None]
) -> bytes:
    """Return the content of a segment's summary; PassCancelledError if the segment was dropped or replaced meanwhile.

    `check_wanted` is called between two chunks; it raises PassCancelledError if the summary is no longer wanted.
    """
    index = open_index(directory, segment.base_offset, files)
    if index is None:
        raise PassCancelledError
    try:
        if index.generation != segment.generation:
            raise PassCancelledError
        summarizer = HeaderSummarizer(names, segment.messages_count)
        for chunk in read_closed(directory, segment, files, buffers):
            check_wanted()
            summarizer.add(chunk)
        return encode_summary(index, SegmentSummary(summarizer.messages_count, summarizer.finish()))
    finally:
        index.close()
