"""LeaseKeys: which message of each key is the first one that is not done, so that later ones wait for it. Sans-IO."""

from __future__ import annotations

import heapq
from collections import deque

from headstream.core.model.offset_ranges import OffsetRanges

__all__ = ["LeaseKeys"]


class LeaseKeys:
    """The open messages of a group in one partition, by key; one thread at a time. A message without a key never waits."""

    def __init__(self) -> None:
        self._queues: dict[bytes, deque[int]] = {}
        self._keys: dict[int, bytes] = {}
        self._ready: list[int] = []

    def add(self, offset: int, key: bytes | None) -> bool:
        """Add an open message, those of a key in their order, and return whether it waits for none."""
        if key is not None:
            queue = self._queues.setdefault(key, deque())
            queue.append(offset)
            self._keys[offset] = key
            if len(queue) > 1:
                return False
        heapq.heappush(self._ready, offset)
        return True

    def finish(self, from_offset: int, until_offset: int) -> None:
        """Record that messages are done or deferred: the next one of each key no longer waits."""
        if until_offset - from_offset > len(self._keys):
            offsets = sorted(offset for offset in self._keys if from_offset <= offset < until_offset)
        else:
            offsets = [offset for offset in range(from_offset, until_offset) if offset in self._keys]
        for offset in offsets:
            key = self._keys.pop(offset)
            queue = self._queues[key]
            if queue[0] != offset:  # leased by a worker without order
                queue.remove(offset)
                continue
            queue.popleft()
            if queue:
                heapq.heappush(self._ready, queue[0])
            else:
                del self._queues[key]

    def release(self, from_offset: int, until_offset: int) -> None:
        """Record that messages can be leased again."""
        for offset in range(from_offset, until_offset):
            heapq.heappush(self._ready, offset)

    def take(self, count: int, pending: OffsetRanges) -> list[int]:
        """Return messages that wait for none, in the order of their offsets.

        Args:
            count: Maximum number of messages.
            pending: Those that can be leased.
        """
        taken: list[int] = []
        while self._ready and len(taken) < count:
            offset = heapq.heappop(self._ready)
            key = self._keys.get(offset)
            is_first = key is None or self._queues[key][0] == offset
            if is_first and offset in pending and offset not in taken[-1:]:
                taken.append(offset)
        return taken
