"""Reads the messages of a closed segment for compaction; checks each index entry against its neighbours and its send."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from headstream.core.codec.batch.stored.scan import scan
from headstream.errors import CorruptLogError
from headstream.log.partition.closed_segments import Closed
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.files import BufferPool, ReadFile
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import IndexEntry, log_suffix, segment_path
from headstream.log.system.files import Files

_CHUNK_BYTES: Final = 4 << 20


class PassCancelledError(Exception):
    """The compaction pass is obsolete, because the topic was changed or the segment was dropped."""


def read_closed(directory: str, segment: Closed, files: Files, buffers: BufferPool) -> Generator[memoryview]:
    """Yield checked sends of a segment in chunks of limited size; PassCancelledError if the segment was dropped meanwhile."""
    index = open_index(directory, segment.base_offset, files)
    path = segment_path(directory, segment.base_offset, log_suffix(segment.generation))
    data = files.open_read(path)
    if index is None or data is None or index.generation != segment.generation:
        for file in (index, data):
            if file is not None:
                file.close()
        raise PassCancelledError  # dropped meanwhile
    try:
        number, end = 0, (0, segment.base_offset)
        while number < index.count:
            entries = _next_entries(index, number)
            for entry in entries:
                end = _follow(entry, end, index)
            number += len(entries)
            yield _read(data, path, entries, buffers)
    finally:
        index.close()
        data.close()


def _follow(entry: IndexEntry, end: tuple[int, int], index: IndexReader) -> tuple[int, int]:
    """Return byte position and offset after an entry; the entry must start where the previous entry ends."""
    is_next = entry.first_offset > end[1] if index.is_compacted else False
    if entry.byte_position != end[0] or not (entry.first_offset == end[1] or is_next):
        raise CorruptLogError(
            f"the entry of offset {entry.first_offset} does not follow the previous entry; the partition was not compacted",
            where=index.path,
            advice="Run headstream verify --repair",
        )
    return entry.end_position, entry.end_offset


def _next_entries(index: IndexReader, number: int) -> list[IndexEntry]:
    entries = [index.entry(number)]
    begin = entries[0].byte_position
    while (number := number + 1) < index.count:
        entry = index.entry(number)
        if entry.end_position - begin > _CHUNK_BYTES:
            break
        entries.append(entry)
    return entries


def _read(data: ReadFile, path: str, entries: list[IndexEntry], buffers: BufferPool) -> memoryview:
    begin, end = entries[0].byte_position, entries[-1].end_position
    chunk = buffers.take(end - begin)
    got = data.read_into(chunk, begin)
    for entry in entries:
        found = scan(chunk[entry.byte_position - begin : min(got, entry.end_position - begin)])
        if (found.end, found.count, found.crc32c, found.first_offset) != (
            entry.size_bytes, entry.messages_count, entry.crc32c, entry.first_offset,
        ):  # fmt: skip
            raise CorruptLogError(
                f"offsets {entry.first_offset} to {entry.end_offset - 1} are damaged; the partition was not compacted",
                where=f"{path}, byte {entry.byte_position}",
                advice="Run headstream verify, and restore the files that the command lists from a copy",
            )
    return chunk
