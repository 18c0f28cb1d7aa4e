"""Code that all metrics share: text in the OpenMetrics format, files in this format, and a limit on series."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest

from headstream.errors import StorageError

MOST_SERIES: Final = 1000
"""Maximum number of topics, tables or groups with their own series in a metric."""

Series: TypeAlias = tuple[tuple[str, ...], float]
"""The label values, and the value."""


class Families:
    """A collector that returns the given families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> list[Metric]:
        """Return the families."""
        return self._families


def write_openmetrics(families: Iterable[Metric]) -> str:
    """Return metrics as OpenMetrics text, including the final `# EOF`."""
    text: bytes = generate_latest(Families(families))  # type: ignore[no-untyped-call]
    return text.decode()


def write_metrics_file(path: Path, families: Iterable[Metric]) -> None:
    """Replace a metrics file atomically, so that Prometheus' node exporter reads complete files; StorageError if this fails."""
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
    """Return at most MOST_SERIES series, and one series for all remaining values, because many series slow down collectors.

    Args:
        series: All series, beginning with the series to keep. For counters the order must be stable, because a collector
            interprets a decreasing sum as a restart.
        others: Label values of the series for the remaining values.
    """
    if len(series) <= MOST_SERIES:
        return series
    return [*series[:MOST_SERIES], (others, combine(value for _, value in series[MOST_SERIES:]))]
