"""Makes Spark's Python workers exit silently when the JVM has closed their socket.

The JVM closes the sockets of workers that were idle for a minute, of all workers when a session ends, of a task that has enough
rows (`show()`, `limit()`, a stopped query), and of a stream that is stopped while it is planned. PySpark's worker handles the
closed socket as a failure: it reports the failure to the socket and prints the traceback of the resulting BrokenPipeError, always
over Unix sockets and sometimes over TCP.

A Spark setting selects the daemon that forks the workers of tasks (daemon.py). PySpark's own daemon always forks the workers that
look up data sources, plan reads and writes, and commit. Headstream's code runs in these workers, and replaces the function that
the daemon calls for a worker's next work.
"""

from __future__ import annotations

import functools
import socket
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeAlias

Work: TypeAlias = Callable[[socket.socket, bool], int]
"""A worker's next work, called with the socket and whether the peer is authenticated; returns 0 if the worker can be reused."""

CLOSED: Final = (BrokenPipeError, ConnectionResetError)
"""Errors of a worker whose JVM has closed the socket."""
_DAEMON: Final = "pyspark.daemon"
_STREAM_PROCESS: Final = "pyspark.sql.streaming.python_streaming_source_runner"
"""The module of the process in which PySpark plans a stream, without a daemon."""


def suppress_disconnects(work: Work) -> Work:
    """Return a function that runs `work` and exits the worker silently if the JVM has closed the socket."""

    @functools.wraps(work)
    def run_until_disconnect(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except CLOSED as error:
            _discard_unsent(error)
            return 1  # the worker exits, as after a failure

    return run_until_disconnect


def _discard_unsent(error: BaseException) -> None:
    """Finalize the worker's files; otherwise Python 3.14 reports their unsent bytes as an error."""
    hook, sys.unraisablehook = sys.unraisablehook, _report_unless_closed
    try:
        failed: BaseException | None = error
        while failed is not None:
            traceback.clear_frames(failed.__traceback__)
            failed = failed.__context__
    finally:
        sys.unraisablehook = hook


def _report_unless_closed(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, CLOSED):
        sys.__unraisablehook__(unraisable)


def exit_quietly() -> None:
    """Make this process exit silently if PySpark looks up sources, plans or commits in it."""
    main: Any = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = None if spec is None else spec.name
    if name == _DAEMON and not hasattr(main.worker, "__wrapped__"):
        main.worker = suppress_disconnects(main.worker)
    elif name == _STREAM_PROCESS:
        sys.excepthook = _print_unless_closed


def _print_unless_closed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, CLOSED):
        sys.__excepthook__(kind, error, trace)
