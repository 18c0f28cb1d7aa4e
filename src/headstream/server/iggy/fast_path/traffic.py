"""Traffic: counters of one transport, for the metrics; compiled."""

from __future__ import annotations

from typing import Final

from headstream.core.wire.codes import TABLE, name_of_code
from headstream.core.wire.statuses import name_of_status

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram's buckets, seconds; an additional bucket counts longer durations."""

_BOUNDS = cython.declare(cython.Py_ssize_t, len(BOUNDS_S))


class CommandTraffic:
    """Counters of one command's requests.

    Attributes:
        done: Successful requests.
        refused: Failed requests, by status.
        counts: Number of requests per bucket of BOUNDS_S, and of longer requests.
        seconds: Sum of the durations, seconds.
    """

    def __init__(self, code: cython.longlong) -> None:
        self.code = code
        self.done = 0
        self.refused: dict[int, int] = {}
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.seconds = 0.0

    def answered(self, status: cython.longlong, seconds: cython.double) -> None:
        """Count a request; see Traffic.answered()."""
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
    """Counters of one transport, written by the event loop and read by any thread.

    Attributes:
        commands: Counters by command code; unknown codes count as 0.
    """

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.connections = 0
        self.refused_connections = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.commands: dict[int, CommandTraffic] = {}

    def answered(self, code: cython.longlong, status: cython.longlong, seconds: cython.double) -> None:
        """Count an answered request; status 0 is success."""
        found = self.commands.get(code)
        if found is None:
            known: cython.longlong = code if code in TABLE else 0
            found = self.commands.setdefault(known, CommandTraffic(known))
        command: CommandTraffic = found
        command.answered(status, seconds)

    def name_of_command(self, code: int) -> str:
        """Return the name of a command; `code` is a key of `commands`."""
        return name_of_code(code) if code else "other"

    def name_of_status(self, status: int) -> str:
        """Return the name of a status."""
        return name_of_status(status)
