"""The writing half of the file interface: every open, write, sync, rename, truncate and delete of the log's files.

Exceptions are the locks (file_lock.py) and the catalog's files, which SQLite writes (catalog.py).

Files is a protocol, so that tests can inject disk failures (a short or failed write, a full disk, a crash between two
operations). OsFiles uses the operating system's files; MemoryFiles uses the memory of one process, for `memory://` and for tests.

Every write names a byte position instead of appending, so that the next write overwrites a partially failed write.

For large files, space is reserved after the end if the system supports this: writes become a sixth cheaper, and files that grow
in parallel are less fragmented. The file size, which recovery uses, is unchanged. Written bytes are flushed early; otherwise, the
sync at a segment's end would write 256 MB at once and block appends.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from headstream.log.segments.files import OsReadFile, OsReadFiles, ReadFile, ReadFiles, storage_error
from headstream.log.system.access import make_private_directory, open_private
from headstream.log.system.linux import reserve, start_writing

_RESERVED_FROM_BYTES: Final = 1 << 20
"""No space is reserved for smaller files (bytes), so a thousand small partitions reserve nothing."""
_MAX_RESERVED_BYTES: Final = 64 << 20
"""Maximum space reserved ahead, at most the file's size, so that a crash leaves a file of at most twice its size. Reserving while
the disk is busy can take tens of milliseconds, so it is done a few times per segment."""

_STARTED_BYTES: Final = 4 << 20
"""Written bytes are flushed in steps of this size, bytes: 0.1 ms of work at a time."""
_MOST_TRIES: Final = 100
"""Maximum number of attempts to create a directory whose parent is removed meanwhile."""


class WriteFile(ReadFile, Protocol):
    """An open file, for reading and writing."""

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of the data at a byte position, or raise StorageError."""

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to a size."""

    def trim(self) -> None:
        """Release space reserved after the end, because the file will not grow soon."""

    def sync(self) -> None:
        """Sync the written bytes to the disk."""

    def direct(self) -> tuple[int, int] | None:
        """Return the descriptor and the byte position up to which pwrite() can replace write_at(); None if not supported."""

    def is_removed(self) -> bool:
        """Return whether the file was removed or replaced since it was opened."""


class Files(ReadFiles, Protocol):
    """A file system, for reading and writing."""

    def open_write(self, path: str) -> WriteFile:
        """Open a file for reading and writing, creating it if missing."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, if missing."""

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Replace a file's content atomically: readers see old or new content. A power failure can leave either or neither."""

    def sync_directory(self, path: str) -> None:
        """Sync the added and removed names of a directory."""

    def rename(self, path: str, target: str) -> None:
        """Rename a file or directory within a file system, replacing the target."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its content if it exists."""

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory atomically if it is empty; files that another process adds meanwhile are kept."""


class OsFile(OsReadFile):
    """A file of the operating system, open for reading and writing."""

    __slots__ = ("_reserved", "_started", "_way")

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._reserved = self._way = _RESERVED_FROM_BYTES
        self._started = 0

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if position + len(data) > self._way:
            self._reserve_ahead(position, position + len(data))
        try:
            done = os.pwrite(self._descriptor, data, position)
            if done < len(data):
                self._write_rest(memoryview(data), position, done)
        except OSError as error:
            raise storage_error(error, "write to a file", self._path) from error

    def direct(self) -> tuple[int, int] | None:
        """Return the descriptor and the byte position up to which space is reserved."""
        return self._descriptor, self._way

    def _reserve_ahead(self, position: int, end: int) -> None:
        """Reserve space for a write and later writes, and start flushing earlier bytes."""
        if end > self._reserved:
            until = end + min(end, _MAX_RESERVED_BYTES)
            reserve(self._descriptor, position, until - position)  # on failure, such as a full disk, the write raises
            self._reserved = until
        if position >= self._started + _STARTED_BYTES:
            start_writing(self._descriptor, self._started, position - self._started)
            self._started = position
        self._way = min(self._reserved, self._started + _STARTED_BYTES)

    def trim(self) -> None:
        """Release space reserved after the end; only the file's writer calls this method."""
        with suppress(OSError):
            size_bytes = os.fstat(self._descriptor).st_size
            if size_bytes >= _RESERVED_FROM_BYTES:
                os.ftruncate(self._descriptor, size_bytes)
        self._reserved = self._way = _RESERVED_FROM_BYTES

    def _write_rest(self, data: memoryview, position: int, done: int) -> None:
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], position + done)

    def truncate(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise storage_error(error, "truncate a file", self._path) from error

    def is_removed(self) -> bool:
        return os.fstat(self._descriptor).st_nlink == 0

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)  # with the size; access times are not needed
        except OSError as error:
            raise storage_error(error, "sync a file", self._path) from error


