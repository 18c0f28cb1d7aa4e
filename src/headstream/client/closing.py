"""Closing: limits the total time that close() waits for a server that may be unreachable."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

CLOSE_S: Final = 5.0
"""Maximum total time of the requests of one close(), seconds."""

_LEAST_S: Final = 0.1
"""Minimum timeout of a request, seconds; after the deadline, requests are still tried with this timeout."""

_until: Final[ContextVar[float | None]] = ContextVar("_until", default=None)
"""Deadline for the requests of the current close(), by the monotonic clock."""


@contextmanager
def closing() -> Iterator[None]:
    """Limit the total time of this thread's requests in the context to CLOSE_S; a nested context keeps the outer limit."""
    token = _until.set(_until.get() or time.monotonic() + CLOSE_S)
    try:
        yield
    finally:
        _until.reset(token)


@contextmanager
def unlimited() -> Iterator[None]:
    """Suspend the limit of closing() while close() calls a user function."""
    token = _until.set(None)
    try:
        yield
    finally:
        _until.reset(token)


def until_closed_s() -> float | None:
    """Return the deadline for requests, by the monotonic clock; None outside of closing()."""
    return _until.get()


def limited(timeout_s: float) -> float:
    """Limit a request's timeout, seconds, to the remaining time of closing()."""
    until_s = _until.get()
    return timeout_s if until_s is None else min(timeout_s, max(_LEAST_S, until_s - time.monotonic()))
