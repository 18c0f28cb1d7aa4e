"""A file system in memory that does to a log what disks and kills do: seeded, for one thread.

What a process sees and what is on the disk are two things, per file:

    write, truncate   seen at once; on the disk only when synced
    sync              what was written since the last one is on the disk
    failed sync       what was written since is seen, and will never be on the disk: as Linux has it
    kill              between any two operations, or half-way through a write; what was seen stays
    power cut         of what was not synced, any part is there: each write whole, torn, as zeros or not at all, each new
                      name or not; what was synced is there

Run `python -m headstream.testing.faulty_files --seeds 1000 --from 0` to drive a log and its partitions through
generated histories of it (fault_campaign.py; fault_histories.py and log_histories.py say what is checked).
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field

from headstream.errors import StorageError
from headstream.segments.files import storage_error

__all__ = ["FaultyFile", "FaultyFiles", "Killed"]


class Killed(BaseException):
    """The process that used the files is dead; it is raised at its next operation, and at every other until revive()."""


@dataclass(slots=True)
class _Change:
    """A write, or a truncation where data is None, that is not on the disk yet."""

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
    """One file, whatever its name: what is seen, what is on the disk, and what lies between."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)

    def change(self, change: _Change) -> None:
        change.apply(self.seen)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def fail_to_sync(self) -> None:
        """Take what was written for written, though it is not: only truncations are still on their way."""
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


def _torn(change: _Change, rng: random.Random) -> _Change:
    """Return what reaches the disk of a write: mostly all of it, but a part, or its length alone, may be."""
    if change.data is None or rng.random() < 0.5:
        return change
    if rng.random() < 0.3:
        return _Change(change.position, bytes(len(change.data)))
    begin, end = sorted(rng.randint(0, len(change.data)) for _ in range(2))
    return _Change(change.position + begin, change.data[begin:end])


