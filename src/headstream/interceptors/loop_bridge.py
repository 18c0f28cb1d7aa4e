"""Loop bridge: calls coroutine functions in an event loop from the threads that work for it.

A client for asyncio runs its calls in threads (client/worker.py), which wait here for the coroutine. The loop itself never
waits for these threads without returning to its tasks, so neither blocks the other.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    import asyncio

WORKING_FOR: Final[ContextVar[asyncio.AbstractEventLoop | None]] = ContextVar("WORKING_FOR", default=None)
"""The event loop that the current thread's call belongs to."""


class LoopBridge:
    """Runs coroutines of one client in its event loop; thread-safe."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def remember_loop(self) -> None:
        """Record the loop for which this thread works, since the threads of producers belong to no loop."""
        self._loop = WORKING_FOR.get() or self._loop

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the event loop; InvalidInputError if the loop has ended, or is the calling thread's own."""
        import asyncio

        self.remember_loop()
        loop = self._loop
        if loop is None or not loop.is_running():
            coroutine.close()
            raise InvalidInputError("the event loop of an interceptor is closed", advice="Close the log before the loop")
        try:
            is_own = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_own = False
        if is_own:
            coroutine.close()
            raise InvalidInputError("a coroutine was returned by a plain function", advice="Declare it with `async def`")
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
