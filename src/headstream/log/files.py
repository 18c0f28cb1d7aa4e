"""The writing half of the file interface: the only open, write, sync, rename, truncate and delete of the log's files.

Beside it there are the writer's lock (lock.py) and the catalog, whose files SQLite keeps (catalog.py).

Files is a protocol, so that what a disk can do to a log (a short or failed write, a full disk, a crash between two
operations) can be done to it in a test. OsFiles is the operating system's; MemoryFiles is the memory of one process,
for `memory://` and for tests.

A write goes to a byte position, never "to the end": one that failed half-way is simply written over by the next.

A file that has become big gets room on the disk ahead of its end, where the system can do that: to write there is a
sixth cheaper, and files that grow side by side lie in fewer pieces. Its size, which is what recovery goes by, does not
change by it. What was written until then is started on its way to the disk: the sync at a segment's end would otherwise
have 256 MB to wait for, and whoever appends with it.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from headstream.log.access import make_private_directory, open_private
from headstream.log.linux import reserve, start_writing
from headstream.segments.files import OsReadFile, OsReadFiles, ReadFile, ReadFiles, storage_error

__all__ = ["Files", "MemoryFile", "MemoryFiles", "OsFile", "OsFiles", "WriteFile"]


_RESERVED_FROM_BYTES: Final = 1 << 20
"""A thousand partitions with little in them reserve nothing."""

_MAX_RESERVED_BYTES: Final = 64 << 20
"""So much room is reserved ahead at most, and never more than there are bytes: a crash leaves a file no longer than twice
that. To reserve while the disk is busy can take tens of milliseconds, so it is done a few times a segment."""

_STARTED_BYTES: Final = 4 << 20
"""After so many bytes they are started on their way to the disk: 0.1 ms of work at a time."""

_MOST_TRIES: Final = 100
"""Making a directory begins again so often where one above it vanishes between two steps."""


class WriteFile(ReadFile, Protocol):
    """An open file, for reading and writing."""

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of the data at a byte position, or raise StorageError."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file off behind so many bytes."""

    def trim(self) -> None:
        """Give back what room may be reserved behind its end: it will not grow soon."""

    def sync(self) -> None:
        """Return when what was written is on the disk itself."""

    def direct(self) -> tuple[int, int] | None:
        """Return the system's descriptor and the byte position up to which pwrite() by that is as good as write_at(), if any."""


