"""The reading half of the file interface; converts operating-system errors to StorageError.

Readers access files only through ReadFiles, so that the same code reads a disk, the memory of `memory://` and the faulty disk of
a test. log/system/files.py adds the writing half. No other module of the log opens files.

Files are read with pread into a reused buffer. mmap would save a copy, but would turn a read error or a truncated file into a
crash (SIGBUS). Allocating memory for each read can cost more than the read.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from typing import Final, Protocol

from headstream.core.codec.new_buffer import new_buffer
from headstream.errors import DiskFullError, StorageError

_ADVICE: Final = {
    errno.EACCES: "Grant this user the permission, or run as the user who owns the log",
    errno.EPERM: "Grant this user the permission, or run as the user who owns the log",
    errno.EROFS: "The file system is mounted read-only: the log can be read but not written",
    errno.ENOSPC: "Free space on the file system; acknowledged messages are safe and readable",
    errno.EDQUOT: "This user's quota is used up: free space; acknowledged messages are safe and readable",
    errno.EMFILE: "Raise the open-file limit (ulimit -n)",
    errno.ENFILE: "Close files on this machine, or raise its open-file limit",
    errno.EIO: "The disk reports an I/O error: check the kernel's log, and copy the data to another disk",
    errno.ENOTDIR: "A part of the path is a file, not a directory",
    errno.ENAMETOOLONG: "Use a shorter path",
}


_UNSETTLED: Final = itertools.count(1)
_TICK_NS: Final = 20_000_000
"""Longer than a tick (at most 10 ms) of the system clock, which sets a directory's modification time; nanoseconds."""


def storage_error(error: OSError, action: str, path: str) -> StorageError:
    """Return the error, with path and advice, for a failed file operation; `action` as in `write to a file`."""
    code = error.errno if error.errno is not None else 0
    reason = os.strerror(code) if code else str(error)
    kind = DiskFullError if code in (errno.ENOSPC, errno.EDQUOT) else StorageError
    return kind(f"cannot {action}: {reason}", where=path, advice=_ADVICE.get(code))


class ReadFile(Protocol):
    """An open file, for reading."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a byte position; return the number of bytes read, which is smaller only at the end of the file."""

    def size_bytes(self) -> int:
        """Return the file's current size."""

    def close(self) -> None:
        """Close the file; a second call does nothing."""


class ReadFiles(Protocol):
    """A file system, for reading."""

    def open_read(self, path: str) -> ReadFile | None:
        """Open a file for reading; return None if the file does not exist."""

    def list_names(self, directory: str) -> list[str] | None:
        """Return the names in a directory; None if the directory does not exist."""

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when a directory's names change; None if the directory does not exist.

        In a file system, the number is the modification time (for a file, the time of its last write), nanoseconds since 1970
        UTC. If a change within the same clock tick would not change this time, each call returns a new negative number.
        """

    def exists(self, path: str) -> bool:
        """Return whether a file or directory with this path exists."""


class OsReadFile:
    """A file of the operating system, open for reading."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def read_into(self, buffer: memoryview, position: int) -> int:
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
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise storage_error(error, "read a file's size", self._path) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class OsReadFiles:
    """The operating system's files, for reading."""

    def open_read(self, path: str) -> OsReadFile | None:
        try:
            return OsReadFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "open a file", path) from error

    def list_names(self, directory: str) -> list[str] | None:
        try:
            return os.listdir(directory)  # noqa: PTH208 - one Path object a name would be too slow
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "list a directory", directory) from error

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when a directory's names change; None if the directory does not exist."""
        try:
            changed_ns = os.stat(directory).st_mtime_ns  # noqa: PTH116 - called at each refresh
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "read a directory's time", directory) from error
        # A name removed within the same clock tick leaves this time unchanged: until the tick has passed, return a new number
        # at each call. It is not a time, since a clock can stop or be set back.
        return changed_ns if changed_ns < time.time_ns() - _TICK_NS else -next(_UNSETTLED)

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error, "check whether a file exists", path) from error
        return True


class BufferPool:
    """Up to `max_kept` buffers that are reused once no view of them exists; thread-safe.

    The default is three: a loop holds one chunk while it reads the next chunk, and a caller can also hold the previous chunk.
    """

    MIN_BYTES: Final = 64 * 1024
    """Sizes are rounded up to eighths of powers of two, so that reads of changing sizes find a buffer that fits."""

    __slots__ = ("_buffers", "_lock", "_max_kept")

    def __init__(self, max_kept: int = 3) -> None:
        self._buffers: list[bytearray] = []
        self._max_kept = max_kept
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> memoryview:
        """Return a writable view of the given size, with arbitrary content."""
        with self._lock:
            free = [buffer for buffer in self._buffers if _is_free(buffer)]
            buffer = min((buffer for buffer in free if len(buffer) >= size_bytes), key=len, default=None)
            if buffer is None:
                if len(self._buffers) >= self._max_kept:
                    unwanted = free[0] if free else self._buffers[0]
                    self._buffers = [buffer for buffer in self._buffers if buffer is not unwanted]
                step = max(self.MIN_BYTES, 1 << max(size_bytes.bit_length() - 3, 0))
                buffer = new_buffer(max(-(-size_bytes // step), 1) * step)
                self._buffers.append(buffer)
            return memoryview(buffer)[:size_bytes]


def _is_free(buffer: bytearray) -> bool:
    """Return whether no view of a buffer exists, tested by changing its size."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
