"""MemoryBudget: limits the memory for requests and responses of all clients of a server; runs in the event loop.

    hold    a connection reserves bytes before it receives them, within the budget
    wait    above the budget, the connection stops reading until memory is freed (back-pressure)
    refuse  a request that has waited for WAIT_S is answered `server_busy`, and its connection is closed
    poll    returns at most a part of the memory that its user can still hold, so that unread responses delay only their user

Each byte counts once, although storing a request can copy the bytes; the default budget is therefore only a quarter of the
machine's memory. Unauthenticated clients share a small part; one user has at most half, except for a single request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError

UNAUTHENTICATED_BYTES: Final = 4 << 10
"""Maximum size of a request before a login; a login contains mainly two strings of up to 255 bytes."""

WAIT_S: Final = 5.0
"""Maximum time that a request waits for memory before it is refused, seconds; shorter than the client timeouts."""

_SMALL_BYTES: Final = 64 << 10
"""Requests up to this size can use an additional reserve, and are served while large requests wait."""
_RESERVE_SHARE: Final = 8
"""The reserve is 1/n of the budget, in addition to the budget."""
_UNAUTHENTICATED_SHARE: Final = 16
"""All unauthenticated clients together can use 1/n of the budget."""
_USER_SHARE: Final = 2
"""One user can use 1/n of the budget."""
_SMALL_POLL_BYTES: Final = 256 << 10
"""Approximate minimum of the size limit of a poll."""
_POLL_SHARE: Final = 4
"""A poll uses 1/n of the memory that its user can still hold, so that memory is left for the next polls."""
_IN_USE_SHARE: Final = 0.125
"""Share of the budget above which responses are copied before they are written."""
_TIGHT_SHARE: Final = 0.75
"""Share of the budget above which timeouts are shorter."""

_MUCH_BYTES: Final = 64 << 20
"""Peak after which freed memory is returned to the system."""

_MACHINE_SHARE: Final = 4
_USUAL_BYTES: Final = 1 << 30
"""Default budget if the system does not report the size of the memory."""
_LEAST_BYTES: Final = 64 << 20
_CGROUP_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""A container's memory limit, in cgroup v2 and v1."""


