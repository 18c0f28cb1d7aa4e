"""What tests wait for: things that other threads and processes bring about, and threads to their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], object], what: str = "it did not come to that in time", timeout_s: float = 120.0) -> None:
    """Return when something is so.

    Args:
        is_so: Returns whether it is.
        what: What to report if it does not come to that.
        timeout_s: How long to wait, in seconds.
    """
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s, what
        time.sleep(0.005)


def run_together(*works: Callable[[], object]) -> None:
    """Run each in a thread of its own, to their end."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
