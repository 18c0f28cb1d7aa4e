"""Wakeups: answers waits in the same round of the event loop as the append that ends the waits.

append in the event loop -> notify() -> the sender's response -> run(): the responses to clients that waited for the message
append in another thread -> notify() -> the event loop's next round
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Wakeups:
    """The waits to check again, in `due` (always the same object, read-only); must be created in the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._is_running = False
        self.due: deque[Callable[[], None]] = deque()

    def notify(self, callback: Callable[[], None]) -> None:
        """Schedule a call to `callback`, which answers a wait that is over, in the event loop; thread-safe."""
        if threading.get_ident() == self._thread:
            if not self.due:
                self._loop.call_soon(self.run)  # for appends of handlers that do not call run()
            self.due.append(callback)
            return
        with suppress(RuntimeError):  # the loop has been closed: the server has stopped
            self._loop.call_soon_threadsafe(callback)

    def run(self) -> None:
        """Check the waits that were notified in this round; called in the event loop after the senders' responses."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self.due:
                self._call(self.due.popleft())
        finally:
            self._is_running = False

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # concerns one wait only
            self._loop.call_exception_handler({"message": "internal error", "exception": error})
