"""ReaderSwitch: selects the reader of one connection: the transport, the shared intake, or no reader while paused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headstream.server.iggy.fast_path.intake import IdleConnection, Intake, IntakeHandler
from headstream.server.iggy.fast_path.small_requests import SmallRequests
from headstream.server.resources.loop_rounds import LoopRounds

ROUND_BYTES: Final = 256 << 10
"""Bytes of an unfinished request after which other connections are served: reading 4 MiB at once takes 5 ms, from one
connection or from ten."""

_SHORT_REQUESTS: Final = 8
"""Number of consecutive reads with only small requests after which the intake reads; switching has a cost."""


class ReaderSwitch:
    """Selects the reader of one connection.

    Args:
        intake: The shared intake; None if only the transport can read.

    Attributes:
        is_paused: Whether reading is paused.
        read_bytes: Bytes that the transport has read since other connections were last served.
    """

    def __init__(self, transport: asyncio.Transport, short: SmallRequests, intake: Intake | None) -> None:
        self._transport = transport
        self.short = short
        self._intake = intake
        self._idle: IdleConnection | None = None
        self._shorts = 0
        self._is_yielding = False
        self.is_paused = False
        self.read_bytes = 0

    def note(self, connection: IntakeHandler, *, is_short: bool) -> None:
        """Count a read of the transport; after enough reads with only small requests (`is_short`), switch to the intake."""
        self._shorts = self._shorts + 1 if is_short else 0
        if self._shorts < _SHORT_REQUESTS or self._intake is None or self.is_paused or self._transport.is_closing():
            return
        self._transport.pause_reading()
        self._idle = IdleConnection(connection, self._transport, self.short)
        self._intake.begin(self._idle)

    def go_on_alone(self) -> None:
        """Switch from the intake back to the transport."""
        if self.end() and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause(self) -> None:
        """Stop reading until resume()."""
        was_idle = self.end()
        if not self.is_paused and not self._transport.is_closing():
            self.is_paused = True
            if not was_idle:
                self._transport.pause_reading()

    def yields(self, rounds: LoopRounds, go_on: Callable[[], None]) -> bool:
        """After a large read, stop reading until a round of the event loop has capacity; return whether reading has stopped.

        Args:
            go_on: Called in the later round; reads again unless reading is paused for another reason.
        """
        if self.read_bytes < ROUND_BYTES or self.is_paused:
            return False
        self._is_yielding = True
        self.pause()
        rounds.call_with_capacity(ROUND_BYTES, go_on)
        return True

    def resume(self) -> bool:
        """Continue reading with the transport; return whether reading was paused, except by yields()."""
        was_yielding, self._is_yielding = self._is_yielding, False
        if not self.is_paused or self._transport.is_closing():
            return False
        self.is_paused = False
        self.read_bytes = 0
        self._transport.resume_reading()
        return not was_yielding

    def is_over(self) -> bool:
        """Return whether the transport is closing; if it is, also stop the intake."""
        if not self._transport.is_closing():
            return False
        self.end()
        return True

    def end(self) -> bool:
        """Stop the intake before the transport reads or is closed; return whether the intake was reading."""
        idle, self._idle = self._idle, None
        if idle is None or self._intake is None:
            return False
        self._shorts = 0
        self._intake.end(idle)
        return True

    def close(self) -> None:
        """Close the transport after it has sent its write buffer."""
        self.end()
        self._transport.close()

    def abort(self) -> None:
        """Close the transport immediately."""
        self.end()
        self._transport.abort()
