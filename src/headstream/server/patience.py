"""Patience: how long one client may take to log in, to say what it began to say, and to take what it is answered."""

from __future__ import annotations

from typing import Final

from headstream.server.tcp_settings import ConnectionLimits

__all__ = ["Patience"]

_TIGHT_S: Final = 3.0
"""The time for a request to come, and for a client to take some of its answers, while there is little memory: shorter than others
wait for it."""


class Patience:
    """How slow one client has been up to now; times are the event loop's, seconds.

    Args:
        limits: What is too slow.
        now_s: When it came.
    """

    def __init__(self, limits: ConnectionLimits, now_s: float) -> None:
        self._limits = limits
        self._frame_began_s: float | None = None
        self._stalled_s = 0.0
        self._stalled_bytes = 0
        self._known_s = now_s

    def begin_frame(self, now_s: float) -> None:
        """Take note that a part of a request is there, and the rest is read now."""
        if self._frame_began_s is None:
            self._frame_began_s = now_s

    def begin_again(self, now_s: float) -> None:
        """Let the time count anew that a request may take, if one is in coming: nothing was read meanwhile."""
        if self._frame_began_s is not None:
            self._frame_began_s = now_s

    def end_frame(self) -> None:
        """Take note that no request is in coming."""
        self._frame_began_s = None

    def begin_stall(self, now_s: float, unsent_bytes: int) -> None:
        """Take note that answers are not taken."""
        self._stalled_s, self._stalled_bytes = now_s, unsent_bytes

    def find_fault(
        self, now_s: float, pending_bytes: int | None, unsent_bytes: int | None, *, is_known: bool, is_tight: bool = False
    ) -> tuple[str, dict[str, float]] | None:
        """Return why a client is not waited for any longer, and what the log tells beside it; None where it is.

        Args:
            now_s: The time.
            pending_bytes: How much of a request is there; None while nothing is read.
            unsent_bytes: How much of the answers is left; None while they are taken.
            is_known: Whether somebody is logged in, or that is being looked at.
            is_tight: Whether there is little memory left: then clients that dawdle have less time.
        """
        limits, began_s = self._limits, self._frame_began_s
        if is_known:
            self._known_s = now_s
        frame_s = 0.0 if began_s is None else now_s - began_s
        most_frame_s, most_stall_s = limits.frame_s, limits.stall_s
        if is_tight:
            most_frame_s, most_stall_s = min(most_frame_s, _TIGHT_S), min(most_stall_s, _TIGHT_S)
        if pending_bytes is not None and frame_s > most_frame_s + pending_bytes / limits.bytes_a_second:
            return "a request did not come to its end", {"bytes": pending_bytes}
        if unsent_bytes is not None:
            if unsent_bytes != self._stalled_bytes:
                self.begin_stall(now_s, unsent_bytes)
            elif now_s - self._stalled_s > most_stall_s:
                return "the client does not take its answers", {"bytes": unsent_bytes}
        elif now_s - self._known_s > limits.login_s:
            return "nobody has logged in", {"after_s": limits.login_s}
        return None
