"""Removes closed segments; after a crash, the next opening completes a removal.

    <base>.log, or -<n>.log     renamed to <base>.log.dropped: the segment is dropped
    <base>.index                removed: readers no longer list the segment
    <base>.summary              removed, if it exists
    <base>.log.dropped          removed

A crash after the first step leaves a .log.dropped file, and the next opening completes the removal. A reader that has the files
open completes its read; a reader that opens the files later lists the directory again.

A segment's side file, the summary, contains header values of the segment's messages. Code that removes messages must call
remove_side_files().
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
"""Suffixes of files that can be rebuilt from a segment; the second suffix marks an unfinished file."""


def open_index(directory: str, base: int, files: Files) -> IndexReader | None:
    """Return the index of a segment, which the caller must close; None if it is missing."""
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
        files.open_write(dropped).close()  # its messages were lost before: drop the segment anyway
    files.sync_directory(directory)  # after a power failure, a step is visible only if all earlier steps are
    files.remove(segment_path(directory, base, INDEX_SUFFIX))
    files.sync_directory(directory)
    remove_side_files(directory, base, files)
    files.remove(dropped)


def remove_side_files(directory: str, base: int, files: Files) -> None:
    """Remove the side files of a segment whose messages were changed or removed; durable after the directory's next sync."""
    for suffix in SIDE_SUFFIXES:
        files.remove(segment_path(directory, base, suffix))


def finish_drops(directory: str, files: Files) -> None:
    """Complete interrupted removals of a partition's segments."""
    for name in files.list_names(directory) or []:
        if name.endswith(DROPPED_SUFFIX):
            base = name.removesuffix(DROPPED_SUFFIX)
            files.remove(f"{directory}/{base}{INDEX_SUFFIX}")
            for suffix in SIDE_SUFFIXES:
                files.remove(f"{directory}/{base}{suffix}")
            files.remove(f"{directory}/{name}")
