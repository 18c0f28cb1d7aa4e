"""One segment, read: which bytes hold which offsets, and those bytes.

A chunk is cut at the end of a send where it can be, which the index knows without a look at the messages. Only where
a range begins or ends inside a send, or a send is bigger than the chunk asked for, are messages counted.
"""

from __future__ import annotations

from typing import Final

from headstream.codec.batch.scan import scan, take
from headstream.errors import CorruptLogError, DecodeError, OffsetOutOfRangeError
from headstream.segments.files import BufferPool, ReadFile, ReadFiles
from headstream.segments.index import IndexReader
from headstream.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, IndexEntry, segment_path

__all__ = ["Segment"]

_MAX_PLACES: Final = 64
"""How many places inside sends are remembered: as many readers as can go through one segment without searching."""

_SEARCH_BYTES: Final = 1 << 20
"""How much of a send is read at once to find an offset in it."""


class Segment:
    """The committed part of one segment.

    Args:
        directory: The partition's directory.
        base_offset: The segment's first offset, which names its files.
        files: Where they are.
        buffers: What chunks are read into.
    """

    __slots__ = ("_data", "_directory", "_files", "_index", "_near", "_places", "base_offset", "buffers")

    def __init__(self, directory: str, base_offset: int, files: ReadFiles, buffers: BufferPool) -> None:
        self.base_offset = base_offset
        self.buffers = buffers
        self._directory = directory
        self._files = files
        self._data: ReadFile | None = None
        self._index: IndexReader | None = None
        self._near = 0
        self._places: dict[int, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether it holds files open."""
        return self._index is not None

    @property
    def end_offset(self) -> int:
        """One past the last committed offset, as of the last refresh."""
        last = self._opened().last
        return self.base_offset if last is None else last.end_offset

    @property
    def size_bytes(self) -> int:
        """The committed bytes, as of the last refresh."""
        last = self._opened().last
        return 0 if last is None else last.end_position

    @property
    def first_timestamp_us(self) -> int | None:
        """The time of its first message, or None where there is none."""
        index = self._opened()
        return index.entry(0).timestamp_us if index.count else None

    def refresh(self) -> None:
        """Take in what was appended since."""
        if self._index is not None:
            self._index.refresh()

    def close(self) -> None:
        """Let go of its files; the next use opens them again."""
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._data is not None:
            self._data.close()
            self._data = None

    def _opened(self) -> IndexReader:
        if self._index is None:
            path = segment_path(self._directory, self.base_offset, INDEX_SUFFIX)
            self._index = IndexReader(self._open(path), path, self.base_offset)
        return self._index

    def _open(self, path: str) -> ReadFile:
        file = self._files.open_read(path)
        if file is None:
            raise OffsetOutOfRangeError(
                "a segment is gone: its topic or its oldest messages have been deleted since",
                where=path,
                advice="Begin again from the first offset that is there",
            )
        return file

    # -- reading ------------------------------------------------------------------------------------------

    def read_chunk(self, from_offset: int, until_offset: int, size_bytes: int) -> tuple[memoryview, int]:
        """Return stored messages from an offset on, and the offset to go on from.

        Args:
            from_offset: The first one wanted; committed in this segment.
            until_offset: One past the last one wanted; at most end_offset.
            size_bytes: About how much to read; one message comes whatever its size.
        """
        index = self._opened()
        if index.last is None or from_offset >= index.last.end_offset:
            raise self._missing(from_offset, until_offset)
        number = self._entry_number(index, from_offset)
        entry = index.entry(number)
        start = self._position_in(entry, from_offset)
        # A quarter more is taken where that ends with a send: to cut one is dearer than to read a little more.
        last = index.find_last_within(number, until_offset, start + size_bytes + size_bytes // 4)
        self._near = max(number, last)
        if last >= number:
            end = index.entry(last)
            return self._read(start, end.end_position - start), end.end_offset
        return self._read_part(entry, start, from_offset, until_offset, size_bytes)

    def position_of(self, offset: int) -> int:
        """Return the byte position of a message.

        Args:
            offset: Committed in this segment.
        """
        index = self._opened()
        return self._position_in(index.entry(self._entry_number(index, offset)), offset)

    def _read_part(
        self, entry: IndexEntry, start: int, from_offset: int, until_offset: int, size_bytes: int
    ) -> tuple[memoryview, int]:
        """Read the messages of a part of a send."""
        rest = entry.end_position - start
        wanted = min(until_offset, entry.end_offset) - from_offset
        guess = entry.size_bytes // entry.messages_count * wanted
        span = min(rest, size_bytes, guess + guess // 4 + 512)
        while True:
            chunk = self._read(start, span)
            end, count = _take_whole(chunk, wanted, size_bytes)
            if count:
                break
            if span == rest:
                raise self._damaged(start)
            span = min(rest, max(span * 2, 4096))
        self._remember(from_offset + count, start + end)
        return chunk[:end], from_offset + count

    def find_timestamp(self, timestamp_us: int) -> int:
        """Return the first offset of this time or later, end_offset where there is none.

        Args:
            timestamp_us: Microseconds since 1970 UTC.
        """
        index = self._opened()
        number = index.find_timestamp(timestamp_us)
        return index.entry(number).first_offset if number < index.count else self.end_offset

    def _entry_number(self, index: IndexReader, offset: int) -> int:
        """Return the number of the entry that holds an offset; it is mostly where the last read was, or next to it."""
        for number in (self._near, self._near + 1):
            if number < index.count:
                entry = index.entry(number)
                if entry.first_offset <= offset < entry.end_offset:
                    return number
        return index.find_offset(offset)

    def _position_in(self, entry: IndexEntry, offset: int) -> int:
        """Return the byte position of an offset within a send."""
        if offset == entry.first_offset:
            return entry.byte_position
        position = self._places.get(offset)
        if position is not None:
            return position
        position, at = entry.byte_position, entry.first_offset
        while at < offset:
            chunk, reached = self._search(entry, position, offset - at)
            position, at = position + len(chunk), at + reached
        self._remember(offset, position)
        return position

    def _search(self, entry: IndexEntry, position: int, count: int) -> tuple[memoryview, int]:
        """Return up to so many messages of a send from a byte position on, and how many they are."""
        rest = entry.end_position - position
        span = min(rest, _SEARCH_BYTES)
        while True:
            chunk = self._read(position, span)
            end, taken = _take_whole(chunk, count, span)
            if taken:
                return chunk[:end], taken
            if span == rest:
                raise self._damaged(position)
            span = min(rest, span * 2)

    def _remember(self, offset: int, position: int) -> None:
        self._places[offset] = position
        if len(self._places) > _MAX_PLACES:
            del self._places[next(iter(self._places))]

    def _read(self, position: int, size_bytes: int) -> memoryview:
        if self._data is None:
            self._data = self._open_data()
        buffer = self.buffers.take(size_bytes)
        got = self._data.read_into(buffer, position)
        if got < size_bytes:
            raise CorruptLogError(
                f"a segment ends at byte {position + got}, but its index knows {size_bytes - got} bytes more",
                where=segment_path(self._directory, self.base_offset, LOG_SUFFIX),
                advice="The file was cut after it was written: restore it, or open the log for writing to drop what is lost",
            )
        return buffer.toreadonly()

    def _open_data(self) -> ReadFile:
        path = segment_path(self._directory, self.base_offset, LOG_SUFFIX)
        file = self._files.open_read(path)
        if file is not None:
            return file
        is_dropped = self._files.exists(segment_path(self._directory, self.base_offset, DROPPED_SUFFIX))  # before the index
        if not is_dropped and self._files.exists(segment_path(self._directory, self.base_offset, INDEX_SUFFIX)):
            raise CorruptLogError(
                f"the messages of offsets {self.base_offset} to {self.end_offset - 1} are missing, their index is there",
                where=path,
                advice="Restore the file from a copy; all other segments can be read",
            )
        return self._open(path)

    def _missing(self, from_offset: int, until_offset: int) -> CorruptLogError:
        return CorruptLogError(
            f"offsets {from_offset} to {until_offset - 1} are missing: no index holds them, and later ones are there",
            where=f"{self._directory}, behind segment {self.base_offset}",
            advice="Run headstream verify; restore what it names from a copy, or go on from behind them",
        )

    def _damaged(self, position: int) -> CorruptLogError:
        return CorruptLogError(
            f"there is no whole message at byte {position}",
            where=segment_path(self._directory, self.base_offset, LOG_SUFFIX),
            advice="The file was altered after it was written: restore it from a copy",
        )


def _take_whole(chunk: memoryview, count: int, size_bytes: int) -> tuple[int, int]:
    """Return the end of at most so many messages and bytes, and how many messages; the last one there may be cut short."""
    try:
        return take(chunk, 0, count, size_bytes)
    except DecodeError:
        end = scan(chunk).end
        return take(chunk[:end], 0, count, size_bytes)
