"""Sealing a segment that the next one follows: its index says where that begins, so that it is missed when it is lost."""

from __future__ import annotations

from contextlib import suppress

from headstream.errors import StorageError
from headstream.log.files import Files
from headstream.log.partition_end import NO_SEGMENT, PartitionEnd
from headstream.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    Seal,
    encode_seal,
    segment_path,
)

__all__ = ["seal_segment"]


def seal_segment(end: PartitionEnd, next_base: int, files: Files) -> None:
    """Write the seal behind the last entry of a segment's index.

    The next segment's files are on the disk by now. The seal itself is not synced: without it, or with a part of it, the
    index says as much as one that never had a seal. That is so too where the system refuses to write it.

    Args:
        end: Where the partition was written on until now, in the segment that is sealed; it may have none.
        next_base: The next segment's first offset.
        files: Where it is.
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