def default_budget_bytes() -> int:
    """Return a quarter of the memory available to this process (of the machine or container)."""
    limits = []
    try:
        import psutil  # part of the server's extra

        limits.append(int(psutil.virtual_memory().total))
    except ImportError:
        pass
    for path in _CGROUP_LIMITS:
        try:
            limits.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):  # no limit: missing, or `max`
            continue
    return max(min(limits, default=_MACHINE_SHARE * _USUAL_BYTES) // _MACHINE_SHARE, _LEAST_BYTES)


class MemoryBudget:
    """The bytes of requests and responses of one server, for all transports.

    Attributes:
        held_bytes: Number of bytes currently held.
        refused: Number of requests refused for lack of memory.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.held_bytes = 0
        self.refused = 0
        self._unauthenticated_bytes = 0
        self._of_user: dict[int, int] = {}
        self._waiters: deque[Callable[[], None]] = deque()
        self._is_waking = False
        self._peak_bytes = 0

    def open(self, client: int | str) -> MemoryAccount:
        """Return an empty account for a client: the user's id, or the address of an unauthenticated client."""
        return MemoryAccount(self, client)

    @property
    def free_bytes(self) -> int:
        """Number of free bytes."""
        return max(self.total_bytes - self.held_bytes, 0)

    @property
    def is_full(self) -> bool:
        """Whether no bytes are free."""
        return self.held_bytes >= self.total_bytes

    @property
    def is_in_use(self) -> bool:
        """Whether memory is scarce enough to justify copying a response into a buffer of its exact size."""
        return self.held_bytes > self.total_bytes * _IN_USE_SHARE

    @property
    def is_tight(self) -> bool:
        """Whether most of the budget is reserved."""
        return self.held_bytes > self.total_bytes * _TIGHT_SHARE

    def take_relief(self) -> bool:
        """Return True once after a high peak, when returning freed memory to the system is worthwhile."""
        if self._peak_bytes < _MUCH_BYTES or self.held_bytes > self._peak_bytes // 8:
            return False
        self._peak_bytes = self.held_bytes
        return True

    def busy(self) -> HeadstreamError:
        """Return the error for a request that is refused for lack of memory, and count the refusal."""
        self.refused += 1
        return refusal(
            Status.SERVER_BUSY,
            "the server has not enough free memory for the request",
            advice="Send the request again later, or raise the server's headstream.memory_budget",
        )

    def may_hold(self, client: int | str, more_bytes: int, all_bytes: int) -> bool:
        """Return whether a client can hold `more_bytes`, with a total of `all_bytes` on one connection."""
        free_bytes = self.total_bytes - self.held_bytes
        if all_bytes <= _SMALL_BYTES:
            free_bytes += self.total_bytes // _RESERVE_SHARE
        if more_bytes > free_bytes:
            return False
        if isinstance(client, str):
            return self._unauthenticated_bytes + more_bytes <= self.total_bytes // _UNAUTHENTICATED_SHARE
        held_bytes = self._of_user.get(client, 0)
        is_alone = held_bytes + more_bytes == all_bytes
        return is_alone or all_bytes <= _SMALL_BYTES or held_bytes + more_bytes <= self.total_bytes // _USER_SHARE

    def poll_bytes(self, client: int | str) -> int:
        """Return the approximate number of bytes that a client's poll can return; 0 if it must wait until memory is freed.

        If other users hold the budget, a user who holds little memory receives a small poll from the reserve.
        """
        held_bytes = self._unauthenticated_bytes if isinstance(client, str) else self._of_user.get(client, 0)
        free_bytes = min(self.free_bytes, self.total_bytes // _USER_SHARE - held_bytes)
        if free_bytes > 0:
            return max(_SMALL_POLL_BYTES, free_bytes // _POLL_SHARE)
        reserve_bytes = self.total_bytes // _RESERVE_SHARE
        has_reserve = held_bytes < reserve_bytes // 2 and self.held_bytes < self.total_bytes + reserve_bytes
        return _SMALL_POLL_BYTES if has_reserve else 0

    def change(self, client: int | str, more_bytes: int) -> None:
        """Add to the bytes that a client holds; a negative number frees bytes."""
        self.held_bytes += more_bytes
        if isinstance(client, str):
            self._unauthenticated_bytes += more_bytes
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
        """Call a function when memory is freed; functions are called in order."""
        self._waiters.append(function)

    def _wake(self) -> None:
        self._is_waking = False
        waiters, self._waiters = self._waiters, deque()
        for function in waiters:  # functions that still lack memory are queued again, in the same order
            function()


class MemoryAccount:
    """The bytes held by one connection or one HTTP request; for clients see MemoryBudget.open()."""

    __slots__ = ("_budget", "_client", "_requests_bytes", "_responses_bytes", "_waiting_since_s")

    def __init__(self, budget: MemoryBudget, client: int | str) -> None:
        self._budget = budget
        self._client = client
        self._requests_bytes = 0
        self._responses_bytes = 0
        self._waiting_since_s: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the account waits for memory."""
        return self._waiting_since_s is not None

    @property
    def poll_bytes(self) -> int:
        """The approximate number of bytes that a poll can return; 0 if it must wait."""
        return self._budget.poll_bytes(self._client)

    def log_in(self, user_id: int) -> None:
        """Move the account to a user."""
        held_bytes = self._requests_bytes + self._responses_bytes
        self._budget.change(self._client, -held_bytes)
        self._client = user_id
        self._budget.change(user_id, held_bytes)

    def hold_requests(self, size_bytes: int) -> bool:
        """Set the held bytes of all requests if the budget allows it; return whether this succeeded."""
        more_bytes = size_bytes - self._requests_bytes
        if more_bytes > 0 and not self._budget.may_hold(self._client, more_bytes, size_bytes + self._responses_bytes):
            return False
        if more_bytes:
            self._requests_bytes = size_bytes
            self._budget.change(self._client, more_bytes)
        return True

    async def hold_soon(self, size_bytes: int) -> None:
        """Set the held bytes of requests, waiting up to WAIT_S; ServerUnreachableError (20023) if no memory was freed."""
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

    @asynccontextmanager
    async def hold_more(self, size_bytes: int) -> AsyncIterator[None]:
        """Hold more bytes of requests in the `with` body; ServerUnreachableError (20023) after a timeout."""
        before_bytes = self._requests_bytes
        if size_bytes:
            await self.hold_soon(before_bytes + size_bytes)
        try:
            yield
        finally:
            self.hold_requests(before_bytes)

    def note_responses(self, size_bytes: int) -> None:
        """Set the held bytes of responses, even above the budget, because the responses already exist."""
        more_bytes = size_bytes - self._responses_bytes
        if more_bytes:
            self._responses_bytes = size_bytes
            self._budget.change(self._client, more_bytes)

    def wait(self, now_s: float, go_on: Callable[[], None]) -> None:
        """Call `go_on`, which can wait again, when memory is freed, unless end_wait() is called first."""
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        self._budget.call_when_freed(partial(self._go_on, go_on))

    def _go_on(self, go_on: Callable[[], None]) -> None:
        if self.is_waiting:
            go_on()

    def end_wait(self) -> None:
        """Stop waiting."""
        self._waiting_since_s = None

    def has_waited_too_long(self, now_s: float) -> bool:
        """Return whether the account has waited for longer than WAIT_S."""
        return self._waiting_since_s is not None and now_s - self._waiting_since_s > WAIT_S

    def close(self) -> None:
        """Free all held bytes."""
        self.end_wait()
        self.hold_requests(0)
        self.note_responses(0)
