"""Ctrl-C and SIGTERM for commands that stop at a safe point."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def stop_by_signals(stop: Callable[[], object]) -> list[int]:
    """Make the first Ctrl-C or SIGTERM call `stop`, and the second end the program. Return the list of received signals.

    Call this after the start of a Spark session, which installs a signal handler. Later signals are appended to the list.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt
        stop()

    for number in _SIGNALS:
        signal.signal(number, handle)
    return came


@contextmanager
def restored_handlers() -> Iterator[None]:
    """Restore the current signal handlers after the body."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
