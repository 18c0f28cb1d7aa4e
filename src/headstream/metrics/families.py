"""Code that all metrics share: their text in the OpenMetrics format, files of it, and a limit of series."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest

from headstream.errors import StorageError

MOST_SERIES: Final = 1000
"""Topics, tables or groups with their own series in a metric."""

Series: TypeAlias = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


class Families:
    """A collector of finished families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> list[Metric]:
        """Return them."""
        return self._families


def write_openmetrics(families: Iterable[Metric]) -> str:
    """Return metrics as OpenMetrics text, with its `# EOF`."""
    text: bytes = generate_latest(Families(families))  # type: ignore[no-untyped-call]
    return text.decode()


def write_metrics_file(path: Path, families: Iterable[Metric]) -> None:
    """Replace a metrics file, and make its directory, atomically as Prometheus' node exporter reads it; StorageError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(write_openmetrics(families), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"the metrics cannot be written: {error.strerror}", where=str(path)) from error


def limit_series(
    series: Sequence[Series], others: tuple[str, ...], combine: Callable[[Iterable[float]], float] = sum
) -> Sequence[Series]:
    """Return at most MOST_SERIES series, and one series for the remaining values, since collectors are slow with many series.

    Args:
        series: The series; the series to keep are first. For counters the order must be stable, since a sum that becomes smaller
            looks like a restart.
        others: Label values of the series for the remaining values.
    """
    if len(series) <= MOST_SERIES:
        return series
    return [*series[:MOST_SERIES], (others, combine(value for _, value in series[MOST_SERIES:]))]
