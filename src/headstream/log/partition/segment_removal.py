"""Removal of a closed segment, which the next opening finishes after a crash.

    <base>.log, or -<n>.log     -> <base>.log.dropped     from here on the segment is dropped
        <base>.index                removed                   from here on readers do not list it
        <base>.summary              removed, if it exists
        <base>.log.dropped          removed

A crash after the first step leaves a .log.dropped, which the next opening finishes. A reader with open files
finishes its read; one that opens them later lists the directory again.

A segment's side files, its summary, describe its messages and repeat some values of their headers: code that removes messages
must call remove_side_files().
"""

from __future__ import annotations

from typing import Final

from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import (
    DROPPED_SUFFIX,
    INDEX_SUFFIX,
    REPLACING_SUFFIX,
    SUMMARY_SUFFIX,
    log_suffix,
    segment_path,
)
from headstream.log.system.files import Files

SIDE_SUFFIXES: Final = (SUMMARY_SUFFIX, f"{SUMMARY_SUFFIX}.new")
"""Files beside a segment that can be rebuilt from it; the second is one that a crash left half written."""


def open_index(directory: str, base: int, files: Files) -> IndexReader | None:
    """Return the index of a segment, to be closed by the caller, or None if it is missing."""
    path = segment_path(directory, base, INDEX_SUFFIX)
    file = files.open_read(path)
    if file is None:
        return None
    try:
        return IndexReader(file, path, base)
    except BaseException:
        file.close()
        raise


def drop_segment(directory: str, base: int, generation: int, files: Files) -> None:
    """Remove a closed segment."""
    dropped = segment_path(directory, base, DROPPED_SUFFIX)
    # A .log left by an interrupted compaction would look like a segment with a lost index.
    suffixes = [REPLACING_SUFFIX, *(log_suffix(other) for other in (generation - 1, generation + 1) if other >= 0)]
    for left_over in (segment_path(directory, base, suffix) for suffix in suffixes):
        if files.exists(left_over):
            files.remove(left_over)
    path = segment_path(directory, base, log_suffix(generation))
    if files.exists(path):
        files.rename(path, dropped)
    else:
        files.open_write(dropped).close()  # its messages were lost before: drop the segment all the same
    files.sync_directory(directory)  # after a power cut each step exists only with those before it
    files.remove(segment_path(directory, base, INDEX_SUFFIX))
    files.sync_directory(directory)
    remove_side_files(directory, base, files)
    files.remove(dropped)


def remove_side_files(directory: str, base: int, files: Files) -> None:
    """Remove the side files of a segment with changed or removed messages; durable with the directory's next sync."""
    for suffix in SIDE_SUFFIXES:
        files.remove(segment_path(directory, base, suffix))


def finish_drops(directory: str, files: Files) -> None:
    """Finish the interrupted removals of segments of a partition."""
    for name in files.list_names(directory) or []:
        if name.endswith(DROPPED_SUFFIX):
            base = name.removesuffix(DROPPED_SUFFIX)
            files.remove(f"{directory}/{base}{INDEX_SUFFIX}")
            for suffix in SIDE_SUFFIXES:
                files.remove(f"{directory}/{base}{suffix}")
            files.remove(f"{directory}/{name}")
