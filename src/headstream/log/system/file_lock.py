"""FileLock: a lock file that one process holds at a time, with the operating system's lock (flock).

A process that exits or crashes releases the lock. The file is kept after the release, except by subclasses that check after
locking whether the path still names the locked file. A forked child closes its parent's locks, so that it does not hold them
beyond the parent's exit.
"""

from __future__ import annotations

import os

from headstream.forks import register_for_forks
from headstream.log.system.access import open_private


class FileLock:
    """The lock of one file; subclasses acquire the lock and write the file's content."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def after_fork(self) -> None:
        """In a forked child: close the copy of the descriptor; the parent process keeps the lock."""
        self._close()

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock."""
        return self._descriptor >= 0

    def _open(self) -> int:
        """Open the file, creating it if missing; return the descriptor."""
        return open_private(self._path)

    def _hold(self, descriptor: int) -> None:
        """Keep a locked descriptor until release()."""
        self._descriptor = descriptor
        register_for_forks(self)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
