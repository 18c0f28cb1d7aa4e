"""Traffic: what one transport has done, counted at next to no cost; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headstream.wire.codes import TABLE

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

__all__ = ["BOUNDS_S", "CommandTraffic", "Traffic"]

BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the durations that are told apart, seconds; what takes longer is one more."""


_BOUNDS = cython.declare(cython.Py_ssize_t, len(BOUNDS_S))


class CommandTraffic:
    """What was asked by one command.

    Args:
        code: The command's.

    Attributes:
        done: How many requests were answered with success.
        refused: How many with each other status.
        counts: How many took how long: up to each of BOUNDS_S, and longer.
        seconds: How long all of them took together.
    """

    def __init__(self, code: cython.longlong) -> None:
        self.code = code
        self.done = 0
        self.refused: dict[int, int] = {}
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.seconds = 0.0

    def answered(self, status: cython.longlong, seconds: cython.double) -> None:
        """Count a request, as Traffic.answered()."""
        i: cython.Py_ssize_t = 0
        while i < _BOUNDS and seconds > BOUNDS_S[i]:
            i += 1
        self.counts[i] += 1
        self.seconds += seconds
        if status == 0:
            self.done += 1
        else:
            self.refused[status] = self.refused.get(status, 0) + 1


class Traffic:
    """Counts of one transport; only the event loop counts, any thread may look.

    Args:
        transport: `tcp`, `http` or `quic`.

    Attributes:
        commands: What was asked, by the code of the command; all codes that are unknown are 0.
    """

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.connections = 0
        self.refused_connections = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.commands: dict[int, CommandTraffic] = {}

    def answered(self, code: cython.longlong, status: cython.longlong, seconds: cython.double) -> None:
        """Count a request that was answered.

        Args:
            code: The command's.
            status: What was answered, 0 for success.
            seconds: How long it took.
        """
        found = self.commands.get(code)
        if found is None:
            known: cython.longlong = code if code in TABLE else 0
            found = self.commands.setdefault(known, CommandTraffic(known))
        command: CommandTraffic = found
        command.answered(status, seconds)
