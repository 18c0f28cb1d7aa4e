"""Rounds: repeats a function in a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Rounds"]


class Rounds:
    """A thread that calls a function at intervals, until it is closed.

    Args:
        apply: The function; it raises nothing.
        interval_s: Seconds between two rounds.
    """

    def __init__(self, apply: Callable[[], object], interval_s: float, name: str) -> None:
        self._apply = apply
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_closing(self) -> bool:
        """Whether the running round is to stop early."""
        return self._stop.is_set()

    def start(self) -> None:
        """Start the thread; its first round is immediate."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._apply()
            self._stop.wait(self._interval_s)
