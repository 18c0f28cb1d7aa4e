"""Checks the files of one segment against each other; findings name the damaged send.

A compiled kernel skips undamaged sends; all other sends are checked individually.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from headstream.core.codec.batch import layout
from headstream.core.codec.batch.stored.scan import find_states, find_timestamp, scan
from headstream.core.codec.batch.stored.sends import check_sends
from headstream.core.model.message import MessageState
from headstream.log.segments.files import BufferPool, ReadFile, ReadFiles
from headstream.log.segments.index import read_generation
from headstream.log.segments.layout import (
    DROPPED_SUFFIX,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    INDEX_VERSION,
    UNSEALED_VERSION,
    IndexEntry,
    Seal,
    base_offsets,
    decode_entry,
    decode_header,
    decode_seal,
    log_suffix,
    segment_path,
)
from headstream.log.system.findings import FindingKind, LogFinding

# A segment's end, checked: its index against its seal, and the seal against the next segment.

REBUILD: Final = "Run headstream verify --repair, which rebuilds the index if the messages prove every entry"
MERGED: Final = "the next segment has been merged into this segment, but has not been removed yet"
_RESTORE_SEGMENTS: Final = "Restore the missing segments' files from a copy; all other messages are readable"
_RESTORE_NEWEST: Final = (
    "Restore the files from a copy; otherwise headstream verify --repair creates a segment after all committed offsets"
)


def verify_seal(
    directory: str, path: str, seal: Seal | None, end: tuple[int, int], next_base: int | None, files: ReadFiles
) -> Iterator[LogFinding]:
    """Yield the faults at a segment's end (offset and byte position), compared with the seal, if any."""
    if seal is None or seal.end_position != end[1]:
        until = next_base if seal is None else seal.until_offset
        what = f"the index ends at offset {end[0]}, byte {end[1]}: the last entries are missing or damaged"
        yield LogFinding(FindingKind.INDEX_SHORT, path, what, REBUILD, from_offset=end[0], until_offset=until)
    if seal is None:
        return
    begin = seal.until_offset
    if next_base is None:
        # A segment may have been started after the names were listed, and merged into another segment since.
        if not any(base >= begin for base in base_offsets(files.list_names(directory) or [])):
            what = f"the two files of the newest segment, from offset {begin}, are missing"
            yield LogFinding(FindingKind.GAP, path, what, _RESTORE_NEWEST, from_offset=begin)
    elif begin < next_base:
        what = f"the next segment must begin at offset {begin}, but the next segment on the disk begins at {next_base}"
        yield LogFinding(FindingKind.GAP, path, what, _RESTORE_SEGMENTS, from_offset=begin, until_offset=next_base)
    elif begin > next_base:
        yield LogFinding(
            FindingKind.TAIL, path, MERGED, "No action is required: the next writer removes the merged segment", is_damage=False
        )


_ENTRIES_AT_ONCE: Final = 2048
_BYTES_AT_ONCE: Final = 4 << 20
_POSITION_AND_SIZE: Final = struct.Struct("<II")
_TAIL_BYTES: Final = 80 << 20
"""More than the size of the largest stored send, bytes."""
_STATES: Final = frozenset(state.value for state in MessageState)
_LENGTH: Final = struct.Struct("<I")


_RESTORE: Final = "Restore the segment's two files from a copy; all other messages are readable"
_CUT_OFF: Final = "No action is required: the next writer removes these bytes, which were never acknowledged"


