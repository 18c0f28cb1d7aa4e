"""Rebuilds missing indexes when a partition is opened for writing; indexes are never lost in a crash, only deleted."""

from __future__ import annotations

from headstream.errors import CorruptLogError
from headstream.log.partition.index_rebuild import IndexRebuild, free_quarantine_path
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.layout import LOG_SUFFIX, base_offsets, log_suffix, segment_path, unindexed_logs
from headstream.log.system.files import Files
from headstream.log.system.findings import report

_OFFSET_BYTES = 8
"""A stored message begins with its offset, an unsigned 64-bit number, little-endian."""


def rebuild_missing_indexes(directory: str, names: list[str], files: Files) -> list[int]:
    """Rebuild each missing index of a partition if the messages confirm every entry; return the first offsets of all segments.

    If an index cannot be proven, reads of the segment raise an error; for the newest segment, this function raises
    CorruptLogError.
    """
    unindexed = unindexed_logs(names)
    indexed = base_offsets(names)
    newest = max(unindexed, default=-1)
    if indexed and newest > indexed[-1] and _is_stray(directory, newest, unindexed[newest], indexed[-1], files):
        path = segment_path(directory, newest, LOG_SUFFIX)
        target = free_quarantine_path(path, files)
        files.rename(path, target)
        report(path, f"no segment begins at this offset: the file was renamed to {target.rpartition('/')[2]}")
        del unindexed[newest]
    bases = sorted({*indexed, *unindexed})
    for base, generations in unindexed.items():
        next_base = next((other for other in bases if other > base), None)
        if len(generations) == 1 or next_base is None:
            _rebuild(directory, base, next_base, generations[-1], files)
        else:  # of two .log files, only the index names the valid file
            path = segment_path(directory, base, log_suffix(generations[-1]))
            report(path, f"a segment's index is missing, so its {len(generations)} message files cannot be read")
    return bases


def _is_stray(directory: str, base: int, generations: list[int], before: int, files: Files) -> bool:
    """Return whether a .log without an index is not part of the log: the previous, complete segment ends at another offset."""
    if generations != [0]:
        return False
    file = files.open_read(segment_path(directory, base, LOG_SUFFIX))
    if file is None:
        return False
    head = memoryview(bytearray(_OFFSET_BYTES))
    got = file.read_into(head, 0)
    file.close()
    if got == _OFFSET_BYTES and int.from_bytes(head, "little") == base:
        return False
    try:
        index = open_index(directory, before, files)
    except CorruptLogError:
        return False
    if index is None:
        return False
    end = (before, 0) if index.last is None else (index.last.end_offset, index.last.end_position)
    data = files.open_read(segment_path(directory, before, log_suffix(index.generation)))
    index.close()
    if data is None:
        return False
    size_bytes = data.size_bytes()
    data.close()
    # Bytes after the last entry can be messages with lost entries; the segment can then end where the .log begins.
    return end[0] != base and size_bytes <= end[1]


def _rebuild(directory: str, base: int, next_base: int | None, generation: int, files: Files) -> None:
    """Rebuild a missing index from the messages; CorruptLogError if the newest segment's messages do not prove the index."""
    path = segment_path(directory, base, log_suffix(generation))
    actions = IndexRebuild(directory, base, next_base, files, generation).run()
    for action in actions:
        report(action.path, action.what)
    if not actions:
        what = "a segment's index is missing and cannot be rebuilt from the segment's messages, which cannot be read"
        if next_base is None:
            raise CorruptLogError(what, where=path, advice="Restore the segment's two files from a copy")
        report(path, what)
