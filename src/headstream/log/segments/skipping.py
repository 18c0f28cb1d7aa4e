"""Finds closed segments that a filter can skip, by the times in their indexes and by their summaries.

A segment is skipped only if its files have complete sizes and end where the next segment starts, so that missing data is still
detected. Changed bytes in a skipped segment are detected by `headstream verify` and by reads.
"""

from __future__ import annotations

from typing import Final

from headstream.core.filters.expression import Field
from headstream.core.filters.filter import Filter
from headstream.core.filters.pruning import MessagesSummary
from headstream.core.filters.value_summary import whole_range
from headstream.errors import HeadstreamError
from headstream.log.segments.files import ReadFiles
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import INDEX_SUFFIX, log_suffix, segment_path
from headstream.log.segments.segment_end import find_verified_end
from headstream.log.segments.summaries import read_summary

_MAX_KNOWN: Final = 4096
"""Maximum number of results kept per partition: one filter's results for the segments of a terabyte."""
_INDEXED: Final = frozenset({Field.OFFSET.value, Field.TIMESTAMP.value})


class SegmentSkips:
    """Determines the closed segments of a partition that filters can skip; each segment is examined once until forget()."""

    __slots__ = ("_directory", "_files", "_known")

    def __init__(self, directory: str, files: ReadFiles) -> None:
        self._directory = directory
        self._files = files
        self._known: dict[tuple[bytes, int, int], int | None] = {}

    def forget(self) -> None:
        """Drop all results, because files were added or removed."""
        self._known.clear()

    def count_unmatched(self, where: Filter, base: int, next_base: int) -> int | None:
        """Return a segment's number of messages if no message can match a filter or cause a filter error, else None."""
        if not where.headers and _INDEXED.isdisjoint(where.fields):
            return None
        key = where.program, base, next_base
        if key not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            try:
                self._known[key] = self._examine(where, base, next_base)
            except HeadstreamError:  # the read of the segment raises the error
                return None
        return self._known[key]

    def _examine(self, where: Filter, base: int, next_base: int) -> int | None:
        path = segment_path(self._directory, base, INDEX_SUFFIX)
        file = self._files.open_read(path)
        if file is None:
            return None
        try:
            index = IndexReader(file, path, base)
            if index.last is None or not self._is_whole(index, next_base):
                return None
            summary = read_summary(self._directory, index, self._files) if where.headers else None
            fields = {
                Field.OFFSET: whole_range(base, index.last.end_offset - 1),
                Field.TIMESTAMP: whole_range(index.entry(0).timestamp_us, index.last.timestamp_us),
            }
            if where.may_match(MessagesSummary({} if summary is None else summary.headers, fields)):
                return None
            return index.messages_count(next_base) if index.is_compacted else index.last.end_offset - base
        finally:
            file.close()

    def _is_whole(self, index: IndexReader, next_base: int) -> bool:
        file = self._files.open_read(segment_path(self._directory, index.base_offset, log_suffix(index.generation)))
        if file is None or index.last is None:
            return False
        try:
            size_bytes = file.size_bytes()
        finally:
            file.close()
        return size_bytes >= index.last.end_position and not find_verified_end(index, lambda: size_bytes, next_base)[1]
