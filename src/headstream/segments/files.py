"""The reading half of the file interface, and the operating system's errors in our words.

Readers see files only through ReadFiles, so that the same code reads a disk, the memory of `memory://`, and a
test's faulty disk. log/files.py adds the writing half. Nothing else in Headstream's log opens a file.

Reading is pread into a buffer that is used again: a mapped file would save a copy, but turns a read error or a
truncated file into the death of the process, and fresh memory for each read can cost more than the read.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from typing import Final, Protocol

from headstream.errors import DiskFullError, StorageError

__all__ = ["BufferPool", "OsReadFile", "OsReadFiles", "ReadFile", "ReadFiles", "storage_error"]

_ADVICE: Final = {
    errno.EACCES: "Give this user the permission, or run as the user that owns the log",
    errno.EPERM: "Give this user the permission, or run as the user that owns the log",
    errno.EROFS: "The file system is mounted read-only: the log can be read there, not written",
    errno.ENOSPC: "Make room on the file system; what was acknowledged is safe and can be read",
    errno.EDQUOT: "This user's quota is used up: make room; what was acknowledged is safe and can be read",
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
    errno.ENFILE: "The machine has too many open files",
    errno.EIO: "The disk reports a fault: look into the kernel's log, and copy the data away",
    errno.ENOTDIR: "A part of the path is a file, not a directory",
    errno.ENAMETOOLONG: "Use a shorter path",
}


_UNSETTLED: Final = itertools.count(1)
_TICK_NS: Final = 20_000_000
"""More than the time between two ticks of a system's clock, by which a directory's time is set: 10 ms at most."""


def storage_error(error: OSError, action: str, path: str) -> StorageError:
    """Return the error that says which file operation the system refused, where, and what to do.

    Args:
        error: What the system said.
        action: The operation, as in `write to a file`.
        path: The file or directory.
    """
    code = error.errno if error.errno is not None else 0
    reason = os.strerror(code) if code else str(error)
    kind = DiskFullError if code in (errno.ENOSPC, errno.EDQUOT) else StorageError
    return kind(f"cannot {action}: {reason}", where=path, advice=_ADVICE.get(code))


class ReadFile(Protocol):
    """An open file, for reading."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a byte position and return how many bytes came: fewer only at the end of the file."""

    def size_bytes(self) -> int:
        """Return the file's present size."""

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""


class ReadFiles(Protocol):
    """A file system, for reading."""

    def open_read(self, path: str) -> ReadFile | None:
        """Return the file opened for reading, or None where there is none."""

    def list_names(self, directory: str) -> list[str] | None:
        """Return the names in a directory, or None where there is no such directory."""

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when names come and go in a directory, or None where there is none.

        In a file system it is a time, nanoseconds since 1970 UTC, and of a file that of its last write; a number below 0, each
        time another, where it may still change without that time changing.
        """

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that path."""


class OsReadFile:
    """A file of the operating system, open for reading."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a byte position and return how many bytes came: fewer only at the end of the file."""
        done = 0
        try:
            while done < len(buffer):
                count = os.preadv(self._descriptor, [buffer[done:] if done else buffer], position + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise storage_error(error, "read a file", self._path) from error
        return done

    def size_bytes(self) -> int:
        """Return the file's present size."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise storage_error(error, "look at a file", self._path) from error

    def close(self) -> None:
        """Let go of the file; closing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class OsReadFiles:
    """The operating system's files, for reading."""

    def open_read(self, path: str) -> OsReadFile | None:
        """Return the file opened for reading, or None where there is none."""
        try:
            return OsReadFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "open a file", path) from error

    def list_names(self, directory: str) -> list[str] | None:
        """Return the names in a directory, or None where there is no such directory."""
        try:
            return os.listdir(directory)  # noqa: PTH208 - a Path a name is what this must not make
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "list a directory", directory) from error

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when names come and go in a directory, or None where there is none."""
        try:
            changed_ns = os.stat(directory).st_mtime_ns  # noqa: PTH116 - asked at each refresh
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "look at a directory", directory) from error
        # A name that goes within the same tick of the system's clock leaves this time as it was: while that can be, another
        # number is returned each time. It is no time: a clock may stand still, or be set back.
        return changed_ns if changed_ns < time.time_ns() - _TICK_NS else -next(_UNSETTLED)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that path."""
        try:
            os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error, "look at a file", path) from error
        return True


class BufferPool:
    """Buffers that are used again once nobody looks into them any more; any thread.

    A view of a buffer stays valid as long as it is held: the buffer is simply not given out again until then.

    Args:
        max_kept: How many buffers are kept. A loop holds one chunk while it asks for the next; the third is for a
            caller that looks back one.
    """

    MIN_BYTES: Final = 64 * 1024
    """Sizes are rounded up, to powers of two, so that reads of changing sizes find a buffer that fits."""

    __slots__ = ("_buffers", "_lock", "_max_kept")

    def __init__(self, max_kept: int = 3) -> None:
        self._buffers: list[bytearray] = []
        self._max_kept = max_kept
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> memoryview:
        """Return a writable view of so many bytes, whose content is whatever was there."""
        with self._lock:
            free = [buffer for buffer in self._buffers if _is_free(buffer)]
            buffer = min((buffer for buffer in free if len(buffer) >= size_bytes), key=len, default=None)
            if buffer is None:
                if len(self._buffers) >= self._max_kept:
                    unwanted = free[0] if free else self._buffers[0]
                    self._buffers = [buffer for buffer in self._buffers if buffer is not unwanted]
                buffer = bytearray(max(self.MIN_BYTES, 1 << (size_bytes - 1).bit_length()))
                self._buffers.append(buffer)
            return memoryview(buffer)[:size_bytes]


def _is_free(buffer: bytearray) -> bool:
    """Return whether no view of a buffer is held: only then may it change its size."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
