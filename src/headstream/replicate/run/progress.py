"""Joins the numbers of each micro-batch with Spark's progress report of the query.

    Spark's StreamingQueryProgress as JSON  +  "headstream": the pipeline's numbers for the micro-batch

Spark reports progress after the micro-batch, so the numbers are kept until then.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent, StreamingQueryListener

Listener: TypeAlias = Callable[[dict[str, Any]], None]
"""Receives the progress of one micro-batch."""

_LOGGER: Final = logging.getLogger("headstream.replicate")
_ADDED: Final = ("messages", "bytes", "changes", "merges", "schemas", "released", "dead")
_CURRENT: Final = ("parked", "delayed")
_TABLES: Final = 10
_END_SECONDS: Final = 60.0
"""Maximum time that the end of a run waits for the progress report of its last micro-batch, seconds."""


def batch_numbers(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of a micro-batch from the results of Summary.to_dict() before and after the micro-batch.

    `parked` and `delayed` are the numbers of waiting messages after the micro-batch. `lag_seconds` is the longest lag of its
    tables, or None. `tables` has the ten tables with the most changed rows.
    """
    numbers: dict[str, Any] = {name: after[name] - before[name] for name in _ADDED} | {name: after[name] for name in _CURRENT}
    tables = {}
    for name, counts in after["tables"].items():
        earlier = before["tables"].get(name, {})
        changed = {kind: count - earlier.get(kind, 0) for kind, count in counts.items()}
        if any(changed.values()):
            tables[name] = changed | {"lag_seconds": after["lag_seconds"].get(name)}
    numbers["table_count"] = len(tables)
    lags = [found["lag_seconds"] for found in tables.values() if found["lag_seconds"] is not None]
    numbers["lag_seconds"] = max(lags, default=None)
    most = sorted(tables.items(), key=lambda item: (-sum(item[1][k] for k in ("inserted", "updated", "deleted")), item[0]))
    return numbers | {"tables": dict(most[:_TABLES])}


class ProgressReports:
    """Passes the progress of one query to listeners, on a Spark thread."""

    def __init__(self, spark: SparkSession, listeners: Sequence[Listener]) -> None:
        self._spark = spark
        self._listeners = tuple(listeners)
        self._numbers: dict[int, dict[str, Any]] = {}
        self._run_id: str | None = None
        self._ended = threading.Event()
        self._bridge = _Bridge(self)

    def begin(self) -> None:
        """Listen to the queries of the session. Called before the query starts."""
        self._spark.streams.addListener(self._bridge)

    def follow(self, run_id: str) -> None:
        """Set the query to follow, after its start."""
        self._run_id = run_id

    def note(self, batch_id: int, numbers: dict[str, Any]) -> None:
        """Store the numbers of a micro-batch until Spark's progress report arrives."""
        self._numbers[batch_id] = numbers

    def end(self) -> None:
        """After the query has ended, wait for the progress report of the last micro-batch, and stop listening."""
        if self._run_id is not None and not self._ended.wait(_END_SECONDS):
            _LOGGER.warning("Spark did not report the progress of the last micro-batch")
        self._spark.streams.removeListener(self._bridge)

    def receive(self, run_id: str, document: str) -> None:
        """Pass a progress report of Spark to the listeners, with the numbers of its micro-batch."""
        progress = json.loads(document)
        numbers = self._numbers.pop(progress["batchId"], None) if run_id == self._run_id or self._run_id is None else None
        if numbers is None:  # a report of another query, or between two micro-batches
            return
        for listener in self._listeners:
            try:
                listener(progress | {"headstream": numbers})
            except Exception:
                _LOGGER.exception("a progress listener of the pipeline failed")

    def receive_end(self, run_id: str) -> None:
        """Record the end of a query."""
        if run_id == self._run_id:
            self._ended.set()


class _Bridge(StreamingQueryListener):
    def __init__(self, reports: ProgressReports) -> None:
        self._reports = reports

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._reports.receive(str(event.progress.runId), event.progress.json)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._reports.receive_end(str(event.runId))
