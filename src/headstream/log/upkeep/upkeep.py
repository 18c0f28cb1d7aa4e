"""Upkeep: runs the background jobs of a log's writer; each job has a thread, because a pass can take minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headstream.core.model.removals import Removal
from headstream.log.catalog.catalog import topics_of
from headstream.log.catalog.state_records import oldest_marks
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.job import Job
from headstream.log.upkeep.marked_removal import MarkedRemoval
from headstream.log.upkeep.retention import Retention
from headstream.log.upkeep.summaries import Summaries

if TYPE_CHECKING:
    from headstream.log.access import LogAccess


class Upkeep:
    """The running jobs of one log; `removed` counts the marked messages that were removed by this process."""

    def __init__(self, log: LogAccess) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self.removed = Removal()

    @property
    def is_closing(self) -> bool:
        """Whether running jobs should stop early."""
        return self._closing.is_set()

    def count_removal(self, removal: Removal) -> None:
        """Add a removal to `removed`."""
        with self._lock:
            self.removed += removal

    def start(self, clock_us: Callable[[], int]) -> None:
        """Start the jobs that topic options or marked messages require and that are not already running."""
        options = [topic.options for topic in topics_of(self._log.snapshot())]
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
        """Start the removal of marked messages if it is not running; called after a message was marked."""
        self._start("removal", MarkedRemoval, clock_us)

    def _start(self, name: str, make: Callable[[LogAccess, Callable[[], int]], Job], clock_us: Callable[[], int]) -> None:
        with self._lock:
            if name not in self._threads and not self.is_closing:
                job = make(self._log, clock_us)
                self._threads[name] = threading.Thread(target=self._repeat, args=(job,), name=f"headstream-{name}", daemon=True)
                self._threads[name].start()

    def _repeat(self, job: Job) -> None:
        while not self.is_closing:
            job.apply()
            self._closing.wait(job.interval_s)

    def close(self) -> None:
        """Stop each job after its current segment or group of segments, and wait until all jobs have ended."""
        with self._lock:
            self._closing.set()
        for thread in self._threads.values():
            thread.join()
