"""Closed segments: which there are, and what a compaction that was broken off has left among them.

    <base>.index-new                       not yet renamed to .index: what it names is not needed
    <base>-<n>.log                         another than the index names: not yet needed, or not any more
    a segment that an older, compacted     not yet removed: it has been copied, whole
    one reaches into

compaction_pass.py says in which order these come to be.
"""

from __future__ import annotations

from typing import NamedTuple

from headstream.log.files import Files
from headstream.log.segment_removal import drop_segment, finish_drops, open_index
from headstream.segments.layout import REPLACING_SUFFIX, base_offsets, log_offsets, log_suffix, segment_path

__all__ = ["Closed", "finish_pass", "look_at_closed"]


class Closed(NamedTuple):
    """A segment that is not written to any more.

    Args:
        base_offset: Its first offset.
        generation: Which .log holds its messages.
        is_compacted: Whether a pass has been there.
        size_bytes: Of its messages.
        messages_count: Its messages, at most.
        first_us: The time of its first message, microseconds since 1970 UTC; 0 where there is none.
    """

    base_offset: int
    generation: int
    is_compacted: bool
    size_bytes: int
    messages_count: int
    first_us: int


def look_at_closed(directory: str, files: Files) -> list[Closed]:
    """Return the closed segments of a partition, by offset: all but the newest.

    Raises:
        CorruptLogError: the head of an index is damaged.
    """
    found = []
    for base in base_offsets(files.list_names(directory) or [])[:-1]:
        index = open_index(directory, base, files)
        if index is None:
            continue  # dropped at this moment
        try:
            size_bytes, count = (index.last.end_position, index.last.end_offset - base) if index.last else (0, 0)
            first_us = index.entry(0).timestamp_us if index.count else 0
            found.append(Closed(base, index.generation, index.is_compacted, size_bytes, count, first_us))
        finally:
            index.close()
    return found


def finish_pass(directory: str, files: Files) -> None:
    """Remove what a pass that was broken off has left over, and what it had not yet removed.

    Args:
        directory: The partition's; the caller is the log's writer, and no pass is under way.
        files: Where it is.

    Raises:
        CorruptLogError: the head of an index is damaged.
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
        index = open_index(directory, base, files)
        if index is None:
            continue
        generations[base] = index.generation
        end = index.last.end_offset if index.last is not None else base
        is_compacted = index.is_compacted
        index.close()
        if base < covered_until and base != bases[-1]:
            drop_segment(directory, base, generations[base], files)  # it has been copied to an older one
        elif is_compacted:
            covered_until = max(covered_until, end)
    for base, generation in logs:
        if base in generations and generation != generations[base]:
            files.remove(segment_path(directory, base, log_suffix(generation)))
