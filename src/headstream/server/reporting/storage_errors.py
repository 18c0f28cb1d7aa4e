"""Logs storage errors for the operator: a failing or full disk, a damaged log. Clients receive only a status.

Errors are logged once per minute and file, because thousands of requests per second can fail with the same error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from headstream.errors import CorruptLogError, HeadstreamError, StorageError
from headstream.server.reporting.logs import Recently, note


class StorageErrorLog:
    """Logs storage errors at most once per minute and file; thread-safe. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._recently = Recently(monotonic)

    def log_once(self, error: HeadstreamError, status: int) -> None:
        """Log a storage error or a damaged log, with the client's status, unless it was logged within the last minute."""
        if not isinstance(error, (StorageError, CorruptLogError)) or not self._recently.is_first((type(error), error.where)):
            return
        is_storage = isinstance(error, StorageError)
        event = "storage error" if is_storage else "damaged log"
        note(logging.ERROR, event, status=status, reason=error.what, where=error.where, advice=error.advice)


STORAGE_ERRORS: Final = StorageErrorLog()
"""The instance of this process."""
