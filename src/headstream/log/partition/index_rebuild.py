"""Rebuilds a segment's index from the complete entries of the existing index and from messages that prove the missing entries.

Entries are proven if complete messages fill the space between two complete entries, with consecutive offsets and payloads that
match their CRC-32. The last message must end where the next segment starts. In a compacted segment, offsets must increase and end
before the next segment. The existing index is renamed, not deleted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch import layout
from headstream.core.codec.batch.results import Sends
from headstream.core.codec.batch.stored.compact import compact_messages, new_key_table
from headstream.core.codec.batch.stored.sends import make_rows
from headstream.errors import DecodeError
from headstream.log.segments.files import ReadFile
from headstream.log.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    Seal,
    decode_entry,
    decode_header,
    decode_seal,
    encode_header,
    encode_seal,
    log_suffix,
    segment_path,
)
from headstream.log.system.files import Files
from headstream.log.system.findings import QUARANTINE_MARK

_NO_STATE: Final = 256
_AT_ONCE: Final = 8 << 20
"""Bytes of a segment read at once."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action taken, with the path of the previous content."""

    path: str
    what: str


def free_quarantine_path(path: str, files: Files) -> str:
    """Return an unused name for a file that is to be renamed."""
    stem = f"{path}{QUARANTINE_MARK}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    number, target = 1, stem
    while files.exists(target):
        number += 1
        target = f"{stem}-{number}"
    return target


class _UnprovenError(Exception):
    """The messages do not prove the index."""


@dataclass(slots=True)
class _Proven:
    """Proven entries in their stored form, the byte position after the last entry, and the next offset."""

    rows: list[bytes]
    position: int
    offset: int

    def add(self, rows: bytes, position: int, offset: int) -> None:
        self.rows.append(rows)
        self.position, self.offset = position, offset


