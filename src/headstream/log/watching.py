"""Watching: word of what another process appends, from the system instead of by looking again and again.

    the writer's pwrite of an index -> inotify -> one thread a log -> Waiting.ring(directory)

A directory is watched from the first time somebody waits for messages in it, until a message comes that nobody waits
for: who is behind, and so never waits, costs neither the writer nor this process anything.

Where there is no inotify (another system, a limit of this user reached, more directories than are watched), watch()
says so, and the caller looks at the files from time to time. On a file system of another machine the same happens
without a word: so everybody who waits looks now and then whatever he was told.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable
from typing import Final

from headstream.log.linux import OVERFLOWN, Change, Inotify, open_inotify
from headstream.log.waiting import Waiting
from headstream.segments.layout import INDEX_SUFFIX

__all__ = ["Watching"]

_MAX_WATCHES: Final = 4096
"""Half of what some systems let a user have; those of one log in one process: some partitions with room to spare."""


class Watching:
    """Watches directories for those who wait; any thread.

    Args:
        waiting: Who is told.
        opens: Returns what watches directories, or None.
        max_watches: How many directories are watched at a time.
    """

    def __init__(
        self, waiting: Waiting, opens: Callable[[], Inotify | None] = open_inotify, max_watches: int = _MAX_WATCHES
    ) -> None:
        self._waiting = waiting
        self._opens = opens
        self._max_watches = max_watches
        self._lock = threading.Lock()
        self._inotify: Inotify | None = None
        self._stop: int | None = None
        self._thread: threading.Thread | None = None
        self._is_refused = False
        self._watches: dict[str, int] = {}
        self._directories: dict[int, str] = {}

    @property
    def count(self) -> int:
        """How many directories are watched now."""
        return len(self._watches)

    def watch(self, directories: Iterable[str]) -> bool:
        """Have those who wait told of what comes into directories, and return whether they will be.

        Args:
            directories: Those of partitions; whoever waits for them has his bell already.
        """
        if all(directory in self._watches for directory in directories):
            return True
        with self._lock:
            added = [self._add(directory) for directory in directories] if self._start() else [False]
        return all(added)

    def _start(self) -> bool:
        if self._inotify is None and not self._is_refused:
            self._inotify = self._opens()
            self._is_refused = self._inotify is None
            if self._inotify is not None:
                stopped, self._stop = os.pipe()
                self._thread = threading.Thread(
                    target=self._run, args=(self._inotify, stopped), name="headstream-watch", daemon=True
                )
                self._thread.start()
        return self._inotify is not None

    def _add(self, directory: str) -> bool:
        if directory in self._watches:
            return True
        if len(self._watches) >= self._max_watches:
            for unwanted in [known for known in self._watches if not self._waiting.is_for(known)]:
                self._remove(unwanted)
        if self._inotify is None or len(self._watches) >= self._max_watches:
            return False
        watch = self._inotify.add(directory)
        if watch is None:
            return False
        self._watches[directory] = watch
        self._directories[watch] = directory
        return True

    def _remove(self, directory: str) -> None:
        watch = self._watches.pop(directory)
        del self._directories[watch]
        if self._inotify is not None:
            self._inotify.remove(watch)

    def _run(self, inotify: Inotify, stopped: int) -> None:
        """Tell of changes until it is closed."""
        poll = select.poll()
        poll.register(inotify.descriptor, select.POLLIN)
        poll.register(stopped, select.POLLIN)
        while stopped not in (descriptor for descriptor, _ in poll.poll()):
            for change in inotify.read():
                self._tell(change)
        inotify.close()
        os.close(stopped)

    def _tell(self, change: Change) -> None:
        if change.watch == OVERFLOWN:
            self._waiting.ring_all()
            return
        with self._lock:
            directory = self._directories.get(change.watch)
            if directory is None:
                return  # it was watched, and something that had happened before has just been told
            if change.is_gone:
                self._remove(directory)
            elif not change.name.endswith(INDEX_SUFFIX):
                return  # messages are committed by their index entry, which comes next
            elif not self._waiting.is_for(directory):
                self._remove(directory)
        self._waiting.ring(directory)

    def close(self) -> None:
        """End all watches and the thread."""
        with self._lock:
            self._is_refused = True
            self._inotify = None
            self._watches.clear()
            self._directories.clear()
            stop, self._stop = self._stop, None
        if stop is not None:
            os.close(stop)
        thread = self._thread
        # Ctrl-C may have come in the middle of its start: it is not alive then, and ends by itself.
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()
