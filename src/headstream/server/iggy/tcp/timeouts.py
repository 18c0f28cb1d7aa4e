"""Timeouts of one connection: login, receiving a request, and sending responses."""

from __future__ import annotations

from typing import Final

from headstream.server.config.tcp_settings import ConnectionLimits

_SHORT_TIMEOUT_S: Final = 3.0
"""Timeout for receiving a request, and for sending responses, while memory is scarce, seconds; shorter than WAIT_S, the maximum
time that a request waits for memory."""


class ConnectionTimeouts:
    """Timeouts of one connection; times are in seconds of the event loop's clock."""

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self._limits = limits
        self._frame_began_s: float | None = None
        self._stalled_s = 0.0
        self._stalled_bytes = 0
        self._known_s = now_s

    def begin_frame(self, now_s: float) -> None:
        """Start the timeout for a partially received request."""
        if self._frame_began_s is None:
            self._frame_began_s = now_s

    def begin_again(self, now_s: float) -> None:
        """Restart the timeout for a partially received request after reading was paused."""
        if self._frame_began_s is not None:
            self._frame_began_s = now_s

    def end_frame(self) -> None:
        """Stop the timeout for receiving a request."""
        self._frame_began_s = None

    def begin_stall(self, now_s: float, unsent_bytes: int) -> None:
        """Start the timeout for unsent responses."""
        self._stalled_s, self._stalled_bytes = now_s, unsent_bytes

    def find_fault(
        self, now_s: float, pending_bytes: int | None, unsent_bytes: int | None, *, is_known: bool, is_tight: bool = False
    ) -> tuple[str, dict[str, float]] | None:
        """Return the expired timeout, and fields for the log line; None if no timeout has expired.

        Args:
            pending_bytes: Received bytes of a request; None while reading is paused.
            unsent_bytes: Unsent bytes of responses; None while the client reads responses.
            is_known: Whether a user is logged in or a request is running.
            is_tight: Whether memory is scarce, which shortens the timeouts.
        """
        limits, began_s = self._limits, self._frame_began_s
        if is_known:
            self._known_s = now_s
        frame_s = 0.0 if began_s is None else now_s - began_s
        most_frame_s, most_stall_s = limits.frame_s, limits.stall_s
        if is_tight:
            most_frame_s, most_stall_s = min(most_frame_s, _SHORT_TIMEOUT_S), min(most_stall_s, _SHORT_TIMEOUT_S)
        if pending_bytes is not None and frame_s > most_frame_s + pending_bytes / limits.bytes_a_second:
            return "receiving a request timed out", {"bytes": pending_bytes}
        if unsent_bytes is not None:
            if unsent_bytes != self._stalled_bytes:
                self.begin_stall(now_s, unsent_bytes)
            elif now_s - self._stalled_s > most_stall_s:
                return "sending responses timed out", {"bytes": unsent_bytes}
        elif now_s - self._known_s > limits.login_s:
            return "login timed out", {"after_s": limits.login_s}
        return None
