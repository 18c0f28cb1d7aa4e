"""Syncs to the disk: sends that share a sync, and background syncs.

always     append -> data -> index entry -> GroupCommit.wait -> acknowledged
interval   append -> data -> index entry -> acknowledged        IntervalSyncer: changed partitions, once per second
never      append -> data -> index entry -> acknowledged
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headstream.errors import PartitionClosedError, StorageError

SYNC_INTERVAL_S: Final = 1.0
"""Interval of background syncs, seconds. With the policy `interval`, a power failure can lose one interval's messages."""

_GATHER_PAUSE_S: Final = 0.005
_GATHERING_S: Final = 0.02
"""A sync starts when all recent senders have written, after a pause of _GATHER_PAUSE_S between senders, or after _GATHERING_S."""


def closed_error(directory: str, failure: str | None) -> PartitionClosedError:
    """Return the error for a partition that could not be synced."""
    return PartitionClosedError(
        f"the partition accepts no messages after a failed sync: {failure}",
        where=directory,
        advice="Check the kernel's log for disk errors; then close and reopen Headstream's log in this process. "
        "Opening recovers the partition, which can contain unacknowledged messages",
    )


class GroupCommit:
    """Lets senders that wait for the disk share one sync; thread-safe.

    The first waiter syncs all sends that are written at this time; later sends form the next group. A single sender never waits
    for other senders. `sync` returns the number, from 1, of the newest synced send. After a StorageError of `sync`, every call
    raises the error.
    """

    def __init__(self, sync: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sync = sync
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._finished = threading.Condition(self._lock)
        self._gathered = threading.Condition(self._lock)
        self._newest = 0
        self._synced = 0
        self._expected = 1
        self._is_syncing = False

    def wait(self, number: int) -> None:
        """Wait until a send and all earlier sends are synced."""
        with self._lock:
            self._newest = max(self._newest, number)
            if self._newest - self._synced >= self._expected:
                self._gathered.notify()
            while self._synced < number:
                if self._is_syncing:
                    self._finished.wait()
                else:
                    self._lead()

    def _lead(self) -> None:
        self._is_syncing = True
        try:
            until = self._monotonic() + _GATHERING_S
            while self._newest - self._synced < self._expected and self._monotonic() < until:
                newest = self._newest
                self._gathered.wait(_GATHER_PAUSE_S)
                if self._newest == newest:
                    break
            self._lock.release()
            try:
                synced = self._sync()
            finally:
                self._lock.acquire()
            group = synced - self._synced
            self._synced = max(self._synced, synced)
            # The senders served now plus the senders already waiting: the number of concurrent senders.
            self._expected = max(1, group + self._newest - self._synced)
        finally:
            self._is_syncing = False
            self._finished.notify_all()


class IntervalSyncer:
    """Syncs changed partitions in a background thread, which stops when no partition has changed."""

    def __init__(self, interval_s: float = SYNC_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._waiting: set[Callable[[], object]] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, sync: Callable[[], object]) -> None:
        """Schedule one call to a sync function within an interval; the function must itself record a failure."""
        with self._lock:
            self._waiting.add(sync)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="headstream-sync", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            with self._lock:
                syncs, self._waiting = self._waiting, set()
                if not syncs:
                    self._thread = None
                    return
            for sync in syncs:
                with suppress(StorageError):
                    sync()

    def close(self) -> None:
        """Stop the thread; the caller syncs the remaining queue."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread.is_alive():  # the thread is not alive if Ctrl-C interrupted its start
            thread.join()
