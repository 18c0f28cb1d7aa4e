"""FileLock: a lock file that one process holds at a time, by the operating system's lock (flock).

A process that dies leaves none behind. The file stays when it is let go of: to delete it would let two processes lock
two files of one name. A forked child would hold its parent's locks on after the parent's death, so it lets go of them
at once.
"""

from __future__ import annotations

import os
import weakref
from typing import Final

from headstream.log.access import open_private

__all__ = ["FileLock"]


class FileLock:
    """The lock of one file; who takes it, and what stands in the file, is the subclass's.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return self._descriptor >= 0

    def _open(self) -> int:
        """Return a descriptor of the file, which is made where there is none."""
        return open_private(self._path)

    def _hold(self, descriptor: int) -> None:
        """Keep a descriptor that has been locked, until release()."""
        self._descriptor = descriptor
        _HELD.add(self)

    def release(self) -> None:
        """Let go of it; releasing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _HELD.discard(self)


_HELD: Final[weakref.WeakSet[FileLock]] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for lock in list(_HELD):
        lock.release()


os.register_at_fork(after_in_child=_forget_after_fork)
