"""Waiters: wakes callers that wait for messages of partitions.

append, drop -> Waiters.ring(directory) -> Bell of each waiter of that partition -> it reads the files
    DirectoryWatcher (watcher.py), for appends of other processes -> the same

A partition is identified by its directory. A ring is a hint: the waiter always checks the files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol

_NOTIFIED_CHECK_S: Final = 1.0
"""Polling interval of waiters that are notified: a file system that another machine writes to notifies of nothing."""

_FIRST_CHECK_S: Final = 0.001
_LAST_CHECK_S: Final = 0.02
"""Polling intervals of waiters without notification: short at first, then longer."""


class Ringable(Protocol):
    """Receives notifications of changed directories."""

    def ring(self, directory: str) -> None:
        """Note that a directory possibly has something new; called on any thread, must return quickly."""


class Bell:
    """The wakeup of one waiter; any thread rings it."""

    __slots__ = ("_called", "_rung")

    def __init__(self) -> None:
        # A queue in C, unlike a Condition, is consistent after a Ctrl-C at any moment.
        self._called: SimpleQueue[None] = SimpleQueue()
        self._rung: set[str] = set()

    def ring(self, directory: str) -> None:
        """Notify of a possible change in a directory."""
        self._rung.add(directory)  # first: the woken waiter takes all of them
        if self._called.empty():
            self._called.put(None)

    def listen(self, timeout_s: float) -> set[str]:
        """Return the directories rung since the last call, empty after the timeout."""
        with suppress(Empty):
            self._called.get(timeout=timeout_s)
        rung: set[str] = set()
        while self._rung:
            rung.add(self._rung.pop())
        return rung


class Waiters:
    """All waiters for messages of one log; any thread. `bells` is always the same object, by directory, read-only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bells: dict[str, list[Ringable]] = {}

    def is_for(self, directory: str) -> bool:
        """Return whether a partition has waiters."""
        return directory in self.bells

    def ring(self, directory: str) -> None:
        """Wake the waiters of a partition; almost free without waiters."""
        bells = self.bells.get(directory)
        if bells is not None:
            for bell in tuple(bells):
                bell.ring(directory)

    def ring_all(self) -> None:
        """Wake all waiters."""
        with self._lock:
            directories = tuple(self.bells)
        for directory in directories:
            self.ring(directory)

    @contextmanager
    def bell(self, directories: Collection[str]) -> Iterator[Bell]:
        """Lend a bell that is rung for these directories while the body runs."""
        bell = Bell()
        try:
            self.add(directories, bell)
            yield bell
        finally:
            self.remove(directories, bell)

    def wait_until(
        self,
        directories: Collection[str],
        is_there: Callable[[Collection[str]], bool],
        timeout_s: float,
        monotonic: Callable[[], float],
        watch: Callable[[Collection[str]], bool],
    ) -> bool:
        """Wait until a condition holds or a timeout has passed, and return whether it holds.

        Args:
            is_there: The condition, called with the directories that possibly changed; it reads the files.
            watch: Called with directories before each check of the condition; returns whether appends to them ring.
        """
        until = monotonic() + timeout_s
        check_s = _FIRST_CHECK_S
        with self.bell(directories) as bell:
            due = directories
            is_notified = True
            while True:
                is_notified = watch(due) and is_notified
                if is_there(due):
                    return True
                rest = until - monotonic()
                if rest <= 0:
                    return False
                due = bell.listen(min(rest, _NOTIFIED_CHECK_S if is_notified else check_s)) or directories
                check_s = min(check_s * 2, _LAST_CHECK_S)

    def add(self, directories: Collection[str], bell: Ringable) -> None:
        """Ring a bell for these directories, until it is removed."""
        with self._lock:
            for directory in directories:
                self.bells.setdefault(directory, []).append(bell)

    def remove(self, directories: Collection[str], bell: Ringable) -> None:
        """Stop ringing a bell; surplus calls are harmless."""
        with self._lock:
            for directory in directories:
                self._drop(directory, bell)

    def _drop(self, directory: str, bell: Ringable) -> None:
        bells = self.bells.get(directory, [])
        if bell in bells:
            bells.remove(bell)
            if not bells:
                del self.bells[directory]
