"""Reads one segment: maps offsets to byte ranges, and reads the bytes.

A chunk ends at the end of a send if possible, which the index alone determines. Messages are counted only if a range starts or
ends within a send, or if a send is larger than the requested chunk. Compaction replaces a closed segment's index with an index
that names a different .log. Open files stay readable.
"""

from __future__ import annotations

from headstream.core.codec.batch.stored.scan import take_complete
from headstream.errors import CorruptLogError, CorruptSendError, OffsetOutOfRangeError
from headstream.log.segments.checking import SendChecks, corrupt_offsets, describe_offsets, missing_offsets, no_message
from headstream.log.segments.files import BufferPool, ReadFile, ReadFiles
from headstream.log.segments.index import IndexReader, read_generation
from headstream.log.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, IndexEntry, log_suffix, segment_path
from headstream.log.segments.segment_end import MissingIndex, find_verified_end
from headstream.log.segments.send_positions import SendPositions


class _ReplacedError(Exception):
    """The segment has been compacted since its index was read."""


class Segment:
    """The committed part of one segment. `unindexed`: the generation of the .log if the index is missing, else None."""

    __slots__ = (
        "_checks",
        "_data",
        "_directory",
        "_files",
        "_generation",
        "_index",
        "_near",
        "_send_positions",
        "_unindexed",
        "base_offset",
        "buffers",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        files: ReadFiles,
        buffers: BufferPool,
        verify: bool = True,
        unindexed: int | None = None,
    ) -> None:
        self._checks = SendChecks(segment_path(directory, base_offset, LOG_SUFFIX), base_offset) if verify else None
        self.base_offset = base_offset
        self.buffers = buffers
        self._directory = directory
        self._files = files
        self._data: ReadFile | None = None
        self._index: IndexReader | None = None
        self._near = 0
        self._generation = 0
        self._send_positions = SendPositions(self._read, self._damaged)
        self._unindexed = unindexed

    @property
    def is_open(self) -> bool:
        """Whether the segment's files are open."""
        return self._index is not None

    @property
    def end_offset(self) -> int:
        """End of the committed offsets, exclusive, as of the last refresh."""
        last = self._opened().last
        return self.base_offset if last is None else last.end_offset

    @property
    def size_bytes(self) -> int:
        """Number of committed bytes, as of the last refresh."""
        last = self._opened().last
        return 0 if last is None else last.end_position

    @property
    def is_compacted(self) -> bool:
        """Whether offsets can be missing in the segment and after it."""
        return self._opened().is_compacted

    @property
    def data_path(self) -> str:
        """The path of the segment's .log."""
        return segment_path(self._directory, self.base_offset, log_suffix(self._opened().generation))

    def messages_count(self, until_offset: int) -> int:
        """Return the number of messages before the next segment's first offset, as of the last refresh."""
        return self.index.messages_count(until_offset) if self.is_compacted else self.end_offset - self.base_offset

    def find_last(self, count: int, until_offset: int) -> tuple[int, int]:
        """Return the first offset of the last `count` messages before an offset, and their number."""
        if self.is_compacted:
            return self.index.find_last(count, until_offset)
        found = min(count, self.end_offset - self.base_offset)
        return self.end_offset - found, found

    @property
    def first_timestamp_us(self) -> int | None:
        """The time of the first message; None if the segment is empty."""
        index = self._opened()
        return index.entry(0).timestamp_us if index.count else None

    @property
    def last_timestamp_us(self) -> int | None:
        """The time of the last message; None if the segment is empty."""
        return None if (last := self._opened().last) is None else last.timestamp_us

    @property
    def index(self) -> IndexReader:
        """The segment's index, as of the last refresh."""
        return self._opened()

    def refresh(self) -> None:
        """Read the appends since the last refresh."""
        if self._index is not None:
            self._index.refresh()

    def close(self) -> None:
        """Close the segment's files; the next use opens the files again."""
        if self._index is not None:
            self._index.close()
            self._index = None
        if self._data is not None:
            self._data.close()
            self._data = None

    def _opened(self) -> IndexReader:
        if self._index is None:
            path = segment_path(self._directory, self.base_offset, INDEX_SUFFIX)
            self._index = IndexReader(self._open_index(path), path, self.base_offset)
            if self._index.generation != self._generation:
                self._generation = self._index.generation
                self._near = 0
                self._send_positions.forget()
                if self._checks is not None:
                    self._checks = SendChecks(self.data_path, self.base_offset)
        return self._index

    def _open_index(self, path: str) -> ReadFile:
        """Return the index file; if it is missing, an empty index, so that reads raise an error with the affected offsets."""
        if self._unindexed is None:
            return self._open(path)
        file = self._files.open_read(path)
        if file is not None:
            return file
        self._open(segment_path(self._directory, self.base_offset, log_suffix(self._unindexed))).close()
        return MissingIndex()

    def _open(self, path: str) -> ReadFile:
        file = self._files.open_read(path)
        if file is None:
            raise OffsetOutOfRangeError(
                "a segment is missing: the topic or the messages were deleted during the read",
                where=path,
                advice="Continue at the first existing offset",
            )
        return file

    # -- reading ------------------------------------------------------------------------------------------

    def read_chunk(
        self, from_offset: int, until_offset: int, size_bytes: int, next_base: int | None = None
    ) -> tuple[memoryview, int]:
        """Return stored messages from an offset on, and the offset at which to continue.

        If compaction has removed the entire range, returns no bytes and the next existing offset, or until_offset.

        Args:
            next_base: First offset of the next segment, or None if this is the newest.
        """
        while True:
            try:
                if self._opened().is_compacted:
                    return self._read_compacted(from_offset, until_offset, size_bytes, next_base)
                return self._read_chunk(from_offset, until_offset, size_bytes)
            except _ReplacedError:
                self.close()

    def _read_compacted(
        self, from_offset: int, until_offset: int, size_bytes: int, next_base: int | None
    ) -> tuple[memoryview, int]:
        """Skip to the next existing offset and read from it."""
        index = self._opened()
        number = self._next_number(index, from_offset)
        if number == index.count:
            self._check_end(from_offset, until_offset, next_base)
            return memoryview(b""), until_offset
        first = max(index.entry(number).first_offset, from_offset)
        if first >= until_offset:
            return memoryview(b""), first
        return self._read_chunk(first, until_offset, size_bytes)

    def _data_bytes(self) -> int:
        """Return the size of the .log; -1 if the file is missing."""
        try:
            return self._opened_data().size_bytes()
        except CorruptSendError:
            return -1

    def _check_end(self, from_offset: int, until_offset: int, next_base: int | None) -> None:
        """Raise CorruptSendError if messages before an offset may be missing: a truncated index or missing segments."""
        index = self._opened()
        proven, what = find_verified_end(index, self._data_bytes, next_base)
        if what and proven < until_offset:
            begin = max(proven, from_offset)
            end = until_offset if next_base is None else next_base
            raise corrupt_offsets(f"{describe_offsets(begin, end)} cannot be read: {what}", index.path, begin, end)

    def _read_chunk(self, from_offset: int, until_offset: int, size_bytes: int) -> tuple[memoryview, int]:
        index = self._opened()
        if index.last is None or from_offset >= index.last.end_offset:
            raise missing_offsets(self._directory, self.base_offset, from_offset, until_offset)
        number = self._entry_number(index, from_offset)
        entry = index.entry(number)
        if self._checks is not None and from_offset > entry.first_offset:
            self._checks.check(entry, self._read_available)
        start = self._send_positions.find(entry, from_offset)
        # Read up to a quarter more to end with a send, because splitting a send costs more.
        last = index.find_last_within(number, until_offset, start + size_bytes + size_bytes // 4)
        self._near = max(number, last)
        if last >= number and self._checks is not None:
            return self._read_checked(self._checks, index, number, last, start)
        if last >= number:
            end = index.entry(last)
            return self._read(start, end.end_position - start), end.end_offset
        if self._checks is not None:
            self._checks.check(entry, self._read_available)
        return self._read_part(entry, start, from_offset, until_offset, size_bytes)

    def _read_checked(self, checks: SendChecks, index: IndexReader, number: int, last: int, start: int) -> tuple[memoryview, int]:
        """Read sends up to the first damaged send; the first send's bytes before `start` have already been checked."""
        first, end = index.entry(number), index.entry(last)
        is_begun = start > first.byte_position
        checked = first.end_position - start if is_begun else 0
        number += is_begun
        count = last + 1 - number
        chunk = self.buffers.take(end.end_position - start)
        got, whole = checks.read_whole(self._opened_data(), start, chunk, checked, index.rows(number, count))
        if whole == count:
            return chunk.toreadonly(), end.end_offset
        if whole == 0 and not is_begun:
            raise checks.corrupt(first, start + got)
        self._near = number + whole - 1
        end = index.entry(self._near)
        return chunk[: end.end_position - start].toreadonly(), end.end_offset

    def _next_number(self, index: IndexReader, offset: int) -> int:
        """Return the number of the entry that contains an offset, or of the next entry if compaction removed the offset."""
        if index.is_compacted:
            return index.find_offset_from(offset)
        if index.last is None or offset >= index.last.end_offset:
            raise missing_offsets(self._directory, self.base_offset, offset, offset + 1)
        return self._entry_number(index, offset)

    def check(self, offset: int, next_base: int | None = None) -> None:
        """Raise CorruptLogError if an offset's send cannot be read; `next_base` is None for the newest segment."""
        index = self._opened()
        number = self._next_number(index, offset)
        if number < index.count:
            SendChecks(self.data_path, self.base_offset).check(index.entry(number), self._read_available)
        else:
            self._check_end(offset, offset + 1, next_base)

    def position_of(self, offset: int) -> int:
        """Return the byte position of a committed message; OffsetOutOfRangeError if the message was removed."""
        while True:
            index = self._opened()
            number = self._next_number(index, offset)
            if number == index.count or index.entry(number).first_offset > offset:
                raise OffsetOutOfRangeError(
                    f"the message at offset {offset} no longer exists: the message was removed by deletion or compaction",
                    where=self._directory,
                    advice="Use existing offsets",
                )
            try:
                return self._send_positions.find(index.entry(number), offset)
            except _ReplacedError:
                self.close()

    def _read_part(
        self, entry: IndexEntry, start: int, from_offset: int, until_offset: int, size_bytes: int
    ) -> tuple[memoryview, int]:
        rest = entry.end_position - start
        wanted = min(until_offset, entry.end_offset) - from_offset
        guess = entry.size_bytes // entry.messages_count * wanted
        span = min(rest, size_bytes, guess + guess // 4 + 512)
        while True:
            chunk = self._read(start, span)
            end, count = take_complete(chunk, wanted, size_bytes)
            if count:
                break
            if span == rest:
                raise self._damaged(start)
            span = min(rest, max(span * 2, 4096))
        self._send_positions.remember(from_offset + count, start + end)
        return chunk[:end], from_offset + count

    def find_timestamp(self, timestamp_us: int) -> int:
        """Return the offset of the first message at or after a time; end_offset if there is none."""
        index = self._opened()
        number = index.find_timestamp(timestamp_us)
        return index.entry(number).first_offset if number < index.count else self.end_offset

    def _entry_number(self, index: IndexReader, offset: int) -> int:
        """Return the number of the entry that contains an offset, which is usually the last read entry or the next entry."""
        for number in (self._near, self._near + 1):
            if number < index.count:
                entry = index.find_entry(number)
                if entry is not None and entry.first_offset <= offset < entry.end_offset:
                    return number
        return index.find_offset(offset)

    def _read(self, position: int, size_bytes: int) -> memoryview:
        chunk = self._read_available(position, size_bytes)
        if len(chunk) < size_bytes:
            end = position + len(chunk)
            raise CorruptLogError(
                f"a segment ends at byte {end}, but the index lists {size_bytes - len(chunk)} more bytes",
                where=self.data_path,
                advice="The file was truncated: restore it from a copy, or open the log for writing to drop the missing messages",
            )
        return chunk.toreadonly()

    def _read_available(self, position: int, size_bytes: int) -> memoryview:
        buffer = self.buffers.take(size_bytes)
        got = self._opened_data().read_into(buffer, position)
        return buffer[:got]

    def _opened_data(self) -> ReadFile:
        if self._data is None:
            self._data = self._open_data()
        return self._data

    def _open_data(self) -> ReadFile:
        path = self.data_path
        file = self._files.open_read(path)
        if file is not None:
            return file
        is_dropped = self._files.exists(segment_path(self._directory, self.base_offset, DROPPED_SUFFIX))  # before the index
        if not is_dropped and self._files.exists(segment_path(self._directory, self.base_offset, INDEX_SUFFIX)):
            generation = read_generation(self._files, segment_path(self._directory, self.base_offset, INDEX_SUFFIX))
            if generation not in (None, self._generation):
                raise _ReplacedError
            end = self.end_offset
            raise corrupt_offsets(
                f"the file with the messages of {describe_offsets(self.base_offset, end)} is missing, but the index exists",
                path,
                self.base_offset,
                end,
            )
        return self._open(path)

    def _damaged(self, position: int) -> CorruptLogError:
        return no_message(self.data_path, position)
