"""PendingWait: a request that is answered when messages arrive or its timeout expires; blocks no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.messages import begin_wait
from headstream.broker.messages.waits import Wait
from headstream.core.wire.encodings import Encoding
from headstream.core.wire.extensions.messages import WaitMessages
from headstream.errors import HeadstreamError
from headstream.server.iggy.requests.responder import WOKEN, Response


class PendingWait:
    """A pending wait; created by begin().

    Attributes:
        payload: A copy of the bytes after the code.
        began_s: Start time, by perf_counter().
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
        encoding: Encoding,
        loop: asyncio.AbstractEventLoop,
        on_notify: Callable[[], None],
        on_late: Callable[[], None],
    ) -> PendingWait | None:
        """Start a wait; return None if the request can be answered immediately.

        Args:
            payload: The bytes after the code; copied.
            on_notify: Called on any thread when messages may be available.
            on_late: Called in the event loop when the timeout expires.
        """
        copied = memoryview(bytes(payload))
        try:
            command: Any = encoding.decode(code, copied)
            command.validate()
            if not command.timeout_ms:
                return None
            wait = begin_wait(server, session, command, on_notify)
        except Exception:
            return None  # answering the request raises the same error
        begun = cls(code, copied, wait, loop.call_later(command.timeout_ms / 1000, on_late))
        if begun.is_over:
            begun.cancel()
            return None
        return begun

    @property
    def is_over(self) -> bool:
        """Whether messages are available or the wait cannot succeed any more."""
        try:
            return self._wait.is_ready
        except HeadstreamError:
            return True  # answering the request reports the error

    @property
    def answer(self) -> Response | None:
        """Return the response to a finished wait; None if the request must be handled again."""
        return WOKEN if self.code == WaitMessages.code else None

    def cancel(self) -> None:
        """Stop waiting."""
        self._timer.cancel()
        self._wait.cancel()
