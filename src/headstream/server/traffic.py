"""Traffic: what one transport has done, counted at next to no cost; compiled."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from headstream.wire.codes import TABLE

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

__all__ = ["BOUNDS_S", "Traffic"]

BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the durations that are told apart, seconds; what takes longer is one more."""


class Traffic:
    """Counts of one transport; only the event loop counts, any thread may look.

    Args:
        transport: `tcp` or `http`.
    """

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.connections = 0
        self.refused_connections = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.requests: dict[tuple[int, int], int] = {}
        self.durations: dict[int, list[int]] = {}
        self.seconds: dict[int, float] = {}

    def answered(self, code: cython.longlong, status: cython.longlong, seconds: cython.double) -> None:
        """Count a request that was answered.

        Args:
            code: The command's; all that are unknown are one.
            status: What was answered, 0 for success.
            seconds: How long it took.
        """
        if code not in TABLE:
            code = 0
        key = (code, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        counts = self.durations.get(code)
        if counts is None:
            counts = self.durations[code] = [0] * (len(BOUNDS_S) + 1)
        counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds[code] = self.seconds.get(code, 0.0) + seconds
