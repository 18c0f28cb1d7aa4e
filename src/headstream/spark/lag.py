"""LagListener: how far behind streaming queries are, partition by partition, for whoever watches over them.

    lag = LagListener(lambda lags: print(max(each.lag for each in lags)))
    spark.streams.addListener(lag)
    ...
    lag.metrics_text()          OpenMetrics, as Prometheus and others scrape it; serve it as you serve others

Spark hands on where a source ends (latestOffset) and what a batch has read of it (endOffset) with every progress; the
difference is the lag. It works for this source, and for Spark's own Kafka source, whose offsets have the same form.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headstream.spark.offsets import Place, read_positions

__all__ = ["LagListener", "PartitionLag", "read_lags"]

_METRICS: Final = (
    ("headstream_source_lag", "gauge", "Offsets that a query has not read yet."),
    ("headstream_source_offset", "gauge", "Where a query reads on."),
    ("headstream_source_end_offset", "gauge", "Where the partition ends."),
)
_ROWS: Final = ("headstream_source_rows", "counter", "Rows that a query has read.")
_OFFSETS: Final = (
    "headstream_source_offsets",
    "counter",
    "Offsets that a query has passed; more than rows where messages were compacted away, skipped as damaged or in other states.",
)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far behind a query is in one partition.

    Args:
        query: The query's name, or its id where it has none.
        topic: The topic, `stream/topic`.
        partition: The partition's number.
        offset: Where the query reads on.
        end_offset: Where the partition ends.
    """

    query: str
    topic: str
    partition: int
    offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """Offsets that are still to be read."""
        return max(0, self.end_offset - self.offset)


@dataclass(slots=True)
class _Query:
    """What is known of a query that runs."""

    name: str
    lags: list[PartitionLag]
    rows: int = 0
    offsets: int = 0


def read_lags(progress: Mapping[str, Any]) -> list[PartitionLag]:
    """Return the lag of each partition that a query reads, from one of its progress reports.

    Args:
        progress: A StreamingQueryProgress as JSON's values; sources that have no such offsets are left out.
    """
    query = str(progress.get("name") or progress["id"])
    return [
        PartitionLag(query, *place, read[place], end)
        for source in progress.get("sources", ())
        for read, latest in [(_positions(source.get("endOffset")), _positions(source.get("latestOffset")))]
        for place, end in sorted(latest.items())
        if place in read
    ]


class LagListener(StreamingQueryListener):
    """Keeps the lag of every streaming query of a session; hand it to spark.streams.addListener().

    Args:
        on_lag: Called with the lags of a query after each of its batches, on a thread of Spark's; or None.
    """

    def __init__(self, on_lag: Callable[[Sequence[PartitionLag]], None] | None = None) -> None:
        self._on_lag = on_lag
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()

    @property
    def lags(self) -> list[PartitionLag]:
        """The lag of every partition that running queries read, as of their last progress."""
        with self._lock:
            return [lag for query in self._queries.values() for lag in query.lags]

    def metrics_text(self) -> str:
        """Return what is known as OpenMetrics text, to be served as `application/openmetrics-text; version=1.0.0`."""
        with self._lock:
            queries = list(self._queries.values())
            return "".join(f"{line}\n" for line in _metric_lines(queries))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Begin to count for a query."""
        with self._lock:
            self._queries[str(event.runId)] = _Query(str(event.name or event.id), [])

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take in how far a query has come."""
        progress = json.loads(event.progress.json)
        lags = read_lags(progress)
        with self._lock:
            query = self._queries.setdefault(str(progress["runId"]), _Query(str(progress["name"] or progress["id"]), []))
            query.lags = lags
            for source in progress["sources"]:
                start, end = _positions(source.get("startOffset")), _positions(source.get("endOffset"))
                if start:  # Spark does not say where the first batch began
                    query.rows += int(source.get("numInputRows") or 0)
                    query.offsets += sum(max(0, end[place] - start.get(place, 0)) for place in end)
        if self._on_lag is not None and lags:
            self._on_lag(lags)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing: what was known still holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget a query that has ended."""
        with self._lock:
            self._queries.pop(str(event.runId), None)


def _positions(offset: Any) -> dict[Place, int]:
    """Return the offsets that a source's JSON holds for each partition; none where it has another form."""
    if not isinstance(offset, Mapping):
        return {}
    try:
        return read_positions({topic: places for topic, places in offset.items() if topic != "identity"})
    except (ValueError, TypeError):
        return {}


def _metric_lines(queries: Sequence[_Query]) -> Iterator[str]:
    lags = [lag for query in queries for lag in query.lags]
    values = ([lag.lag for lag in lags], [lag.offset for lag in lags], [lag.end_offset for lag in lags])
    for (name, kind, text), numbers in zip(_METRICS, values, strict=True):
        yield from (f"# TYPE {name} {kind}", f"# HELP {name} {text}")
        for lag, number in zip(lags, numbers, strict=True):
            yield f'{name}{{query="{_escape(lag.query)}",topic="{_escape(lag.topic)}",partition="{lag.partition}"}} {number}'
    for (name, kind, text), totals in (
        (_ROWS, [query.rows for query in queries]),
        (_OFFSETS, [query.offsets for query in queries]),
    ):
        yield from (f"# TYPE {name} {kind}", f"# HELP {name} {text}")
        for query, number in zip(queries, totals, strict=True):
            yield f'{name}_total{{query="{_escape(query.name)}"}} {number}'
    yield "# EOF"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
