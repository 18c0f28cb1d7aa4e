"""Worker: a thread that runs blocking calls for an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar

from headstream.errors import ClosedError
from headstream.forks import register_for_forks
from headstream.interceptors.loop_bridge import WORKING_FOR

_P = ParamSpec("_P")
_T = TypeVar("_T")

_FIRST_SLICE_MS: Final = 125
_LAST_SLICE_MS: Final = 1000
_CANCEL_TIMEOUT_S: Final = 2.0
"""Time after which a cancelled call is interrupted, seconds."""
_INTERRUPT_AGAIN_S: Final = 0.25
"""Time between interrupts, seconds, because a call can consist of several requests that each wait for the server."""


def slices_ms() -> Iterator[float]:
    """Yield the lengths of successive waits, milliseconds, after which a cancellation can take effect; later waits are longer."""
    slice_ms = _FIRST_SLICE_MS
    while True:
        yield slice_ms
        slice_ms = min(slice_ms * 2, _LAST_SLICE_MS)


class Worker:
    """One thread that runs calls; `interrupt` interrupts the current call of a thread, see Client.interrupt()."""

    def __init__(self, name: str, interrupt: Callable[[int, bool], None]) -> None:
        self._name = name
        self._interrupt = interrupt
        self._thread = 0
        self.is_closed = False
        self.after_fork()
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: start a new thread."""
        self._lock_of_loop: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"headstream {self._name}")

    @property
    def is_busy(self) -> bool:
        """Whether a call is running, even if its caller was cancelled."""
        return self._lock_of_loop is not None and self._lock_of_loop[1].locked()

    def _find_lock(self) -> asyncio.Lock:
        """Return the lock of an event loop; a call holds the lock until it has ended and, if cancelled, is undone."""
        loop = asyncio.get_running_loop()
        if self._lock_of_loop is None or self._lock_of_loop[0] is not loop:
            self._lock_of_loop = loop, asyncio.Lock()
        return self._lock_of_loop[1]

    async def run(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call in the thread with the caller's context variables; return the result."""
        return await self.take(functools.partial(call, *args, **kwargs), None)

    async def take(self, call: Callable[[], _T], put_back: Callable[[_T], object] | None) -> _T:
        """In the thread, run a call that takes messages; a cancellation loses no message.

        The next call starts after this call has ended, so that a commit, for example, never includes messages that are put back.

        Args:
            put_back: Undoes the call if the caller was cancelled: called in the thread with the result. None drops the result.
        """
        async with self._find_lock():
            return await self._take(call, put_back)

    async def _take(self, call: Callable[[], _T], put_back: Callable[[_T], object] | None) -> _T:
        running = self._start(call)
        future = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if running.cancel():  # the call waited for another call, and now does not start
                raise
            await self._wait_for_end(future)
            if future.exception() is None and put_back is not None:
                undone = self._start(functools.partial(put_back, future.result()))
                await self._wait_for_end(asyncio.wrap_future(undone))
            raise

    def _start(self, call: Callable[[], _T]) -> Future[_T]:
        if self.is_closed:
            raise ClosedError(f"the {self._name} is closed", advice="Connect again, or create a new object")
        loop = asyncio.get_running_loop()
        return self._pool.submit(contextvars.copy_context().run, self._work, loop, call)

    async def _wait_for_end(self, future: asyncio.Future[Any]) -> None:
        """Wait until the call of a cancelled caller has ended; interrupt the call if it takes too long."""
        timeout_s = _CANCEL_TIMEOUT_S
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future}, timeout=timeout_s)
                if not future.done():
                    self._interrupt(self._thread, False)
                    timeout_s = _INTERRUPT_AGAIN_S
        self._interrupt(self._thread, True)

    def _work(self, loop: asyncio.AbstractEventLoop, call: Callable[[], _T]) -> _T:
        self._thread = threading.get_ident()
        WORKING_FOR.set(loop)
        return call()

    def close(self) -> None:
        """End the thread."""
        self.is_closed = True
        self._pool.shutdown(wait=False)
