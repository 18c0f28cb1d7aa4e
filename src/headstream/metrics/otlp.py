"""Metrics over OTLP: prometheus_client families, converted and sent to a collector by OpenTelemetry's exporter.

The conversion follows OpenTelemetry's document on Prometheus compatibility: counters are monotonic cumulative sums, and names are
unchanged, so a collector that exports to Prometheus produces the same series. The unit is derived from the name.

OpenTelemetry's variables set the address and protocol: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS,
OTEL_SERVICE_NAME, OTEL_METRIC_EXPORT_INTERVAL, and the related variables.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric

from headstream.errors import InvalidOptionError, MissingExtraError
from headstream.forks import register_for_forks
from headstream.version import __version__

_log: Final = logging.getLogger("headstream.metrics")
_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_MS: Final = "60000"
_TIMEOUT_MS: Final = 10_000
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTERS: Final = {"http/protobuf": "opentelemetry.exporter.otlp.proto.http", "grpc": "opentelemetry.exporter.otlp.proto.grpc"}
_UNITS: Final = {"seconds": "s", "bytes": "By", "percent": "%"}


class OtlpPush:
    """Sends metrics to a collector every OTEL_METRIC_EXPORT_INTERVAL (milliseconds; default 60000), and when it is closed.

    If the collector does not answer, one line is logged; the next answer is logged too.

    Args:
        service: Default name of the service; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it.
        collect: Returns the metrics to send; called in a separate thread.

    Raises:
        MissingExtraError: OpenTelemetry's exporter is not installed.
        InvalidOptionError: an environment variable of OpenTelemetry is invalid.
    """

    def __init__(self, service: str, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect
        self._interval_s = _read_interval_s()
        self._exporter = _make_exporter()
        self._resource = Resource.create(None if _names_service() else {"service.name": service})
        self._start_ns = time.time_ns()
        self._has_failed = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headstream-otlp", daemon=True)
        self._thread.start()
        self._is_parents = False
        register_for_forks(self)

    def after_fork(self) -> None:
        """Stop sending in a forked child, whose parent sends the metrics."""
        self._is_parents = True

    def close(self) -> None:
        """Send the metrics one last time and stop. In a forked child, whose parent sends the metrics, do nothing."""
        if self._is_parents:
            return
        self._is_over.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._is_over.wait(self._interval_s):
            self._send()
        self._send()

    def _send(self) -> None:
        try:
            found = list(convert(self._collect(), self._start_ns, time.time_ns()))
            scope = ScopeMetrics(InstrumentationScope("headstream", __version__), found, "")
            data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
            has_failed = self._exporter.export(data, timeout_millis=_TIMEOUT_MS) is not MetricExportResult.SUCCESS
        except Exception:  # a failure of the metrics must not end the measured job
            _log.exception("the metrics could not be collected or sent over OTLP")
            return
        if has_failed != self._has_failed:
            self._has_failed = has_failed
            _log.warning("the collector rejected the metrics" if has_failed else "the collector accepts metrics again")


def convert(families: Iterable[Metric], start_ns: int, now_ns: int) -> Iterator[OtlpMetric]:
    """Yield counters, gauges and histograms in OpenTelemetry's form; times are in nanoseconds since 1970 UTC."""
    for family in families:
        data: Sum | Gauge | Histogram
        if family.type == "histogram":
            data = Histogram(_histogram_points(family, start_ns, now_ns), AggregationTemporality.CUMULATIVE)
        else:
            is_sum = family.type == "counter"
            points = [
                NumberDataPoint(dict(sample.labels), start_ns if is_sum else None, now_ns, float(sample.value))  # type: ignore[arg-type]
                for sample in family.samples
            ]
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if is_sum else Gauge(points)
        if data.data_points:
            yield OtlpMetric(family.name, family.documentation, _UNITS.get(family.name.rpartition("_")[2], ""), data)


def _histogram_points(family: Metric, start_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    """Return one point per label set, with separate counts per bucket; Prometheus' buckets are cumulative."""
    below: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            below.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points = []
    for labels, buckets in below.items():
        buckets.sort()
        counts = [int(value - before) for (_, value), before in zip(buckets, (0.0, *(each for _, each in buckets)), strict=False)]
        bounds = [bound for bound, _ in buckets[:-1]]
        total = sums.get(labels, 0.0)
        points.append(
            HistogramDataPoint(dict(labels), start_ns, now_ns, int(buckets[-1][1]), total, counts, bounds, None, None)  # type: ignore[arg-type]
        )
    return points


def _make_exporter() -> Any:
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "http/protobuf")
    if protocol not in _EXPORTERS:
        raise InvalidOptionError(f"unknown protocol {protocol!r}", where=_PROTOCOLS[1], advice=f"Use {' or '.join(_EXPORTERS)}")
    try:
        return importlib.import_module(f"{_EXPORTERS[protocol]}.metric_exporter").OTLPMetricExporter()
    except ImportError:
        package = _EXPORTERS[protocol].replace(".", "-")
        raise MissingExtraError(f"metrics over OTLP require {package}", advice=f"Install headstream[otlp] or {package}") from None


def _names_service() -> bool:
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")


def _read_interval_s() -> float:
    text = os.environ.get(_INTERVAL) or _DEFAULT_MS
    try:
        interval_s = float(text) / 1000
    except ValueError:
        interval_s = 0.0
    if not 0 < interval_s < float("inf"):
        raise InvalidOptionError(f"{text!r} is not a positive number of milliseconds", where=_INTERVAL)
    return interval_s
