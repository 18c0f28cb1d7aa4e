"""MemoryBudget: how many bytes of requests and responses a server holds for all its clients; only in the event loop.

    hold    a connection says how much it is about to hold; within the budget it may
    wait    else it reads nothing more, and is told once others hold less: back-pressure
    refuse  what has waited for WAIT_S is answered `server_busy`, and its connection closed

Each byte counts once, though a request may be there a second time while it is stored: hence only a quarter of the machine's
memory. Clients that have not logged in share a small part of it; one user has at most half,
unless it is for one request alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from headstream.errors import HeadstreamError
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["STRANGER_BYTES", "WAIT_S", "MemoryAccount", "MemoryBudget", "default_budget_bytes"]

STRANGER_BYTES: Final = 4 << 10
"""The longest request before a login: a login has names of 255 bytes and little else."""

WAIT_S: Final = 5.0
"""How long a request waits for memory before it is refused: well within the time that clients wait for an answer."""

_SMALL_BYTES: Final = 64 << 10
"""What holds no more than this has a reserve besides the budget: small requests go on while big ones wait."""
_RESERVE_SHARE: Final = 8
"""The reserve is such a part of the budget, and comes on top."""
_STRANGERS_SHARE: Final = 16
"""The part of the budget that clients have who have not logged in."""
_USER_SHARE: Final = 2
"""The part of it that one user has at most."""
_IN_USE_SHARE: Final = 0.125
"""From here on, responses are copied before they are written."""
_TIGHT_SHARE: Final = 0.75
"""From here on, slow clients have less time."""

_MUCH_BYTES: Final = 64 << 20
"""Freed memory of so many bytes is given back to the system."""

_MACHINE_SHARE: Final = 4
_USUAL_BYTES: Final = 1 << 30
"""The budget where the system does not say how much memory there is."""
_LEAST_BYTES: Final = 64 << 20
_CGROUP_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's memory is limited, of both versions."""


