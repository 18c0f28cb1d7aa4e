"""Truncates what a power cut damaged of a staged commit in a partition: a damaged send, and the sends after it.

Recovery keeps a damaged send before a whole one, since the latter was possibly acknowledged. Nothing of an unfinished
commit was acknowledged: its part of the partition is cut off from the first damaged send on, and
appended again from the staged files.
"""

from __future__ import annotations

from headstream.errors import CorruptSendError
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    base_offsets,
    segment_path,
)
from headstream.log.system.files import Files
from headstream.log.system.findings import report

__all__ = ["truncate_damaged"]


def truncate_damaged(directory: str, files: Files, from_offset: int) -> bool:
    """Cut off the first damaged send from an offset on, and all after it; return whether there was one.

    A damaged send of an earlier segment stays, and reads of it raise an error: segments are synced before the next one begins.

    Args:
        directory: The partition's directory, which is reserved meanwhile.
        files: Its file system.
        from_offset: The beginning of the unfinished commit's part.

    Raises:
        CorruptLogError: files contradict each other in a way that no crash explains.
        StorageError: the system refused an operation.
    """
    damaged = _find_damaged(directory, files, from_offset)
    base = base_offsets(files.list_names(directory) or [])[-1:]
    if damaged is None or not base or damaged < base[0]:
        return False
    path = segment_path(directory, base[0], INDEX_SUFFIX)
    data, index = files.open_write(segment_path(directory, base[0], LOG_SUFFIX)), files.open_write(path)
    try:
        reader = IndexReader(index, path, base[0])
        kept = end = 0
        for number in range(reader.count):
            entry = reader.find_entry(number)
            if entry is not None and entry.end_offset <= damaged:
                kept, end = number + 1, entry.end_position
        report(path, f"the sends from offset {damaged} on, of an unfinished commit, are damaged: they are appended again")
        index.truncate(INDEX_HEADER_BYTES + kept * INDEX_ENTRY_BYTES)
        index.sync()  # before the data it names is cut off
        data.truncate(end)
        data.sync()
    finally:
        data.close()
        index.close()
    return True


def _find_damaged(directory: str, files: Files, from_offset: int) -> int | None:
    with PartitionFollower(directory, files) as follower:
        try:
            for _ in follower.read(max(from_offset, follower.first_offset)):
                pass
        except CorruptSendError as error:
            return max(error.from_offset, from_offset)
    return None