class Files(ReadFiles, Protocol):
    """A file system, for reading and writing."""

    def open_write(self, path: str) -> WriteFile:
        """Return the file opened for reading and writing, made where there is none."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; it may be there already."""

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Make a file hold this and nothing else, at once: who looks sees the old or the new.

        Args:
            path: The file's.
            data: What it is to hold.
            durably: Whether a power cut leaves the old or the new too; otherwise it may leave anything.
        """

    def sync_directory(self, path: str) -> None:
        """Return when the names that came and went in a directory are on the disk itself."""

    def rename(self, path: str, target: str) -> None:
        """Give a file or directory another name in the same file system, in place of what had it."""

    def remove(self, path: str) -> None:
        """Remove a file; there may be none."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it; there may be none."""

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory unless something is in it, at once: what another process puts there meanwhile stays."""


class OsFile(OsReadFile):
    """A file of the operating system, open for reading and writing."""

    __slots__ = ("_reserved", "_started", "_way")

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._reserved = self._way = _RESERVED_FROM_BYTES
        self._started = 0

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of the data at a byte position, or raise StorageError."""
        if position + len(data) > self._way:
            self._make_way(position, position + len(data))
        try:
            done = os.pwrite(self._descriptor, data, position)
            if done < len(data):
                self._write_rest(memoryview(data), position, done)
        except OSError as error:
            raise storage_error(error, "write to a file", self._path) from error

    def direct(self) -> tuple[int, int] | None:
        """Return its descriptor, and the byte position from which way is to be made first."""
        return self._descriptor, self._way

    def _make_way(self, position: int, end: int) -> None:
        """Reserve room for a write and those that follow it, and have what was written before start for the disk."""
        if end > self._reserved:
            until = end + min(end, _MAX_RESERVED_BYTES)
            reserve(self._descriptor, position, until - position)  # where it cannot, a full disk say, the write will tell
            self._reserved = until
        if position >= self._started + _STARTED_BYTES:
            start_writing(self._descriptor, self._started, position - self._started)
            self._started = position
        self._way = min(self._reserved, self._started + _STARTED_BYTES)

    def trim(self) -> None:
        """Give back what room may be reserved behind its end; only one who alone writes to the file may do this."""
        with suppress(OSError):
            size_bytes = os.fstat(self._descriptor).st_size
            if size_bytes >= _RESERVED_FROM_BYTES:
                os.ftruncate(self._descriptor, size_bytes)
        self._reserved = self._way = _RESERVED_FROM_BYTES

    def _write_rest(self, data: memoryview, position: int, done: int) -> None:
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], position + done)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file off behind so many bytes."""
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise storage_error(error, "truncate a file", self._path) from error

    def sync(self) -> None:
        """Return when what was written is on the disk itself."""
        try:
            os.fdatasync(self._descriptor)  # with the size; times of access are nobody's need
        except OSError as error:
            raise storage_error(error, "sync a file", self._path) from error


class OsFiles(OsReadFiles):
    """The operating system's files."""

    def open_write(self, path: str) -> OsFile:
        """Return the file opened for reading and writing, made where there is none."""
        try:
            return OsFile(path, open_private(path))
        except OSError as error:
            raise storage_error(error, "open a file", path) from error

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; it may be there already."""
        for left in reversed(range(_MOST_TRIES)):
            try:
                make_private_directory(path)
                break
            except OSError as error:
                if not (left and isinstance(error, FileNotFoundError)):  # one above it, being empty, was just removed
                    raise storage_error(error, "make a directory", path) from error

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Make a file hold this and nothing else, at once: who looks sees the old or the new.

        Args:
            path: The file's.
            data: What it is to hold.
            durably: Whether a power cut leaves the old or the new too; otherwise it may leave anything.
        """
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
        """Return when the names that came and went in a directory are on the disk itself."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(error, "sync a directory", path) from error

    def rename(self, path: str, target: str) -> None:
        """Give a file or directory another name in the same file system, in place of what had it."""
        try:
            Path(path).replace(target)
        except OSError as error:
            raise storage_error(error, "rename a file", path) from error

    def remove(self, path: str) -> None:
        """Remove a file; there may be none."""
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(error, "remove a file", path) from error

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it; there may be none."""
        while os.path.lexists(path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue  # somebody else removes it too
            except OSError as error:
                raise storage_error(error, "remove a directory", path) from error

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory unless something is in it, at once: what another process puts there meanwhile stays."""
        try:
            os.rmdir(path)  # noqa: PTH106
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise storage_error(error, "remove a directory", path) from error


class MemoryFile:
    """A file in memory, open for reading and writing; several may be open on the same bytes."""

    __slots__ = ("_content", "_lock")

    def __init__(self, content: bytearray, lock: threading.Lock) -> None:
        self._content = content
        self._lock = lock

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a byte position and return how many bytes came: fewer only at the end of the file."""
        with self._lock:
            count = max(0, min(len(buffer), len(self._content) - position))
            with memoryview(self._content) as content:
                buffer[:count] = content[position : position + count]
        return count

    def size_bytes(self) -> int:
        """Return the file's present size."""
        return len(self._content)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of the data at a byte position."""
        with self._lock:
            gap = position - len(self._content)
            if gap > 0:
                self._content.extend(bytes(gap))
            self._content[position : position + len(data)] = data

    def truncate(self, size_bytes: int) -> None:
        """Cut the file off behind so many bytes."""
        with self._lock:
            del self._content[size_bytes:]

    def trim(self) -> None:
        """Do nothing: memory reserves nothing."""

    def sync(self) -> None:
        """Do nothing: memory has no disk behind it."""

    def direct(self) -> None:
        """Return None: the system knows nothing of it."""

    def close(self) -> None:
        """Do nothing: the bytes belong to the file system."""


class MemoryFiles:
    """The files of a log in the memory of this process; paths are only names."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._directories: dict[str, int] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def open_read(self, path: str) -> MemoryFile | None:
        """Return the file opened for reading, or None where there is none."""
        content = self._files.get(path)
        return None if content is None else MemoryFile(content, self._lock)

    def open_write(self, path: str) -> MemoryFile:
        """Return the file opened for reading and writing, made where there is none."""
        with self._lock:
            if path not in self._files:
                self._files[path] = bytearray()
                self._touch(path)
            return MemoryFile(self._files[path], self._lock)

    def list_names(self, directory: str) -> list[str] | None:
        """Return the names in a directory, or None where there is no such directory."""
        with self._lock:
            if directory not in self._directories:
                return None
            inside = [path for path in (*self._files, *self._directories) if path.rpartition("/")[0] == directory]
            return [path.rpartition("/")[2] for path in inside]

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when names come and go in a directory, or None where there is none."""
        return self._directories.get(directory)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that path."""
        return path in self._files or path in self._directories

    def _touch(self, path: str) -> None:
        self._changes += 1
        parent = path.rpartition("/")[0]
        if parent in self._directories:
            self._directories[parent] = self._changes

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; it may be there already."""
        with self._lock:
            parts = path.split("/")
            for end in range(1, len(parts) + 1):
                directory = "/".join(parts[:end])
                if directory not in self._directories:
                    self._touch(directory)
                    self._directories[directory] = self._changes

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Make a file hold this and nothing else."""
        with self._lock:
            self._files[path] = bytearray(data)
            self._touch(path)

    def sync_directory(self, path: str) -> None:
        """Do nothing: memory has no disk behind it."""

    def rename(self, path: str, target: str) -> None:
        """Give a file or directory another name, in place of what had it."""
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
        """Remove a file; there may be none."""
        with self._lock:
            if self._files.pop(path, None) is not None:
                self._touch(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it; there may be none."""
        with self._lock:
            for name in [name for name in self._files if name.startswith(f"{path}/")]:
                del self._files[name]
            for name in [name for name in self._directories if name == path or name.startswith(f"{path}/")]:
                del self._directories[name]
            self._touch(path)

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory unless something is in it."""
        with self._lock:
            if not any(name.startswith(f"{path}/") for names in (self._files, self._directories) for name in names):
                self._directories.pop(path, None)
                self._touch(path)
