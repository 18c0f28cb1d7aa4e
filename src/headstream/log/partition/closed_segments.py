"""Closed segments: lists closed segments, checks their completeness, and removes leftovers of an interrupted compaction.

    <base>.index-new                  not yet renamed to .index: the new .log is not needed
    <base>-<n>.log                    not named by the index: not needed yet, or no longer needed
    a segment that an older,          not yet removed: its messages are completely copied
    compacted segment overlaps

compaction_pass.py describes the order in which these files are created. A leftover is removed only if the segment that replaces
it is proven complete: if that segment is damaged, the leftover can be the last copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from headstream.errors import CorruptLogError
from headstream.log.partition.segment_removal import drop_segment, finish_drops, open_index, remove_side_files
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import INDEX_SUFFIX, REPLACING_SUFFIX, base_offsets, log_offsets, log_suffix, segment_path
from headstream.log.segments.segment_end import find_unindexed, find_verified_end
from headstream.log.system.files import Files
from headstream.log.system.findings import report


class Closed(NamedTuple):
    """A segment that is no longer appended to.

    Args:
        is_compacted: Whether a compaction has processed the segment.
        messages_count: Upper bound on the number of messages.
        first_us: Time of the first message, microseconds since 1970 UTC; 0 if there are no messages.
        fault: Why index, sizes and neighbours do not prove that the segment is complete; "" if they do.
    """

    base_offset: int
    until_offset: int
    generation: int
    is_compacted: bool
    size_bytes: int
    messages_count: int
    first_us: int
    fault: str = ""


def list_closed(directory: str, files: Files) -> list[Closed]:
    """Return the closed segments of a partition by offset: all segments except the newest."""
    names = files.list_names(directory) or []
    indexed = base_offsets(names)
    unindexed = find_unindexed(directory, names, indexed[-1], files) if indexed else {}
    bases = sorted({*indexed, *unindexed})
    found = []
    for base, next_base in pairwise(bases):
        index = open_index(directory, base, files)
        if index is not None:
            try:
                found.append(_inspect(directory, index, next_base, files))
            finally:
                index.close()
        elif base in unindexed:
            found.append(Closed(base, next_base, unindexed[base], False, 0, 0, 0, "the segment's index is missing"))
        # otherwise the segment has just been dropped
    return found


def _inspect(directory: str, index: IndexReader, next_base: int, files: Files) -> Closed:
    base = index.base_offset
    size_bytes, count = (index.last.end_position, index.last.end_offset - base) if index.last else (0, 0)
    first = index.find_entry(0) if index.count else None
    first_us = 0 if first is None else first.timestamp_us
    data_bytes = _data_bytes(directory, index, files)
    fault = find_verified_end(index, lambda: data_bytes, next_base)[1]
    if not fault and data_bytes < size_bytes:  # further bytes are from a write that failed before the next segment was started
        fault = f"the .log file has {data_bytes} bytes, but the index lists {size_bytes}"
    if not fault and index.is_compacted and _overlaps(index, next_base):
        fault = f"the segment overlaps the next segment, which begins at {next_base}"
    return Closed(base, next_base, index.generation, index.is_by_key, size_bytes, count, first_us, fault)


def _overlaps(index: IndexReader, next_base: int) -> bool:
    end = index.base_offset if index.last is None else index.last.end_offset
    return (end if index.seal is None else index.seal.until_offset) > next_base


def _data_bytes(directory: str, index: IndexReader, files: Files) -> int:
    """Return the size of the .log file that an index names; -1 if the file is missing."""
    data = files.open_read(segment_path(directory, index.base_offset, log_suffix(index.generation)))
    if data is None:
        return -1
    try:
        return data.size_bytes()
    finally:
        data.close()


def finish_pass(directory: str, files: Files) -> None:
    """Remove the leftovers of an interrupted pass and the files that it replaced. No pass may be running."""
    finish_drops(directory, files)
    names = files.list_names(directory) or []
    bases = base_offsets(names)
    logs = log_offsets(names)
    replacing = [base for base in bases if segment_path("", base, REPLACING_SUFFIX)[1:] in names]
    if not replacing and not any(generation for _, generation in logs):
        return
    files.sync_directory(directory)  # the names read here must be on the disk before anything is removed
    for base in replacing:
        files.remove(segment_path(directory, base, REPLACING_SUFFIX))
    generations: dict[int, int] = {}
    covered_until = 0
    for base in bases:
        try:
            index = open_index(directory, base, files)
        except CorruptLogError as error:
            report(segment_path(directory, base, INDEX_SUFFIX), f"{error.what}: no leftover file of a compaction is removed")
            continue
        if index is None:
            continue
        try:
            is_covered = base < covered_until and base != bases[-1]
            is_whole = not is_covered and base != bases[-1] and _is_whole(directory, index, files)
        finally:
            index.close()
        if is_covered:
            drop_segment(directory, base, index.generation, files)  # it has been copied to an older segment
        elif is_whole:
            generations[base] = index.generation
            if index.seal is not None and index.is_compacted:
                covered_until = max(covered_until, index.seal.until_offset)
    for base, generation in logs:
        if base in generations and generation != generations[base]:
            if generation < generations[base]:
                remove_side_files(directory, base, files)  # the side files can describe the messages from before the pass
            files.remove(segment_path(directory, base, log_suffix(generation)))


def _is_whole(directory: str, index: IndexReader, files: Files) -> bool:
    """Return whether a segment is complete according to its index and sizes."""
    data_bytes = _data_bytes(directory, index, files)
    size_bytes = 0 if index.last is None else index.last.end_position
    is_whole = data_bytes >= size_bytes and not find_verified_end(index, lambda: data_bytes, None)[1]
    if not is_whole:
        report(index.path, "the segment is damaged: no leftover file of a compaction is removed")
    return is_whole
