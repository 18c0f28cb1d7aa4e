"""Worker: a thread that runs blocking calls of an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from headstream.errors import ClosedError
from headstream.forks import tell_of_forks
from headstream.interceptors.loop_bridge import WORKING_FOR

__all__ = ["Worker", "slices_ms"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_FIRST_SLICE_MS: Final = 125
_LAST_SLICE_MS: Final = 1000
_CANCEL_TIMEOUT_S: Final = 2.0
"""How long a cancelled call can take to end before it is interrupted, and between interrupts."""


def slices_ms() -> Iterator[float]:
    """Yield the duration of each successive wait, milliseconds: a cancelled wait ends within this time.

    Short at first, longer later, so that a thousand idle waits cost almost nothing.
    """
    slice_ms = _FIRST_SLICE_MS
    while True:
        yield slice_ms
        slice_ms = min(slice_ms * 2, _LAST_SLICE_MS)


class Worker:
    """One thread that runs calls.

    Args:
        name: The name of its owner.
        interrupt: Interrupts the current call of the thread with this number.
    """

    def __init__(self, name: str, interrupt: Callable[[int], None]) -> None:
        self._name = name
        self._interrupt = interrupt
        self._thread = 0
        self.is_closed = False
        tell_of_forks(self)
        self.after_fork()

    def after_fork(self) -> None:
        """Begin with another thread."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"headstream {self._name}")

    async def run(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call in the thread, with the caller's context variables, and return what it returns."""
        if self.is_closed:
            raise ClosedError(f"the {self._name} is closed", advice="Connect again, or make another")
        loop = asyncio.get_running_loop()
        work = functools.partial(self._work, loop, call, *args, **kwargs)
        future = loop.run_in_executor(self._pool, contextvars.copy_context().run, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({future}, timeout=_CANCEL_TIMEOUT_S)
                    if not future.done():
                        self._interrupt(self._thread)
            future.exception()  # the caller gets the cancellation instead
            raise

    def _work(self, loop: asyncio.AbstractEventLoop, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._thread = threading.get_ident()
        WORKING_FOR.set(loop)
        return call(*args, **kwargs)

    def close(self) -> None:
        """End the thread."""
        self.is_closed = True
        self._pool.shutdown(wait=False)
