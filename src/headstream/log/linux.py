"""What the system offers: how many files may be open, room behind a file's end, an early way to the disk, word of what
changes in a directory.

All but the first are Linux's, and called through the C library. Elsewhere, and where they are refused, reserve() and
start_writing() do nothing and open_inotify() returns None: who calls them goes on without.
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

__all__ = ["OVERFLOWN", "Change", "Inotify", "max_open_files", "open_inotify", "reserve", "start_writing"]

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
"""The watch of a change that says that others have been lost."""


def _function(name: str, *arguments: Any) -> Any:
    """Return a function of the C library, or None where it has none of that name."""
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
    """Return how many files this process may have open."""
    limit = _USUAL_OPEN_FILES if getrlimit is None else getrlimit(RLIMIT_NOFILE)[0]
    return limit if limit >= 0 else 1 << 30  # negative: without limit


def reserve(descriptor: int, position: int, size_bytes: int) -> bool:
    """Reserve room on the disk for a part of a file, whose size and bytes stay as they are; return whether it was done.

    Args:
        descriptor: The file, open for writing.
        position: Where the part begins, which may be behind the file's end.
        size_bytes: How long it is.
    """
    return _fallocate is not None and _fallocate(descriptor, _KEEP_SIZE, position, size_bytes) == 0


def start_writing(descriptor: int, position: int, size_bytes: int) -> bool:
    """Have a part of a file on its way to the disk, without waiting until it is there; return whether it was done.

    Args:
        descriptor: The file, open for writing.
        position: Where the part begins.
        size_bytes: How long it is, 1 or more.
    """
    return _sync_file_range is not None and _sync_file_range(descriptor, position, size_bytes, _START_WRITING) == 0


class Change(NamedTuple):
    """What changed: the watch, the name in its directory (empty: the directory itself), and whether the watch has ended."""

    watch: int
    name: str
    is_gone: bool


class Inotify:
    """Watches of directories, by one descriptor, which is readable when something has changed.

    Args:
        descriptor: As inotify_init1() gave it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def add(self, directory: str) -> int | None:
        """Watch a directory's files being written, made and moved in; return the watch, or None where that is refused."""
        wanted = _MODIFY | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLY_DIRECTORIES
        watch = int(_inotify_add_watch(self.descriptor, os.fsencode(directory), wanted))
        return watch if watch >= 0 else None

    def remove(self, watch: int) -> None:
        """End a watch; it may have ended."""
        _inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[Change]:
        """Return what has changed since the last time, without waiting."""
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
            yield Change(watch, os.fsdecode(name), bool(mask & (_IGNORED | _DELETE_SELF | _MOVE_SELF)))

    def close(self) -> None:
        """End all watches."""
        os.close(self.descriptor)


def open_inotify() -> Inotify | None:
    """Return what watches directories, or None where there is no such thing, or no more of it for this user."""
    if _inotify_init1 is None or _inotify_add_watch is None or _inotify_rm_watch is None:
        return None
    descriptor = int(_inotify_init1(_NONBLOCK | os.O_CLOEXEC))
    return Inotify(descriptor) if descriptor >= 0 else None
