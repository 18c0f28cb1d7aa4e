"""PendingWait: a request of one connection that is answered once there is something, or its time is up; it holds no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.own_messages import begin_wait
from headstream.broker.sessions import Session
from headstream.broker.waits import Wait
from headstream.errors import HeadstreamError
from headstream.server.answers import WOKEN, Answer
from headstream.wire.extensions.messages import FetchMessages, WaitMessages

__all__ = ["WAITS", "PendingWait"]

WAITS: Final[dict[int, type[WaitMessages | FetchMessages]]] = {kind.code: kind for kind in (WaitMessages, FetchMessages)}


class PendingWait:
    """A wait that has begun; begin() makes one.

    Attributes:
        code: The command's.
        payload: A copy of what followed it.
        began_s: When it began, by perf_counter().
    """

    __slots__ = ("_timer", "_wait", "began_s", "code", "payload")

    def __init__(self, code: int, payload: memoryview, wait: Wait, timer: asyncio.TimerHandle) -> None:
        self.code = code
        self.payload = payload
        self.began_s = perf_counter()
        self._wait = wait
        self._timer = timer

    @classmethod
    def begin(
        cls,
        server: Dispatcher,
        session: Session,
        code: int,
        payload: memoryview,
        loop: asyncio.AbstractEventLoop,
        on_ring: Callable[[], None],
        on_late: Callable[[], None],
    ) -> PendingWait | None:
        """Begin to wait; return None where there is nothing to wait for: the request is answered as any other then.

        Args:
            server: What answers.
            session: Who asks.
            code: One of WAITS.
            payload: What follows it; it is copied.
            loop: The event loop.
            on_ring: Called when something may have come, on any thread.
            on_late: Called in the loop when the time is up.
        """
        copied = memoryview(bytes(payload))
        try:
            command = WAITS[code].decode(copied)
            command.validate()
            if not command.timeout_ms:
                return None
            wait = begin_wait(server, session, command, on_ring)
        except Exception:
            return None  # it is refused, or fails, as it is answered
        begun = cls(code, copied, wait, loop.call_later(command.timeout_ms / 1000, on_late))
        if begun.is_over:
            begun.cancel()
            return None
        return begun

    @property
    def is_over(self) -> bool:
        """Whether what is waited for has come, or cannot come any more."""
        try:
            return self._wait.is_ready
        except HeadstreamError:
            return True  # and the answer says why

    @property
    def answer(self) -> Answer | None:
        """What is told once it is over, where that needs no second look."""
        return WOKEN if self.code == WaitMessages.code else None

    def cancel(self) -> None:
        """Wait no more."""
        self._timer.cancel()
        self._wait.cancel()
