"""An in-memory file system that simulates disk faults and kills: seeded, for one thread.

Each file has the content that processes see and the content on the disk:

    write, truncate   visible at once; on the disk only when synced
    sync              writes since the last sync are on the disk
    failed sync       writes since the last sync are visible but will never be on the disk, as on Linux
    kill              between any two operations, or half-way through a write; visible content remains
    power failure     synced content remains; of unsynced writes any subset, each intact, torn, as zeros or missing, and
                      each new name or not

The campaigns `partitions`, `log`, `damage` and `removal` run histories on it: see runner.py.
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field
from typing import Any

from headstream.errors import StorageError
from headstream.log.segments.files import storage_error


class Killed(BaseException):
    """The simulated process was killed: raised at its next operation and all later ones until revive()."""


@dataclass(slots=True)
class _PendingChange:
    """A write, or a truncation if data is None, that is not on the disk yet."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.position :]
            return
        content.extend(bytes(max(0, self.position - len(content))))
        content[self.position : self.position + len(self.data)] = self.data


@dataclass(slots=True, eq=False)
class _Content:
    """One file, whatever its name: visible content, content on the disk, and the pending changes."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_PendingChange] = field(default_factory=list)

    def change(self, change: _PendingChange) -> None:
        change.apply(self.seen)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def fail_to_sync(self) -> None:
        """Mark pending writes as written although they are not: only truncations stay pending."""
        self.pending = [change for change in self.pending if change.data is None]

    def cut_power(self, rng: random.Random) -> None:
        fate = rng.choice(["none", "all", "prefix", "any", "any"])
        count = {"none": 0, "prefix": rng.randint(0, len(self.pending))}.get(fate, len(self.pending))
        for change in self.pending[:count]:
            if fate != "any":
                change.apply(self.durable)
            elif rng.random() < 0.6:
                _torn(change, rng).apply(self.durable)
        self.pending.clear()
        self.seen = bytearray(self.durable)


def _torn(change: _PendingChange, rng: random.Random) -> _PendingChange:
    """Return the part of a write that reaches the disk: usually all, sometimes a part or only its length."""
    if change.data is None or rng.random() < 0.5:
        return change
    if rng.random() < 0.3:
        return _PendingChange(change.position, bytes(len(change.data)))
    begin, end = sorted(rng.randint(0, len(change.data)) for _ in range(2))
    return _PendingChange(change.position + begin, change.data[begin:end])


class FaultyFile:
    """An open file of FaultyFiles."""

    def __init__(self, files: FaultyFiles, content: _Content, path: str) -> None:
        self._files = files
        self._content = content
        self._path = path

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a byte position and return the bytes read."""
        self._files.step()
        if self._files.happens(self._files.read_faults):
            raise self._files.refuse(errno.EIO, "read a file", self._path)
        count = max(0, min(len(buffer), len(self._content.seen) - position))
        buffer[:count] = self._content.seen[position : position + count]
        return count

    def size_bytes(self) -> int:
        """Return the file's current size."""
        self._files.step()
        return len(self._content.seen)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of the data at a byte position, or a part of it before failing or being killed."""
        files, data = self._files, bytes(data)
        is_full = files.is_full and position + len(data) > len(self._content.seen)
        if files.is_last_operation():
            self._content.change(_PendingChange(position, data[: files.rng.randint(0, len(data))]))
        files.step()
        if is_full or files.happens(files.write_faults):
            self._content.change(_PendingChange(position, data[: files.rng.randint(0, len(data) - 1)]))
            raise files.refuse(errno.ENOSPC if is_full else errno.EIO, "write to a file", self._path)
        self._content.change(_PendingChange(position, data))

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to so many bytes."""
        self._files.step()
        self._content.change(_PendingChange(size_bytes, None))

    def trim(self) -> None:
        """Do nothing: reserved space does not affect reads."""

    def sync(self) -> None:
        """Sync writes to the disk, or fail and lose them."""
        self._files.step()
        if self._files.next_sync_fails:
            self._files.next_sync_fails = False
            self._content.fail_to_sync()
            raise self._files.refuse(errno.EIO, "sync a file", self._path)
        self._content.sync()

    def is_removed(self) -> bool:
        """Return whether the file was removed, or replaced, since it was opened."""
        return not self._files.has(self._path, self._content)

    def direct(self) -> None:
        """Return None: writes to a descriptor would bypass the faults."""

    def close(self) -> None:
        """Close the file: unsynced writes stay unsynced."""


