"""LoopRounds: limits the bytes of large requests and responses per round of the event loop, in favor of small requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headstream.broker.accounts.sessions import Session
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.server.resources.memory_budget import MemoryAccount

ROUND_BYTES: Final = 1_310_720
"""Approximate maximum bytes of one poll while other clients are connected, and of all polls of a round: about a millisecond of
the event loop, and a thousand messages of 1,000 bytes with some headers. A client continues where the response ends."""

FRAMES_PER_ROUND: Final = 256
"""Number of small frames of one connection that are answered before other connections are served."""

_SMALL_BYTES: Final = 32 << 10
"""Smaller responses cost no more than other requests, and are not counted."""

_EXTRA_ROUNDS: Final = 1
"""Additional rounds of bytes for connections whose last response was small, because the next response is probably small."""


class LoopRounds:
    """The bytes of large requests and responses in the current round of an event loop; used in this loop."""

    def __init__(self) -> None:
        self._round_bytes = 0

    @property
    def has_capacity(self) -> bool:
        """Whether this round (limit: half of ROUND_BYTES) can handle another large poll or another part of a large request."""
        return self._round_bytes < ROUND_BYTES // 2

    @property
    def has_capacity_for_small(self) -> bool:
        """Whether this round can answer another poll that is probably small."""
        return self._round_bytes < (1 + _EXTRA_ROUNDS) * ROUND_BYTES

    def note(self, size_bytes: int) -> None:
        """Count the bytes of a response, or the read bytes of a request, in this round."""
        if size_bytes < _SMALL_BYTES:
            return
        if not self._round_bytes:
            asyncio.get_running_loop().call_soon(self._begin_round)
        self._round_bytes += size_bytes

    def call_with_capacity(self, size_bytes: int, function: Callable[[], None]) -> None:
        """Call a function in the next round with capacity, and count its bytes in this round; functions are called in order."""
        asyncio.get_running_loop().call_soon(self._call_with_capacity, size_bytes, function)

    def _call_with_capacity(self, size_bytes: int, function: Callable[[], None]) -> None:
        if not self.has_capacity:
            self.call_with_capacity(size_bytes, function)
            return
        self.note(size_bytes)
        function()

    def _begin_round(self) -> None:
        self._round_bytes = 0


def max_poll_bytes(memory: MemoryAccount, *, is_alone: bool) -> int:
    """Return the current approximate limit of a poll, bytes; 0: wait for memory. `is_alone`: no other client exists."""
    return min(memory.poll_bytes, MAX_BATCH_BYTES if is_alone else ROUND_BYTES)


class ConnectionPolls:
    """Decides when the polls of one connection are answered, and how large they are."""

    def __init__(self, rounds: LoopRounds, memory: MemoryAccount) -> None:
        self._rounds = rounds
        self._memory = memory
        self._last_bytes: int | None = None

    def begin(self, session: Session, *, is_alone: bool) -> bool:
        """Set the size of a poll; return whether to answer it immediately. If not, the poll is answered in the next round, or
        when memory is freed. A poll after a small response does not wait for large responses.
        """
        most_bytes = max_poll_bytes(self._memory, is_alone=is_alone)
        if not most_bytes:
            return False
        if not is_alone:
            is_likely_small = self._last_bytes is not None and self._last_bytes < _SMALL_BYTES
            if not (self._rounds.has_capacity_for_small if is_likely_small else self._rounds.has_capacity):
                return False
        session.poll_bytes = most_bytes
        return True

    def end(self, size_bytes: int) -> None:
        """Count the response to a poll."""
        self._last_bytes = size_bytes
        self._rounds.note(size_bytes)
