"""GroupLock: the lock of the process that reads for a consumer group; other processes wait.

ROOT/groups/<stream>-<topic>-<32 hexadecimal digits of the name's hash>.lock contains the process id of the holder.
Releasing the lock removes the file, because clients can use many group names and each file takes a disk block.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Final

from headstream.log.segments.files import storage_error
from headstream.log.system.access import make_private_directory
from headstream.log.system.file_lock import FileLock

_ATTEMPTS: Final = 100
"""Maximum number of attempts, because the holder can remove the file after it is opened here and before it is locked."""


class GroupLock(FileLock):
    """The lock of one group, held from try_acquire() to release(); the directory of the lock file is created if missing."""

    def try_acquire(self) -> bool:
        """Acquire the lock if no other process holds it; return whether this process now holds the lock."""
        if self.is_held:
            return True
        for _ in range(_ATTEMPTS):
            try:
                make_private_directory(os.path.dirname(self._path))  # noqa: PTH120
                descriptor = self._open()
            except OSError as error:
                raise storage_error(error, "open a consumer group's lock", self._path) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not self._is_at_path(descriptor):
                    os.close(descriptor)
                    continue
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            except BlockingIOError:
                os.close(descriptor)
                return False
            except OSError as error:
                os.close(descriptor)
                raise storage_error(error, "take a consumer group's lock", self._path) from error
            self._hold(descriptor)
            return True
        return False

    def _is_at_path(self, descriptor: int) -> bool:
        """Return whether the path still names the file of a descriptor."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))  # noqa: PTH116
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock and remove its file; a second call does nothing."""
        if self.is_held:
            with suppress(OSError):  # a remaining file is harmless; the lock is released in any case
                os.unlink(self._path)  # noqa: PTH108
        super().release()

    def __del__(self) -> None:
        self.release()

    def holder(self) -> int | None:
        """Return the id of another process that holds the lock: 0 if unknown, None if no other process holds it."""
        if self.is_held:
            return None
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # never acquired, or not readable for this user
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 32, 0).strip()
            return int(text) if text.isdigit() else 0
        finally:
            os.close(descriptor)
        return None
