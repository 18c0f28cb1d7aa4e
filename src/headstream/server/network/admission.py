"""Admission: limits the event-loop time of clients without a login, and the connection rate per address.

    quota   limits the connections, requests and datagrams of clients without a login per round of the event loop; additional
            requests wait, in order, for later rounds. Requests of users are served in each round
    rates   connections of one address above the rate are accepted later

Waiting never leaves the loop idle: if there is no other work, the next round starts immediately.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

_PERMITS_PER_ROUND: Final = 4
"""Permits per round: about a millisecond of the event loop. A connection, a refused request or a log line takes 0.1 to 0.4 ms."""

HANDSHAKE_COST: Final = 4
"""Permits for a handshake of TLS or QUIC, which takes a few milliseconds, mostly for the signature."""

CONNECTION_RATE: Final = 200
"""Default limit of new connections per second from one address."""

_BURST_S: Final = 5.0
"""Seconds of unused connection rate that an address can use at once, because clients of a machine often start together."""

_LONGEST_S: Final = 5.0
"""Maximum delay of a connection, seconds; a connection with a longer delay is refused, because clients would time out."""

_MOST_ADDRESSES: Final = 10_000
"""Maximum number of stored addresses; the oldest addresses are evicted first."""


class UnauthenticatedQuota:
    """The permits for unauthenticated clients in the rounds of an event loop; used in this loop."""

    def __init__(self) -> None:
        self._left = _PERMITS_PER_ROUND
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_serving = False
        self._is_scheduled = False

    @property
    def waiting_count(self) -> int:
        """Number of functions that wait for a permit."""
        return len(self._waiting)

    @property
    def has_capacity(self) -> bool:
        """Whether this round has permits left and no connection waits for permits."""
        return self._left > 0 and (self._is_serving or not self._waiting)

    def spend(self, cost: int = 1) -> bool:
        """Take `cost` permits of this round; return False if all permits were used. The last call can exceed the permits."""
        if not self.has_capacity:
            return False
        self._left -= cost
        self._schedule()
        return True

    def take(self, wanted: int) -> int:
        """Take up to `wanted` permits of this round; return their number."""
        taken = min(wanted, self._left) if self.has_capacity else 0
        if taken:
            self.spend(taken)
        return taken

    def later(self, function: Callable[[], None]) -> None:
        """Call a function in a later round, after functions that already wait; the function must take its own permits."""
        self._waiting.append(function)
        self._schedule()

    async def wait(self) -> None:
        """Wait until a permit is available."""
        if self.spend():
            return
        permit = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not permit.done():  # otherwise, the client has disconnected
                self.spend()
                permit.set_result(None)

        self.later(begin)
        await permit

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._is_scheduled = False
        self._left = _PERMITS_PER_ROUND
        self._is_serving = True
        try:
            for _ in range(len(self._waiting)):
                if self._left <= 0:
                    break
                self._serve(self._waiting.popleft())
        finally:
            self._is_serving = False
        if self._waiting:
            self._schedule()

    @staticmethod
    def _serve(function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:  # concerns one client only
            asyncio.get_running_loop().call_exception_handler({"message": "internal error", "exception": error})


class AddressRates:
    """Delays the connections of each address; `rate`: connections per second, None for no limit."""

    def __init__(self, rate: int | None = CONNECTION_RATE) -> None:
        self._rate = rate
        self._due_s: OrderedDict[str, float] = OrderedDict()

    def delay_s(self, address: str, now_s: float) -> float | None:
        """Count a new connection; return its delay, seconds: 0 or less for no delay, None if the connection is rejected."""
        if self._rate is None:
            return 0.0
        due_s = max(self._due_s.get(address, -math.inf), now_s - _BURST_S) + 1 / self._rate
        if due_s - now_s > _LONGEST_S:
            return None
        self._due_s[address] = due_s
        self._due_s.move_to_end(address)
        if len(self._due_s) > _MOST_ADDRESSES:
            self._due_s.popitem(last=False)
        return due_s - now_s


class Admission:
    """The quota and rates of one server, for all transports; for `rate` see AddressRates."""

    def __init__(self, rate: int | None = CONNECTION_RATE) -> None:
        self.quota = UnauthenticatedQuota()
        self.rates = AddressRates(rate)
