"""Entropy: the system's random bytes, fetched for many sends at once."""

from __future__ import annotations

import os
import threading
from typing import Final

__all__ = ["Entropy"]

_FETCHED_BYTES: Final = 4096
_SHORT_BYTES: Final = 16
"""A send's seed. What is longer is a secret, and fetched for itself: nothing of it stays here."""


class Entropy:
    """Returns so many random bytes, no byte twice; any thread.

    A call of the system for each send's ids would be a tenth of what a small send takes.
    """

    __slots__ = ("_at", "_fetched", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fetched = b""
        self._at = 0

    def __call__(self, count: int) -> bytes:
        """Return random bytes.

        Args:
            count: How many.
        """
        if count > _SHORT_BYTES:
            return os.urandom(count)
        with self._lock:
            at = self._at
            if at + count > len(self._fetched):
                self._fetched = os.urandom(_FETCHED_BYTES)
                at = 0
            self._at = at + count
            return self._fetched[at : self._at]
