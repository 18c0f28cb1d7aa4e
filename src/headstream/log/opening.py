"""Opening logs: one directory is one Log in a process, whoever opens it.

Two that write to one directory from one process so have one writer between them, and see each other's messages at
once. The Log closes when the last of them has closed it. A forked child cannot use its parent's: it opens its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headstream.errors import InvalidOptionError
from headstream.log.access import share_with_group
from headstream.log.files import MemoryFiles, OsFiles
from headstream.log.log import Log
from headstream.log.segment_size import DEFAULT_SEGMENT_BYTES, check_segment_bytes

__all__ = ["close_log", "open_directory", "open_memory"]


def open_directory(directory: str, segment_bytes: int | None = None, group_access: str = "none") -> Log:
    """Return the log in a directory, the same one for all who open it in this process.

    Args:
        directory: It may be missing or empty, and is made at the first write then.
        segment_bytes: Size at which a segment is followed by a new one, 256 MiB unless said otherwise.
        group_access: What the directory's group may do with a log that is made here: none, read or write.

    Raises:
        NotALogError: there is something else in the directory.
        LogVersionError: a newer Headstream wrote it.
        InvalidOptionError: the size is out of range, or not the one the log is open with.
    """
    root = os.path.realpath(directory)
    share_with_group(root, group_access)
    return _REGISTRY.share(f"file:{root}", segment_bytes, lambda size: Log(root, OsFiles(), is_memory=False, segment_bytes=size))


def open_memory(name: str | None = None, segment_bytes: int | None = None) -> Log:
    """Return a log in the memory of this process: a new one, or the one that all who give the name share.

    Args:
        name: What it is shared as; None makes one that nobody else sees.
        segment_bytes: As for open_directory().
    """
    key = None if name is None else f"memory:{name}"
    return _REGISTRY.share(key, segment_bytes, lambda size: Log("memory", MemoryFiles(), is_memory=True, segment_bytes=size))


def close_log(log: Log) -> None:
    """Close a log once for its opening; with the last one its files close and its lock is free."""
    _REGISTRY.leave(log)


@dataclass(slots=True)
class _Shared:
    log: Log
    key: str | None
    users: int = 0


@dataclass(slots=True)
class _Registry:
    """The logs that are open in this process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    entries: list[_Shared] = field(default_factory=list)
    abandoned: list[Log] = field(default_factory=list)

    def share(self, key: str | None, segment_bytes: int | None, make: Callable[[int], Log]) -> Log:
        if segment_bytes is not None:
            check_segment_bytes(segment_bytes)
        with self.lock:
            entry = next((entry for entry in self.entries if key is not None and entry.key == key), None)
            if entry is None:
                entry = _Shared(make(DEFAULT_SEGMENT_BYTES if segment_bytes is None else segment_bytes), key)
                self.entries.append(entry)
            elif segment_bytes not in (None, entry.log.segment_bytes):
                raise InvalidOptionError(
                    f"segment_bytes is {segment_bytes}, but the log is open in this process with {entry.log.segment_bytes}",
                    where=entry.log.root,
                    advice="Leave the option out, or close the log first",
                )
            entry.users += 1
            return entry.log

    def leave(self, log: Log) -> None:
        with self.lock:
            entry = next((entry for entry in self.entries if entry.log is log), None)
            if entry is None:
                return
            entry.users -= 1
            if entry.users:
                return
            self.entries.remove(entry)
        log.close()

    def forget_after_fork(self) -> None:
        self.lock = threading.Lock()  # another thread of the parent may have held it
        for entry in self.entries:
            entry.log.abandon()
            self.abandoned.append(entry.log)  # never let go of: its database is not the child's to close
        self.entries.clear()


_REGISTRY: Final = _Registry()

os.register_at_fork(after_in_child=_REGISTRY.forget_after_fork)