class FaultyFile:
    """An open file of FaultyFiles."""

    def __init__(self, files: FaultyFiles, content: _Content, path: str) -> None:
        self._files = files
        self._content = content
        self._path = path

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a byte position and return how many bytes came."""
        self._files.step()
        if self._files.happens(self._files.read_faults):
            raise self._files.refuse(errno.EIO, "read a file", self._path)
        count = max(0, min(len(buffer), len(self._content.seen) - position))
        buffer[:count] = self._content.seen[position : position + count]
        return count

    def size_bytes(self) -> int:
        """Return the file's present size."""
        self._files.step()
        return len(self._content.seen)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of the data at a byte position, or a part of it and then fail or die."""
        files, data = self._files, bytes(data)
        is_full = files.is_full and position + len(data) > len(self._content.seen)
        if files.is_about_to_die():
            self._content.change(_Change(position, data[: files.rng.randint(0, len(data))]))
        files.step()
        if is_full or files.happens(files.write_faults):
            self._content.change(_Change(position, data[: files.rng.randint(0, len(data) - 1)]))
            raise files.refuse(errno.ENOSPC if is_full else errno.EIO, "write to a file", self._path)
        self._content.change(_Change(position, data))

    def truncate(self, size_bytes: int) -> None:
        """Cut the file off behind so many bytes."""
        self._files.step()
        self._content.change(_Change(size_bytes, None))

    def trim(self) -> None:
        """Do nothing: room that is reserved changes nothing that can be read."""

    def sync(self) -> None:
        """Bring what was written to the disk, or fail and lose it."""
        self._files.step()
        if self._files.next_sync_fails:
            self._files.next_sync_fails = False
            self._content.fail_to_sync()
            raise self._files.refuse(errno.EIO, "sync a file", self._path)
        self._content.sync()

    def direct(self) -> None:
        """Return None: what is written past this class would not fail."""

    def close(self) -> None:
        """Let go of the file: what is not synced stays so."""


class FaultyFiles:
    """Files whose faults a seed decides; one thread.

    Args:
        seed: Of everything that is left to chance.

    Attributes:
        rng: Where chance comes from.
        write_faults: How probable it is, 0 to 1, that a write stops half-way.
        read_faults: How probable it is that a read fails.
        is_full: Whether there is no room for a file to grow or to be made.
        next_sync_fails: Whether the next sync of a file fails.
        dies_in: The process is killed at this many operations from now; None for never.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.write_faults = 0.0
        self.read_faults = 0.0
        self.is_full = False
        self.next_sync_fails = False
        self.dies_in: int | None = None
        self._names: dict[str, _Content] = {}
        self._durable_names: dict[str, _Content] = {}
        self._pending_names: list[dict[str, _Content | None]] = []
        self._directories: dict[str, int] = {}
        self._changes = 0

    # -- what happens to it ---------------------------------------------------------------------------------

    def step(self) -> None:
        """Count an operation, and raise Killed where it is the last."""
        if self.dies_in is not None:
            self.dies_in = max(0, self.dies_in - 1)
            if self.dies_in == 0:
                raise Killed

    def is_about_to_die(self) -> bool:
        """Return whether the next operation is the last."""
        return self.dies_in == 1

    def happens(self, probability: float) -> bool:
        """Return whether something of this probability happens now."""
        return probability > 0 and self.rng.random() < probability

    def refuse(self, code: int, action: str, path: str) -> StorageError:
        """Return the error of an operation that the system refuses."""
        return storage_error(OSError(code, "injected"), action, path)

    def revive(self) -> None:
        """Let another process use the files, without faults; it sees what the dead one saw."""
        self.dies_in = None
        self.heal()

    def heal(self) -> None:
        """End all faults."""
        self.write_faults = self.read_faults = 0.0
        self.is_full = self.next_sync_fails = False

    def cut_power(self) -> None:
        """Keep what was synced, and of the rest what chance leaves; then let another process use the files."""
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
        """Return the file opened for reading, or None where there is none."""
        self.step()
        content = self._names.get(path)
        return None if content is None else FaultyFile(self, content, path)

    def open_write(self, path: str) -> FaultyFile:
        """Return the file opened for reading and writing, made where there is none."""
        self.step()
        if path not in self._names:
            if self.is_full:
                raise self.refuse(errno.ENOSPC, "open a file", path)
            self._change_names({path: _Content()})
        return FaultyFile(self, self._names[path], path)

    def _change_names(self, change: dict[str, _Content | None]) -> None:
        _rename(self._names, change)
        self._pending_names.append(change)
        self._changes += 1
        for path in change:
            self._directories[_parent(path)] = self._changes

    def list_names(self, directory: str) -> list[str] | None:
        """Return the names in a directory, or None where there is no such directory."""
        self.step()
        if directory not in self._directories:
            return None
        return [path.rpartition("/")[2] for path in (*self._names, *self._directories) if _parent(path) == directory]

    def changed(self, directory: str) -> int | None:
        """Return a number that changes when names come and go in a directory, or None where there is none."""
        self.step()
        return self._directories.get(directory)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that path."""
        self.step()
        return path in self._names or path in self._directories

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, durably: faults are for files."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            self._directories.setdefault("/".join(parts[:end]), 0)

    def sync_directory(self, path: str) -> None:
        """Bring the names of a directory to the disk."""
        self.step()
        kept = []
        for change in self._pending_names:
            if any(_parent(name) == path for name in change):
                _rename(self._durable_names, change)
            else:
                kept.append(change)
        self._pending_names = kept

    def replace(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Make a file hold this and nothing else, in the steps that it takes on a disk."""
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
        """Give a file another name, in place of what had it."""
        self.step()
        self._change_names({path: None, target: self._names[path]})

    def remove(self, path: str) -> None:
        """Remove a file; there may be none."""
        self.step()
        if path in self._names:
            self._change_names({path: None})

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it, durably."""
        self.step()
        inside = [name for name in self._names if name.startswith(f"{path}/")]
        for name in inside:
            self._change_names({name: None})
            self.sync_directory(_parent(name))
        for name in [name for name in self._directories if name == path or name.startswith(f"{path}/")]:
            del self._directories[name]

    def remove_empty_directory(self, path: str) -> None:
        """Remove a directory unless something is in it, durably: faults are for files."""
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


if __name__ == "__main__":
    import runpy

    runpy.run_module("headstream.testing.fault_campaign", run_name="__main__")
