"""Forks: how objects with a lock, a thread, a connection or a group membership behave in a forked child process.

A forked child has copies of its parent's objects, but none of the parent's threads. A lock that a parent's thread held stays
locked. Each object with such a resource calls register_for_forks() when it is created. In a child, its after_fork() runs before
any other code. Objects behave in one of two ways:

    restarts                clients of servers and of Kafka, and their parts: new locks, new connections
    is left to the parent   consumers, producers, embedded logs: calls raise closed_by_fork(); close() and `with` do nothing
"""

from __future__ import annotations

import logging
import os
import socket
import weakref
from contextlib import suppress
from typing import Final, Protocol

from headstream.errors import ClosedError


class Forkable(Protocol):
    """An object that is notified of forks."""

    def after_fork(self) -> None:
        """Restart in a child, or become unusable. This method takes no lock and sends nothing."""


_log: Final = logging.getLogger("headstream.client")
_objects: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()


def register_for_forks(one: Forkable) -> None:
    """Register an object: its after_fork() is called in each child that is forked while the object exists."""
    _objects.add(one)


def closed_by_fork(subject: str) -> ClosedError:
    """Return the error that an object of the parent raises in a child."""
    return ClosedError(
        f"the {subject} was created before this process was forked", advice=f"Create another {subject} in this process"
    )


def close_copy(link: socket.socket) -> None:
    """Close a child's copy of a socket immediately, even if a file object uses the socket. The parent's connection stays open."""
    with suppress(OSError):
        descriptor = link.detach()
        if descriptor >= 0:
            os.close(descriptor)


def keep_forever(one: object) -> None:
    """Keep an object until the process exits: its destructor would act for the parent, or wait for a parent's thread."""
    import ctypes  # few processes need this module

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _notify_objects() -> None:
    for one in list(_objects):
        try:
            one.after_fork()
        except Exception:  # a thread of the parent may have been creating or closing the object; all other objects are notified
            _log.exception("%s cannot be used after a fork", type(one).__name__)


os.register_at_fork(after_in_child=_notify_objects)
