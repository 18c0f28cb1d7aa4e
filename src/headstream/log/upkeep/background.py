"""Background work of a log's writer: retention, compaction, summaries, removal of marked messages; one thread each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headstream.core.model.removals import Removal
from headstream.log.catalog.catalog import topics_of
from headstream.log.catalog.state_records import oldest_marks
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.marked_removal import MarkedRemoval
from headstream.log.upkeep.retention import Retention
from headstream.log.upkeep.summaries import Summaries

if TYPE_CHECKING:
    from headstream.log.access import LogAccess

__all__ = ["Background"]


class Background:
    """The threads of one log."""

    def __init__(self, log: LogAccess) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._running: dict[str, Retention | Compaction | Summaries | MarkedRemoval] = {}
        self._counting = threading.Lock()
        self.removed = Removal()

    def count_removal(self, removal: Removal) -> None:
        """Add a removal of marked messages to what this process has removed."""
        with self._counting:
            self.removed += removal

    def start(self, clock_us: Callable[[], int]) -> None:
        """Start what a topic or a mark needs and is not running.

        Args:
            clock_us: Returns the time, microseconds since 1970 UTC.
        """
        options = [topic.options for topic in topics_of(self._log.snapshot())]
        with self._lock:
            if any(each.retention_us is not None or each.retention_bytes is not None for each in options):
                self._start("retention", Retention, clock_us)
            if any(each.compaction_delay_us is not None for each in options):
                self._start("compaction", Compaction, clock_us)
            if any(each.summarized for each in options):
                self._start("summaries", Summaries, clock_us)
        catalog = self._log.catalog()
        if catalog is not None and oldest_marks(catalog):
            self.start_removal(clock_us)

    def start_removal(self, clock_us: Callable[[], int]) -> None:
        """Start the removal of marked messages if it is not running: one has been marked.

        Args:
            clock_us: Returns the time, microseconds since 1970 UTC.
        """
        with self._lock:
            self._start("removal", MarkedRemoval, clock_us)

    def _start(
        self, name: str, kind: type[Retention | Compaction | Summaries | MarkedRemoval], clock_us: Callable[[], int]
    ) -> None:
        if name not in self._running:
            self._running[name] = kind(self._log, clock_us)
            self._running[name].start()

    def close(self) -> None:
        """Stop the threads and wait for them."""
        with self._lock:
            for each in self._running.values():
                each.close()