class SegmentCheck:
    """The check of one segment; `generation` is taken from the index, None if the index is unreadable."""

    def __init__(
        self,
        directory: str,
        base: int,
        generation: int,
        next_base: int | None,
        files: ReadFiles,
        buffers: BufferPool,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._base = base
        self._next_base = next_base
        self._files = files
        self._buffers = buffers
        self._on_bytes = on_bytes
        self.generation = read_generation(files, segment_path(directory, base, INDEX_SUFFIX))
        self._is_compacted = False
        self._needs_seal = False
        self._seal: Seal | None = None
        self._data_path = segment_path(directory, base, log_suffix(generation if self.generation is None else self.generation))
        self._dropped_path = segment_path(directory, base, DROPPED_SUFFIX)
        self._index_path = segment_path(directory, base, INDEX_SUFFIX)
        self._position = 0
        self._offset = base
        self._timestamp_us = 0

    def run(self) -> Iterator[LogFinding]:
        """Yield the segment's faults."""
        data = self._files.open_read(self._data_path)
        data_bytes = 0 if data is None else data.size_bytes()  # before the index: see above
        index = self._files.open_read(self._index_path)
        try:
            if data is None or index is None:
                yield from self._check_incomplete(data_bytes, index)
            else:
                yield from self._check_complete(data, data_bytes, index)
        finally:
            for file in (data, index):
                if file is not None:
                    file.close()

    def _check_incomplete(self, data_bytes: int, index: ReadFile | None) -> Iterator[LogFinding]:
        """Yield the finding for a missing file; if both files are missing, the segment was deleted meanwhile."""
        if self._files.exists(self._dropped_path) or not self._files.exists(self._index_path if index else self._data_path):
            return  # retention is removing it, or has removed it
        if index is not None and (index.size_bytes() > INDEX_HEADER_BYTES or self._next_base is not None):
            count = (index.size_bytes() - INDEX_HEADER_BYTES) // INDEX_ENTRY_BYTES
            yield self._finding(
                FindingKind.DATA_MISSING,
                self._data_path,
                f"the file with the messages is missing, but the index lists {count} sends",
                "Restore the file from a copy",
                (self._base, self._next_base),
            )
        elif index is None and self._files.exists(self._data_path):
            if data_bytes or self._next_base is not None:
                yield self._finding(
                    FindingKind.INDEX_MISSING,
                    self._index_path,
                    "the index is missing: the segment's messages cannot be read",
                    REBUILD,
                    (self._base, self._next_base),
                )
            else:
                yield self._note_tail(self._data_path, "an incomplete file of a new, empty segment", 0, 0)

    def _check_complete(self, data: ReadFile, data_bytes: int, index: ReadFile) -> Iterator[LogFinding]:
        head = memoryview(bytearray(INDEX_HEADER_BYTES))
        got = index.read_into(head, 0)
        header = decode_header(head) if got == INDEX_HEADER_BYTES else None
        if got < INDEX_HEADER_BYTES and self._next_base is None and data_bytes == 0:
            yield self._note_tail(self._index_path, "an incomplete file of a new, empty segment", 0, got)
            return
        if header is None or header.base_offset != self._base or header.version > INDEX_VERSION:
            newer = header is not None and header.version > INDEX_VERSION
            yield self._finding(
                FindingKind.UNREADABLE if newer else FindingKind.INDEX_HEAD,
                self._index_path,
                "a newer version of Headstream wrote this index" if newer else "the header of the index is damaged",
                "Use the Headstream version that wrote the index" if newer else REBUILD,
                (self._base, self._next_base),
                (0, INDEX_HEADER_BYTES),
            )
            if newer:
                return
        self._is_compacted = header is not None and header.is_compacted
        self._needs_seal = header is not None and header.version > UNSEALED_VERSION
        yield from self._entries(data, data_bytes, index)
        yield from self._end(data, data_bytes)

    # -- the index --------------------------------------------------------------------------------------------

    def _entries(self, data: ReadFile, data_bytes: int, index: ReadFile) -> Iterator[LogFinding]:
        damaged: list[int] = []
        size_bytes = index.size_bytes()
        count = max(0, size_bytes - INDEX_HEADER_BYTES) // INDEX_ENTRY_BYTES
        if count:
            row = memoryview(bytearray(INDEX_ENTRY_BYTES))
            index.read_into(row, INDEX_HEADER_BYTES + (count - 1) * INDEX_ENTRY_BYTES)
            self._seal = decode_seal(row, self._base)
            count -= self._seal is not None
        for start in range(0, count, _ENTRIES_AT_ONCE):
            rows = memoryview(bytearray(min(_ENTRIES_AT_ONCE, count - start) * INDEX_ENTRY_BYTES))
            index.read_into(rows, INDEX_HEADER_BYTES + start * INDEX_ENTRY_BYTES)
            number = start - 1
            while number + 1 < start + len(rows) // INDEX_ENTRY_BYTES:
                number += 1
                at = (number - start) * INDEX_ENTRY_BYTES
                sound = 0 if damaged else self._skip_sound(data, rows[at:])
                if sound:
                    number += sound - 1
                    continue
                entry = decode_entry(rows[at : at + INDEX_ENTRY_BYTES], self._base)
                if entry is None and number == count - 1:
                    entry = self._read_again(index, number)
                if entry is None:
                    damaged.append(number)
                    continue
                yield from self._damaged(damaged, entry)
                if not damaged:
                    yield from self._order(number, entry)
                damaged.clear()
                self._position, self._offset, self._timestamp_us = entry.end_position, entry.end_offset, entry.timestamp_us
                yield from self._send(data, data_bytes, entry)
        if damaged == [count - 1] and self._next_base == self._offset:
            at = INDEX_HEADER_BYTES + damaged.pop() * INDEX_ENTRY_BYTES
            what = "an incomplete seal after the last entry, which is normal after a power failure: no message is affected"
            yield replace(
                self._finding(FindingKind.INDEX_ENTRY, self._index_path, what, REBUILD, span=(at, at + INDEX_ENTRY_BYTES)),
                is_damage=False,
            )
        yield from self._damaged(damaged, None)
        rest = (size_bytes - INDEX_HEADER_BYTES) % INDEX_ENTRY_BYTES if size_bytes > INDEX_HEADER_BYTES else 0
        if rest:
            yield self._note_tail(self._index_path, "an incomplete index entry", size_bytes - rest, size_bytes)

    def _skip_sound(self, data: ReadFile, rows: memoryview) -> int:
        """Return the number of undamaged sends that follow, checked in one pass."""
        first = decode_entry(rows[:INDEX_ENTRY_BYTES], self._base)
        if first is None or (first.byte_position, first.first_offset) != (self._position, self._offset):
            return 0
        if first.timestamp_us < self._timestamp_us:
            return 0
        until = first.byte_position + _BYTES_AT_ONCE
        count = max(1, bisect_right(range(len(rows) // INDEX_ENTRY_BYTES), until, key=lambda number: _row_end(rows, number)))
        size_bytes = _row_end(rows, count - 1) - first.byte_position
        if not 0 < size_bytes <= _TAIL_BYTES:
            return 0  # a damaged row is reported by its own check
        stored = self._buffers.take(size_bytes)
        stored = stored[: data.read_into(stored, first.byte_position)]
        sound = check_sends(stored, rows[: count * INDEX_ENTRY_BYTES], self._base, thorough=True)
        if sound:
            last = decode_entry(rows[(sound - 1) * INDEX_ENTRY_BYTES : sound * INDEX_ENTRY_BYTES], self._base)
            assert last is not None
            self._on_bytes(last.end_position - first.byte_position)
            self._position, self._offset, self._timestamp_us = last.end_position, last.end_offset, last.timestamp_us
        return sound

    def _read_again(self, index: ReadFile, number: int) -> IndexEntry | None:
        """Read the newest entry again, because a writer may have been writing the entry."""
        row = memoryview(bytearray(INDEX_ENTRY_BYTES))
        index.read_into(row, INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
        return decode_entry(row, self._base)

    def _damaged(self, numbers: list[int], following: IndexEntry | None) -> Iterator[LogFinding]:
        for number in numbers:
            at = INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES
            yield self._finding(
                FindingKind.INDEX_ENTRY,
                self._index_path,
                f"index entry {number} is damaged, so its send cannot be read",
                REBUILD,
                (self._offset, self._next_base if following is None else following.first_offset),
                (at, at + INDEX_ENTRY_BYTES),
            )

    def _order(self, number: int, entry: IndexEntry) -> Iterator[LogFinding]:
        at = INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES
        expected = self._position, self._offset
        is_gap = self._is_compacted and entry.byte_position == expected[0] and entry.first_offset > expected[1]
        if (entry.byte_position, entry.first_offset) != expected and not is_gap:
            what = (
                f"index entry {number} begins at byte {entry.byte_position} and offset {entry.first_offset}, "
                f"but the previous entry ends at byte {expected[0]} and offset {expected[1]}"
            )
        elif entry.timestamp_us < self._timestamp_us:
            what = f"index entry {number} has the time {entry.timestamp_us}, but the previous entry has {self._timestamp_us}"
        else:
            return
        yield self._finding(
            FindingKind.INDEX_ORDER,
            self._index_path,
            what,
            REBUILD,
            (entry.first_offset, entry.end_offset),
            (at, at + INDEX_ENTRY_BYTES),
        )

    # -- the messages -----------------------------------------------------------------------------------------

    def _send(self, data: ReadFile, data_bytes: int, entry: IndexEntry) -> Iterator[LogFinding]:
        self._on_bytes(entry.size_bytes)
        what, kind = None, FindingKind.SEND
        stored = self._buffers.take(entry.size_bytes)
        got = data.read_into(stored, entry.byte_position)
        if got < entry.size_bytes:
            kind = FindingKind.DATA_CUT
            what = f"the file ends at byte {max(data_bytes, entry.byte_position + got)}, within or before this send"
        else:
            found = scan(stored)
            if found.fault is not None:
                what = f"a message at byte {entry.byte_position + found.end} is malformed"
            elif found.crc32c != entry.crc32c:
                bad = _bad_payloads(stored)
                what = "the bytes do not match the CRC-32C, so they were changed after they were written" + (
                    f"; the payload of offset {', '.join(map(str, bad[:5]))} is damaged" if bad else "; every payload is intact"
                )
            elif (found.count, found.first_offset, found.first_timestamp_us, found.last_timestamp_us) != (
                entry.messages_count,
                entry.first_offset,
                entry.timestamp_us,
                entry.timestamp_us,
            ):
                what = "the messages differ from the index entry"
            elif bad := _bad_payloads(stored):
                what = f"the payload of offset {', '.join(map(str, bad[:5]))} does not match its CRC-32"
            else:
                yield from self._states(stored, entry)
        if what is not None:
            offsets, span = (entry.first_offset, entry.end_offset), (entry.byte_position, entry.end_position)
            count = "1 message" if entry.messages_count == 1 else f"{entry.messages_count} messages"
            yield self._finding(kind, self._data_path, f"{count}: {what}", _RESTORE, offsets, span)

    def _states(self, stored: memoryview, entry: IndexEntry) -> Iterator[LogFinding]:
        for position, offset, state in find_states(stored):
            if state not in _STATES:
                at = entry.byte_position + position + layout.STATE
                yield self._finding(
                    FindingKind.STATE,
                    self._data_path,
                    f"the message has the unknown state {state}, so it is not delivered",
                    "Set the state of the message again, or restore the file from a copy",
                    (offset, offset + 1),
                    (at, at + 1),
                )

    # -- the end ----------------------------------------------------------------------------------------------

    def _end(self, data: ReadFile, data_bytes: int) -> Iterator[LogFinding]:
        if self._seal is not None or self._needs_seal:
            end = self._offset, self._position
            yield from verify_seal(self._directory, self._index_path, self._seal, end, self._next_base, self._files)
        elif self._is_compacted and self._next_base is not None and data_bytes == self._position:
            if self._offset > self._next_base:
                yield self._note_tail(self._index_path, MERGED, 0, 0)
        elif self._next_base is not None and self._offset != self._next_base:
            yield self._finding(
                FindingKind.INDEX_SHORT if data_bytes > self._position else FindingKind.GAP,
                self._index_path,
                f"the index ends at offset {self._offset}, but the next segment begins at {self._next_base}",
                REBUILD if data_bytes > self._position else _RESTORE,
                (self._offset, self._next_base),
            )
        elif data_bytes > self._position:
            yield self._rest(data, data_bytes)

    def _rest(self, data: ReadFile, data_bytes: int) -> LogFinding:
        """Return the finding for the bytes after the last entry, which are left by unfinished sends."""
        span = self._position, data_bytes
        rest = self._buffers.take(min(data_bytes - self._position, _TAIL_BYTES))
        rest = rest[: data.read_into(rest, self._position)]
        found = scan(rest)
        if self._next_base is None and found.count and found.first_offset == self._offset:
            first_us = found.first_timestamp_us
            if find_timestamp(rest[: found.end], first_us + 1) < found.end:  # messages with two times belong to two sends
                return self._finding(
                    FindingKind.INDEX_SHORT,
                    self._index_path,
                    "the index is too short: messages of several sends follow its last entry",
                    REBUILD,
                    (self._offset, found.last_offset + 1),
                    span,
                )
        return self._note_tail(self._data_path, "bytes after the last committed send", *span)

    def _note_tail(self, path: str, what: str, from_byte: int, until_byte: int) -> LogFinding:
        return LogFinding(FindingKind.TAIL, path, what, _CUT_OFF, from_byte=from_byte, until_byte=until_byte, is_damage=False)

    @staticmethod
    def _finding(
        kind: FindingKind,
        path: str,
        what: str,
        advice: str,
        offsets: tuple[int | None, int | None] = (None, None),
        span: tuple[int | None, int | None] = (None, None),
    ) -> LogFinding:
        return LogFinding(
            kind, path, what, advice, from_offset=offsets[0], until_offset=offsets[1], from_byte=span[0], until_byte=span[1]
        )


def _row_end(rows: memoryview, number: int) -> int:
    """Return the end of an entry's send according to the entry, unchecked."""
    position, size_bytes = _POSITION_AND_SIZE.unpack_from(rows, number * INDEX_ENTRY_BYTES)
    return int(position + size_bytes)


def _bad_payloads(stored: memoryview) -> list[int]:
    """Return the offsets of complete stored messages whose payload does not match its CRC-32."""
    bad, at, size = [], 0, len(stored)
    unpack = _LENGTH.unpack_from
    while at < size:
        start = at + layout.OVERHEAD + unpack(stored, at + layout.HEADERS_SIZE)[0]
        end = start + unpack(stored, start - 4)[0]
        if zlib.crc32(stored[start:end]) != unpack(stored, at + layout.CHECKSUM)[0]:
            bad.append(int.from_bytes(stored[at : at + 8], "little"))
        at = end
    return bad
