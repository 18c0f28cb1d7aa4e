"""The metrics of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headstream.metrics.families import limit_series

_PREFIX: Final = "headstream_replicate_"
_REMAINING: Final = "others"
"""The label `table` of all tables beyond the limit."""

_OPERATIONS: Final = ("inserted", "updated", "deleted")
_UNPLACED: Final = "changes_without_transaction_position"
_COUNTERS: Final = (
    ("messages", "messages", "Messages read."),
    ("bytes", "bytes", "Size of the messages read, bytes."),
    ("changes", "changes", "Changes applied."),
    ("rows_in_driver", "rows_in_driver", "Changes whose decoded rows were sent to the driver; executors process all others."),
    ("merges", "merges", "Merges into tables."),
    ("batches", "batches", "Micro-batches."),
    ("released", "released", "Messages that were applied after waiting."),
    ("incomplete_transactions", "incomplete_transactions", "Transactions applied without all of their events."),
    ("tombstones", "tombstones", "Messages skipped because they have a null payload."),
    (_UNPLACED, _UNPLACED, "Changes without a position in their transaction, applied immediately (with atomic)."),
    ("untold", _UNPLACED, f"Old name of {_UNPLACED}; will be removed in the next release."),
    ("processing_seconds", "seconds", "Time spent in micro-batches, seconds."),
)
_VECTORS: Final = (
    ("deletion_vector_files", "files", "Files of a table that have deletion vectors."),
    ("deleted_rows", "deleted", "Rows of a table that are deleted by deletion vectors."),
    ("key_index_size", "index_bytes", "Size of the key indexes of a table, bytes."),
)
_WAITING: Final = (
    ("parked", "Messages that wait for their schema, table, transaction or load."),
    ("delayed", "Messages that have waited too long for their schema."),
    ("dead", "Dead letters that were neither redriven nor discarded."),
    ("waiting_bytes", "Size of all waiting messages, bytes."),
    ("oldest_wait_seconds", "Age of the oldest waiting message, seconds."),
    ("waiting_for_loads", "Rows of full loads that wait until all partitions have been read up to the load."),
    ("open_transactions", "Incomplete transactions that wait for events."),
)


def describe_pipeline(status: dict[str, Any]) -> Iterator[Metric]:
    """Yield the metrics of a pipeline from read_status(): counters cover the run, and gauges are current values."""
    run = status["run"] or {}
    yield _rows_of(run.get("tables", {}))
    for name, key, text in _COUNTERS:
        yield CounterMetricFamily(_PREFIX + name, text, value=run.get(key, 0))
    yield _of_tables("lag_seconds", "Time from source to table commit of the newest change, seconds.", run.get("lag_seconds", {}))
    vectors = run.get("deletion_vectors", {})
    for name, key, text in _VECTORS:
        yield _of_tables(name, text, {table: found[key] for table, found in vectors.items() if found[key] is not None})
    for name, text in _WAITING:
        yield _gauge(name, text, status[name] or 0)
    oldest = status["oldest_transaction"] or {"wait_seconds": 0}
    yield _gauge("oldest_transaction_seconds", "Age of the oldest open transaction, seconds.", oldest["wait_seconds"])
    failures = {found["table"]: found["failures"] for found in status["failing_tables"]}
    yield _of_tables("table_failures", "Consecutive failures to apply changes to a table.", failures)
    catalog = status["catalog"]
    if catalog is not None:
        yield _gauge("catalog_registered", "Tables registered in the catalog.", catalog["registered"])
        yield _gauge("catalog_waiting", "Tables that wait to be registered in the catalog.", catalog["waiting"])
    if status["iceberg"] is not None:
        lags = {found["table"]: found["lag_seconds"] for found in status["iceberg"]["tables"]}
        yield _of_tables("iceberg_lag_seconds", "Age of the oldest version that an Iceberg table lacks, seconds.", lags)
    yield _gauge("running", "1 while the pipeline runs, else 0.", int(status["state"] == "running"))


def _rows_of(tables: Mapping[str, Mapping[str, int]]) -> Metric:
    rows = CounterMetricFamily(f"{_PREFIX}rows", "Rows that merges inserted, updated and deleted.", labels=["table", "operation"])
    for operation in _OPERATIONS:
        series = [((name, operation), float(counts[operation])) for name, counts in sorted(tables.items())]
        for labels, value in limit_series(series, (_REMAINING, operation)):
            rows.add_metric(labels, value)
    return rows


def _of_tables(name: str, text: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge with the largest values by table, and the largest value of all other tables."""
    family = GaugeMetricFamily(_PREFIX + name, text, labels=["table"])
    series = [((table,), float(value)) for table, value in sorted(values.items(), key=lambda each: (-each[1], each[0]))]
    for labels, value in limit_series(series, (_REMAINING,), max):
        family.add_metric(labels, value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)
