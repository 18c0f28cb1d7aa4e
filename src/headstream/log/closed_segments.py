"""Closed segments: which there are, which of them are proved whole, and what an interrupted compaction left among them.

    <base>.index-new                       not yet renamed to .index: what it names is not needed
    <base>-<n>.log                         another than the index names: not yet needed, or not any more
    a segment that an older, compacted     not yet removed: it has been copied, whole
    one reaches into

compaction_pass.py says in which order these come to be. Each is removed only where the segment whose index names the
messages is proved to have all of them: where it was damaged since, what looks superfluous may be the last copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from headstream.errors import CorruptLogError
from headstream.log.files import Files
from headstream.log.findings import report
from headstream.log.segment_removal import drop_segment, finish_drops, open_index
from headstream.segments.index import IndexReader
from headstream.segments.layout import INDEX_SUFFIX, REPLACING_SUFFIX, base_offsets, log_offsets, log_suffix, segment_path
from headstream.segments.segment_end import find_unindexed, prove_end

__all__ = ["Closed", "finish_pass", "look_at_closed"]


class Closed(NamedTuple):
    """A segment that is not written to any more.

    Args:
        base_offset: Its first offset.
        until_offset: Where the next segment begins.
        generation: Which .log holds its messages.
        is_compacted: Whether a pass has been there.
        size_bytes: Of its messages.
        messages_count: Its messages, at most.
        first_us: The time of its first message, microseconds since 1970 UTC; 0 where there is none.
        fault: Why it is not proved whole, as far as index, sizes and neighbours say it; "" where it is.
    """

    base_offset: int
    until_offset: int
    generation: int
    is_compacted: bool
    size_bytes: int
    messages_count: int
    first_us: int
    fault: str = ""


def look_at_closed(directory: str, files: Files) -> list[Closed]:
    """Return the closed segments of a partition, by offset: all but the newest.

    Raises:
        CorruptLogError: the head of an index is damaged.
    """
    names = files.list_names(directory) or []
    indexed = base_offsets(names)
    unindexed = find_unindexed(directory, names, indexed[-1], files) if indexed else {}
    bases = sorted({*indexed, *unindexed})
    found = []
    for base, next_base in pairwise(bases):
        index = open_index(directory, base, files)
        if index is not None:
            try:
                found.append(_look_at(directory, index, next_base, files))
            finally:
                index.close()
        elif base in unindexed:
            found.append(Closed(base, next_base, unindexed[base], False, 0, 0, 0, "its index is missing"))
        # else it was dropped at this moment
    return found


def _look_at(directory: str, index: IndexReader, next_base: int, files: Files) -> Closed:
    base = index.base_offset
    size_bytes, count = (index.last.end_position, index.last.end_offset - base) if index.last else (0, 0)
    first = index.find_entry(0) if index.count else None
    first_us = 0 if first is None else first.timestamp_us
    data_bytes = _data_bytes(directory, index, files)
    fault = prove_end(index, lambda: data_bytes, next_base)[1]
    if not fault and data_bytes < size_bytes:  # more is what a write left that failed before the next segment was begun
        fault = f"its .log has {data_bytes} bytes, its index {size_bytes}"
    if not fault and index.is_compacted and _reaches_into(index, next_base):
        fault = f"it reaches into the next segment, which begins at {next_base}"
    return Closed(base, next_base, index.generation, index.is_compacted, size_bytes, count, first_us, fault)


def _reaches_into(index: IndexReader, next_base: int) -> bool:
    end = index.base_offset if index.last is None else index.last.end_offset
    return (end if index.seal is None else index.seal.until_offset) > next_base


def _data_bytes(directory: str, index: IndexReader, files: Files) -> int:
    """Return the size of the .log that an index names, -1 where it is missing."""
    data = files.open_read(segment_path(directory, index.base_offset, log_suffix(index.generation)))
    if data is None:
        return -1
    try:
        return data.size_bytes()
    finally:
        data.close()


def finish_pass(directory: str, files: Files) -> None:
    """Remove what a pass that was broken off has left over, and what it had not yet removed.

    Args:
        directory: The partition's; the caller is the log's writer, and no pass is under way.
        files: Where it is.
    """
    finish_drops(directory, files)
    names = files.list_names(directory) or []
    bases = base_offsets(names)
    logs = log_offsets(names)
    replacing = [base for base in bases if segment_path("", base, REPLACING_SUFFIX)[1:] in names]
    if not replacing and not any(generation for _, generation in logs):
        return
    files.sync_directory(directory)  # what is read here may not be on the disk yet, and what goes must not go before it
    for base in replacing:
        files.remove(segment_path(directory, base, REPLACING_SUFFIX))
    generations: dict[int, int] = {}
    covered_until = 0
    for base in bases:
        try:
            index = open_index(directory, base, files)
        except CorruptLogError as error:
            report(segment_path(directory, base, INDEX_SUFFIX), f"{error.what}: nothing beside it is removed")
            continue
        if index is None:
            continue
        try:
            is_covered = base < covered_until and base != bases[-1]
            is_whole = not is_covered and base != bases[-1] and _is_whole(directory, index, files)
        finally:
            index.close()
        if is_covered:
            drop_segment(directory, base, index.generation, files)  # it has been copied to an older one
        elif is_whole:
            generations[base] = index.generation
            if index.seal is not None and index.is_compacted:
                covered_until = max(covered_until, index.seal.until_offset)
    for base, generation in logs:
        if base in generations and generation != generations[base]:
            files.remove(segment_path(directory, base, log_suffix(generation)))


def _is_whole(directory: str, index: IndexReader, files: Files) -> bool:
    """Return whether a segment has all the messages that it had, by its index and sizes."""
    data_bytes = _data_bytes(directory, index, files)
    size_bytes = 0 if index.last is None else index.last.end_position
    is_whole = data_bytes >= size_bytes and not prove_end(index, lambda: data_bytes, None)[1]
    if not is_whole:
        report(index.path, "the segment is damaged: nothing beside it that compaction may have left is removed")
    return is_whole