class IndexRebuild:
    """Rebuilds a segment's index from its complete entries and the messages; a generation above 0 means a compacted segment."""

    def __init__(self, directory: str, base: int, next_base: int | None, files: Files, generation: int = 0) -> None:
        self._directory = directory
        self._base = base
        self._next_base = next_base
        self._files = files
        self._generation = generation
        self._data_path = segment_path(directory, base, log_suffix(generation))
        self._path = segment_path(directory, base, INDEX_SUFFIX)

    def run(self) -> list[Action]:
        """Rebuild the index if the messages prove every missing entry; return the actions taken."""
        data = self._files.open_read(self._data_path)
        if data is None:
            return []
        try:
            before = self._read_index()
            proven = self._prove_all(data, before)
            is_short = bool(self._generation) and self._next_base is not None and proven.offset < self._next_base
            if self._next_base is not None and proven.offset != self._next_base and not is_short:
                return []
            seal = self._seal(before, proven)
            known = decode_header(before)  # without the seal, a compaction reads the keys again
            is_by_key = known is not None and known.is_by_key
            header = encode_header(self._base, self._generation or None, is_sealed=seal is not None, is_by_key=is_by_key)
            index = header + b"".join(proven.rows) + (b"" if seal is None else encode_seal(seal, self._base))
            if index == before:
                return []  # the existing index is already complete
            is_open = is_short and seal is None
            return [*self._keep_rest(data, proven.position), self._replace(index, proven.offset if is_open else None)]
        except _UnprovenError:
            return []
        finally:
            data.close()

    def _seal(self, before: bytes, proven: _Proven) -> Seal | None:
        """Return the seal if the end offset of the segment is known.

        The end is known if there are messages up to the next segment's first offset. If a compaction removed the last messages,
        only the existing seal proves the end: a new seal up to the next segment would hide a missing segment in between.
        """
        if not self._generation:
            return None if self._next_base is None else Seal(proven.position, self._next_base)
        for at in range(len(before) - len(before) % INDEX_ENTRY_BYTES - INDEX_ENTRY_BYTES, 0, -INDEX_ENTRY_BYTES):
            seal = decode_seal(before[at : at + INDEX_ENTRY_BYTES], self._base)
            if seal is not None:
                return seal if seal.end_position == proven.position and seal.until_offset >= proven.offset else None
        return Seal(proven.position, proven.offset) if proven.offset == self._next_base else None

    def _keep_rest(self, data: ReadFile, end: int) -> list[Action]:
        """Copy the bytes after the last proven send to a separate file before truncating them."""
        rest = memoryview(bytearray(data.size_bytes() - end))
        if not rest:
            return []
        data.read_into(rest, end)
        path = self._data_path
        target = free_quarantine_path(path, self._files)
        self._files.replace(target, bytes(rest))
        return [Action(path, f"{len(rest)} bytes from byte {end} are not a complete send: moved to {target.rpartition('/')[2]}")]

    def _replace(self, index: bytes, open_from: int | None) -> Action:
        """Replace the index; from offset `open_from` on (if not None), it is unknown whether the segment had more messages."""
        temporary = segment_path(self._directory, self._base, ".index-new")
        self._files.replace(temporary, index)
        what = f"the index was rebuilt from the messages: {len(index) // INDEX_ENTRY_BYTES - 1} sends"
        if self._files.exists(self._path):
            target = free_quarantine_path(self._path, self._files)
            self._files.rename(self._path, target)
            what += f"; the old index was renamed to {target.rpartition('/')[2]}"
        if open_from is not None:
            assert self._next_base is not None
            what += (
                f"; no message has the offsets {open_from} to {self._next_base - 1}: they were removed by a compaction, or a "
                "segment is missing"
            )
        self._files.rename(temporary, self._path)
        self._files.sync_directory(self._directory)
        return Action(self._path, what)

    def _read_index(self) -> bytes:
        file = self._files.open_read(self._path)
        if file is None:
            return b""
        rows = memoryview(bytearray(file.size_bytes()))
        got = file.read_into(rows, 0)
        file.close()
        return bytes(rows[:got])

    def _prove_all(self, data: ReadFile, before: bytes) -> _Proven:
        """Return the complete entries and the entries that messages prove, in order."""
        proven = _Proven([], 0, self._base)
        for at in range(INDEX_HEADER_BYTES, len(before) - INDEX_ENTRY_BYTES + 1, INDEX_ENTRY_BYTES):
            row = before[at : at + INDEX_ENTRY_BYTES]
            entry = decode_entry(row, self._base)
            if entry is None or entry.byte_position < proven.position or entry.first_offset < proven.offset:
                continue
            if entry.byte_position > proven.position:
                self._prove(data, proven, entry.byte_position)
            if entry.first_offset != proven.offset and not self._generation:
                raise _UnprovenError
            proven.add(row, entry.end_position, entry.end_offset)
        self._prove(data, proven, data.size_bytes(), is_last=True)
        return proven

    def _prove(self, data: ReadFile, proven: _Proven, end: int, *, is_last: bool = False) -> None:
        """Add proven entries for a range without entries, one entry per message time."""
        if self._generation:
            self._prove_compacted(data, proven, end)
            return
        span = _AT_ONCE
        while proven.position < end:
            begin = proven.position
            stored = memoryview(bytearray(min(span, end - begin)))
            stored = stored[: data.read_into(stored, begin)]
            made = make_rows(stored, self._base, begin, proven.offset)
            if made.fault in ("offset", "payload"):
                raise _UnprovenError
            is_to_end = begin + len(stored) == end and (made.fault or made.end == len(stored))
            if is_to_end and not made.fault:
                proven.add(made.rows, begin + made.end, made.until_offset)
                return
            rest = stored[made.end :]
            if is_to_end and not (is_last and self._next_base is None):
                raise _UnprovenError
            if is_to_end and not _belongs(rest, made):
                proven.add(made.rows, begin + made.end, made.until_offset)
                return
            # The last one can continue in the next piece or in the torn message. Half of a send is never readable.
            if len(made.rows) > INDEX_ENTRY_BYTES:
                last = decode_entry(made.rows[-INDEX_ENTRY_BYTES:], self._base)
                assert last is not None
                proven.add(made.rows[:-INDEX_ENTRY_BYTES], last.byte_position, last.first_offset)
            if is_to_end:
                return
            span = span * 2 if proven.position == begin else _AT_ONCE

    def _prove_compacted(self, data: ReadFile, proven: _Proven, end: int) -> None:
        """Add entries for a compacted range if its offsets only increase."""
        begin = proven.position
        stored = memoryview(bytearray(end - begin))
        stored = stored[: data.read_into(stored, begin)]
        try:
            runs = compact_messages(
                stored,
                new_key_table(1),
                bytes(16),
                null_before_us=0,
                dropped_state=_NO_STATE,
                byte_position=begin,
                base_offset=self._base,
            )
        except DecodeError as error:
            raise _UnprovenError from error
        for at in range(0, len(runs.entries), INDEX_ENTRY_BYTES):
            entry = decode_entry(runs.entries[at : at + INDEX_ENTRY_BYTES], self._base)
            if entry is None or entry.first_offset < proven.offset:
                raise _UnprovenError
            run = stored[entry.byte_position - begin : entry.end_position - begin]
            made = make_rows(run, self._base, entry.byte_position, entry.first_offset)
            if made.fault or made.end != len(run):
                raise _UnprovenError
            proven.add(made.rows, entry.end_position, entry.end_offset)


def _belongs(rest: memoryview, made: Sends) -> bool:
    """Return whether the bytes start like the next message of the last found send."""
    if not made.rows:
        return False
    offset, entry = made.until_offset.to_bytes(8, "little"), made.rows[-layout.ENTRY_BYTES :]
    time_us = entry[layout.ENTRY_TIMESTAMP : layout.ENTRY_CHECKSUM]
    head = bytes(rest[: layout.ID])
    return offset.startswith(head[: layout.STATE]) and time_us.startswith(head[layout.TIMESTAMP :])
