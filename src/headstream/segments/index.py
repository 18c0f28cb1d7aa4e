"""One segment's index, read: which bytes each send takes, found by offset, byte position or time.

Entries are read one by one where they lie (a binary search over pread): an index of millions of entries costs
no memory, and what is asked of it again lies in the page cache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from headstream.errors import CorruptLogError, LogVersionError
from headstream.segments.files import ReadFile
from headstream.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_VERSION,
    IndexEntry,
    decode_entry,
    decode_header,
    peek_entry,
)

__all__ = ["IndexReader"]


class IndexReader:
    """The committed entries of an index file.

    Args:
        file: The index file.
        path: Its path, for errors.
        base_offset: The first offset of its segment.

    Raises:
        CorruptLogError: the file's head is not that of this segment's index.
        LogVersionError: a newer Headstream wrote it.
    """

    __slots__ = ("_base_offset", "_buffer", "_file", "_path", "count", "last")
    count: int
    last: IndexEntry | None

    def __init__(self, file: ReadFile, path: str, base_offset: int) -> None:
        self._file = file
        self._path = path
        self._base_offset = base_offset
        self._buffer = memoryview(bytearray(INDEX_ENTRY_BYTES))
        self.count = 0
        self.last = None
        self._check_header()
        self.refresh()

    def _check_header(self) -> None:
        got = self._file.read_into(self._buffer, 0)
        if got < INDEX_HEADER_BYTES:
            return  # the writer is just making it: there are no entries either
        header = decode_header(self._buffer)
        if header is None or header.base_offset != self._base_offset:
            raise CorruptLogError(
                "the head of an index file is damaged",
                where=self._path,
                advice="Move the file away: the next writer that opens the log builds it again from the .log beside it",
            )
        if header.version > INDEX_VERSION or header.entry_size != INDEX_ENTRY_BYTES:
            raise LogVersionError(
                f"an index of version {header.version} with entries of {header.entry_size} bytes",
                where=self._path,
                advice="Read it with the Headstream that wrote it, or a newer one",
            )

    def refresh(self) -> None:
        """Take in what the writer has committed since: the last whole, valid entry is the end."""
        there = max(0, (self._file.size_bytes() - INDEX_HEADER_BYTES) // INDEX_ENTRY_BYTES)
        # Only the newest entry can be half written; what else is behind the last valid one is no reader's business.
        for number in range(there - 1, self.count - 1, -1):
            entry = self._read(number)
            if entry is not None:
                self.count, self.last = number + 1, entry
                return

    def _read(self, number: int) -> IndexEntry | None:
        got = self._file.read_into(self._buffer, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
        return decode_entry(self._buffer, self._base_offset) if got == INDEX_ENTRY_BYTES else None

    def entry(self, number: int) -> IndexEntry:
        """Return the entry of a number from 0 to count - 1.

        Raises:
            CorruptLogError: it is damaged.
        """
        if self.last is not None and number == self.count - 1:
            return self.last
        entry = self._read(number)
        if entry is None:
            raise self._damaged(number)
        return entry

    def _damaged(self, number: int) -> CorruptLogError:
        return CorruptLogError(
            f"entry {number} of an index file is damaged",
            where=f"{self._path}, byte {INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES}",
            advice="Move the file away: the next writer that opens the log builds it again from the .log beside it",
        )

    def find_offset(self, offset: int) -> int:
        """Return the number of the entry that holds an offset.

        Args:
            offset: At least the first entry's first offset, and before the last one's end.

        Raises:
            CorruptLogError: a damaged entry is in the way.
        """
        number = max(0, bisect_right(range(self.count), offset, key=lambda number: self._peek(number)[0]) - 1)
        entry = self.entry(number)
        if not entry.first_offset <= offset < entry.end_offset:
            raise self._damaged(self._find_damaged())
        return number

    def find_timestamp(self, timestamp_us: int) -> int:
        """Return the number of the first entry of this time or later, `count` where there is none."""
        return bisect_left(range(self.count), timestamp_us, key=lambda number: self._peek(number)[1])

    def find_last_within(self, start: int, until_offset: int, until_position: int) -> int:
        """Return the number of the last entry, from `start` on, that ends at or before both; start - 1 where none does.

        Args:
            start: The number of the entry to begin with.
            until_offset: One past the last offset wanted.
            until_position: One past the last byte wanted.
        """

        def is_beyond(number: int) -> bool:
            entry = self.entry(number)
            return entry.end_offset > until_offset or entry.end_position > until_position

        # The end is mostly near: look twice as far each time, and then in between.
        low, step = start, 1
        while low < self.count and not is_beyond(min(low + step, self.count) - 1):
            low, step = min(low + step, self.count), step * 2
        return bisect_left(range(min(low + step, self.count)), True, lo=low, key=is_beyond) - 1

    def _peek(self, number: int) -> tuple[int, int]:
        self._file.read_into(self._buffer, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
        return peek_entry(self._buffer, self._base_offset)

    def _find_damaged(self) -> int:
        """Return the number of the first damaged entry; a search that went astray met one."""
        return next((number for number in range(self.count) if self._read(number) is None), 0)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
