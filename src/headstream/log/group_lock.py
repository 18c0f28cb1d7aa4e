"""GroupLock: which process reads for a consumer group. One does at a time; others stand by.

ROOT/groups/<stream>-<topic>-<32 hexadecimal digits of the group's name's hash>.lock holds the process id of the one that
has it.
"""

from __future__ import annotations

import fcntl
import os

from headstream.log.access import make_private_directory
from headstream.log.file_lock import FileLock
from headstream.segments.files import storage_error

__all__ = ["GroupLock"]


class GroupLock(FileLock):
    """The lock of one group, held from try_acquire() to release().

    Args:
        path: The lock's file; its directory is made where there is none.
    """

    def try_acquire(self) -> bool:
        """Take the lock if no other process has it, and return whether this one has it now.

        Raises:
            StorageError: the lock's file cannot be made or opened.
        """
        if self.is_held:
            return True
        try:
            make_private_directory(os.path.dirname(self._path))  # noqa: PTH120
            descriptor = self._open()
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
        self._hold(descriptor)
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
