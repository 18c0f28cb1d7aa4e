"""Who may read a log's files: this user alone, or a group too.

What a log makes is this user's alone: directories 0700, files 0600, whatever the umask. A log that a group shares lies in a
directory that has the setgid bit (as `chmod 2750` or `2770` gives it, and as the option `group_access` makes it): what is
made in such a directory is the group's as well, with the directory's own rights of a group, and so on in each directory in
it. So whoever makes files there, in any process, does it alike.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from headstream.errors import InvalidOptionError
from headstream.segments.files import storage_error

__all__ = ["GROUP_ACCESS", "make_private_directory", "open_private", "share_with_group"]

GROUP_ACCESS: Final = {"none": 0o700, "read": 0o2750, "write": 0o2770}
"""What a group may do, and the mode of the log's directory by that."""

_OWNER_DIRECTORY: Final = 0o700
_OWNER_FILE: Final = 0o600


def open_private(path: str, flags: int = os.O_RDWR) -> int:
    """Return a descriptor of a file, which is made where there is none, for this user and perhaps a group; OSError as of open().

    Args:
        path: The file's.
        flags: How to open it, without O_CREAT.
    """
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except FileNotFoundError:
        shared = _shared(path) & 0o060
        descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, _OWNER_FILE | shared)
        if shared:
            with suppress(PermissionError):  # another user's, who has just made it
                os.fchmod(descriptor, _OWNER_FILE | shared)  # the umask does not know of the group
        return descriptor


def make_private_directory(path: str) -> None:
    """Make a directory and those above it, for this user and perhaps a group; OSError as of mkdir()."""
    place = Path(path)
    missing = []
    while not place.is_dir():
        missing.append(place)
        if place == place.parent:
            break
        place = place.parent
    for directory in reversed(missing):
        shared = _shared(str(directory))
        with suppress(FileExistsError):
            directory.mkdir(_OWNER_DIRECTORY | shared)
            if shared:
                directory.chmod(_OWNER_DIRECTORY | shared | stat.S_ISGID)
    if not Path(path).is_dir():
        Path(path).mkdir()  # for its error: a part of the path is a file


def _shared(path: str) -> int:
    """Return what the group may do in the directory that a path is in, if what is made there is the group's."""
    try:
        mode = os.stat(os.path.dirname(path) or ".").st_mode  # noqa: PTH116, PTH120 - asked for each file that is made
    except OSError:
        return 0
    return mode & 0o070 if mode & stat.S_ISGID else 0


def share_with_group(directory: str, group_access: str) -> None:
    """Make a log's directory, where there is none, such that a group may read or write what comes into it.

    Args:
        directory: The log's.
        group_access: One of GROUP_ACCESS.

    Raises:
        InvalidOptionError: there is no such access, or there is a log in the directory that is shared otherwise.
        StorageError: the system refused.
    """
    if group_access not in GROUP_ACCESS:
        raise InvalidOptionError(f"group_access is {group_access!r}", advice=f"Use {', '.join(GROUP_ACCESS)}")
    if group_access == "none":
        return
    wanted = GROUP_ACCESS[group_access]
    try:
        make_private_directory(directory)
        place = Path(directory)
        mode = stat.S_IMODE(place.stat().st_mode)
        if mode & 0o2070 == wanted & 0o2070:
            return
        if not any(place.iterdir()):
            place.chmod(wanted)
            return
    except OSError as error:
        raise storage_error(error, "share a directory with its group", directory) from error
    raise InvalidOptionError(
        f"group_access is {group_access!r}, and the log that is there has a directory of mode {mode:04o}",
        where=directory,
        advice=f"Change it by hand: chmod {wanted:04o} for it and all directories in it, and the group's rights of all files",
    )
