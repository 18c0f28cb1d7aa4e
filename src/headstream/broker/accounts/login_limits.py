"""Login limits: counts failed logins, and rejects further attempts for some time without checking the password.

    by address    10 failures, then 1 s, 2 s, 4 s ... 60 s
    by user        5 failures, likewise, regardless of the address
    by both        after a login of a user from an address, only failures of this user from this address count

A password check intentionally takes tens of milliseconds of processor time, and a flood of wrong passwords slows down all logins.
The last rule prevents unauthenticated clients from locking out a user, and keeps an address usable if many users share it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status

_ADDRESS_FAILURES: Final = 10
_USER_FAILURES: Final = 5
"""Number of failures before the first delay: users mistype passwords and can share an address."""

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0
"""First and maximum delay, seconds; the maximum allows 1,440 guesses per day."""

_FORGOTTEN_S: Final = 600.0
"""Time without another failure after which failures are forgotten, seconds."""

_MOST_KEYS: Final = 10_000
"""Maximum number of remembered addresses, users and pairs (each); the oldest are evicted first."""


class _Failures:
    """Failed logins by key."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._known: OrderedDict[object, tuple[int, float]] = OrderedDict()

    def wait_s(self, key: object, now_s: float) -> float:
        """Return the time for which attempts are rejected, seconds; 0 or less if attempts are allowed."""
        count, last_s = self._known.get(key, (0, now_s))
        if count < self._free or now_s - last_s > _FORGOTTEN_S:
            return 0.0
        return last_s + min(_FIRST_S * 2.0 ** min(count - self._free, 10), _LONGEST_S) - now_s

    def add(self, key: object, now_s: float) -> None:
        count, last_s = self._known.pop(key, (0, now_s))
        self._known[key] = (1 if now_s - last_s > _FORGOTTEN_S else count + 1), now_s
        if len(self._known) > _MOST_KEYS:
            self._known.popitem(last=False)

    def forget(self, key: object) -> None:
        self._known.pop(key, None)


class LoginLimits:
    """The limits of one server; thread-safe. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._by_address = _Failures(_ADDRESS_FAILURES)
        self._by_user = _Failures(_USER_FAILURES)
        self._by_pair = _Failures(_USER_FAILURES)
        self._good: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, address: str, user: str) -> None:
        """Raise AuthenticationError (42) if an attempt is made within the delay; `user` is empty for a token."""
        with self._lock:
            now_s, pair = self._monotonic(), (address, user)
            if pair in self._good:
                wait_s = self._by_pair.wait_s(pair, now_s)
            else:
                wait_s = max(self._by_address.wait_s(address, now_s), self._by_user.wait_s(user, now_s) if user else 0.0)
        if wait_s > 0:
            raise refusal(
                Status.INVALID_CREDENTIALS,
                "too many logins have failed",
                advice=f"Log in again in {wait_s:.0f} s, with the correct name and password",
            )

    def failed(self, address: str, user: str) -> None:
        """Record a failed attempt; for the arguments, see check()."""
        with self._lock:
            now_s, pair = self._monotonic(), (address, user)
            if pair in self._good:
                self._by_pair.add(pair, now_s)
                return
            self._by_address.add(address, now_s)
            if user:
                self._by_user.add(user, now_s)

    def succeeded(self, address: str, user: str) -> None:
        """Record a successful login; for the arguments, see check()."""
        with self._lock:
            pair = address, user
            self._by_pair.forget(pair)
            self._good[pair] = None
            self._good.move_to_end(pair)
            if len(self._good) > _MOST_KEYS:
                self._good.popitem(last=False)
