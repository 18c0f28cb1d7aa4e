"""Forks: how an object finds out that it was made before this process was forked, at the cost of one comparison."""

from __future__ import annotations

import os

__all__ = ["count"]

count = 0
"""How often this process and those before it were forked; what was made at another count belongs to the parent."""


def _note_fork() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_note_fork)
