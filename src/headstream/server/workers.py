"""Workers: the threads that answer what must not hold up the event loop.

surveys     what looks at many partitions: two threads, the users in turn, so that others find the interpreter free
work        what waits for a disk, changes directories, or is big enough to be worth another core
passwords   hashing: it takes tens of milliseconds of a core each, asked for by anybody, so it has threads of its own,
            as many as there are cores and below everything else in the system's eyes; they serve users and addresses in
            turn, and each connection has one request of them at a time, so that connections bound what waits
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from headstream.server.fair_threads import FairThreads
from headstream.wire.codes import Code

__all__ = ["Workers"]

_T = TypeVar("_T")
_WORK_THREADS: Final = 64
"""Sends that wait for one sync together each hold a thread."""
_PASSWORD_NICENESS: Final = 10
_WITH_PASSWORDS: Final = frozenset({Code.LOGIN, Code.CREATE_USER, Code.CHANGE_PASSWORD})

_SURVEY_THREADS: Final = 2
"""Each takes the interpreter from the event loop for a moment after each of its steps; and one user's long list does not hold up
all others'."""
_SURVEYS: Final = frozenset(
    {
        Code.STATS,
        Code.SNAPSHOT,
        Code.GET_STREAM,
        Code.LIST_STREAMS,
        Code.LIST_TOPICS,
        Code.LIST_OPEN_TOPICS,
        Code.LIST_GROUP_LAGS,
    }
)


class Workers:
    """The threads of one server, for all its doors."""

    def __init__(self) -> None:
        self._work = ThreadPoolExecutor(_WORK_THREADS, "headstream-work")
        self._surveys = FairThreads(_SURVEY_THREADS, "headstream-surveys")
        self._passwords = FairThreads(os.cpu_count() or 1, "headstream-passwords", _step_back)

    def submit(self, code: int, function: Callable[[], _T], client: Hashable = None) -> Future[_T]:
        """Run a function on a thread that suits a command.

        Args:
            code: The command's code.
            function: What to run.
            client: Whose command it is: the number of a user, or the address of a client that has not logged in.
        """
        if code in _SURVEYS:
            return self._surveys.submit(client, function)
        if code in _WITH_PASSWORDS:
            return self._passwords.submit(client, function)
        return self._work.submit(function)

    def close(self) -> None:
        """End the threads once they are done with what they have; what waits for one is dropped."""
        self._surveys.close()
        self._passwords.close()
        self._work.shutdown(wait=True, cancel_futures=True)


def _step_back() -> None:
    """Let every other thread of the machine go first; on systems where a thread has a niceness."""
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PASSWORD_NICENESS)
