"""Where a closed segment ends, proved: by its index, the size of its .log, and the next segment.

    not compacted    its last entry ends where the next segment begins
    compacted        its last entry ends where the seal says that the .log ends, and the next segment begins where the
                     seal says; an index without a seal (version 2) ends with its .log, and says nothing of the next

An index that was cut at an entry, an entry that is damaged, an index or a whole segment that is missing: each is a
difference between these. Whoever reads is told of the offsets it concerns, and compaction leaves them alone.
"""

from __future__ import annotations

from collections.abc import Callable

from headstream.segments.files import ReadFiles
from headstream.segments.index import IndexReader
from headstream.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, log_suffix, segment_path, unindexed_logs

__all__ = ["MissingIndex", "find_unindexed", "prove_end"]


class MissingIndex:
    """What is read in place of an index that is missing beside its .log: an index without entries."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Return 0: nothing is there."""
        return 0

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def close(self) -> None:
        """Do nothing."""


def prove_end(index: IndexReader, data_bytes: Callable[[], int], next_base: int | None) -> tuple[int, str]:
    """Return up to which offset an index is known to hold all messages, and what is wrong behind that.

    Args:
        index: The index of the segment.
        data_bytes: Returns the size of its .log; asked only where the index does not say it.
        next_base: Where the next segment begins, or None where this is the newest.

    Returns:
        The offset, and why nothing is known from there on: "" where all is there up to the next segment.
    """
    last = index.last
    end, end_position = (index.base_offset, 0) if last is None else (last.end_offset, last.end_position)
    if not index.is_compacted:
        return end, "" if next_base in (None, end) else f"the index ends there, and the next segment begins at {next_base}"
    if index.seal is None and index.needs_seal:
        return end, "the index was cut off"
    if (data_bytes() if index.seal is None else index.seal.end_position) != end_position:
        return end, "the index was cut off, or its last entries are damaged"
    if index.seal is not None and next_base is not None and index.seal.until_offset < next_base:
        return index.seal.until_offset, "the segments from there on are missing"
    return end if next_base is None else max(end, next_base), ""


def find_unindexed(directory: str, names: list[str], newest: int, files: ReadFiles) -> dict[int, int]:
    """Return the segments before the newest whose index is missing, and which .log each has: they are damage, no gap.

    Args:
        directory: The partition's.
        names: The names in it, listed a moment ago.
        newest: The first offset of the newest segment with an index: a later .log may be one that is just being made.
        files: Where it is.

    Returns:
        First offset -> the greatest generation of the .log files.
    """
    found = {}
    for base, generations in unindexed_logs(names).items():
        # Looked at once more, the .log first: it is renamed before its index goes, and names are not listed at one moment.
        if (
            base < newest
            and files.exists(segment_path(directory, base, log_suffix(generations[-1])))
            and not files.exists(segment_path(directory, base, INDEX_SUFFIX))
            and not files.exists(segment_path(directory, base, DROPPED_SUFFIX))
        ):
            found[base] = generations[-1]
    return found
