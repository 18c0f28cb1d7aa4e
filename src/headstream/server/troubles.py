"""What the operator has to know of: a disk that fails or is full, a log that is damaged. Clients are only told a status.

Every request may meet the same trouble, thousands a second: so each place is told of once a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from headstream.errors import CorruptLogError, HeadstreamError, StorageError
from headstream.server.logs import note

__all__ = ["TROUBLES", "Troubles"]

_EVERY_S: Final = 60.0
_MOST_PLACES: Final = 1000
"""How many are remembered; with more of them, some are told of more often."""


class Troubles:
    """The troubles that have been told of; any thread.

    Args:
        monotonic: Returns seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._told_s: dict[tuple[type[HeadstreamError], str | None], float] = {}

    def look_at(self, error: HeadstreamError, status: int) -> None:
        """Log an error that is about the disk or the log, unless it was just now.

        Args:
            error: Why a request fails.
            status: What its client is told.
        """
        if not isinstance(error, (StorageError, CorruptLogError)):
            return
        place, now_s = (type(error), error.where), self._monotonic()
        if now_s - self._told_s.get(place, -_EVERY_S) < _EVERY_S:
            return
        if len(self._told_s) >= _MOST_PLACES:
            self._told_s.clear()
        self._told_s[place] = now_s
        is_storage = isinstance(error, StorageError)
        event = "the disk does not do what it should" if is_storage else "the log is damaged"
        note(logging.ERROR, event, status=status, reason=error.what, where=error.where, advice=error.advice)


TROUBLES: Final = Troubles()
"""Those of this process."""
