"""PartitionFollower: the committed messages of one partition, in any process, while its writer goes on.

    follower = PartitionFollower("/var/lib/shop/streams/1/1/1")
    for chunk in follower.read(follower.first_offset):      # whole stored messages, about 4 MiB a chunk
        columns = decode_columns(chunk)
    follower.refresh()                                      # what has come since

It takes no lock and writes nothing. It needs `segments` and `codec` alone: this is what Spark's executors import.
One thread uses a follower at a time.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from types import TracebackType
from typing import Final

from headstream.errors import OffsetOutOfRangeError, PartitionNotFoundError
from headstream.segments.files import BufferPool, OsReadFiles, ReadFiles
from headstream.segments.layout import INDEX_SUFFIX, base_offsets, segment_path
from headstream.segments.segment import Segment

__all__ = ["DEFAULT_CHUNK_BYTES", "PartitionFollower"]

DEFAULT_CHUNK_BYTES: Final = 4 << 20
"""Big enough that the cost of a read is the bytes, small enough to stay in a processor's cache on the way."""


class PartitionFollower:
    """Reads one partition without locks.

    Args:
        directory: The partition's directory in the log.
        files: Where it is; the operating system's files unless said otherwise.
        buffers: What chunks are read into; its own unless said otherwise.

    Raises:
        PartitionNotFoundError: there is no such directory.
        StorageError: it cannot be read.
    """

    def __init__(
        self, directory: str | os.PathLike[str], files: ReadFiles | None = None, buffers: BufferPool | None = None
    ) -> None:
        self._directory = os.fspath(directory)
        self._files: ReadFiles = OsReadFiles() if files is None else files
        self._buffers = BufferPool() if buffers is None else buffers
        self._segments: list[Segment] = []
        self._changed: int | None = None
        self._end_offset = 0
        self._sealed_bytes: dict[int, int] = {}
        self.refresh()

    @property
    def first_offset(self) -> int:
        """The oldest offset that is there, as of the last refresh; end_offset where there is none."""
        return self._segments[0].base_offset if self._segments else 0

    @property
    def end_offset(self) -> int:
        """One past the newest committed offset, as of the last refresh: what the next message gets."""
        return self._end_offset

    def refresh(self) -> None:
        """Take in what was appended, rolled and deleted since.

        Raises:
            PartitionNotFoundError: the partition has been deleted.
        """
        changed = self._files.changed(self._directory)
        if changed is None:
            self.close()
            raise PartitionNotFoundError(
                "there is no such partition, or it has been deleted",
                where=self._directory,
                advice="Look the topic up again",
            )
        if self._segments:
            self._newest().refresh()
        if changed != self._changed or self._has_rolled():
            self._changed = changed  # taken before the listing: what changes during it is listed next time
            self._list()
        self._end_offset = self._newest().end_offset if self._segments else 0

    def _has_rolled(self) -> bool:
        """Whether a segment follows the newest known one: directories' times can be too coarse to say."""
        if not self._segments:
            return False
        newest = self._newest()
        end = newest.end_offset
        return end > newest.base_offset and self._files.exists(segment_path(self._directory, end, INDEX_SUFFIX))

    def _list(self) -> None:
        names = self._files.list_names(self._directory) or []
        known = {segment.base_offset: segment for segment in self._segments}
        self._segments = []
        for base in base_offsets(names):
            segment = known.pop(base) if base in known else Segment(self._directory, base, self._files, self._buffers)
            self._segments.append(segment)
        for gone in known.values():
            gone.close()
        for segment in self._segments:
            segment.refresh()  # the last appends before a roll may have come after the look at what was the newest then

    def _newest(self) -> Segment:
        return self._segments[-1]

    def size_bytes(self) -> int:
        """Return the committed bytes of all segments, as of the last refresh."""
        for number, segment in enumerate(self._segments[:-1]):
            if segment.base_offset not in self._sealed_bytes:
                self._sealed_bytes[segment.base_offset] = self._open(number).size_bytes
        newest = self._newest().size_bytes if self._segments else 0
        return newest + sum(self._sealed_bytes[segment.base_offset] for segment in self._segments[:-1])

    def read(
        self, from_offset: int, until_offset: int | None = None, size_bytes: int = DEFAULT_CHUNK_BYTES
    ) -> Iterator[memoryview]:
        """Return the stored messages of a range of offsets, in order, in chunks of whole messages.

        A chunk stays valid for as long as it is held; its memory is used again after that.

        Args:
            from_offset: The first one, first_offset or later.
            until_offset: One past the last one, at most end_offset; None is end_offset.
            size_bytes: About how big a chunk is; a bigger message is a chunk of its own.

        Raises:
            OffsetOutOfRangeError: the range begins before first_offset or ends after end_offset.
            CorruptLogError: files contradict each other.
        """
        end = self._end_offset if until_offset is None else until_offset
        if end > self._end_offset:
            self.refresh()
        if from_offset < self.first_offset or end > self._end_offset:
            raise OffsetOutOfRangeError(
                f"offsets {from_offset} to {end} were asked for, {self.first_offset} to {self._end_offset} are there",
                where=self._directory,
                advice="Older ones have been dropped by retention or deletion, later ones were never written",
            )
        return self._chunks(from_offset, end, size_bytes)

    def _chunks(self, offset: int, until_offset: int, size_bytes: int) -> Iterator[memoryview]:
        while offset < until_offset:
            chunk, offset = self.read_chunk(offset, until_offset, size_bytes)
            yield chunk

    def read_chunk(self, from_offset: int, until_offset: int, size_bytes: int) -> tuple[memoryview, int]:
        """Return the first chunk of a range, as read() would, and the offset to go on from.

        Args:
            from_offset: The first one, first_offset or later.
            until_offset: One past the last one, more than from_offset, at most end_offset.
            size_bytes: About how big the chunk is.
        """
        number = self._segment_number(from_offset)
        is_newest = number == len(self._segments) - 1
        segment_end = self._end_offset if is_newest else self._segments[number + 1].base_offset
        return self._open(number).read_chunk(from_offset, min(until_offset, segment_end), size_bytes)

    def position_of(self, offset: int) -> tuple[int, int]:
        """Return where a message is: the base offset of its segment, and its byte position in that.

        Args:
            offset: first_offset or later, before end_offset.
        """
        segment = self._open(self._segment_number(offset))
        return segment.base_offset, segment.position_of(offset)

    def _segment_number(self, offset: int) -> int:
        number = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        if number < 0:
            raise OffsetOutOfRangeError(
                f"offset {offset} has been dropped since",
                where=self._directory,
                advice=f"Begin again from {self.first_offset}, the first one that is there",
            )
        return number

    def _open(self, number: int) -> Segment:
        """Return a segment; of all others only the newest stays open."""
        segment = self._segments[number]
        if not segment.is_open:
            for other in self._segments[:-1]:
                other.close()
        return segment

    def offset_of(self, timestamp_us: int) -> int:
        """Return the first offset that was appended at this time or later; end_offset where there is none.

        Args:
            timestamp_us: Microseconds since 1970 UTC.
        """
        # The last segment that begins before that time holds the place, or ends just before it.
        low, high = 0, len(self._segments)
        while low < high:
            middle = (low + high) // 2
            first = self._open(middle).first_timestamp_us
            if first is not None and first < timestamp_us:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return self.first_offset
        return min(self._open(low - 1).find_timestamp(timestamp_us), self._end_offset)

    def close(self) -> None:
        """Let go of all files; the next use opens them again."""
        for segment in self._segments:
            segment.close()

    def __enter__(self) -> PartitionFollower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
