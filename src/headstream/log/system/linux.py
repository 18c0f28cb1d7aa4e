"""Operating-system calls: open-file limit, space reserved after a file's end, early flushing, directory notifications.

All calls except the first are Linux calls, made through the C library. If these calls are not available, reserve() and
start_writing() do nothing and open_inotify() returns None; callers work without them.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

try:
    from resource import RLIMIT_NOFILE, getrlimit
except ImportError:  # not on Windows
    getrlimit = None  # type: ignore[assignment]

_USUAL_OPEN_FILES: Final = 1024

_KEEP_SIZE: Final = 0x01
_START_WRITING: Final = 0x02
_NONBLOCK: Final = os.O_NONBLOCK
_MODIFY: Final = 0x0000_0002
_MOVED_TO: Final = 0x0000_0080
_CREATE: Final = 0x0000_0100
_DELETE_SELF: Final = 0x0000_0400
_MOVE_SELF: Final = 0x0000_0800
_IGNORED: Final = 0x0000_8000
_ONLY_DIRECTORIES: Final = 0x0100_0000
_EVENT: Final = struct.Struct("<iIII")
_READ_BYTES: Final = 64 << 10
OVERFLOWN: Final = -1
"""Watch number of the event that reports lost events."""


def _function(name: str, *arguments: Any) -> Any:
    """Return a function of the C library; None if it does not exist."""
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = arguments
    return function


_fallocate: Final = _function("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_sync_file_range: Final = _function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32)
_inotify_init1: Final = _function("inotify_init1", ctypes.c_int)
_inotify_add_watch: Final = _function("inotify_add_watch", ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
_inotify_rm_watch: Final = _function("inotify_rm_watch", ctypes.c_int, ctypes.c_int)


def max_open_files() -> int:
    """Return the maximum number of files that this process can have open."""
    limit = _USUAL_OPEN_FILES if getrlimit is None else getrlimit(RLIMIT_NOFILE)[0]
    return limit if limit >= 0 else 1 << 30  # negative: no limit


def reserve(descriptor: int, position: int, size_bytes: int) -> bool:
    """Reserve disk space for a part of a file, without changing the file size; return whether this succeeded."""
    return _fallocate is not None and _fallocate(descriptor, _KEEP_SIZE, position, size_bytes) == 0


def start_writing(descriptor: int, position: int, size_bytes: int) -> bool:
    """Start flushing a part of a file to the disk without waiting; return whether this succeeded."""
    return _sync_file_range is not None and _sync_file_range(descriptor, position, size_bytes, _START_WRITING) == 0


class WatchEvent(NamedTuple):
    """One change: the watch, the name in its directory (empty for the directory itself), and whether the watch has ended."""

    watch: int
    name: str
    has_ended: bool


class Inotify:
    """Watches directories with one descriptor, which becomes readable after a change."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def add(self, directory: str) -> int | None:
        """Watch a directory for written, created and moved files; return the watch, or None if the system refuses."""
        wanted = _MODIFY | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLY_DIRECTORIES
        watch = int(_inotify_add_watch(self.descriptor, os.fsencode(directory), wanted))
        return watch if watch >= 0 else None

    def remove(self, watch: int) -> None:
        """Remove a watch, which may have ended already."""
        _inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[WatchEvent]:
        """Yield the changes since the last call without waiting."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _, size = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = data[at : at + size].rstrip(b"\0")
            at += size
            yield WatchEvent(watch, os.fsdecode(name), bool(mask & (_IGNORED | _DELETE_SELF | _MOVE_SELF)))

    def close(self) -> None:
        """Remove all watches."""
        os.close(self.descriptor)


def open_inotify() -> Inotify | None:
    """Return an Inotify; None if the system does not support inotify or the user's limit is reached."""
    if _inotify_init1 is None or _inotify_add_watch is None or _inotify_rm_watch is None:
        return None
    descriptor = int(_inotify_init1(_NONBLOCK | os.O_CLOEXEC))
    return Inotify(descriptor) if descriptor >= 0 else None
