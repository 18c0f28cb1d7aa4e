"""A pipeline's metrics in the OpenMetrics format, as text and as a file for a collector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headstream.errors import StorageError

__all__ = ["format_metrics", "write_metrics"]


def format_metrics(status: dict[str, Any]) -> str:
    """Return the metrics of a pipeline.

    Args:
        status: The result of status.read_status().

    Returns:
        OpenMetrics text, with its `# EOF`. Counters are those of the run, gauges current values.
    """
    run = status["run"] or {}
    tables = run.get("tables", {})
    rows = {
        (name, operation): counts[operation]
        for name, counts in tables.items()
        for operation in ("inserted", "updated", "deleted")
    }
    lines = _family("rows", "counter", "Rows that merges inserted, updated and deleted.", rows, ("table", "operation"))
    for name, text in (
        ("messages", "Messages read."),
        ("bytes", "Size of the messages read."),
        ("changes", "Changes applied."),
        ("rows_in_driver", "Changes whose decoded rows the driver has received; executors fold the others."),
        ("merges", "Merges into tables."),
        ("batches", "Micro-batches."),
        ("released", "Messages that had waited and were applied."),
        ("incomplete_transactions", "Transactions applied without all of their events."),
        ("untold", "Changes without their position in a transaction, with atomic."),
    ):
        lines += _family(name, "counter", text, {(): run.get(name, 0)})
    lines += _family("processing_seconds", "counter", "Time spent in micro-batches.", {(): run.get("seconds", 0)})
    lags = {(name,): seconds for name, seconds in run.get("lag_seconds", {}).items()}
    lines += _family("lag_seconds", "gauge", "From the source's commit to the table, newest change.", lags, ("table",))
    for state, text in (
        ("parked", "Messages that wait for their schema or table."),
        ("delayed", "Messages that have waited too long for their schema."),
        ("dead", "Messages in the dead letter that were not redriven."),
        ("waiting_bytes", "Size of all messages that wait."),
    ):
        lines += _family(state, "gauge", text, {(): status[state]})
    lines += _family("oldest_wait_seconds", "gauge", "How long the oldest waits.", {(): status["oldest_wait_seconds"] or 0})
    waiting = {(): status["waiting_for_loads"]}
    lines += _family(
        "waiting_for_loads", "gauge", "Rows of full loads that wait until all partitions are read up to them.", waiting
    )
    oldest = status["oldest_transaction"]
    lines += _family("open_transactions", "gauge", "Transactions that are not whole and wait.", {(): status["open_transactions"]})
    waited = 0 if oldest is None else oldest["wait_seconds"]
    lines += _family("oldest_transaction_seconds", "gauge", "How long the oldest of them waits.", {(): waited})
    failing = {(found["table"],): found["failures"] for found in status["failing_tables"]}
    lines += _family("table_failures", "gauge", "Failures of a table since it last took changes.", failing, ("table",))
    catalog = status["catalog"]
    if catalog is not None:
        for name, text in (
            ("registered", "Tables that have their name in the catalog."),
            ("waiting", "Tables that wait for it."),
        ):
            lines += _family(f"catalog_{name}", "gauge", text, {(): catalog[name]})
    lines += _family("running", "gauge", "Whether the pipeline runs.", {(): int(status["state"] == "running")})
    return "\n".join([*lines, "# EOF", ""])


def write_metrics(path: Path, status: dict[str, Any]) -> None:
    """Replace a metrics file atomically.

    Raises:
        StorageError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(format_metrics(status), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"the metrics cannot be written: {error.strerror}", where=str(path)) from error


def _family(name: str, kind: str, text: str, values: Mapping[Any, float], labels: tuple[str, ...] = ()) -> list[str]:
    full = f"headstream_replicate_{name}"
    sample = f"{full}_total" if kind == "counter" else full
    lines = [f"# TYPE {full} {kind}", f"# HELP {full} {text}"]
    for label_values, value in sorted(values.items()):
        pairs = ",".join(f'{label}="{_escape(given)}"' for label, given in zip(labels, label_values, strict=True))
        lines.append(f"{sample}{{{pairs}}} {value}" if pairs else f"{sample} {value}")
    return lines


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
