"""Wait: a wait for messages that holds no thread. Who began it is called when it may be over, and looks."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headstream.errors import HeadstreamError
from headstream.log.waiting import Waiting

__all__ = ["Wait"]


class Wait:
    """A wait, from its making to cancel().

    Args:
        waiting: Where appends ring.
        directories: What it is about.
        look: Whether there is something.
        on_ring: Called, by any thread, which waits for it, when there may be something: once until is_ready is asked again.
    """

    def __init__(
        self, waiting: Waiting, directories: Collection[str], look: Callable[[], bool], on_ring: Callable[[], None]
    ) -> None:
        self._waiting = waiting
        self._directories = directories
        self._look = look
        self._on_ring = on_ring
        self._is_rung = False
        waiting.add(directories, self)

    @property
    def is_ready(self) -> bool:
        """Whether there is something, or never will be, as who polls is told; it looks."""
        self._is_rung = False  # before the look: what comes during it rings again
        try:
            return self._look()
        except HeadstreamError:  # its topic or partition is gone, say
            return True

    def ring(self, directory: str) -> None:
        """Take note that there may be something in a directory."""
        if not self._is_rung:
            self._is_rung = True
            self._on_ring()

    def cancel(self) -> None:
        """Wait no more; doing so twice is fine."""
        self._waiting.remove(self._directories, self)
