"""Forks: let an object detect with one comparison that it was created before this process was forked."""

from __future__ import annotations

import os

__all__ = ["count"]

count = 0
"""Number of forks up to this process; an object created at another count belongs to the parent."""


def _note_fork() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_note_fork)
