"""CachedValue: caches an expensive value for a time proportional to its computation time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

_CHEAP_S: Final = 0.005
"""A value that is computed in less than this time, seconds, is not cached unless `kept_s` is set."""

_KEPT_FACTOR: Final = 10
"""Other values are cached for this multiple of their computation time, but at most _MOST_KEPT_S."""

_MOST_KEPT_S: Final = 30.0
"""Maximum time a value is cached, seconds."""


class CachedValue(Generic[_T]):
    """A cached value that one thread computes while other threads wait; thread-safe.

    Args:
        kept_s: Minimum time for which a value is cached, seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, kept_s: float = 0.0) -> None:
        self._monotonic = monotonic
        self._kept_s = kept_s
        self._making = threading.Lock()
        self._kept: _T | None = None
        self._until_s = 0.0

    def get(self, make: Callable[[], _T]) -> _T:
        """Return the cached value, or compute it with `make`, which must not return None."""
        with self._making:
            began_s = self._monotonic()
            if self._kept is not None and began_s < self._until_s:
                return self._kept
            made = make()
            ended_s = self._monotonic()
            took_s = ended_s - began_s
            self._kept = made if took_s > _CHEAP_S or self._kept_s else None
            self._until_s = ended_s + max(min(took_s * _KEPT_FACTOR, _MOST_KEPT_S), self._kept_s)
            return made
