"""Verifies the end of a closed segment against its index, the size of its .log, and the next segment.

    not compacted    the last entry ends where the next segment starts
    compacted        the last entry and the .log end at the seal's position, and the next segment starts at the seal's offset; an
                     index without a seal (version 2) ends with the .log and does not determine the next segment

A truncated index, a damaged entry, a missing index or a missing segment violates one of these conditions. Reads of the affected
offsets raise an error, and compaction skips the affected segments.
"""

from __future__ import annotations

from collections.abc import Callable

from headstream.log.segments.files import ReadFiles
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, log_suffix, segment_path, unindexed_logs


class MissingIndex:
    """An index without entries, which replaces the missing index of a .log."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Return 0, because the file is empty."""
        return 0

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def close(self) -> None:
        """Do nothing."""


def find_verified_end(index: IndexReader, data_bytes: Callable[[], int], next_base: int | None) -> tuple[int, str]:
    """Return the offset up to which an index is complete, and the fault at this offset; "" if complete up to `next_base`.

    `next_base` is None for the newest segment. `data_bytes` returns the size of the .log if the index does not record the size.
    """
    last = index.last
    end, end_position = (index.base_offset, 0) if last is None else (last.end_offset, last.end_position)
    if not index.is_compacted:
        return end, "" if next_base in (None, end) else f"the next segment begins at {next_base}"
    if index.seal is None and index.needs_seal:
        return end, "the index was truncated"
    if (data_bytes() if index.seal is None else index.seal.end_position) != end_position:
        return end, "the index was truncated, or its last entries are damaged"
    if index.seal is not None and next_base is not None and index.seal.until_offset < next_base:
        return index.seal.until_offset, "the following segments are missing"
    return end if next_base is None else max(end, next_base), ""


def find_unindexed(directory: str, names: list[str], newest: int, files: ReadFiles) -> dict[int, int]:
    """Return first offset -> highest .log generation of damaged segments: segments before the newest, without an index.

    A .log after `newest`, the newest segment with an index, is not returned: it can be a segment that is being created.
    """
    found = {}
    for base, generations in unindexed_logs(names).items():
        # Checked again, the .log first, because it is renamed before the index is removed, and a listing is not atomic.
        if (
            base < newest
            and files.exists(segment_path(directory, base, log_suffix(generations[-1])))
            and not files.exists(segment_path(directory, base, INDEX_SUFFIX))
            and not files.exists(segment_path(directory, base, DROPPED_SUFFIX))
        ):
            found[base] = generations[-1]
    return found
