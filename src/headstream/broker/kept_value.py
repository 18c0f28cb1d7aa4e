"""KeptValue: something that may be costly to make, kept for a time in proportion to what making it took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["KeptValue"]

_T = TypeVar("_T")

_CHEAP_S: Final = 0.005
"""What is made in less time is made for each request: it is exact then."""

_KEPT_FACTOR: Final = 10
"""Anything else is kept for so many times as long as making it took: making it takes a tenth of a core at most."""

_MOST_KEPT_S: Final = 30.0
"""The longest time that a value is kept, seconds."""


class KeptValue(Generic[_T]):
    """A value that one thread makes, and others wait for; any thread.

    Args:
        monotonic: Returns seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._making = threading.Lock()
        self._kept: _T | None = None
        self._until_s = 0.0

    def get(self, make: Callable[[], _T]) -> _T:
        """Return the value that is kept, or make another one.

        Args:
            make: Returns the value as it is now; never None.
        """
        with self._making:
            began_s = self._monotonic()
            if self._kept is not None and began_s < self._until_s:
                return self._kept
            made = make()
            ended_s = self._monotonic()
            took_s = ended_s - began_s
            self._kept = made if took_s > _CHEAP_S else None
            self._until_s = ended_s + min(took_s * _KEPT_FACTOR, _MOST_KEPT_S)
            return made
