"""The lock of a checkpoint in a directory, which only one run can hold."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from headstream.errors import ReplicateError, StorageError
from headstream.log.system.file_lock import FileLock

_NAME: Final = "driver.lock"


class DriverLock(FileLock):
    """The lock of one directory, held from acquire() to release() or until the process ends."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory / _NAME))
        self._directory = directory

    def acquire(self) -> None:
        """Acquire the lock; raise ReplicateError if another process holds the lock."""
        if self.is_held:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            descriptor = self._open()
        except OSError as error:
            raise StorageError(f"the checkpoint cannot be locked: {error.strerror}", where=self._path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise ReplicateError(
                f"process {holder} runs with this checkpoint" if holder else "another process runs with this checkpoint",
                where=str(self._directory),
                advice="Run one process per checkpoint: stop that process first",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        self._hold(descriptor)
