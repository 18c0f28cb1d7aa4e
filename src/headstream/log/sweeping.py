"""Sweeping: removes the directories of deleted and purged topics that a crash has left.

number in the catalog                        a topic: unchanged
not in it, at most the last number given     deleted or purged: removed, since numbers are never reused
greater, and empty                           a creation that was never committed: taken by the next topic
greater, with files                          unknown to the catalog (an older copy was restored): set aside,
                                             before a new topic gets its number
"""

from __future__ import annotations

from headstream.errors import StorageError
from headstream.log.catalog.catalog import Catalog, topics_of
from headstream.log.partition.index_rebuild import free_aside_name
from headstream.log.system.files import Files
from headstream.log.system.findings import report
from headstream.segments.layout import STREAMS_NAME

__all__ = ["sweep_directories"]


def sweep_directories(root: str, files: Files, catalog: Catalog) -> None:
    """Remove the directories of deleted topics, and set aside unexplained ones.

    Args:
        root: The log's directory; this process is its writer.
        files: Its file system.
        catalog: The log's catalog.
    """
    known = {topic.number for topic in topics_of(catalog.snapshot())}
    last = catalog.last_topic_number()
    streams = f"{root}/{STREAMS_NAME}"
    for stream in _numbers(files, streams):
        for topic in _numbers(files, f"{streams}/{stream}"):
            if int(topic) not in known:
                _sweep(f"{streams}/{stream}/{topic}", files, is_explained=int(topic) <= last)


def _sweep(directory: str, files: Files, *, is_explained: bool) -> None:
    try:
        if is_explained:
            files.remove_directory(directory)
            report(directory, "the rest of a deleted or purged topic is removed")
        elif _holds_files(files, directory):
            target = free_aside_name(directory, files)
            files.rename(directory, target)
            report(directory, f"the catalog does not know this topic: set aside as {target.rpartition('/')[2]}")
    except StorageError as error:  # harmless: the next opening retries
        report(directory, f"a topic's directory that is not in the catalog stays: {error}")


def _holds_files(files: Files, directory: str) -> bool:
    return any(files.list_names(f"{directory}/{name}") for name in files.list_names(directory) or [])


def _numbers(files: Files, directory: str) -> list[str]:
    """Return the names in a directory that are numbers."""
    return sorted(name for name in files.list_names(directory) or [] if name.isascii() and name.isdecimal())
