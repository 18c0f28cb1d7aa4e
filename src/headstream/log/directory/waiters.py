"""Waiters: wakes callers that wait for messages in partitions.

    append, drop -> Waiters.notify(directory) -> each Waiter for the partition -> reads the files
    DirectoryWatcher (watcher.py), for appends of other processes -> Waiters.notify(directory)

A partition is identified by its directory. A notification is a hint: the waiter always checks the files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol

_NOTIFIED_CHECK_S: Final = 1.0
"""Polling interval of waiters with notification, seconds: a network file system does not report another machine's writes."""

_FIRST_CHECK_S: Final = 0.001
_LAST_CHECK_S: Final = 0.02
"""First and longest polling interval of waiters without notification, seconds."""


class Notifiable(Protocol):
    """Receives notifications of changed directories."""

    def notify(self, directory: str) -> None:
        """Record that a directory may have new data; called on any thread, must return quickly."""


class Waiter:
    """One waiting caller; can be notified on any thread."""

    __slots__ = ("_called", "_notified")

    def __init__(self) -> None:
        # A queue in C, unlike a Condition, stays consistent if Ctrl-C interrupts it.
        self._called: SimpleQueue[None] = SimpleQueue()
        self._notified: set[str] = set()

    def notify(self, directory: str) -> None:
        """Record a possible change in a directory, and wake the caller."""
        self._notified.add(directory)  # before the wake-up: the waiter then takes all directories
        if self._called.empty():
            self._called.put(None)

    def listen(self, timeout_s: float) -> set[str]:
        """Return the directories notified since the last call; empty after the timeout."""
        with suppress(Empty):
            self._called.get(timeout=timeout_s)
        notified: set[str] = set()
        while self._notified:
            notified.add(self._notified.pop())
        return notified


class Waiters:
    """All waiters for messages of one log; thread-safe. `registered`: waiters by directory; always the same object, read-only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.registered: dict[str, list[Notifiable]] = {}

    def is_for(self, directory: str) -> bool:
        """Return whether a partition has waiters."""
        return directory in self.registered

    def notify(self, directory: str) -> None:
        """Wake the waiters of a partition; very cheap if there are no waiters."""
        registered = self.registered.get(directory)
        if registered is not None:
            for waiter in tuple(registered):
                waiter.notify(directory)

    def notify_all(self) -> None:
        """Wake all waiters."""
        with self._lock:
            directories = tuple(self.registered)
        for directory in directories:
            self.notify(directory)

    @contextmanager
    def waiter(self, directories: Collection[str]) -> Iterator[Waiter]:
        """Return a context with a waiter that is notified of changes in these directories."""
        waiter = Waiter()
        try:
            self.add(directories, waiter)
            yield waiter
        finally:
            self.remove(directories, waiter)

    def wait_until(
        self,
        directories: Collection[str],
        is_there: Callable[[Collection[str]], bool],
        timeout_s: float,
        monotonic: Callable[[], float],
        watch: Callable[[Collection[str]], bool],
    ) -> bool:
        """Wait until a condition holds or a timeout expires; return whether the condition holds.

        Args:
            is_there: The condition, called with the directories that possibly changed; reads the files.
            watch: Called with directories before each check of the condition; returns whether all appends in them notify.
        """
        until = monotonic() + timeout_s
        check_s = _FIRST_CHECK_S
        with self.waiter(directories) as waiter:
            due = directories
            is_notified = True
            while True:
                is_notified = watch(due) and is_notified
                if is_there(due):
                    return True
                rest = until - monotonic()
                if rest <= 0:
                    return False
                due = waiter.listen(min(rest, _NOTIFIED_CHECK_S if is_notified else check_s)) or directories
                check_s = min(check_s * 2, _LAST_CHECK_S)

    def add(self, directories: Collection[str], waiter: Notifiable) -> None:
        """Notify a waiter of changes in these directories until the waiter is removed."""
        with self._lock:
            for directory in directories:
                self.registered.setdefault(directory, []).append(waiter)

    def remove(self, directories: Collection[str], waiter: Notifiable) -> None:
        """Stop notifying a waiter; repeated calls have no effect."""
        with self._lock:
            for directory in directories:
                self._drop(directory, waiter)

    def _drop(self, directory: str, waiter: Notifiable) -> None:
        registered = self.registered.get(directory, [])
        if waiter in registered:
            registered.remove(waiter)
            if not registered:
                del self.registered[directory]
