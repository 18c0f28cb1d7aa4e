"""Readers: the followers of a log's partitions, opened once; each is used by one thread at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final

from headstream.log.segments.files import BufferPool, ReadFiles
from headstream.log.segments.follower import PartitionFollower

_POOLED_BUFFERS: Final = 8


class LockedFollower:
    """A follower that one thread uses in a `with` body; try_enter() acquires the follower if it is free, leave() releases it."""

    __slots__ = ("_lock", "follower", "leave", "try_enter")

    def __init__(self, follower: PartitionFollower) -> None:
        self.follower = follower
        self._lock = threading.Lock()
        self.try_enter = partial(self._lock.acquire, False)  # called for each small poll, so without a further function call
        self.leave = self._lock.release

    def __enter__(self) -> PartitionFollower:
        self._lock.acquire()
        return self.follower

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.leave()


class Readers:
    """The followers of one log; thread-safe."""

    def __init__(self, files: ReadFiles, max_open: int) -> None:
        self._files = files
        self._max_open = max_open
        self._lock = threading.Lock()
        self._buffers = BufferPool(_POOLED_BUFFERS)
        self._followers: OrderedDict[tuple[int, int, int], LockedFollower] = OrderedDict()

    def find(self, topic_number: int, partition: int, generation: int, directory_of: Callable[[], str]) -> LockedFollower:
        """Return the follower of a partition; the caller must refresh it as needed."""
        key = topic_number, partition, generation
        evicted = None
        with self._lock:
            locked = self._followers.get(key)
            if locked is None:
                locked = self._followers[key] = LockedFollower(PartitionFollower(directory_of(), self._files, self._buffers))
                if len(self._followers) > self._max_open:
                    evicted = self._followers.popitem(last=False)[1]
            self._followers.move_to_end(key)
        if evicted is not None:
            _close(evicted)
        return locked

    def close_partition(self, topic_number: int, partition: int) -> None:
        """Close a partition's files, which are about to be removed."""
        with self._lock:
            removed = [
                self._followers.pop(key) for key in [key for key in self._followers if key[:2] == (topic_number, partition)]
            ]
        for locked in removed:
            _close(locked)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            removed = [*self._followers.values()]
            self._followers.clear()
        for locked in removed:
            _close(locked)


def _close(locked: LockedFollower) -> None:
    with locked as follower:
        follower.close()
