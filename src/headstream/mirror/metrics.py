"""The metrics of a mirror."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headstream.metrics.families import limit_series
from headstream.mirror.mirror import MirrorStats

_COUNTERS: Final = (
    ("copied_messages", "copied", "Messages sent to the destination."),
    ("found_messages", "found", "Messages that an earlier run had already copied."),
    ("looped_messages", "looped", "Messages skipped because they originate in the destination."),
    ("missed_offsets", "missed", "Offsets that the source had dropped before the mirror read them."),
    ("copied_bytes", "bytes", "Payload and key bytes sent."),
)


def describe_mirror(stats: MirrorStats) -> Iterator[Metric]:
    """Yield the metrics of a run."""
    for name, attribute, text in _COUNTERS:
        yield CounterMetricFamily(f"headstream_mirror_{name}", text, value=getattr(stats, attribute))
    lag = GaugeMetricFamily(
        "headstream_mirror_lag_messages", "Source messages that the mirror has not read yet.", labels=["topic"]
    )
    series = [((topic,), float(count)) for topic, count in sorted(stats.lag.items(), key=lambda each: (-each[1], each[0]))]
    for labels, count in limit_series(series, ("others",)):
        lag.add_metric(labels, count)
    yield lag
    yield GaugeMetricFamily(
        "headstream_mirror_behind_seconds", "Age of the last message at the time of reading.", value=stats.behind_s
    )
