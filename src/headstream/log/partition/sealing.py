"""Seals a segment when the next one begins: its index gets the next segment's first offset, so that its loss is noticed."""

from __future__ import annotations

from contextlib import suppress

from headstream.errors import StorageError
from headstream.log.partition.partition_end import NO_SEGMENT, PartitionEnd
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SUFFIX, Seal, encode_seal, segment_path
from headstream.log.system.files import Files

__all__ = ["seal_segment"]


def seal_segment(end: PartitionEnd, next_base: int, files: Files) -> None:
    """Write the seal after the last entry of a segment's index.

    The next segment's files are synced by now. The seal itself is not synced: a missing or partial seal leaves the
    index as valid as one that was never sealed. So does a refused write.

    Args:
        end: The writing end in the segment that is sealed; it can be without one.
        next_base: The next segment's first offset.
        files: Its file system.
    """
    base = end.base_offset
    if base == NO_SEGMENT:
        return
    with suppress(StorageError):
        index = files.open_write(segment_path(end.directory, base, INDEX_SUFFIX))
        try:
            seal = Seal(end.byte_position, next_base)
            index.write_at(encode_seal(seal, base), INDEX_HEADER_BYTES + end.entries * INDEX_ENTRY_BYTES)
        finally:
            index.close()
