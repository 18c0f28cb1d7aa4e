"""Removes a log: deletes only files that the log and its server have created.

The marker is removed first, then the catalog: after a crash, the directory contains no log, and the removal can be repeated. The
writer's lock is held throughout. The lock file is kept, because otherwise two processes could lock two files of the same name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headstream.core.model.topology import check_legal_hold
from headstream.errors import NotALogError
from headstream.log.catalog.catalog import Catalog, topics_of
from headstream.log.directory.lock import WriterLock
from headstream.log.directory.marker import read_marker
from headstream.log.segments.layout import (
    CATALOG_NAME,
    GROUPS_NAME,
    INBOX_NAME,
    LOCK_NAME,
    MARKER_NAME,
    STAGED_NAME,
    STREAMS_NAME,
)
from headstream.log.system.files import Files

_FILES: Final = (
    MARKER_NAME,
    f"{MARKER_NAME}.new",
    f"{CATALOG_NAME}-wal",  # before the database: a new database would replay it
    f"{CATALOG_NAME}-shm",
    f"{CATALOG_NAME}-journal",
    CATALOG_NAME,
)
_DIRECTORIES: Final = (INBOX_NAME, STAGED_NAME, STREAMS_NAME, GROUPS_NAME)


def remove_log(root: str, files: Files, beside: Collection[str] = ()) -> list[str]:
    """Remove the log in a directory; return the removed names. The directory is kept.

    Args:
        root: The directory, which can be missing or empty.
        beside: Names of directories created by a server of the log, which are also removed.

    Raises:
        NotALogError: the directory contains other files; no file is removed.
        CorruptLogError: the marker cannot be read, so the content is unknown.
        LogLockedError: another process writes to the log.
        LegalHoldError: a topic is under legal hold; no message is removed.
    """
    if not files.list_names(root):
        return []
    _check(root, files, beside)
    lock = WriterLock(f"{root}/{LOCK_NAME}")
    lock.acquire()
    try:
        names = _check(root, files, beside)
        if MARKER_NAME in names and CATALOG_NAME in names:
            _check_holds(root)
        for name in _FILES:
            files.remove(f"{root}/{name}")
        files.sync_directory(root)
        for name in (*_DIRECTORIES, *beside):
            files.remove_directory(f"{root}/{name}")
        files.sync_directory(root)
    finally:
        lock.release()
    return sorted(name for name in names if name != LOCK_NAME)


def _check_holds(root: str) -> None:
    catalog = Catalog(f"{root}/{CATALOG_NAME}", is_writer=False)
    try:
        for topic in topics_of(catalog.snapshot()):
            check_legal_hold(topic.name, topic.options.legal_hold)
    finally:
        catalog.close()


def _check(root: str, files: Files, beside: Collection[str]) -> list[str]:
    """Return the names in a directory; NotALogError if it contains other files, or neither marker nor lock."""
    names = files.list_names(root) or []
    strange = sorted(set(names) - {*_FILES, *_DIRECTORIES, LOCK_NAME, *beside})
    if strange:
        what = f"the directory contains {strange[0]!r}, which is not part of a log"
    elif MARKER_NAME not in names and LOCK_NAME not in names:
        what = f"the directory is not a log: it contains neither {MARKER_NAME} nor {LOCK_NAME}"
    else:
        if MARKER_NAME in names:
            read_marker(root, files)
        return names
    raise NotALogError(f"{what}: nothing was removed", where=root, advice="Specify a log directory, or delete the files")
