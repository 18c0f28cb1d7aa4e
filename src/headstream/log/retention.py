"""Retention: dropping the oldest messages of topics that say how long or how much they keep.

Whole closed segments go, oldest first, never the one that is written to. A segment is as old as its newest message. The
size is that of all partitions of a topic: the oldest closed segment among them goes first.

    <base>.log    -> <base>.log.dropped     from here on the segment is gone
    <base>.index  removed                   from here on readers do not list it either
    <base>.log.dropped  removed

A crash after the first step leaves a .log.dropped, which says what is to be finished: the next round, or the next
writer of the partition, does. A reader that has the files open finishes what it reads; one that opens them later gets
OffsetOutOfRangeError, and looks again for the first offset that is there.

This takes no lock that an append needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from headstream.errors import HeadstreamError
from headstream.log.catalog import TopicRecord
from headstream.log.files import Files
from headstream.segments.index import IndexReader
from headstream.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, IndexEntry, base_offsets, segment_path

if TYPE_CHECKING:
    from headstream.log.log import Log

__all__ = ["RETENTION_INTERVAL_S", "Retention", "finish_drops"]

RETENTION_INTERVAL_S: Final = 10.0
"""How often it is looked for what may go."""


class _Closed(NamedTuple):
    """A segment that is not written to any more, in the order in which they go."""

    timestamp_us: int
    partition: int
    base_offset: int
    size_bytes: int
    end_offset: int


class Retention:
    """Drops what a log's topics do not keep, in a thread of its own once started.

    Args:
        log: The log; this process is its writer.
        clock_us: Returns the time, microseconds since 1970 UTC.
        interval_s: Seconds between two rounds.
    """

    def __init__(self, log: Log, clock_us: Callable[[], int], interval_s: float | None = None) -> None:
        self._log = log
        self._clock_us = clock_us
        self._interval_s = RETENTION_INTERVAL_S if interval_s is None else interval_s
        self._last_entries: dict[tuple[str, int], IndexEntry] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headstream-retention", daemon=True)

    def start(self) -> None:
        """Start the thread; its first round is at once."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the segment it is just dropping."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.apply()
            self._stop.wait(self._interval_s)

    def apply(self) -> int:
        """Drop what may go now, and return how many segments that were.

        What cannot be dropped or read stays, and is tried again in the next round.
        """
        dropped = 0
        with suppress(HeadstreamError):
            for stream in self._log.snapshot().values():
                for topic in stream.topics.values():
                    if topic.retention_us is not None or topic.retention_bytes is not None:
                        with suppress(HeadstreamError):
                            dropped += self._apply(topic)
        return dropped

    def _apply(self, topic: TopicRecord) -> int:
        closed, size_bytes = self._look(topic)
        oldest_us = -1 if topic.retention_us is None else self._clock_us() - topic.retention_us
        dropped = 0
        for segment in sorted(closed):
            is_too_much = topic.retention_bytes is not None and size_bytes > topic.retention_bytes
            if self._stop.is_set() or not (is_too_much or segment.timestamp_us < oldest_us):
                break
            if not self._drop(topic, segment):
                break
            size_bytes -= segment.size_bytes
            dropped += 1
        return dropped

    def _look(self, topic: TopicRecord) -> tuple[list[_Closed], int]:
        """Return the closed segments of all partitions, and the bytes of all segments."""
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
            for base in bases[:-1]:
                last = self._last_entry(directory, base)
                closed.append(_Closed(last.timestamp_us, number, base, last.end_position, last.end_offset))
                size_bytes += last.end_position
            if bases:
                newest = _read_last(files, directory, bases[-1])
                size_bytes += 0 if newest is None else newest.end_position
        return closed, size_bytes

    def _last_entry(self, directory: str, base: int) -> IndexEntry:
        """Return the last entry of a closed segment, which does not change any more."""
        entry = self._last_entries.get((directory, base))
        if entry is None:
            found = _read_last(self._log.files, directory, base)
            # A closed segment has messages, or it was never filled before a power cut: then it is dropped like an old one.
            entry = IndexEntry(0, 0, base, 0, 0, 0) if found is None else found
            self._last_entries[directory, base] = entry
        return entry

    def _drop(self, topic: TopicRecord, segment: _Closed) -> bool:
        """Drop a segment, and return whether that was done: the topic may have been changed or deleted since."""
        log, number = self._log, segment.partition
        directory = log.partition_directory(topic, number)
        with log.administration:
            stream = log.snapshot().get(topic.name.stream)
            if stream is None or stream.topics.get(topic.name.topic) != topic:
                return False
            data = segment_path(directory, segment.base_offset, LOG_SUFFIX)
            dropped = segment_path(directory, segment.base_offset, DROPPED_SUFFIX)
            log.files.rename(data, dropped)
            log.files.remove(segment_path(directory, segment.base_offset, INDEX_SUFFIX))
            log.files.remove(dropped)
            log.states.forget(topic, number, segment.end_offset)
        self._last_entries.pop((directory, segment.base_offset), None)
        return True


def _read_last(files: Files, directory: str, base: int) -> IndexEntry | None:
    path = segment_path(directory, base, INDEX_SUFFIX)
    file = files.open_read(path)
    if file is None:
        return None
    try:
        return IndexReader(file, path, base).last
    finally:
        file.close()


def finish_drops(directory: str, files: Files) -> None:
    """Finish what a crash has left of dropping segments of a partition.

    Args:
        directory: The partition's; the caller is the log's writer.
        files: Where it is.
    """
    for name in files.list_names(directory) or []:
        if name.endswith(DROPPED_SUFFIX):
            base = name.removesuffix(DROPPED_SUFFIX)
            files.remove(f"{directory}/{base}{INDEX_SUFFIX}")
            files.remove(f"{directory}/{name}")
