"""WriterLock: who the one writer of a directory is.

The lock is the operating system's (flock on headstream.lock), so a writer that dies leaves none behind. The file's
text is the writer's process id, for the one who is refused. A forked child would hold its parent's lock on after the
parent's death, so it lets go of it at once; it is not the writer.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from typing import Final

from headstream.errors import LogLockedError
from headstream.segments.files import storage_error

__all__ = ["WriterLock"]


class WriterLock:
    """The lock of one directory, held from acquire() to release().

    Args:
        path: The lock's file; its directory must be there.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return self._descriptor >= 0

    def acquire(self) -> None:
        """Become the writer.

        Raises:
            LogLockedError: another process is.
            StorageError: the lock's file cannot be made or opened.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(error, "open the writer's lock", self._path) from error
        try:
            self._take(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _HELD.add(self)

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            raise self._refusal(os.pread(descriptor, 32, 0)) from None
        except OSError as error:
            raise storage_error(error, "take the writer's lock", self._path) from error

    def _refusal(self, text: bytes) -> LogLockedError:
        holder = text.strip().decode("ascii", "replace")
        who = f"process {holder}" if holder.isdecimal() else "another process"
        return LogLockedError(
            f"{who} is writing to this log, and a log has one writer at a time",
            where=self._path,
            advice="Reading and committing offsets need no lock; to write, send through that process or end it first",
        )

    def release(self) -> None:
        """Cease to be the writer; releasing twice is fine."""
        if self._descriptor >= 0:
            # The file stays: to delete it would let two processes lock two files of one name.
            os.close(self._descriptor)
            self._descriptor = -1
            _HELD.discard(self)


_HELD: Final[weakref.WeakSet[WriterLock]] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for lock in list(_HELD):
        lock.release()


os.register_at_fork(after_in_child=_forget_after_fork)
