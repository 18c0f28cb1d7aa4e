"""Removing a log: all that a log and its server have put into a directory, and nothing else.

The marker goes first and the catalog next: what a crash leaves is no log any more, and its removal can begin again. The
writer's lock is held all the time, and its file stays: to delete it would let two processes lock two files of one name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headstream.errors import NotALogError
from headstream.log.files import Files
from headstream.log.lock import WriterLock
from headstream.log.marker import read_marker
from headstream.segments.layout import (
    CATALOG_NAME,
    GROUPS_NAME,
    INBOX_NAME,
    LOCK_NAME,
    MARKER_NAME,
    STAGED_NAME,
    STREAMS_NAME,
)

__all__ = ["remove_log"]

_FILES: Final = (
    MARKER_NAME,
    f"{MARKER_NAME}.new",
    f"{CATALOG_NAME}-wal",  # before the database: a new one would take over what stands in it
    f"{CATALOG_NAME}-shm",
    f"{CATALOG_NAME}-journal",
    CATALOG_NAME,
)
_DIRECTORIES: Final = (INBOX_NAME, STAGED_NAME, STREAMS_NAME, GROUPS_NAME)


def remove_log(root: str, files: Files, beside: Collection[str] = ()) -> list[str]:
    """Remove the log in a directory, and return the names in it that are gone; the directory stays.

    Args:
        root: The directory; it may be missing or empty.
        files: Where it is: a file system, for the lock is the system's.
        beside: Names of directories that go too, which whoever serves the log has made.

    Raises:
        NotALogError: there are other things in the directory; all of it is left as it is.
        LogVersionError: a newer Headstream wrote it.
        CorruptLogError: its marker cannot be read, so nobody knows what it is.
        LogLockedError: another process writes to it.
        StorageError: the system refused.
    """
    if not files.list_names(root):
        return []
    _check(root, files, beside)
    lock = WriterLock(f"{root}/{LOCK_NAME}")
    lock.acquire()
    try:
        names = _check(root, files, beside)
        for name in _FILES:
            files.remove(f"{root}/{name}")
        files.sync_directory(root)
        for name in (*_DIRECTORIES, *beside):
            files.remove_directory(f"{root}/{name}")
        files.sync_directory(root)
    finally:
        lock.release()
    return sorted(name for name in names if name != LOCK_NAME)


def _check(root: str, files: Files, beside: Collection[str]) -> list[str]:
    """Return the names in a directory, all of them those of a log."""
    names = files.list_names(root) or []
    strange = sorted(set(names) - {*_FILES, *_DIRECTORIES, LOCK_NAME, *beside})
    if strange:
        what = f"the directory holds {strange[0]!r}, which is no part of a log"
    elif MARKER_NAME not in names and LOCK_NAME not in names:
        what = f"the directory is not a log: it holds neither {MARKER_NAME} nor {LOCK_NAME}"
    else:
        if MARKER_NAME in names:
            read_marker(root, files)
        return names
    raise NotALogError(f"{what}: nothing was removed", where=root, advice="Name the directory of a log, or remove by hand")
