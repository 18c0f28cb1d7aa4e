"""Exits: closes producers and clients when the interpreter exits, so that pending messages are flushed."""

from __future__ import annotations

import atexit
import weakref
from typing import Final, Protocol


class Closable(Protocol):
    """An object with close()."""

    def close(self) -> None:
        """Flush and close."""


_open: Final[weakref.WeakSet[Closable]] = weakref.WeakSet()


def open_until_exit(one: Closable) -> None:
    """Close an object at exit, unless the object is closed or garbage-collected earlier."""
    _open.add(one)


def closed(one: Closable) -> None:
    """Record that an object is closed."""
    _open.discard(one)


def _close_at_exit() -> None:
    for one in list(_open):
        one.close()


atexit.register(_close_at_exit)
