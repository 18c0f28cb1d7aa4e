"""Waits of tests: for a condition that another thread or process fulfils, and for the end of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], object], what: str = "the wait timed out", timeout_s: float = 120.0) -> None:
    """Wait until a condition is true.

    Args:
        is_so: Returns whether the condition is true; called every 5 ms.
        what: Message of the AssertionError after the timeout.
        timeout_s: Longest wait, seconds.
    """
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s, what
        time.sleep(0.005)


def run_together(*works: Callable[[], object]) -> None:
    """Run functions at the same time, each in a new thread, and wait for their ends."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
