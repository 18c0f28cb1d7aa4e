"""Waiting: who waits for messages of which partitions, and how they are told.

    append, drop -> Waiting.ring(directory) -> Bell of each who waits for that partition -> it looks at the files
    Watching (watching.py), for what another process appends -> the same

A partition's directory is what it goes by. What rings is never what decides: whoever is rung looks.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Protocol

__all__ = ["Bell", "Rung", "Waiting"]


class Rung(Protocol):
    """What is told of something new."""

    def ring(self, directory: str) -> None:
        """Take note that there may be something new in a directory; any thread calls it, and waits for it."""


class Bell:
    """What one who waits listens to; any thread rings it."""

    __slots__ = ("_called", "_rung")

    def __init__(self) -> None:
        # A queue in C, unlike a Condition, leaves nothing half done when Ctrl-C interrupts it.
        self._called: SimpleQueue[None] = SimpleQueue()
        self._rung: set[str] = set()

    def ring(self, directory: str) -> None:
        """Say that there may be something new in a directory."""
        self._rung.add(directory)  # first: who is called takes all of them
        if self._called.empty():
            self._called.put(None)

    def listen(self, timeout_s: float) -> set[str]:
        """Return the directories it was rung for since the last time, none of them when the time has passed."""
        with suppress(Empty):
            self._called.get(timeout=timeout_s)
        rung: set[str] = set()
        while self._rung:
            rung.add(self._rung.pop())
        return rung


class Waiting:
    """All who wait for messages of one log; any thread.

    Attributes:
        bells: Theirs, by directory; always the same object, for looking only.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bells: dict[str, list[Rung]] = {}

    def is_for(self, directory: str) -> bool:
        """Return whether somebody waits for messages of a partition."""
        return directory in self.bells

    def ring(self, directory: str) -> None:
        """Wake who waits for messages of a partition; it costs next to nothing where nobody does."""
        bells = self.bells.get(directory)
        if bells is not None:
            for bell in tuple(bells):
                bell.ring(directory)

    def ring_all(self) -> None:
        """Wake everybody."""
        with self._lock:
            directories = tuple(self.bells)
        for directory in directories:
            self.ring(directory)

    @contextmanager
    def bell(self, directories: Collection[str]) -> Iterator[Bell]:
        """Lend a bell that is rung for these directories, as long as the body runs."""
        bell = Bell()
        try:
            self.add(directories, bell)
            yield bell
        finally:
            self.remove(directories, bell)

    def add(self, directories: Collection[str], bell: Rung) -> None:
        """Have a bell rung for these directories, until it is removed."""
        with self._lock:
            for directory in directories:
                self.bells.setdefault(directory, []).append(bell)

    def remove(self, directories: Collection[str], bell: Rung) -> None:
        """Leave a bell in peace; once more than it was added is fine."""
        with self._lock:
            for directory in directories:
                self._leave(directory, bell)

    def _leave(self, directory: str, bell: Rung) -> None:
        bells = self.bells.get(directory, [])
        if bell in bells:
            bells.remove(bell)
            if not bells:
                del self.bells[directory]