class FaultyFiles:
    """Files with faults decided by a seed; one thread.

    Args:
        seed: The seed of all random decisions.

    Attributes:
        rng: The random generator.
        write_faults: Probability, 0 to 1, that a write stops half-way.
        read_faults: Probability, 0 to 1, that a read fails.
        is_full: Whether the disk is full: no file can grow or be created.
        next_sync_fails: Whether the next sync of a file fails.
        killed_in: Operations until the process is killed; None for never.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.write_faults = 0.0
        self.read_faults = 0.0
        self.is_full = False
        self.next_sync_fails = False
        self.killed_in: int | None = None
        self._names: dict[str, _Content] = {}
        self._durable_names: dict[str, _Content] = {}
        self._pending_names: list[dict[str, _Content | None]] = []
        self._directories: dict[str, int] = {}
        self._changes = 0

    # -- faults ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Count an operation, and raise Killed if it is the last."""
        if self.killed_in is not None:
            self.killed_in = max(0, self.killed_in - 1)
            if self.killed_in == 0:
                raise Killed

    def is_last_operation(self) -> bool:
        """Return whether the next operation kills the process."""
        return self.killed_in == 1

    def happens(self, probability: float) -> bool:
        """Return whether an event of this probability happens now."""
        return probability > 0 and self.rng.random() < probability

    def refuse(self, code: int, action: str, path: str) -> StorageError:
        """Return the error of a refused operation."""
        return storage_error(OSError(code, "injected"), action, path)

    def revive(self) -> None:
        """Let another process use the files, without faults; it sees what the killed one saw."""
        self.killed_in = None
        self.end_faults()

    def end_faults(self) -> None:
        """End all faults."""
        self.write_faults = self.read_faults = 0.0
        self.is_full = self.next_sync_fails = False

    def cut_power(self) -> None:
        """Retain synced content and a random part of the rest; then let another process use the files."""
        for change in self._pending_names:
            if self.rng.random() < 0.5:
                _rename(self._durable_names, change)
        self._pending_names.clear()
        self._names = dict(self._durable_names)
        for content in {id(content): content for content in self._names.values()}.values():
            content.cut_power(self.rng)
        self.revive()

    # -- files ----------------------------------------------------------------------------------------------

    def open_read(self, path: str) -> FaultyFile | None:
        """Return the file opened for reading, or None if it does not exist."""
        self.step()
        content = self._names.get(path)
        return None if content is None else FaultyFile(self, content, path)

    def open_write(self, path: str) -> FaultyFile:
        """Return the file opened for reading and writing, created if missing."""
        self.step()
        if path not in self._names:
            if self.is_full:
                raise self.refuse(errno.ENOSPC, "open a file", path)
            self._change_names({path: _Content()})
        return FaultyFile(self, self._names[path], path)

    def has(self, path: str, content: _Content) -> bool:
        """Return whether a path still names this file."""
        return self._names.get(path) is content

    def find(self, data: bytes) -> list[str]:
        """Return the paths of the files in which some bytes occur."""
        return [path for path, content in self._names.items() if data in content.seen]

    def _change_names(self, change: dict[str, _Content | None]) -> None:
        _rename(self._names, change)
        self._pending_names.append(change)
        self._changes += 1
        for path in change:
            self._directories[_parent(path)] = self._changes

    def list_names(self, directory: str) -> list[str] | None:
        """Return the names in a directory, or None if it does not exist."""
        self.step()
        if directory not in self._directories:
            return None
        return [path.rpartition("/")[2] for path in (*self._names, *self._directories) if _parent(path) == directory]

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when a directory's names change, or None if it does not exist."""
        self.step()
        return self._directories.get(directory)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has that path."""
        self.step()
        return path in self._names or path in self._directories

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, durably: faults affect files only."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            self._directories.setdefault("/".join(parts[:end]), 0)

    def sync_directory(self, path: str) -> None:
        """Sync the names of a directory to the disk."""
        self.step()
        kept = []
        for change in self._pending_names:
            if any(_parent(name) == path for name in change):
                _rename(self._durable_names, change)
            else:
                kept.append(change)
        self._pending_names = kept

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Replace a file's content, in the steps that a real disk needs."""
        temporary = f"{path}.new"
        file = self.open_write(temporary)
        file.truncate(0)
        file.write_at(data, 0)
        if durably:
            file.sync()
        self.rename(temporary, path)
        if durably:
            self.sync_directory(_parent(path))

    def rename(self, path: str, target: str) -> None:
        """Rename a file, replacing an existing one of the new name; or a directory with its content, durably."""
        self.step()
        if path not in self._directories:
            self._change_names({path: None, target: self._names[path]})
            return
        self._changes += 1
        every: list[dict[str, Any]] = [self._names, self._durable_names, self._directories, *self._pending_names]
        for names in every:
            for name in [name for name in names if name == path or name.startswith(f"{path}/")]:
                names[target + name.removeprefix(path)] = names.pop(name)
        for parent in {_parent(path), _parent(target)}:
            self._directories[parent] = self._changes

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        self.step()
        if path in self._names:
            self._change_names({path: None})

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its content, durably."""
        self.step()
        inside = [name for name in self._names if name.startswith(f"{path}/")]
        for name in inside:
            self._change_names({name: None})
            self.sync_directory(_parent(name))
        for name in [name for name in self._directories if name == path or name.startswith(f"{path}/")]:
            del self._directories[name]

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory if it is empty, durably: faults affect files only."""
        if not any(name.startswith(f"{path}/") for name in (*self._names, *self._directories)):
            self._directories.pop(path, None)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _rename(names: dict[str, _Content], change: dict[str, _Content | None]) -> None:
    for path, content in change.items():
        if content is None:
            names.pop(path, None)
        else:
            names[path] = content
