"""Wait: a wait for messages that blocks no thread. A callback reports that messages may be available."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headstream.errors import HeadstreamError
from headstream.log.directory.waiters import Waiters


class Wait:
    """A wait, from creation to cancel().

    Args:
        directories: The directories to watch.
        on_notify: Called when messages may be available, in the appending thread; not called again before is_ready is read.
    """

    def __init__(
        self, waiting: Waiters, directories: Collection[str], condition: Callable[[], bool], on_notify: Callable[[], None]
    ) -> None:
        self._waiting = waiting
        self._directories = directories
        self._condition = condition
        self._on_notify = on_notify
        self._is_notified = False
        waiting.add(directories, self)

    @property
    def is_ready(self) -> bool:
        """Whether a poll would return messages or raise an error; checks the log."""
        self._is_notified = False  # before the check: an append during it notifies again
        try:
            return self._condition()
        except HeadstreamError:  # for example, the topic or partition was deleted
            return True

    def notify(self, directory: str) -> None:
        """Record that a directory may have new messages."""
        if not self._is_notified:
            self._is_notified = True
            self._on_notify()

    def cancel(self) -> None:
        """End the wait; a second call does nothing."""
        self._waiting.remove(self._directories, self)
