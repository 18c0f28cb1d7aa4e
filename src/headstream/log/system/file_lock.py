"""FileLock: a lock file that one process holds at a time, by the operating system's lock (flock).

A process that exits or crashes releases it. The file stays after the release, unless a subclass checks after locking that the
path still names the file it has locked. A forked child would hold its parent's locks beyond the parent's exit, so it closes them
immediately.
"""

from __future__ import annotations

import os

from headstream.forks import register_for_forks
from headstream.log.system.access import open_private


class FileLock:
    """The lock of one file; subclasses acquire it and write the file's text."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def after_fork(self) -> None:
        """Close the child's copy of the descriptor: the parent holds the lock on."""
        self._close()

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return self._descriptor >= 0

    def _open(self) -> int:
        """Return a descriptor of the file, creating it if missing."""
        return open_private(self._path)

    def _hold(self, descriptor: int) -> None:
        """Keep a descriptor that has been locked, until release()."""
        self._descriptor = descriptor
        register_for_forks(self)

    def release(self) -> None:
        """Release it; releasing twice is fine."""
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
