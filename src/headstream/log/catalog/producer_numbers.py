"""Numbers for producer ids; each number is assigned once.

Numbers are reserved in blocks, up to the limit in a row of SQLite's counters (sqlite_sequence); after a crash, the unused part of
a block is skipped. A block starts at or above the milliseconds since 1970, so that a log restored from an older copy does not
repeat numbers that were assigned after the copy was made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from headstream.log.catalog.catalog import Catalog

_BLOCK: Final = 1000
"""Numbers per transaction, which takes about a millisecond."""

_COUNTER: Final = "producers"


class ProducerNumbers:
    """Assigns numbers; thread-safe."""

    def __init__(self, catalog: Callable[[], Catalog], clock_us: Callable[[], int]) -> None:
        self._catalog = catalog
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._next = self._until = 0

    def take(self) -> int:
        """Return a number that was never assigned."""
        with self._lock:
            if self._next == self._until:
                self._reserve()
            number = self._next
            self._next += 1
            return number

    def _reserve(self) -> None:
        catalog = self._catalog()
        with catalog.transaction(()):
            rows = catalog.select("SELECT seq FROM sqlite_sequence WHERE name = ?", _COUNTER, since=1)
            begin = max(rows[0][0] if rows else 0, self._clock_us() // 1000)
            if rows:
                catalog.change("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", begin + _BLOCK, _COUNTER)
            else:
                catalog.change("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", _COUNTER, begin + _BLOCK)
        self._next, self._until = begin, begin + _BLOCK
