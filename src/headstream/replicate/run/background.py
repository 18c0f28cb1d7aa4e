"""Runs a pipeline in a thread of its own, and keeps its result for who waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from headstream.errors import HeadstreamError
from headstream.replicate.run.summary import Summary

__all__ = ["BackgroundRun"]

_LOGGER: Final = logging.getLogger("headstream.replicate")


class BackgroundRun:
    """A run in the background, begun by making this; a failure is logged, and raised again by wait().

    Args:
        run: Runs the pipeline to its end.
    """

    def __init__(self, run: Callable[[], Summary]) -> None:
        self._run = run
        self._summary: Summary | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="headstream-replicate", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None) -> Summary | None:
        """Wait for the end of the run; return its summary, or None if it goes on.

        Args:
            timeout_s: Seconds to wait; None for unlimited.
        """
        self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error
        return self._summary

    def _work(self) -> None:
        try:
            self._summary = self._run()
        except BaseException as error:
            self._error = error
            _LOGGER.error("the pipeline has failed: %s", error, exc_info=None if isinstance(error, HeadstreamError) else error)
