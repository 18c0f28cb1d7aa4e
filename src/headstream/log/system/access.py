"""Access modes of a log's files: for the current user only, or also for a group.

By default, only the current user has access: directories 0700, files 0600, regardless of the umask. The directory of a log that
is shared with a group has the setgid bit (set by `chmod 2750` or `2770`, or by the option `group_access`): files and directories
created in the directory also belong to the group and inherit the directory's group permissions. All processes therefore create
files with equal access.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from headstream.errors import InvalidOptionError
from headstream.log.segments.files import storage_error

GROUP_ACCESS: Final = {"none": 0o700, "read": 0o2750, "write": 0o2770}
"""A group's access, and the mode of the log's directory for this access."""

_OWNER_DIRECTORY: Final = 0o700
_OWNER_FILE: Final = 0o600


def open_private(path: str, flags: int = os.O_RDWR) -> int:
    """Open a file, creating it for the current user and possibly a group; return the descriptor. OSError as for open()."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except FileNotFoundError:
        shared = _shared(path) & 0o060
        descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, _OWNER_FILE | shared)
        if shared:
            with suppress(PermissionError):  # just created by another user
                os.fchmod(descriptor, _OWNER_FILE | shared)  # the umask ignores the group
        return descriptor


def make_private_directory(path: str) -> None:
    """Create a directory and its parents for the current user and possibly a group; OSError as for mkdir()."""
    existing = Path(path)
    missing = []
    while not existing.is_dir():
        missing.append(existing)
        if existing == existing.parent:
            break
        existing = existing.parent
    for directory in reversed(missing):
        shared = _shared(str(directory))
        with suppress(FileExistsError):
            directory.mkdir(_OWNER_DIRECTORY | shared)
            if shared:
                directory.chmod(_OWNER_DIRECTORY | shared | stat.S_ISGID)
    if not Path(path).is_dir():
        Path(path).mkdir()  # for its error: a part of the path is a file


def _shared(path: str) -> int:
    """Return the group permissions of a path's parent directory if files created in it belong to the group, else 0."""
    try:
        mode = os.stat(os.path.dirname(path) or ".").st_mode  # noqa: PTH116, PTH120 - called for each created file
    except OSError:
        return 0
    return mode & 0o070 if mode & stat.S_ISGID else 0


def share_with_group(directory: str, group_access: str) -> None:
    """Create a log's directory, if missing, so that a group can read or write its files.

    Args:
        group_access: One of GROUP_ACCESS.
    """
    if group_access not in GROUP_ACCESS:
        raise InvalidOptionError(f"group_access must be one of {', '.join(GROUP_ACCESS)}, not {group_access!r}")
    if group_access == "none":
        return
    wanted = GROUP_ACCESS[group_access]
    try:
        make_private_directory(directory)
        root = Path(directory)
        mode = stat.S_IMODE(root.stat().st_mode)
        if mode & 0o2070 == wanted & 0o2070:
            return
        if not any(root.iterdir()):
            root.chmod(wanted)
            return
    except OSError as error:
        raise storage_error(error, "share a directory with its group", directory) from error
    raise InvalidOptionError(
        f"group_access is {group_access!r}, but the directory of the existing log has mode {mode:04o}",
        where=directory,
        advice=f"Run chmod {wanted:04o} for all directories of the log, and set the group's permissions on all files",
    )
