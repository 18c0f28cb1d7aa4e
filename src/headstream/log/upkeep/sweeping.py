"""Sweeping: removes directories of deleted and purged topics that remain after a crash.

    number in the catalog                       a topic: unchanged
    missing number, at most the last assigned   deleted or purged: removed, because numbers are never reused
    greater number, empty directory             a creation that was never committed: used by the next topic
    greater number, directory with files        unknown to the catalog (an older copy was restored): renamed before a new
                                                topic gets the number

A missing partition directory is not recreated, because messages may be lost; only a repair that accepts the loss creates it. A
missing offset directory is recreated.
"""

from __future__ import annotations

from headstream.errors import StorageError
from headstream.log.catalog.catalog import Catalog, topics_of
from headstream.log.partition.index_rebuild import free_quarantine_path
from headstream.log.partition.recovery import MISSING_ADVICE
from headstream.log.segments.layout import OFFSETS_NAME, STREAMS_NAME, topic_directory
from headstream.log.system.files import Files
from headstream.log.system.findings import report


def sweep_directories(root: str, files: Files, catalog: Catalog) -> None:
    """Remove the directories of deleted topics, rename unknown directories, and report missing directories."""
    topics = list(topics_of(catalog.snapshot()))
    known = {topic.number for topic in topics}
    last = catalog.last_topic_number()
    streams = f"{root}/{STREAMS_NAME}"
    for stream in _numbers(files, streams):
        for topic in _numbers(files, f"{streams}/{stream}"):
            if int(topic) not in known:
                _sweep(f"{streams}/{stream}/{topic}", files, is_explained=int(topic) <= last)

    for each in topics:
        directory = topic_directory(root, each.stream_number, each.number)
        names = set(files.list_names(directory) or ())
        try:
            if OFFSETS_NAME not in names:  # version control and archives drop empty directories
                files.make_directory(f"{directory}/{OFFSETS_NAME}")
        except StorageError as error:  # affects only this topic
            report(directory, f"the consumer offset directory cannot be created: {error}")
        for number in range(1, each.partitions + 1):
            if str(number) not in names:
                report(f"{directory}/{number}", f"the partition's directory is missing, with all its messages. {MISSING_ADVICE}")


def _sweep(directory: str, files: Files, *, is_explained: bool) -> None:
    try:
        if is_explained:
            files.remove_directory(directory)
            report(directory, "the remaining files of a deleted or purged topic were removed")
        elif any(files.list_names(f"{directory}/{name}") for name in files.list_names(directory) or []):
            target = free_quarantine_path(directory, files)
            files.rename(directory, target)
            report(directory, f"the catalog does not contain this topic: renamed to {target.rpartition('/')[2]}")
    except StorageError as error:  # harmless: the next opening retries
        report(directory, f"a topic directory that is not in the catalog cannot be renamed or removed: {error}")


def _numbers(files: Files, directory: str) -> list[str]:
    """Return the numeric names in a directory."""
    return sorted(name for name in files.list_names(directory) or [] if name.isascii() and name.isdecimal())
