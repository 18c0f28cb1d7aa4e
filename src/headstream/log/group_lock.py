"""GroupLock: which process reads for a consumer group. One does at a time; others stand by.

ROOT/groups/<stream>-<topic>-<32 hexadecimal digits of the group's name's hash>.lock holds the process id of the one that
has it. The lock is the operating system's (flock), so a process that dies leaves none behind. The file stays: to delete
it would let two processes lock two files of one name. A forked child lets go of its parent's locks at once.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from typing import Final

from headstream.segments.files import storage_error

__all__ = ["GroupLock"]


class GroupLock:
    """The lock of one group, held from try_acquire() to release().

    Args:
        path: The lock's file; its directory is made where there is none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return self._descriptor >= 0

    def try_acquire(self) -> bool:
        """Take the lock if no other process has it, and return whether this one has it now.

        Raises:
            StorageError: the lock's file cannot be made or opened.
        """
        if self.is_held:
            return True
        try:
            Path(self._path).parent.mkdir(exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(error, "open the lock of a consumer group", self._path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            raise storage_error(error, "take the lock of a consumer group", self._path) from error
        self._descriptor = descriptor
        _HELD.add(self)
        return True

    def holder(self) -> int | None:
        """Return the id of another process that holds it, 0 where that is not known, or None where none does."""
        if self.is_held:
            return None
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # never taken, or not ours to see
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 32, 0).strip()
            return int(text) if text.isdigit() else 0
        finally:
            os.close(descriptor)
        return None

    def release(self) -> None:
        """Let go of it; releasing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _HELD.discard(self)


_HELD: Final[weakref.WeakSet[GroupLock]] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for lock in list(_HELD):
        lock.release()


os.register_at_fork(after_in_child=_forget_after_fork)
