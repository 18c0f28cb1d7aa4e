"""Python workers of Spark's end without a word when their JVM is done with them, as it is now and then, and always in the end.

The JVM closes the sockets of workers that have been idle for a minute, those of all when a session ends, and that of a task
that has seen enough (`show()`, `limit()`, a query that is stopped) or of a stream that is stopped in the middle of its
planning. PySpark's worker takes that for a failure of its own, tells it to the closed socket, and prints a traceback of the
BrokenPipeError that comes of it: over Unix sockets each time, over TCP now and then.

The daemon that forks the workers of tasks is a setting (worker_daemon.py). The one that forks those which look for data
sources, plan reads and writes, and commit is PySpark's own in any case; but our code runs in its children, and there it
can put another function where the daemon looks for what a worker does next.
"""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeAlias

__all__ = ["CLOSED", "Work", "end_quietly", "quiet"]

Work: TypeAlias = Callable[[socket.socket, bool], int]
"""A worker's next piece of work: its socket, and whether who is behind that is known; returns 0 where there may be another."""

CLOSED: Final = (BrokenPipeError, ConnectionResetError)
"""What a worker sees of a JVM that has closed the socket."""
_DAEMON: Final = "pyspark.daemon"
_STREAM_PROCESS: Final = "pyspark.sql.streaming.python_streaming_source_runner"
"""The process that PySpark plans a stream in, with no daemon."""


def quiet(work: Work) -> Work:
    """Return work that ends its worker without a word where the JVM has closed the socket."""

    @functools.wraps(work)
    def quiet_work(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except CLOSED:
            return 1  # the worker ends, as it does after a failure

    return quiet_work


def end_quietly() -> None:
    """Have this process end quietly where it is one that PySpark looks for sources, plans or commits in."""
    main: Any = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = None if spec is None else spec.name
    if name == _DAEMON and not hasattr(main.worker, "__wrapped__"):
        main.worker = quiet(main.worker)
    elif name == _STREAM_PROCESS:
        sys.excepthook = _say_unless_closed


def _say_unless_closed(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not issubclass(kind, CLOSED):
        sys.__excepthook__(kind, error, traceback)
