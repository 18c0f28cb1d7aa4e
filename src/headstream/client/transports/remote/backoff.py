"""Exponential retry delays, with jitter so that clients do not retry simultaneously. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_FIRST_S: Final = 0.05
_LONGEST_S: Final = 2.0


class Backoff:
    """The delays before the retries of one failed call.

    Args:
        limit_s: Total time of all attempts after the first failure, seconds.
        random: Returns a number from 0 to 1.
        until_s: Deadline of all attempts, on the clock of next_wait(), seconds; None: `limit_s` after the first failure.
    """

    def __init__(self, limit_s: float, random: Callable[[], float], *, until_s: float | None = None) -> None:
        self._limit_s = limit_s
        self._random = random
        self._until_s = until_s
        self._next_s = _FIRST_S

    def next_wait(self, now_s: float) -> float | None:
        """Return the delay before the next attempt, seconds; None if no time is left. `now_s`: monotonic time of the failure."""
        if self._until_s is None:
            self._until_s = now_s + self._limit_s
        if now_s >= self._until_s:
            return None
        wait_s = self._next_s * (0.5 + self._random() / 2)
        self._next_s = min(2 * self._next_s, _LONGEST_S)
        return min(wait_s, self._until_s - now_s)
