"""DirectoryWatcher: receives notifications of other processes' appends from the operating system, without polling.

    the writer's pwrite of an index -> inotify -> one thread per log -> Waiters.notify(directory)

A directory is watched from the first wait for its messages until a message arrives when no caller waits. A consumer that lags,
and therefore never waits, causes no cost for the writer or for this process.

If inotify is not available (other operating system, the user's limit or the maximum number of directories reached), watch()
returns False and the caller polls the files. On a network file system, inotify reports neither events nor errors, so every waiter
also polls occasionally, regardless of watch()'s result.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable
from typing import Final

from headstream.log.directory.waiters import Waiters
from headstream.log.segments.layout import INDEX_SUFFIX
from headstream.log.system.linux import OVERFLOWN, Inotify, WatchEvent, open_inotify

_MAX_WATCHES: Final = 4096
"""Maximum number of watched directories: half of some systems' limit per user, enough for one log in one process."""


class DirectoryWatcher:
    """Watches directories for waiters; thread-safe."""

    def __init__(
        self, waiting: Waiters, opens: Callable[[], Inotify | None] = open_inotify, max_watches: int = _MAX_WATCHES
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
        """Number of watched directories."""
        return len(self._watches)

    def watch(self, directories: Iterable[str]) -> bool:
        """Watch directories for the waiters; return whether all directories are watched."""
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
        """Notify waiters of changes until the watcher is closed."""
        poll = select.poll()
        poll.register(inotify.descriptor, select.POLLIN)
        poll.register(stopped, select.POLLIN)
        while stopped not in (descriptor for descriptor, _ in poll.poll()):
            for change in inotify.read():
                self._handle(change)
        inotify.close()
        os.close(stopped)

    def _handle(self, change: WatchEvent) -> None:
        if change.watch == OVERFLOWN:
            self._waiting.notify_all()
            return
        with self._lock:
            directory = self._directories.get(change.watch)
            if directory is None:
                return  # already removed: this event predates the removal and was handled
            if change.has_ended:
                self._remove(directory)
            elif not change.name.endswith(INDEX_SUFFIX):
                return  # messages are committed by their index entry, which comes next
            elif not self._waiting.is_for(directory):
                self._remove(directory)
        self._waiting.notify(directory)

    def close(self) -> None:
        """Remove all watches and stop the thread."""
        with self._lock:
            self._is_refused = True
            self._inotify = None
            self._watches.clear()
            self._directories.clear()
            stop, self._stop = self._stop, None
        if stop is not None:
            os.close(stop)
        thread = self._thread
        # Ctrl-C can interrupt the thread's start: then the thread is not alive and cannot be joined.
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()
