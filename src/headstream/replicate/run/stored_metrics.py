"""A pipeline's metrics in an object store: one object, written at most once in ten seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from headstream.errors import StorageError
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles

__all__ = ["StoredMetrics"]

_LOGGER: Final = logging.getLogger("headstream.replicate")
_WRITE_EVERY_S: Final = 10.0
_RETRY_US: Final = 1_000_000
"""How long a failing request is retried, microseconds: metrics do not hold a pipeline up, and newer ones follow."""


class StoredMetrics:
    """Writes texts of metrics to an object; a store that fails is a warning in the log.

    Args:
        place: The object's URI.
        clock_s: The time, seconds.
    """

    def __init__(self, place: StorePlace, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._files = StoreFiles(place, _RETRY_US)
        self._clock_s = clock_s
        self._written_s: float | None = None

    def write(self, text: str, *, is_last: bool) -> None:
        """Write a text if the last one is ten seconds old, or if this is the last one.

        Args:
            text: The metrics.
            is_last: Whether no other one follows.
        """
        if not is_last and self._written_s is not None and self._clock_s() < self._written_s + _WRITE_EVERY_S:
            return
        self._written_s = self._clock_s()
        try:
            self._files.write(text.encode())
        except StorageError as error:
            _LOGGER.warning("the metrics cannot be written: %s", error)
