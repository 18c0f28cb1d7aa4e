"""Workers: the threads for requests that would block the event loop.

scans       requests that read many partitions: two threads, users round robin, so that the interpreter stays free
work        requests that wait for a disk, change directories, or are large enough for another core
passwords   password hashing, which takes tens of milliseconds of processor time and can be requested by any client: separate
            threads, half the number of cores, so that the event loop has a core. Users and addresses are served round robin,
            with one request per connection at a time; requests above about 13 s of pending work are refused. The threads
            have normal priority, because a low-priority thread that holds the interpreter's lock could block all threads
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from headstream.broker.commands.table import codes_where
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError
from headstream.server.resources.fair_threads import FairThreads

_T = TypeVar("_T")
_WORK_THREADS: Final = 64
"""Number of threads; each send that waits for a sync occupies a thread."""

_MOST_PASSWORDS: Final = 256
"""Maximum pending requests per password thread; at about 50 ms per request, later clients would time out."""
_RETRY_S: Final = 10
"""Time after which rejected clients should retry, seconds; most of the pending requests are then done."""

_SCAN_THREADS: Final = 2
"""Each thread competes with the event loop for the GIL; with two threads, one long list does not delay all other lists."""
_SCANS: Final = codes_where(lambda row: row.threads == "scans")
_WITH_PASSWORDS: Final = codes_where(lambda row: row.threads == "passwords")


class Workers:
    """The threads of one server, for all transports."""

    def __init__(self) -> None:
        self._work = ThreadPoolExecutor(_WORK_THREADS, "headstream-work")
        self._scans = FairThreads(_SCAN_THREADS, "headstream-scans")
        threads = max((os.cpu_count() or 1) // 2, 1)
        self._passwords = FairThreads(threads, "headstream-passwords", _MOST_PASSWORDS * threads, _too_many_passwords)

    def submit(self, code: int, function: Callable[[], _T], client: Hashable = None) -> Future[_T]:
        """Run a function on a thread for a command; `client` is the user's id or an unauthenticated client's address."""
        if code in _SCANS:
            return self._scans.submit(client, function)
        if code in _WITH_PASSWORDS:
            return self._passwords.submit(client, function)
        return self._work.submit(function)

    def close(self) -> None:
        """Cancel pending functions; end the threads after their current functions."""
        self._scans.close()
        self._passwords.close()
        self._work.shutdown(wait=True, cancel_futures=True)


def _too_many_passwords() -> HeadstreamError:
    """Return the error for a password check above the limit of pending checks."""
    return refusal(Status.SERVER_BUSY, "too many pending logins and password changes", advice=f"Try again in {_RETRY_S} s")
