"""Opens logs: within a process, all users of a directory share one Log.

Users of one directory share one writer and see each other's messages immediately. The Log is closed when its last user closes it.
A forked child cannot use its parent's Log and opens a separate Log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headstream.errors import InvalidOptionError
from headstream.forks import keep_forever, register_for_forks
from headstream.log.log import Log
from headstream.log.partition.size_limits import DEFAULT_SEGMENT_BYTES, check_segment_bytes
from headstream.log.system.access import share_with_group
from headstream.log.system.files import MemoryFiles, OsFiles


def open_directory(directory: str, segment_bytes: int | None = None, group_access: str = "none") -> Log:
    """Return the log in a directory, shared by all users in this process.

    Args:
        directory: Can be missing or empty; the first write creates it.
        segment_bytes: Size at which a new segment is started, bytes; default 256 MiB.
        group_access: Access of the directory's group (operating system) to a newly created log: none, read or write.

    Raises:
        NotALogError: the directory contains other files.
        LogVersionError: a newer version of Headstream wrote the log.
        InvalidOptionError: the segment size is out of range or differs from the segment size of the open log.
    """
    root = os.path.realpath(directory)
    share_with_group(root, group_access)
    return _REGISTRY.share(f"file:{root}", segment_bytes, lambda size: Log(root, OsFiles(), is_memory=False, segment_bytes=size))


def open_memory(name: str | None = None, segment_bytes: int | None = None) -> Log:
    """Return a log in this process's memory: a new log, or the shared log with the given name."""
    key = None if name is None else f"memory:{name}"
    return _REGISTRY.share(key, segment_bytes, lambda size: Log("memory", MemoryFiles(), is_memory=True, segment_bytes=size))


def close_log(log: Log) -> None:
    """Release one use of a log; after the last use, close the log's files and release its lock."""
    _REGISTRY.leave(log)


@dataclass(slots=True)
class _Shared:
    log: Log
    key: str | None
    users: int = 0


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Registry:
    """The open logs of this process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    entries: list[_Shared] = field(default_factory=list)

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
                    f"segment_bytes is {segment_bytes}, but this process already has the log open with {entry.log.segment_bytes}",
                    where=entry.log.root,
                    advice="Omit the option, or close the log first",
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

    def after_fork(self) -> None:
        """In a forked child: start without logs; open logs and databases belong to the parent process."""
        self.lock = threading.Lock()  # another thread of the parent may have held the lock
        for entry in self.entries:
            keep_forever(entry.log)
        self.entries = []


_REGISTRY: Final = _Registry()
register_for_forks(_REGISTRY)
