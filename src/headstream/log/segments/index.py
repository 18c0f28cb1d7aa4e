"""Reads one segment's index, which maps offsets, byte positions and times to sends.

Entries are read from the file (binary search with pread), so that an index with millions of entries needs no memory; repeated
reads use the page cache. Entries around the last read entry are cached for readers that take one message at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from headstream.errors import CorruptLogError, LogVersionError
from headstream.log.segments.checking import corrupt_offsets, describe_offsets
from headstream.log.segments.files import ReadFile, ReadFiles
from headstream.log.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_VERSION,
    UNSEALED_VERSION,
    IndexEntry,
    Seal,
    decode_entry,
    decode_header,
    decode_seal,
    peek_entry,
    sum_counts,
)

_ENTRIES_AT_ONCE: Final = 2048
_ENTRIES_KEPT: Final = 64
"""Number of entries read at once and cached."""


class IndexReader:
    """The committed entries of an index file."""

    __slots__ = (
        "_block", "_buffer", "_decoded", "_file", "base_offset", "count", "generation", "is_by_key", "is_compacted", "last",
        "needs_seal", "path", "seal",
    )  # fmt: skip
    count: int
    generation: int
    is_by_key: bool
    is_compacted: bool
    last: IndexEntry | None

    def __init__(self, file: ReadFile, path: str, base_offset: int) -> None:
        self._file = file
        self.path = path
        self.base_offset = base_offset
        self._buffer = memoryview(bytearray(INDEX_ENTRY_BYTES))
        self._block = 0, memoryview(b"")  # number of the first entry; the entries that were committed when the block was read
        self._decoded: dict[int, IndexEntry] = {}
        self.count = 0
        self.last = None
        self.generation = 0
        self.is_by_key = False
        self.is_compacted = False
        self.needs_seal = False
        self.seal: Seal | None = None
        self._check_header()
        self.refresh()

    def _check_header(self) -> None:
        got = self._file.read_into(self._buffer, 0)
        if got < INDEX_HEADER_BYTES:
            return  # the writer is creating the index, which has no entries yet
        header = decode_header(self._buffer)
        if header is None or header.base_offset != self.base_offset:
            raise CorruptLogError(
                "the header of an index file is damaged",
                where=self.path,
                advice="Move the file out of the log: the next writer that opens the log rebuilds the index from the .log file",
            )
        if header.version > INDEX_VERSION or header.entry_size != INDEX_ENTRY_BYTES:
            raise LogVersionError(
                f"unsupported index version {header.version} with entries of {header.entry_size} bytes",
                where=self.path,
                advice="Use the Headstream version that wrote the index, or a newer version",
            )
        self.generation, self.is_compacted = header.generation, header.is_compacted
        self.is_by_key = header.is_by_key
        self.needs_seal = header.version > UNSEALED_VERSION

    def refresh(self) -> None:
        """Read the writer's commits since the last refresh, up to the last complete, valid entry."""
        there = max(0, (self._file.size_bytes() - INDEX_HEADER_BYTES) // INDEX_ENTRY_BYTES)
        # Only the newest entry can be partly written; bytes after the last valid entry are ignored.
        for number in range(there - 1, self.count - 1, -1):
            entry = self._read(number)
            if entry is not None:
                self.count, self.last = number + 1, entry
                return
            if self.seal is None:
                self.seal = decode_seal(self._buffer, self.base_offset)

    def _read(self, number: int) -> IndexEntry | None:
        got = self._file.read_into(self._buffer, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
        return decode_entry(self._buffer, self.base_offset) if got == INDEX_ENTRY_BYTES else None

    def entry(self, number: int) -> IndexEntry:
        """Return entry `number`, 0 to count - 1."""
        entry = self.find_entry(number)
        if entry is None:
            raise self._damaged(number)
        return entry

    def find_entry(self, number: int) -> IndexEntry | None:
        """Return entry `number`, 0 to count - 1, or None if it is damaged."""
        if self.last is not None and number == self.count - 1:
            return self.last
        entry = self._decoded.get(number)
        if entry is None:
            first, block = self._block
            at = (number - first) * INDEX_ENTRY_BYTES
            if not 0 <= at < len(block):
                at, block = 0, self.rows(number, min(_ENTRIES_KEPT, self.count - number))
                self._block = number, block
            entry = decode_entry(block[at : at + INDEX_ENTRY_BYTES], self.base_offset) if at < len(block) else None
            if entry is not None:
                if len(self._decoded) == _ENTRIES_KEPT:
                    self._decoded.clear()
                self._decoded[number] = entry
        return entry

    def _damaged(self, number: int) -> CorruptLogError:
        return CorruptLogError(
            f"entry {number} of an index file is damaged",
            where=f"{self.path}, byte {INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES}",
            advice="Move the file out of the log: the next writer that opens the log rebuilds the index from the .log file",
        )

    def rows(self, number: int, count: int) -> memoryview:
        """Return the bytes of `count` entries, starting at entry `number`, unchecked."""
        rows = memoryview(bytearray(count * INDEX_ENTRY_BYTES))
        return rows[: self._file.read_into(rows, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)]

    def find_offset(self, offset: int) -> int:
        """Return the number of the entry that contains an offset."""
        number = max(0, bisect_right(range(self.count), offset, key=lambda number: self._peek(number)[0]) - 1)
        entry = self._read(number)
        if entry is not None and entry.first_offset <= offset < entry.end_offset:
            return number
        return self._find_among_damaged(offset)

    def _find_among_damaged(self, offset: int) -> int:
        """Return the result of find_offset() with a linear scan, because damaged entries mislead a binary search."""
        from_offset, until_offset, damaged = self.base_offset, offset + 1, 0
        for number in range(self.count):
            entry = self._read(number)
            if entry is None:
                damaged = number
            elif entry.end_offset <= offset:
                from_offset = entry.end_offset
            elif entry.first_offset <= offset:
                return number
            else:
                until_offset = entry.first_offset
                break
        raise corrupt_offsets(
            f"{describe_offsets(from_offset, until_offset)} cannot be found: entry {damaged} of an index file is damaged",
            f"{self.path}, byte {INDEX_HEADER_BYTES + damaged * INDEX_ENTRY_BYTES}",
            from_offset,
            until_offset,
        )

    def find_offset_from(self, offset: int) -> int:
        """Return the number of the first entry that contains an offset or later offsets; `count` if there is none."""
        number = bisect_right(range(self.count), offset, key=lambda number: self._peek(number)[0])
        before = self.find_entry(number - 1) if number else None
        if (number and before is None) or (number < self.count and self.find_entry(number) is None):
            return self._find_from_among_damaged(offset)
        return number - 1 if before is not None and before.end_offset > offset else number

    def _find_from_among_damaged(self, offset: int) -> int:
        """Return the result of find_offset_from() with a linear scan, because damaged entries mislead a binary search."""
        from_offset, damaged = offset, -1
        for number in range(self.count):
            entry = self._read(number)
            if entry is None:
                damaged = number
            elif entry.end_offset <= offset:
                damaged = -1
            elif entry.first_offset <= offset or damaged < 0:
                return number
            else:
                raise corrupt_offsets(
                    f"{describe_offsets(from_offset, entry.first_offset)} cannot be found: index entry {damaged} is damaged",
                    f"{self.path}, byte {INDEX_HEADER_BYTES + damaged * INDEX_ENTRY_BYTES}",
                    from_offset,
                    entry.first_offset,
                )
        return self.count

    def size_before(self, offset: int) -> int:
        """Return the approximate number of bytes before an offset, from the index; a partial send counts in proportion."""
        if self.last is None or offset <= self.base_offset:
            return 0
        if offset >= self.last.end_offset:
            return self.last.end_position
        entry = self.entry(self.find_offset_from(offset) if self.is_compacted else self.find_offset(offset))
        return entry.byte_position + entry.size_bytes * max(0, offset - entry.first_offset) // entry.messages_count

    def offset_after(self, from_offset: int, size_bytes: int) -> int:
        """Return the end offset of the sends that fit into `size_bytes` after an offset; at least one send is included."""
        number = self.find_offset_from(from_offset) if self.is_compacted else self.find_offset(from_offset)
        until_offset = self.base_offset if self.last is None else self.last.end_offset
        last = self.find_last_within(number, until_offset, self.size_before(from_offset) + size_bytes)
        return self.entry(max(number, last)).end_offset

    def messages_count(self, until_offset: int) -> int:
        """Return the number of messages before an offset at which an entry ends; reads the entries."""
        count, entries_count = 0, self.find_offset_from(until_offset)
        rows = memoryview(bytearray(_ENTRIES_AT_ONCE * INDEX_ENTRY_BYTES))
        for number in range(0, entries_count, _ENTRIES_AT_ONCE):
            piece = rows[: min(_ENTRIES_AT_ONCE, entries_count - number) * INDEX_ENTRY_BYTES]
            self._file.read_into(piece, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
            count += sum_counts(piece)
        return count

    def find_last(self, count: int, until_offset: int) -> tuple[int, int]:
        """Return the first offset and the number of the last messages, at most `count`, before the end of an entry."""
        found = 0
        for number in range(self.find_offset_from(until_offset) - 1, -1, -1):
            entry = self.entry(number)
            if found + entry.messages_count >= count:
                return entry.end_offset - (count - found), count
            found += entry.messages_count
        return self.base_offset, found

    def find_timestamp(self, timestamp_us: int) -> int:
        """Return the number of the first entry at or after a time; `count` if there is none."""
        return bisect_left(range(self.count), timestamp_us, key=lambda number: self._peek(number)[1])

    def find_last_within(self, start: int, until_offset: int, until_position: int) -> int:
        """Return the number of the last entry from `start` on that ends at or before both limits; start - 1 if there is none."""

        def is_beyond(number: int) -> bool:
            entry = self.find_entry(number)
            return entry is None or entry.end_offset > until_offset or entry.end_position > until_position

        first = self.find_entry(start) if start < self.count else None
        if first is not None and first.end_offset >= until_offset:  # only this send, or a part of it, is requested
            return start - is_beyond(start)
        # The end is usually near: double the step, then search in between.
        low, step = start, 1
        while low < self.count and not is_beyond(min(low + step, self.count) - 1):
            low, step = min(low + step, self.count), step * 2
        return bisect_left(range(min(low + step, self.count)), True, lo=low, key=is_beyond) - 1

    def _peek(self, number: int) -> tuple[int, int]:
        self._file.read_into(self._buffer, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
        return peek_entry(self._buffer, self.base_offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_generation(files: ReadFiles, path: str) -> int | None:
    """Return the .log generation that an index names; None if the index is missing or incomplete."""
    file = files.open_read(path)
    if file is None:
        return None
    try:
        head = memoryview(bytearray(INDEX_HEADER_BYTES))
        header = decode_header(head[: file.read_into(head, 0)])
        return None if header is None else header.generation
    finally:
        file.close()
