"""Collector: shortens Python's garbage collections in servers with many streams, topics and users.

A full collection examines every object; with 20,000 partitions, it stops all requests for 50 ms. Almost all of these objects live
as long as the server. After a long collection, the remaining objects are therefore excluded from the next collections. All
objects are included again at intervals, so that later garbage is freed.
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
"""Interval after which excluded objects are examined again, seconds: one long collection per hour."""


class Collector:
    """Controls Python's garbage collector in a server process; runs in the event loop. `clock` returns seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter) -> None:
        self._loop = loop
        self._clock = clock
        self._began_s = 0.0
        self._included_s = clock()

    def start(self) -> None:
        """Exclude the existing objects, and start observing collections."""
        gc.freeze()
        gc.enable()
        gc.callbacks.append(self._observe)

    def stop(self) -> None:
        """Stop observing collections."""
        gc.callbacks.remove(self._observe)

    def _observe(self, phase: str, info: dict[str, Any]) -> None:
        """Record a collection; called by Python's collector on any thread."""
        if info["generation"] != _FULL:
            return
        now_s = self._clock()
        if phase == "start":
            self._began_s = now_s
        elif now_s - self._began_s > _LONG_S:
            self._loop.call_soon_threadsafe(self._exclude)

    def _exclude(self) -> None:
        """Exclude the objects that survived a long collection; once per hour, include all objects in the next collection."""
        now_s = self._clock()
        if now_s - self._included_s > _INCLUDED_S:
            self._included_s = now_s
            gc.unfreeze()
        else:
            gc.freeze()
