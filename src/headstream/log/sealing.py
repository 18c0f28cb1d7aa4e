"""Sealing a segment that the next one follows: its index says where that begins, so that it is missed when it is lost."""

from __future__ import annotations

from contextlib import suppress

from headstream.errors import StorageError
from headstream.log.files import Files
from headstream.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    Seal,
    encode_seal,
    segment_path,
)

__all__ = ["seal_segment"]


def seal_segment(directory: str, base: int, entries: int, seal: Seal, files: Files) -> None:
    """Write the seal behind the last entry of a segment's index.

    The next segment's files are on the disk by now. The seal itself is not synced: without it, or with a part of it, the
    index says as much as one that never had a seal. That is so too where the system refuses to write it.

    Args:
        directory: The partition's.
        base: The segment's first offset.
        entries: How many entries its index has.
        seal: Where the segment ends.
        files: Where it is.
    """
    with suppress(StorageError):
        index = files.open_write(segment_path(directory, base, INDEX_SUFFIX))
        try:
            index.write_at(encode_seal(seal, base), INDEX_HEADER_BYTES + entries * INDEX_ENTRY_BYTES)
        finally:
            index.close()
