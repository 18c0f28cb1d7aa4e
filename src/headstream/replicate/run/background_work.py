"""Retries work for tables in a separate thread until it succeeds, so that a slow catalog does not delay merges."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

_LOGGER: Final = logging.getLogger("headstream.replicate")
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 300.0
ATTEMPT_S: Final = 60.0
"""Maximum time that the end of a run waits for one attempt, seconds; the next run continues."""
K = TypeVar("K")


class BackgroundWork(Generic[K]):
    """Executes requests, and retries a failed request after a pause.

    Args:
        failure: Beginning of the log message for a failure, such as `a table is not registered`.
        first_pause_s: Pause before the first retry, seconds, doubled after each failure; None: 5.

    Attributes:
        changed: Condition that protects the other attributes; notified after each attempt.
    """

    def __init__(self, attempt: Callable[[K], None], failure: str, name: str, first_pause_s: float | None = None) -> None:
        self._attempt = attempt
        self._failure = failure
        self._name = name
        self._first_pause_s = _FIRST_PAUSE_S if first_pause_s is None else first_pause_s
        self.changed = threading.Condition()
        self.waiting: dict[K, int] = {}
        self.reasons: dict[K, str] = {}
        self._numbers = itertools.count()
        self._attempts = 0
        self._is_asked = self._is_busy = self._is_closed = False
        self._thread: threading.Thread | None = None

    def ask(self, keys: Iterable[K]) -> None:
        """Schedule the work for the given tables, again if it is already running; return immediately."""
        with self.changed:
            new = {key: next(self._numbers) for key in keys}
            if new and not self._is_closed:
                self.waiting |= new
                self._wake()

    def finish(self, left: str, *, every_table: bool) -> None:
        """Try all pending work one last time, and stop.

        Args:
            left: Words that follow the number of unfinished requests in a log message, such as `tables are not registered`.
            every_table: Whether to wait until every request was tried; otherwise wait for at most one attempt.
        """
        with self.changed:
            if self.waiting:
                self._wake()
            while self._is_working():
                began = self._attempts
                if not self.changed.wait_for(functools.partial(self._has_moved, began), ATTEMPT_S) or not every_table:
                    break
            count = len(self.waiting)
        self.close()
        if count:
            _LOGGER.warning("%d %s; the next run retries them", count, left)

    def close(self) -> None:
        """Stop without further attempts."""
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()

    def _is_working(self) -> bool:
        return self._is_asked or self._is_busy

    def _has_moved(self, began: int) -> bool:
        return self._attempts > began or not self._is_working()

    def _wake(self) -> None:
        self._is_asked = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self.changed.notify_all()

    def _work(self) -> None:
        pause_s = self._first_pause_s
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._is_asked or self._is_closed, pause_s if self.waiting else None)
                if self._is_closed:
                    return
                self._is_asked, self._is_busy = False, True
                keys = list(self.waiting)
            succeeded = self._try_all(keys)
            pause_s = self._first_pause_s if succeeded else min(pause_s * 2, _LONGEST_PAUSE_S)
            with self.changed:
                self._is_busy = False
                self.changed.notify_all()

    def _try_all(self, keys: list[K]) -> bool:
        failures: list[str] = []
        for key in keys:
            if self._is_closed:
                return False
            number, reason = self.waiting[key], None
            try:
                self._attempt(key)
            except Exception as error:  # catalogs are implemented elsewhere, and can raise any exception
                reason = str(error) or type(error).__name__
            with self.changed:
                self._attempts += 1
                before = self.reasons.pop(key, None)
                if reason is not None:
                    self.reasons[key] = reason
                elif self.waiting[key] == number:
                    del self.waiting[key]
                self.changed.notify_all()
            if reason is not None and reason != before:
                failures.append(reason)
        if failures:
            more = f" (and {len(failures) - 1} more: see the status)" if len(failures) > 1 else ""
            _LOGGER.warning("%s; retrying: %s%s", self._failure, failures[0], more)
        return len(keys) > len(self.reasons)
