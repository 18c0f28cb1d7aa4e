"""WriterLock: ensures that a directory has at most one writer.

The lock is a FileLock. The file contains the writer's process id, for error messages in other processes. A process that holds
the lock briefly (for example, to append one commit) adds `briefly`, and other processes wait for the release. Forked children
do not hold the lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Final

from headstream.errors import LogLockedError
from headstream.log.segments.files import storage_error
from headstream.log.system.file_lock import FileLock

_BRIEF_WAIT_S: Final = 10.0
"""Maximum wait for a process that holds the lock briefly, seconds."""
_BRIEF_CHECK_S: Final = 0.002


class WriterLock(FileLock):
    """The lock of one directory, held from acquire() to release()."""

    def acquire(self, *, briefly: bool = False) -> None:
        """Become the writer, or raise LogLockedError. With `briefly`, other processes wait for the release."""
        try:
            descriptor = self._open()
        except OSError as error:
            raise storage_error(error, "open the writer's lock", self._path) from error
        try:
            self._take(descriptor, "briefly" if briefly else "")
        except BaseException:
            os.close(descriptor)
            raise
        self._hold(descriptor)

    def _take(self, descriptor: int, note: str) -> None:
        until = time.monotonic() + _BRIEF_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {note}".strip().encode() + b"\n", 0)
            except BlockingIOError:
                text = os.pread(descriptor, 64, 0)
                if note or not text.strip().endswith(b"briefly") or time.monotonic() > until:
                    raise self._refusal(text) from None
                time.sleep(_BRIEF_CHECK_S)
            except OSError as error:
                raise storage_error(error, "take the writer's lock", self._path) from error
            else:
                return

    def _refusal(self, text: bytes) -> LogLockedError:
        holder = text.decode("ascii", "replace").partition(" ")[0].strip()
        holder_text = f"process {holder}" if holder.isdecimal() else "another process"
        return LogLockedError(
            f"{holder_text} is writing to this log; only one process can write at a time",
            where=self._path,
            advice="To write, send through that process or stop that process; reading and committing need no lock",
        )
