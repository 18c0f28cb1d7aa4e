"""Sweeping: what a crash has left of deleted and purged topics, between the catalog's commit and the files' removal.

number in the catalog                        a topic: not touched
not there, at most the last number given     deleted or purged: removed, since numbers are never given again
greater, and nothing in it                   a creation that was never committed: taken by the next topic
greater, and files in it                     the catalog does not know of it (an older copy was put back): set aside,
                                             before a new topic gets its number
"""

from __future__ import annotations

from headstream.errors import StorageError
from headstream.log.catalog import Catalog
from headstream.log.files import Files
from headstream.log.findings import report
from headstream.log.index_rebuild import free_aside_name
from headstream.segments.layout import STREAMS_NAME

__all__ = ["sweep_directories"]


def sweep_directories(root: str, files: Files, catalog: Catalog) -> None:
    """Remove the directories of topics that are no more, and set aside those that cannot be explained.

    Args:
        root: The log's directory; the caller is its writer.
        files: Where it is.
        catalog: The log's catalog.
    """
    known = {topic.number for stream in catalog.snapshot().values() for topic in stream.topics.values()}
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
            report(directory, "what was left of a deleted or purged topic is removed")
        elif _holds_files(files, directory):
            target = free_aside_name(directory, files)
            files.rename(directory, target)
            report(directory, f"the catalog does not know this topic: set aside as {target.rpartition('/')[2]}")
    except StorageError as error:  # it is in nobody's way: the next opening tries again
        report(directory, f"a topic's directory that is not in the catalog stays: {error}")


def _holds_files(files: Files, directory: str) -> bool:
    return any(files.list_names(f"{directory}/{name}") for name in files.list_names(directory) or [])


def _numbers(files: Files, directory: str) -> list[str]:
    """Return the names in a directory that are numbers."""
    return sorted(name for name in files.list_names(directory) or [] if name.isascii() and name.isdecimal())
