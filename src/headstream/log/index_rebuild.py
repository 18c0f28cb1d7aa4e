"""One segment's index, built again: from what is whole of the present one, and from the messages where they prove the rest.

Proof is: whole messages without a gap from one whole entry to the next, each with the offset that follows and a payload
that matches its CRC-32, ending where the next segment begins. The present index is set aside, not deleted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headstream.codec.batch.scan import find_timestamp, scan
from headstream.log.files import Files
from headstream.log.findings import SET_ASIDE
from headstream.log.segment_verification import bad_payloads
from headstream.segments.files import ReadFile
from headstream.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    IndexEntry,
    decode_entry,
    encode_entry,
    encode_header,
    segment_path,
)

__all__ = ["Action", "IndexRebuild", "free_aside_name"]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that was done.

    Args:
        path: The file it was done to.
        what: What was done, and where what was there before is now.
    """

    path: str
    what: str


def free_aside_name(path: str, files: Files) -> str:
    """Return a name that is free for a file that is set aside."""
    stem = f"{path}{SET_ASIDE}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    number, target = 1, stem
    while files.exists(target):
        number += 1
        target = f"{stem}-{number}"
    return target


class _UnprovenError(Exception):
    """The messages do not prove what the index should say."""


class IndexRebuild:
    """One segment's index, built again from what is whole of it and from the messages.

    Args:
        directory: The partition's directory.
        base: The segment's first offset.
        next_base: The next segment's, or None where this is the newest.
        files: Where it is.
    """

    def __init__(self, directory: str, base: int, next_base: int | None, files: Files) -> None:
        self._directory = directory
        self._base = base
        self._next_base = next_base
        self._files = files
        self._path = segment_path(directory, base, INDEX_SUFFIX)

    def run(self) -> list[Action]:
        """Build it, where the messages prove it; return what was done."""
        data = self._files.open_read(segment_path(self._directory, self._base, LOG_SUFFIX))
        if data is None:
            return []
        try:
            entries = self._entries(data, self._whole_entries())
            if self._next_base is not None and (entries[-1].end_offset if entries else self._base) != self._next_base:
                return []
            index = encode_header(self._base) + b"".join(encode_entry(entry, self._base) for entry in entries)
            if index == bytes(self._read_index()):
                return []  # what is wrong with it is what the messages say too
            return [*self._keep_rest(data, entries), self._replace(index, entries)]
        except _UnprovenError:
            return []
        finally:
            data.close()

    def _keep_rest(self, data: ReadFile, entries: list[IndexEntry]) -> list[Action]:
        """Copy what follows the last proven send to a file of its own: it is cut off then."""
        end = entries[-1].end_position if entries else 0
        rest = memoryview(bytearray(data.size_bytes() - end))
        if not rest:
            return []
        data.read_into(rest, end)
        path = segment_path(self._directory, self._base, LOG_SUFFIX)
        target = free_aside_name(path, self._files)
        self._files.replace(target, bytes(rest))
        return [Action(path, f"{len(rest)} bytes from byte {end} on prove no send: set aside as {target.rpartition('/')[2]}")]

    def _replace(self, index: bytes, entries: list[IndexEntry]) -> Action:
        temporary = segment_path(self._directory, self._base, ".index-new")
        self._files.replace(temporary, index)
        what = f"built again from the messages: {len(entries)} sends"
        if self._files.exists(self._path):
            target = free_aside_name(self._path, self._files)
            self._files.rename(self._path, target)
            what += f"; the old one is set aside as {target.rpartition('/')[2]}"
        self._files.rename(temporary, self._path)
        return Action(self._path, what)

    def _read_index(self) -> memoryview:
        file = self._files.open_read(self._path)
        if file is None:
            return memoryview(b"")
        rows = memoryview(bytearray(file.size_bytes()))
        got = file.read_into(rows, 0)
        file.close()
        return rows[:got]

    def _whole_entries(self) -> list[IndexEntry]:
        """Return the entries of the present index whose check holds and that lie in order."""
        rows = self._read_index()
        entries: list[IndexEntry] = []
        for at in range(INDEX_HEADER_BYTES, len(rows) - INDEX_ENTRY_BYTES + 1, INDEX_ENTRY_BYTES):
            entry = decode_entry(rows[at : at + INDEX_ENTRY_BYTES], self._base)
            if entry is not None and (
                not entries or (entry.byte_position >= entries[-1].end_position and entry.first_offset >= entries[-1].end_offset)
            ):
                entries.append(entry)
        return entries

    def _entries(self, data: ReadFile, whole: list[IndexEntry]) -> list[IndexEntry]:
        entries: list[IndexEntry] = []
        position, offset = 0, self._base
        size_bytes = data.size_bytes()
        for entry in whole:
            if entry.byte_position > position:
                entries += self._prove(data, position, entry.byte_position, offset)
            if (entries[-1].end_offset if entries else self._base) != entry.first_offset or entry.byte_position < position:
                raise _UnprovenError
            entries.append(entry)
            position, offset = entry.end_position, entry.end_offset
        if position < size_bytes:
            entries += self._prove(data, position, size_bytes, offset, is_last=True)
        return entries

    def _prove(self, data: ReadFile, begin: int, end: int, offset: int, *, is_last: bool = False) -> list[IndexEntry]:
        """Return entries for a stretch without any, one for the messages of each time, if they are beyond doubt."""
        stored = memoryview(bytearray(end - begin))
        data.read_into(stored, begin)
        found = scan(stored)
        is_torn = found.end < len(stored)
        if is_torn and not (is_last and self._next_base is None):
            raise _UnprovenError
        if bad_payloads(stored[: found.end]):
            raise _UnprovenError
        entries: list[IndexEntry] = []
        at = 0
        while at < found.end:
            first = scan(stored[at : found.end])
            until = at + find_timestamp(stored[at : found.end], first.first_timestamp_us + 1)
            run = scan(stored[at:until])
            if (run.first_offset, run.last_offset) != (offset, offset + run.count - 1):
                raise _UnprovenError
            entries.append(IndexEntry(begin + at, run.end, offset, run.count, run.first_timestamp_us, run.crc32c))
            offset, at = offset + run.count, until
        if is_torn and entries:
            entries.pop()  # what the torn message belongs to: half of a send is never shown
        return entries
