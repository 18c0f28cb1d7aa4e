"""PartitionFollower: reads the committed messages of one partition, in any process, while the writer appends.

    follower = PartitionFollower("/var/lib/shop/streams/1/1/1")
    for chunk in follower.read(follower.first_offset):      # complete stored messages, about 4 MiB per chunk
        columns = decode_columns(chunk)
    follower.refresh()                                      # messages appended since

Each send is compared with its checksum. A damaged send raises CorruptSendError after all earlier messages have been returned;
`follower.read(follower.next_readable(error.until_offset))` continues after the damage. A follower takes no lock and writes
nothing; not thread-safe.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

from headstream.core.filters.filter import Filter
from headstream.errors import CorruptLogError, CorruptSendError, OffsetOutOfRangeError, PartitionNotFoundError
from headstream.log.segments.checking import unreadable_segment
from headstream.log.segments.files import BufferPool, OsReadFiles, ReadFiles
from headstream.log.segments.layout import INDEX_SUFFIX, base_offsets, segment_path, start_offsets
from headstream.log.segments.read_ahead import ReadAhead
from headstream.log.segments.segment import Segment
from headstream.log.segments.segment_end import find_unindexed
from headstream.log.segments.skipping import SegmentSkips

# retry_on_removal: repeats a query of a partition when retention or compaction removes a segment meanwhile.
#
# The segment list can be outdated. If a listed segment is missing when its files are opened, the list is renewed and the
# whole query repeated; the query fails only if the segment is missing from the new list too.


# Finds the segment for a time, from the times of the segments' first messages.


def find_later(count: int, first_time_of: Callable[[int], int | None], timestamp_us: int) -> int:
    """Return the number of the first segment that starts at or after a time; `count` if there is none.

    Args:
        count: Number of segments, which are in the order of their times.
        first_time_of: Returns the time of a segment's first message, microseconds since 1970 UTC. None if the segment is empty
            after a compaction or unreadable; the next segment's time is then used.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        times = map(first_time_of, range(middle, count))
        first = next((time_us for time_us in times if time_us is not None), None)
        if first is not None and first < timestamp_us:
            low = middle + 1
        else:
            high = middle
    return low


_ATTEMPTS: Final = 4
"""Maximum number of attempts, because another segment can be removed while the list is renewed."""


class _Renewable(Protocol):
    is_in_query: bool
    """Whether a query is running; nested queries are not repeated separately."""

    def renew(self) -> None: ...


_Follower = TypeVar("_Follower", bound=_Renewable)
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")
_Query = Callable[Concatenate[_Follower, _Arguments], _Answer]


