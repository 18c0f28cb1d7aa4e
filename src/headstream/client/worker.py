"""Worker: a thread in which an event loop's calls run that may take their time."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from headstream.errors import ClosedError

__all__ = ["Worker", "slices_ms"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_FIRST_SLICE_MS: Final = 125
_LAST_SLICE_MS: Final = 1000
_PATIENCE_S: Final = 2.0
"""A call that was cancelled is interrupted when it has not ended by itself after so long, and again each time."""


def slices_ms() -> Iterator[float]:
    """Yield for how long to wait in one call, milliseconds, again and again: a wait that is cancelled ends within this time.

    Soon at first, later when it has been long, since a thousand that wait for ever are to cost next to nothing.
    """
    slice_ms = _FIRST_SLICE_MS
    while True:
        yield slice_ms
        slice_ms = min(slice_ms * 2, _LAST_SLICE_MS)


class Worker:
    """One thread that calls run in.

    Args:
        name: Of what it works for.
        interrupt: Has the call end soon that a thread of this number is in.
    """

    def __init__(self, name: str, interrupt: Callable[[int], None]) -> None:
        self._name = name
        self._interrupt = interrupt
        self._thread = 0
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"headstream {name}")
        self.is_closed = False

    async def run(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call in the thread and return what it returns."""
        if self.is_closed:
            raise ClosedError(f"the {self._name} is closed", advice="Connect again, or make another")
        future = asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(self._work, call, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({future}, timeout=_PATIENCE_S)
                    if not future.done():
                        self._interrupt(self._thread)
            future.exception()  # the cancellation is what the caller hears of
            raise

    def _work(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._thread = threading.get_ident()
        return call(*args, **kwargs)

    def close(self) -> None:
        """End the thread."""
        self.is_closed = True
        self._pool.shutdown(wait=False)
