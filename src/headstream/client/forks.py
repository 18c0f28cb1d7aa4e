"""Forks: let an object detect with one comparison that it was created before this process was forked."""

from __future__ import annotations

import os

from headstream.errors import ClosedError

__all__ = ["closed_by_fork", "count"]

count = 0
"""Number of forks up to this process; an object created at another count belongs to the parent."""


def closed_by_fork(what: str) -> ClosedError:
    """Return the error of an object that belongs to the parent.

    Args:
        what: What it is.
    """
    return ClosedError(f"the {what} was created before this process was forked", advice="Connect in this process")


def _note_fork() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_note_fork)