def default_budget_bytes() -> int:
    """Return a quarter of the memory that this process may use: the machine's, or its container's."""
    limits = []
    try:
        import psutil  # it comes with the server's extra

        limits.append(int(psutil.virtual_memory().total))
    except ImportError:
        pass
    for path in _CGROUP_LIMITS:
        try:
            limits.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):  # there is none, or it is `max`
            continue
    return max(min(limits, default=_MACHINE_SHARE * _USUAL_BYTES) // _MACHINE_SHARE, _LEAST_BYTES)


class MemoryBudget:
    """The bytes in hand of one server, for all its transports.

    Args:
        total_bytes: How many there may be.

    Attributes:
        held_bytes: How many there are.
        refused: How many requests were refused because of it.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.held_bytes = 0
        self.refused = 0
        self._strangers_bytes = 0
        self._of_user: dict[int, int] = {}
        self._waiters: deque[Callable[[], None]] = deque()
        self._is_waking = False
        self._peak_bytes = 0

    def open(self, client: int | str) -> MemoryAccount:
        """Return an account that holds nothing yet.

        Args:
            client: The number of a user; else where it comes from: it has not logged in.
        """
        return MemoryAccount(self, client)

    @property
    def room_bytes(self) -> int:
        """How many bytes more there may be."""
        return max(self.total_bytes - self.held_bytes, 0)

    @property
    def is_full(self) -> bool:
        """Whether there may be no more."""
        return self.held_bytes >= self.total_bytes

    @property
    def is_in_use(self) -> bool:
        """Whether a part of it is taken that is worth a copy of a response to keep no more than its bytes."""
        return self.held_bytes > self.total_bytes * _IN_USE_SHARE

    @property
    def is_tight(self) -> bool:
        """Whether most of it is taken."""
        return self.held_bytes > self.total_bytes * _TIGHT_SHARE

    def take_relief(self) -> bool:
        """Return once, after much of it was taken, whether little is now: freed memory is worth giving back then."""
        if self._peak_bytes < _MUCH_BYTES or self.held_bytes > self._peak_bytes // 8:
            return False
        self._peak_bytes = self.held_bytes
        return True

    def busy(self) -> HeadstreamError:
        """Return the refusal of a request for which there is no memory, and count it."""
        self.refused += 1
        return refusal(
            Status.SERVER_BUSY,
            "the server has no memory for the request now",
            advice="Send it again later, or raise the server's headstream.memory_budget",
        )

    def may_hold(self, client: int | str, more_bytes: int, all_bytes: int) -> bool:
        """Return whether a client may hold so many bytes more, and so many with them on one connection."""
        room_bytes = self.total_bytes - self.held_bytes
        if all_bytes <= _SMALL_BYTES:
            room_bytes += self.total_bytes // _RESERVE_SHARE
        if more_bytes > room_bytes:
            return False
        if isinstance(client, str):
            return self._strangers_bytes + more_bytes <= self.total_bytes // _STRANGERS_SHARE
        held_bytes = self._of_user.get(client, 0)
        is_alone = held_bytes + more_bytes == all_bytes
        return is_alone or all_bytes <= _SMALL_BYTES or held_bytes + more_bytes <= self.total_bytes // _USER_SHARE

    def change(self, client: int | str, more_bytes: int) -> None:
        """Take note that a client holds so many bytes more, or less."""
        self.held_bytes += more_bytes
        if isinstance(client, str):
            self._strangers_bytes += more_bytes
        else:
            held_bytes = self._of_user.get(client, 0) + more_bytes
            if held_bytes:
                self._of_user[client] = held_bytes
            else:
                self._of_user.pop(client, None)
        self._peak_bytes = max(self._peak_bytes, self.held_bytes)
        if more_bytes < 0 and self._waiters and not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def call_when_freed(self, function: Callable[[], None]) -> None:
        """Call a function once others hold less; those who have waited longest come first."""
        self._waiters.append(function)

    def _wake(self) -> None:
        self._is_waking = False
        waiters, self._waiters = self._waiters, deque()
        for function in waiters:  # who still has to wait queues again, in the same order
            function()


class MemoryAccount:
    """What one connection, or one request over HTTP, holds.

    Args:
        budget: The budget it is a part of.
        client: Whose it is, as for MemoryBudget.open().
    """

    __slots__ = ("_budget", "_client", "_requests_bytes", "_responses_bytes", "_waiting_since_s")

    def __init__(self, budget: MemoryBudget, client: int | str) -> None:
        self._budget = budget
        self._client = client
        self._requests_bytes = 0
        self._responses_bytes = 0
        self._waiting_since_s: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for memory."""
        return self._waiting_since_s is not None

    def log_in(self, user_id: int) -> None:
        """Take note who the client is."""
        held_bytes = self._requests_bytes + self._responses_bytes
        self._budget.change(self._client, -held_bytes)
        self._client = user_id
        self._budget.change(user_id, held_bytes)

    def hold_requests(self, size_bytes: int) -> bool:
        """Have so many bytes of requests from now on, if that is within the budget; return whether it is.

        Args:
            size_bytes: All of the connection's.
        """
        more_bytes = size_bytes - self._requests_bytes
        if more_bytes > 0 and not self._budget.may_hold(self._client, more_bytes, size_bytes + self._responses_bytes):
            return False
        if more_bytes:
            self._requests_bytes = size_bytes
            self._budget.change(self._client, more_bytes)
        return True

    async def hold_soon(self, size_bytes: int) -> None:
        """Have so many bytes of requests from now on; wait for that as long as a request may.

        Args:
            size_bytes: All of the request's.

        Raises:
            ServerUnreachableError: there is no memory for it (20023).
        """
        freed = asyncio.Event()
        try:
            async with asyncio.timeout(WAIT_S):
                while not self.hold_requests(size_bytes):
                    self.wait(asyncio.get_running_loop().time(), freed.set)
                    await freed.wait()
                    freed.clear()
        except TimeoutError:
            raise self._budget.busy() from None
        finally:
            self.end_wait()

    def note_responses(self, size_bytes: int) -> None:
        """Take note of so many bytes of responses, which are there whatever the budget is."""
        more_bytes = size_bytes - self._responses_bytes
        if more_bytes:
            self._responses_bytes = size_bytes
            self._budget.change(self._client, more_bytes)

    def wait(self, now_s: float, go_on: Callable[[], None]) -> None:
        """Wait until others hold less.

        Args:
            now_s: The loop's time.
            go_on: Called then, unless end_wait() was called before; it may wait again.
        """
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        self._budget.call_when_freed(partial(self._go_on, go_on))

    def _go_on(self, go_on: Callable[[], None]) -> None:
        if self.is_waiting:
            go_on()

    def end_wait(self) -> None:
        """Wait no more."""
        self._waiting_since_s = None

    def has_waited_too_long(self, now_s: float) -> bool:
        """Return whether it has waited for as long as a request may."""
        return self._waiting_since_s is not None and now_s - self._waiting_since_s > WAIT_S

    def close(self) -> None:
        """Hold nothing any more."""
        self.end_wait()
        self.hold_requests(0)
        self.note_responses(0)