def retry_on_removal(query: _Query[_Follower, _Arguments, _Answer]) -> _Query[_Follower, _Arguments, _Answer]:
    """Repeat a query after renew() if a segment was removed meanwhile; the query must not change state."""

    @wraps(query)
    def wrapper(follower: _Follower, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Answer:
        if follower.is_in_query:
            return query(follower, *arguments, **options)
        for _ in range(_ATTEMPTS - 1):
            follower.is_in_query = True
            try:
                return query(follower, *arguments, **options)
            except OffsetOutOfRangeError:
                follower.is_in_query = False
                follower.renew()
            finally:
                follower.is_in_query = False
        return query(follower, *arguments, **options)

    return wrapper


DEFAULT_CHUNK_BYTES: Final = 4 << 20
"""Default chunk size, bytes: large enough that the bytes dominate a read's cost, small enough for a processor's cache."""


class PartitionFollower:
    """Reads one partition without locks.

    Args:
        buffers: The pool for chunks; a new pool by default.
        verify: Whether each send is compared with its checksum before its messages are returned.

    Raises:
        PartitionNotFoundError: the directory does not exist.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        files: ReadFiles | None = None,
        buffers: BufferPool | None = None,
        *,
        verify: bool = True,
    ) -> None:
        self.is_in_query = False
        self.states_changes = -1  # the catalog's changes at the last renewal (log/states.py)
        self.read_ahead = ReadAhead()
        self._verify = verify
        self._directory = os.fspath(directory)
        self._files: ReadFiles = OsReadFiles() if files is None else files
        self._buffers = BufferPool() if buffers is None else buffers
        self._segments: list[Segment] = []
        self._changed: int | None = None
        self._start_offset = 0
        self._end_offset = 0
        self._sealed_bytes: dict[int, int] = {}
        self._sealed_counts: dict[int, int] = {}
        self._first_times_us: dict[int, int] = {}
        self._skips = SegmentSkips(self._directory, self._files)
        self.refresh()

    @property
    def first_offset(self) -> int:
        """The log start offset as of the last refresh: earlier messages are deleted. end_offset if the partition is empty."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next message, one past the newest committed offset, as of the last refresh."""
        return self._end_offset

    @property
    def segment_offsets(self) -> list[int]:
        """The first offset of each segment, as of the last refresh."""
        return [segment.base_offset for segment in self._segments]

    def refresh(self) -> None:
        """Read appends, new segments and deletions since the last refresh; PartitionNotFoundError if the partition is deleted."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._refresh()
            except OffsetOutOfRangeError:  # a segment was removed after its listing
                self._changed = None
        return self._refresh()

    def _refresh(self) -> None:
        changed = self._files.changed(self._directory)
        if changed is None:
            self.close()
            what = "the partition does not exist or has been deleted"
            advice = "Look up the topic again; if the topic has the partition, run headstream verify"
            raise PartitionNotFoundError(what, where=self._directory, advice=advice)
        if self._segments:
            self._newest().refresh()
        # Without segments, list again: after a clock was set back, the directory's time may not show the first segment.
        if changed != self._changed or not self._segments or self._has_rolled():
            self._changed = changed  # read before the listing, so that a change during the listing is listed next time
            self._list()
        self._end_offset = self._newest().end_offset if self._segments else 0

    def renew(self) -> None:
        """Refresh regardless of the directory's modification time, because a listed segment was removed."""
        self._changed = None
        self.refresh()

    def _has_rolled(self) -> bool:
        """Return whether a segment follows the newest known segment; directory times are too coarse for this test."""
        newest = self._newest()
        end = newest.end_offset
        return end > newest.base_offset and self._files.exists(segment_path(self._directory, end, INDEX_SUFFIX))

    def _list(self) -> None:
        names = self._files.list_names(self._directory) or []
        known = {segment.base_offset: segment for segment in self._segments}
        self._segments = []
        bases = base_offsets(names)
        unindexed = find_unindexed(self._directory, names, bases[-1], self._files) if bases else {}
        for base in sorted({*bases, *unindexed}):
            segment = None if base in unindexed else known.pop(base, None)
            if segment is None:
                segment = Segment(self._directory, base, self._files, self._buffers, self._verify, unindexed.get(base))
            self._segments.append(segment)
        self._start_offset = max([self._segments[0].base_offset, *start_offsets(names)]) if self._segments else 0
        for segment in (*known.values(), *self._segments[:-1]):
            segment.close()  # removed, or its messages may have been replaced: the next read opens the current files
        self.read_ahead.forget()
        for cached in (self._sealed_bytes, self._sealed_counts, self._first_times_us):
            cached.clear()
        self._skips.forget()
        for segment in self._segments:
            segment.refresh()  # appends between the last refresh and the roll

    def _newest(self) -> Segment:
        return self._segments[-1]

    @retry_on_removal
    def size_bytes(self) -> int:
        """Return the committed size of all segments, as of the last refresh."""
        newest = self._newest().size_bytes if self._segments else 0
        return newest + sum(self._segment_bytes(number) for number in range(len(self._segments) - 1))

    @retry_on_removal
    def size_between(self, from_offset: int, until_offset: int) -> int:
        """Return the approximate committed size of a range, computed from the indexes; a partial send counts in proportion.

        Args:
            from_offset: First offset; offsets before first_offset count as 0 bytes.
            until_offset: End offset, exclusive; offsets after end_offset count as 0 bytes.
        """
        first, last = max(from_offset, self.first_offset), min(until_offset, self._end_offset)
        if last <= first:
            return 0
        begin, end = self._segment_number(first), self._segment_number(last - 1)
        size = self._open(end).index.size_before(last)
        for number in range(end - 1, begin - 1, -1):
            size += self._segment_bytes(number)
        return size - self._open(begin).index.size_before(first)

    @retry_on_removal
    def offset_after(self, from_offset: int, size_bytes: int) -> int:
        """Return the end offset of the sends that fit into `size_bytes` after an offset; at least one send is included."""
        first = begin = max(from_offset, self.first_offset)
        number, left = self._segment_number(begin), size_bytes
        while number < len(self._segments) - 1:
            segment_end = self._segments[number + 1].base_offset
            rest = self.size_between(first, segment_end)
            if rest > left:
                break
            first, left, number = segment_end, left - rest, number + 1
        if first >= self._end_offset:
            return first
        found = self._open(number).index.offset_after(first, left)
        return first if first > begin and self.size_between(first, found) > left else found

    def _segment_bytes(self, number: int) -> int:
        """Return the committed size of a segment, except the newest segment."""
        base = self._segments[number].base_offset
        if base not in self._sealed_bytes:
            self._sealed_bytes[base] = self._open(number).size_bytes
        return self._sealed_bytes[base]

    @retry_on_removal
    def messages_count(self) -> int:
        """Return the number of messages in any state, as of the last refresh."""
        for number, segment in enumerate(self._segments[:-1]):
            if segment.base_offset not in self._sealed_counts:
                self._sealed_counts[segment.base_offset] = self._open(number).messages_count(self._segment_end(number))
        newest = self._newest().messages_count(self._end_offset) if self._segments else 0
        return newest + sum(self._sealed_counts[segment.base_offset] for segment in self._segments[:-1])

    @retry_on_removal
    def find_last(self, count: int) -> int:
        """Return the first offset of the last `count` messages; first_offset if there are fewer messages."""
        for number in range(len(self._segments) - 1, -1, -1):
            segment = self._open(number)
            offset, found = segment.find_last(count, self._segment_end(number))
            if found == count:
                return max(offset, self.first_offset)
            count -= found
        return self.first_offset

    @retry_on_removal
    def offset_before(self, size_bytes: int) -> int:
        """Return the first offset of the newest segments that together fit into `size_bytes`; at least one segment."""
        number = len(self._segments) - 1
        rest = size_bytes - (self._newest().size_bytes if self._segments else 0)
        while number > 0 and rest >= self._open(number - 1).size_bytes:
            number -= 1
            rest -= self._open(number).size_bytes
        return max(self._segments[number].base_offset, self.first_offset) if self._segments else 0

    def read(
        self,
        from_offset: int,
        until_offset: int | None = None,
        size_bytes: int = DEFAULT_CHUNK_BYTES,
        where: Filter | None = None,
    ) -> Iterator[memoryview]:
        """Return the stored messages in an offset range, in order, in chunks of complete messages.

        A chunk is valid while the caller holds a reference; then its memory is reused.

        Args:
            from_offset: First offset; first_offset or later.
            until_offset: End offset, exclusive, at most end_offset; None: end_offset.
            size_bytes: Approximate size of a chunk; a larger message is returned as a single chunk.
            where: A filter: closed segments in which no message can match are skipped. None reads all segments.

        Raises:
            OffsetOutOfRangeError: the range starts before first_offset or ends after end_offset.
            CorruptSendError: the next messages are damaged; all earlier messages have been returned.
        """
        end = self._end_offset if until_offset is None else until_offset
        if end > self._end_offset:
            self.refresh()
        if from_offset < self.first_offset or end > self._end_offset:
            what = f"offsets {from_offset} to {end} were requested, but {self.first_offset} to {self._end_offset} exist"
            advice = "Older messages were removed by retention or deletion; later offsets were never written"
            raise OffsetOutOfRangeError(what, where=self._directory, advice=advice)
        return self._chunks(from_offset, end, size_bytes, where)

    def _chunks(self, offset: int, until_offset: int, size_bytes: int, where: Filter | None) -> Iterator[memoryview]:
        while offset < until_offset:
            if where is not None and (skipped := self.skip(offset, where)) is not None:
                offset = skipped[0]
                continue
            chunk, offset = self.read_chunk(offset, until_offset, size_bytes)
            if len(chunk):
                yield chunk

    @retry_on_removal
    def read_chunk(self, from_offset: int, until_offset: int, size_bytes: int) -> tuple[memoryview, int]:
        """Return the first chunk of a range, like read(), and the offset at which to continue.

        If compaction has removed the start of the range, the chunk is empty and the returned offset is the next offset, possibly
        after until_offset.

        Args:
            from_offset: First offset; first_offset or later.
            until_offset: End offset, exclusive; greater than from_offset, at most end_offset.
            size_bytes: Approximate size of the chunk.

        Raises:
            CorruptSendError: the first messages of the range are damaged; next_readable() returns the next offset.
        """
        number = self._segment_number(from_offset)
        segment_end = self._segment_end(number)
        try:
            wanted = from_offset, min(until_offset, segment_end), size_bytes, self._next_base(number)
            chunk, reached = self._open(number).read_chunk(*wanted)
            if not len(chunk) or int.from_bytes(chunk[:8], "little") != from_offset:
                self._check_not_deleted(from_offset)
            return chunk, min(reached, segment_end)  # the chunk can end in the next segment if segments were merged
        except CorruptSendError:
            raise
        except CorruptLogError as error:
            raise unreadable_segment(error, from_offset, segment_end) from error

    def _check_not_deleted(self, offset: int) -> None:
        """Raise OffsetOutOfRangeError if a missing message is before the log start offset and was not removed by compaction."""
        if self._files.changed(self._directory) != self._changed:
            start = max(start_offsets(self._files.list_names(self._directory) or []), default=0)
            if offset < start:
                raise self._dropped(offset, start)

    def skip(self, offset: int, where: Filter) -> tuple[int, int] | None:
        """Return end offset and message count of an offset's segment if no message in it can match a filter; else None."""
        number = self._segment_number(offset)
        base, next_base = self._segments[number].base_offset, self._next_base(number)
        count = None if next_base is None else self._skips.count_unmatched(where, base, next_base)
        return None if next_base is None or count is None else (next_base, min(count, next_base - offset))

    def _segment_end(self, number: int) -> int:
        return self._end_offset if (next_base := self._next_base(number)) is None else next_base

    def _next_base(self, number: int) -> int | None:
        return None if number == len(self._segments) - 1 else self._segments[number + 1].base_offset

    @retry_on_removal
    def next_readable(self, offset: int) -> int:
        """Return the first offset at or after an offset whose send is not damaged; end_offset if there is none."""
        offset = max(offset, self.first_offset)
        while offset < self._end_offset:
            number = self._segment_number(offset)
            try:
                self._open(number).check(offset, self._next_base(number))
            except CorruptSendError as error:
                offset = max(error.until_offset, offset + 1)
            except CorruptLogError:
                offset = self._segment_end(number)
            else:
                return offset
        return self._end_offset

    @retry_on_removal
    def may_miss(self, offset: int) -> bool:
        """Return whether the segment of an offset is compacted, so that offsets may be missing."""
        return self._open(self._segment_number(offset)).is_compacted

    @retry_on_removal
    def position_of(self, offset: int) -> tuple[str, int]:
        """Return the path of the .log that contains a message, and the message's byte position in it.

        Raises:
            OffsetOutOfRangeError: retention or compaction has removed the message.
        """
        segment = self._open(self._segment_number(offset))
        position = segment.position_of(offset)
        return segment.data_path, position

    def _segment_number(self, offset: int) -> int:
        number = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        if number < 0 or offset < self._start_offset:
            raise self._dropped(offset, self._start_offset)
        return number

    def _dropped(self, offset: int, first_offset: int) -> OffsetOutOfRangeError:
        advice = f"Continue at {first_offset}, the first existing offset"
        return OffsetOutOfRangeError(f"offset {offset} was removed during the read", where=self._directory, advice=advice)

    def _open(self, number: int) -> Segment:
        """Return an opened segment; close all other segments except the newest."""
        if not self._segments[number].is_open:
            for other in self._segments[:-1]:
                other.close()
        return self._segments[number]

    @retry_on_removal
    def offset_of(self, timestamp_us: int) -> int:
        """Return the offset of the first message appended at or after a time; end_offset if there is none."""
        # The last segment that begins before that time contains the offset, or ends directly before the offset.
        later = find_later(len(self._segments), self._first_time_us, timestamp_us)
        if later == 0:
            return self.first_offset
        return max(min(self._open(later - 1).find_timestamp(timestamp_us), self._end_offset), self.first_offset)

    @retry_on_removal
    def last_time(self) -> int | None:
        """Return the append time of the newest message, microseconds since 1970 UTC; None if there is no message."""
        times = (self._open(number).last_timestamp_us for number in range(len(self._segments) - 1, -1, -1))
        return next((time_us for time_us in times if time_us is not None), None)

    def _first_time_us(self, number: int) -> int | None:
        """Return the time of a segment's first message, which is read once; None for an empty segment."""
        base = self._segments[number].base_offset
        if (first := self._first_times_us.get(base)) is None:
            with suppress(CorruptLogError):  # reading that segment raises the error
                first = self._open(number).first_timestamp_us
            if first is not None:
                self._first_times_us[base] = first
        return first

    def close(self) -> None:
        """Close all files; the next use opens them again."""
        for segment in self._segments:
            segment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