class OsFiles(OsReadFiles):
    """The operating system's files."""

    def open_write(self, path: str) -> OsFile:
        try:
            return OsFile(path, open_private(path))
        except OSError as error:
            raise storage_error(error, "open a file", path) from error

    def make_directory(self, path: str) -> None:
        for left in reversed(range(_MOST_TRIES)):
            try:
                make_private_directory(path)
                break
            except OSError as error:
                if not (left and isinstance(error, FileNotFoundError)):  # an empty parent was just removed
                    raise storage_error(error, "create a directory", path) from error

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        temporary = f"{path}.new"
        file = self.open_write(temporary)
        try:
            file.truncate(0)
            file.write_at(data, 0)
            if durably:
                file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        if durably:
            self.sync_directory(str(Path(path).parent))

    def sync_directory(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(error, "sync a directory", path) from error

    def rename(self, path: str, target: str) -> None:
        try:
            Path(path).replace(target)
        except OSError as error:
            raise storage_error(error, "rename a file", path) from error

    def remove(self, path: str) -> None:
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(error, "remove a file", path) from error

    def remove_directory(self, path: str) -> None:
        while os.path.lexists(path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue  # another process removes it too
            except OSError as error:
                raise storage_error(error, "remove a directory", path) from error

    def remove_empty_directory(self, path: str) -> None:
        try:
            os.rmdir(path)  # noqa: PTH106
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise storage_error(error, "remove a directory", path) from error


class MemoryFile:
    """A file in memory, open for reading and writing; several MemoryFiles can share the same bytes."""

    __slots__ = ("_content", "_is_removed", "_lock")

    def __init__(self, content: bytearray, lock: threading.Lock, is_removed: Callable[[], bool] = lambda: False) -> None:
        self._content = content
        self._lock = lock
        self._is_removed = is_removed

    def read_into(self, buffer: memoryview, position: int) -> int:
        with self._lock:
            count = max(0, min(len(buffer), len(self._content) - position))
            with memoryview(self._content) as content:
                buffer[:count] = content[position : position + count]
        return count

    def size_bytes(self) -> int:
        return len(self._content)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        with self._lock:
            gap = position - len(self._content)
            if gap > 0:
                self._content.extend(bytes(gap))
            self._content[position : position + len(data)] = data

    def truncate(self, size_bytes: int) -> None:
        with self._lock:
            del self._content[size_bytes:]

    def trim(self) -> None:
        """Do nothing, because no space is reserved in memory."""

    def sync(self) -> None:
        """Do nothing, because there is no disk."""

    def direct(self) -> None:
        """Return None, because there is no descriptor."""

    def is_removed(self) -> bool:
        return self._is_removed()

    def close(self) -> None:
        """Do nothing, because the bytes belong to the file system."""


class MemoryFiles:
    """The files of a log in the memory of this process; paths are only names."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._directories: dict[str, int] = {"": 0}
        self._changes = 0
        self._lock = threading.Lock()

    def open_read(self, path: str) -> MemoryFile | None:
        return None if (content := self._files.get(path)) is None else MemoryFile(content, self._lock)

    def open_write(self, path: str) -> MemoryFile:
        with self._lock:
            if path not in self._files:
                self._create(path, b"")
            return MemoryFile(content := self._files[path], self._lock, lambda: self._files.get(path) is not content)

    def list_names(self, directory: str) -> list[str] | None:
        with self._lock:
            if directory not in self._directories:
                return None
            split = (path.rpartition("/") for path in (*self._files, *self._directories))
            return [name for parent, _, name in split if parent == directory]

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when the names in a directory change; None if the directory does not exist."""
        return self._directories.get(directory)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def _create(self, path: str, data: bytes) -> None:
        if path.rpartition("/")[0] not in self._directories:
            raise storage_error(FileNotFoundError(errno.ENOENT, ""), "open a file", path)
        self._files[path] = bytearray(data)
        self._touch(path)

    def _touch(self, path: str) -> None:
        self._changes += 1
        parent = path.rpartition("/")[0]
        if parent in self._directories:
            self._directories[parent] = self._changes

    def make_directory(self, path: str) -> None:
        with self._lock:
            parts = path.split("/")
            for end in range(1, len(parts) + 1):
                directory = "/".join(parts[:end])
                if directory not in self._directories:
                    self._touch(directory)
                    self._directories[directory] = self._changes

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Replace a file's content."""
        with self._lock:
            self._create(path, data)

    def sync_directory(self, path: str) -> None:
        """Do nothing, because there is no disk."""

    def rename(self, path: str, target: str) -> None:
        """Rename a file or directory, replacing the target."""
        with self._lock:
            for names in (self._files, self._directories):
                self._move(names, path, target)
            self._touch(path)
            self._touch(target)

    @staticmethod
    def _move(names: dict[str, bytearray] | dict[str, int], path: str, target: str) -> None:
        moved = [name for name in names if name == path or name.startswith(f"{path}/")]
        for name in moved:
            names[target + name[len(path) :]] = names.pop(name)  # type: ignore[assignment]

    def remove(self, path: str) -> None:
        with self._lock:
            if self._files.pop(path, None) is not None:
                self._touch(path)

    def remove_directory(self, path: str) -> None:
        with self._lock:
            for name in [name for name in self._files if name.startswith(f"{path}/")]:
                del self._files[name]
            for name in [name for name in self._directories if name == path or name.startswith(f"{path}/")]:
                del self._directories[name]
            self._touch(path)

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory if it is empty."""
        with self._lock:
            if not any(name.startswith(f"{path}/") for names in (self._files, self._directories) for name in names):
                self._directories.pop(path, None)
                self._touch(path)
