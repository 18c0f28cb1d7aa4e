"""Collector: keeps Python's collections of reference cycles short while a server has many streams, topics and users.

A full collection looks at every object: with 20,000 partitions it stops all requests for 50 ms. Almost all of these objects live
as long as the server, so after a long collection the remaining objects are excluded from the next collections. Objects that
become garbage later would never be freed, so all are included again at intervals.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any, Final

_FULL: Final = 2
"""The generation of a full collection."""
_LONG_S: Final = 0.005
_INCLUDED_S: Final = 3600.0
"""After so long excluded objects are looked at again, seconds: one long collection an hour."""


class Collector:
    """The settings of Python's collector in a server's process; only in the event loop. `clock` returns seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter) -> None:
        self._loop = loop
        self._clock = clock
        self._began_s = 0.0
        self._included_s = clock()

    def start(self) -> None:
        """Exclude the objects that exist now, and watch the collections."""
        gc.freeze()
        gc.enable()
        gc.callbacks.append(self._observe)

    def stop(self) -> None:
        """Stop watching."""
        gc.callbacks.remove(self._observe)

    def _observe(self, phase: str, info: dict[str, Any]) -> None:
        """Note a collection; called by the collector, in any thread."""
        if info["generation"] != _FULL:
            return
        now_s = self._clock()
        if phase == "start":
            self._began_s = now_s
        elif now_s - self._began_s > _LONG_S:
            self._loop.call_soon_threadsafe(self._exclude)

    def _exclude(self) -> None:
        """Exclude the objects that survived a long collection; once per hour include all in the next collection instead."""
        now_s = self._clock()
        if now_s - self._included_s > _INCLUDED_S:
            self._included_s = now_s
            gc.unfreeze()
        else:
            gc.freeze()
