"""Reading: who reads what comes over one connection: its transport, the intake of all, or nobody for now."""

from __future__ import annotations

import asyncio
from typing import Final

from headstream.broker.commands.short_requests import ShortRequests
from headstream.server.intake import Alone, Intake, Quiet

__all__ = ["Reading"]

_SHORT_REQUESTS: Final = 8
"""After so many reads that brought small requests alone, the intake reads: it costs less, and changing costs something."""


class Reading:
    """Who reads for one connection.

    Args:
        transport: Its transport, which reads at first.
        short: What answers its small requests.
        intake: What can read for it; None where nothing can but the transport.
    """

    def __init__(self, transport: asyncio.Transport, short: ShortRequests, intake: Intake | None) -> None:
        self._transport = transport
        self._short = short
        self._intake = intake
        self._quiet: Quiet | None = None
        self._shorts = 0
        self.is_paused = False

    def note(self, connection: Alone, *, is_short: bool) -> None:
        """Take note of whether all that the transport has read is answered; the intake may read from now on.

        Args:
            connection: Whose bytes they are; kept as long as the intake reads.
            is_short: Whether it was small requests alone.
        """
        self._shorts = self._shorts + 1 if is_short else 0
        if self._shorts < _SHORT_REQUESTS or self._intake is None or self.is_paused or self._transport.is_closing():
            return
        self._transport.pause_reading()
        self._quiet = Quiet(connection, self._transport, self._short)
        self._intake.begin(self._quiet)

    def go_on_alone(self) -> None:
        """Have the transport read again, where the intake did."""
        if self.end() and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause(self) -> None:
        """Read nothing until resume()."""
        was_quiet = self.end()
        if not self.is_paused and not self._transport.is_closing():
            self.is_paused = True
            if not was_quiet:
                self._transport.pause_reading()

    def resume(self) -> bool:
        """Have the transport read after a pause; return whether there was one."""
        if not self.is_paused or self._transport.is_closing():
            return False
        self.is_paused = False
        self._transport.resume_reading()
        return True

    def is_over(self) -> bool:
        """Return whether the transport is closing, as when it could not write: then the intake reads no more either."""
        if not self._transport.is_closing():
            return False
        self.end()
        return True

    def end(self) -> bool:
        """Have the intake read no more, before the transport reads or is closed; return whether it did."""
        quiet, self._quiet = self._quiet, None
        if quiet is None or self._intake is None:
            return False
        self._shorts = 0
        self._intake.end(quiet)
        return True

    def close(self) -> None:
        """Close the transport once all is sent that was written to it."""
        self.end()
        self._transport.close()

    def abort(self) -> None:
        """Close the transport at once."""
        self.end()
        self._transport.abort()
