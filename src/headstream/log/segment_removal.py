"""How a closed segment goes, and what a crash leaves of that.

    <base>.log, or -<n>.log     -> <base>.log.dropped     from here on the segment is gone
    <base>.index                removed                   from here on readers do not list it either
    <base>.log.dropped          removed

A crash after the first step leaves a .log.dropped, which says what is to be finished. A reader that has the files open
finishes what it reads; one that opens them later looks again at what is there.
"""

from __future__ import annotations

from headstream.log.files import Files
from headstream.segments.index import IndexReader
from headstream.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, REPLACING_SUFFIX, log_suffix, segment_path

__all__ = ["drop_segment", "finish_drops", "open_index"]


def open_index(directory: str, base: int, files: Files) -> IndexReader | None:
    """Return the index of a segment, to be closed by the caller, or None where there is none.

    Raises:
        CorruptLogError: its head is damaged.
    """
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
    """Remove a closed segment.

    Args:
        directory: The partition's; the caller is the log's writer.
        base: The segment's first offset.
        generation: Of its .log.
        files: Where it is.
    """
    dropped = segment_path(directory, base, DROPPED_SUFFIX)
    # What an interrupted compaction left beside it would look like a segment whose index was lost.
    suffixes = [REPLACING_SUFFIX, *(log_suffix(other) for other in (generation - 1, generation + 1) if other >= 0)]
    for left_over in (segment_path(directory, base, suffix) for suffix in suffixes):
        if files.exists(left_over):
            files.remove(left_over)
    path = segment_path(directory, base, log_suffix(generation))
    if files.exists(path):
        files.rename(path, dropped)
    else:
        files.open_write(dropped).close()  # its messages were lost before: the segment goes all the same
    files.sync_directory(directory)  # after a power cut too each step is there with those before it
    files.remove(segment_path(directory, base, INDEX_SUFFIX))
    files.sync_directory(directory)
    files.remove(dropped)


def finish_drops(directory: str, files: Files) -> None:
    """Finish what a crash has left of dropping segments of a partition.

    Args:
        directory: The partition's; the caller is the log's writer.
        files: Where it is.
    """
    for name in files.list_names(directory) or []:
        if name.endswith(DROPPED_SUFFIX):
            base = name.removesuffix(DROPPED_SUFFIX)
            files.remove(f"{directory}/{base}{INDEX_SUFFIX}")
            files.remove(f"{directory}/{name}")
