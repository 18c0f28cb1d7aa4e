"""Loop bridge: calls coroutine functions in an event loop from the client's threads.

A client for asyncio runs its calls in threads (client/worker.py). A thread waits here for the coroutine; the event loop never
blocks on a thread, so a deadlock is impossible.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    import asyncio

WORKING_FOR: Final[ContextVar[asyncio.AbstractEventLoop | None]] = ContextVar("WORKING_FOR", default=None)
"""The event loop to which the call of the current thread belongs."""


class LoopBridge:
    """Runs coroutines of one client in its event loop. Thread-safe."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def remember_loop(self) -> None:
        """Record the event loop for which this thread runs calls; threads of producers have no event loop."""
        self._loop = WORKING_FOR.get() or self._loop

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the event loop; InvalidInputError if the loop is closed, or runs in the calling thread."""
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
            raise InvalidInputError("a coroutine was returned by a plain function", advice="Declare the function as async")
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
