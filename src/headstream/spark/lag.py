"""LagListener: monitors the lag of streaming queries per partition, and the rows that the queries write.

    lag = LagListener(lambda lags: print(max(each.lag for each in lags)))
    spark.streams.addListener(lag)
    ...
    lag.metrics_text()                            OpenMetrics text for Prometheus
    prometheus_client.REGISTRY.register(lag)      with the other metrics of the process

Spark reports the end of a source (latestOffset) and the end of a batch (endOffset) with every progress report; the
difference is the lag. The lag is reported for the headstream source and for Spark's own Kafka source, whose offsets have the same
form. The rows that a batch has written are reported for sinks written in Python, such as the headstream sink.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headstream.metrics.families import MOST_SERIES, limit_series, write_openmetrics
from headstream.spark.source.offsets import TopicPartition, read_positions

_SINK: Final = "PythonTable"
"""Part of the description of each sink that is written in Python."""

_OF_PARTITION: Final = ("query", "topic", "partition")


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a query in one partition.

    Args:
        query: The query's name, or its id if it has no name.
        topic: The topic, `stream/topic`.
        offset: The next offset that the query reads.
    """

    query: str
    topic: str
    partition: int
    offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """Number of unread offsets."""
        return max(0, self.end_offset - self.offset)


@dataclass(slots=True)
class _Query:
    """State of a running query."""

    name: str
    lags: list[PartitionLag]
    rows: int = 0
    offsets: int = 0
    written: int = 0


def read_lags(progress: Mapping[str, Any]) -> list[PartitionLag]:
    """Return the lag of each partition of a query, from one of its progress reports.

    Args:
        progress: A StreamingQueryProgress as parsed JSON; sources without offsets per partition are skipped.
    """
    query = str(progress.get("name") or progress["id"])
    return [
        PartitionLag(query, *partition, read[partition], end)
        for source in progress.get("sources", ())
        for read, latest in [(_positions(source.get("endOffset")), _positions(source.get("latestOffset")))]
        for partition, end in sorted(latest.items())
        if partition in read
    ]


class LagListener(StreamingQueryListener):
    """Records the lag of every streaming query of a session; pass it to spark.streams.addListener().

    Args:
        on_lag: Called after each batch of a query with its lags, on a Spark thread; or None.
    """

    def __init__(self, on_lag: Callable[[Sequence[PartitionLag]], None] | None = None) -> None:
        self._on_lag = on_lag
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()

    @property
    def lags(self) -> list[PartitionLag]:
        """The lag of every partition that running queries read, at their last progress report."""
        with self._lock:
            return [lag for query in self._queries.values() for lag in query.lags]

    def collect(self) -> list[Metric]:
        """Return the metrics for prometheus_client: `prometheus_client.REGISTRY.register(lag)`."""
        with self._lock:
            queries = list(self._queries.values())
            return [*_gauges(queries), *_counters(queries)]

    def metrics_text(self) -> str:
        """Return the metrics as OpenMetrics text, with the content type `application/openmetrics-text; version=1.0.0`."""
        return write_openmetrics(self.collect())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Add a query."""
        with self._lock:
            self._queries[str(event.runId)] = _Query(str(event.name or event.id), [])

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Record the progress of a query."""
        progress = json.loads(event.progress.json)
        lags = read_lags(progress)
        with self._lock:
            query = self._queries.setdefault(str(progress["runId"]), _Query(str(progress["name"] or progress["id"]), []))
            query.lags = lags
            for source in progress["sources"]:
                start, end = _positions(source.get("startOffset")), _positions(source.get("endOffset"))
                if start:  # Spark does not report the start of the first batch
                    query.rows += int(source.get("numInputRows") or 0)
                    query.offsets += sum(max(0, end[partition] - start.get(partition, 0)) for partition in end)
            query.written += _written_rows(progress.get("sink"))
        if self._on_lag is not None and lags:
            self._on_lag(lags)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: the last progress report is still valid."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Remove a query that has ended."""
        with self._lock:
            self._queries.pop(str(event.runId), None)


def _written_rows(sink: Any) -> int:
    """Return the number of rows that a batch has written to a sink in Python; 0 for other sinks."""
    if not isinstance(sink, Mapping) or _SINK not in str(sink.get("description")):
        return 0
    return max(0, int(sink.get("numOutputRows") or 0))  # -1: not known


def _positions(offset: Any) -> dict[TopicPartition, int]:
    """Return the offset of each partition in a source's JSON; empty if the JSON has another form."""
    if not isinstance(offset, Mapping):
        return {}
    try:
        return read_positions({topic: partitions for topic, partitions in offset.items() if topic != "identity"})
    except (ValueError, TypeError):
        return {}


def _gauges(queries: Sequence[_Query]) -> Iterator[Metric]:
    lags = sorted((lag for query in queries for lag in query.lags), key=lambda each: -each.lag)
    behind = GaugeMetricFamily("headstream_source_lag", "Offsets that a query has not read yet.", labels=_OF_PARTITION)
    for labels, value in limit_series([(_labels_of(each), each.lag) for each in lags], ("others", "", "")):
        behind.add_metric(labels, value)
    yield behind
    read = GaugeMetricFamily("headstream_source_offset", "Next offset that a query will read.", labels=_OF_PARTITION)
    ends = GaugeMetricFamily(
        "headstream_source_end_offset", "Offset after the newest message of a partition.", labels=_OF_PARTITION
    )
    for each in lags[:MOST_SERIES]:
        read.add_metric(_labels_of(each), each.offset)
        ends.add_metric(_labels_of(each), each.end_offset)
    yield from (read, ends)


def _labels_of(lag: PartitionLag) -> tuple[str, str, str]:
    return lag.query, lag.topic, str(lag.partition)


def _counters(queries: Sequence[_Query]) -> Iterator[Metric]:
    for name, text, values in (
        ("sink_rows", "Rows that a query has written.", {query.name: query.written for query in queries}),
        ("source_rows", "Rows that a query has read.", {query.name: query.rows for query in queries}),
        (
            "source_offsets",
            "Offsets that a query has passed; more than the rows if messages were compacted, damaged or in other states.",
            {query.name: query.offsets for query in queries},
        ),
    ):
        family = CounterMetricFamily(f"headstream_{name}", text, labels=["query"])
        for query, value in values.items():
            family.add_metric([query], value)
        yield family
