"""Metrics: a client's counts of sent, received and committed messages per topic, for Prometheus and over OTLP."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headstream.core.model.message import Message
from headstream.errors import MissingExtraError
from headstream.forks import register_for_forks
from headstream.interceptors.interceptor import ErrorPolicy, Interceptor

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_REMAINING: Final = "others"
"""The label of all topics beyond the limit."""

_BOUNDS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


@dataclass(slots=True)
class _Counts:
    """A client's counts for one topic."""

    sent: int = 0
    sent_bytes: int = 0
    failed: int = 0
    received: int = 0
    received_bytes: int = 0
    commits: int = 0
    delay_s: float = 0.0
    delays: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS_S) + 1))


_COUNTERS: Final = (
    ("sent_messages", "sent", "Messages sent and stored."),
    ("sent_bytes", "sent_bytes", "Payload bytes sent."),
    ("failed_messages", "failed", "Messages that were not stored, or whose outcome is unknown."),
    ("received_messages", "received", "Messages received."),
    ("received_bytes", "received_bytes", "Payload bytes received."),
    ("commits", "commits", "Offset commits."),
)


class Metrics(Interceptor):
    """Counts the messages that a client sends, receives and commits, per topic: `headstream_client_…`.

    One object can serve several clients of a process. Each of the first 1,000 topics has its own series; all further topics share
    one series. Errors of this interceptor are logged and do not affect messages.

    Args:
        registry: A registry of prometheus_client; by default its global registry.
        otlp: Whether to also send the metrics over OTLP, until close(); OpenTelemetry's environment variables set the address.

    Raises:
        MissingExtraError: prometheus-client, or OpenTelemetry's exporter, is not installed.
        InvalidOptionError: an environment variable of OpenTelemetry is invalid.
        ValueError: the registry already contains these metrics.
    """

    on_error: ErrorPolicy | str = ErrorPolicy.SKIP

    def __init__(self, registry: Any = None, *, otlp: bool = False) -> None:
        try:
            import prometheus_client
        except ImportError as error:
            raise MissingExtraError(f"metrics require {error.name}", advice="Install headstream[metrics]") from None
        from headstream.metrics.output import open_push

        self._lock = threading.Lock()
        register_for_forks(self)
        self._topics: dict[str, _Counts] = {}
        self._registry = prometheus_client.REGISTRY if registry is None else registry
        self._push = open_push("headstream-client", self.collect) if otlp else None
        self._registry.register(self)

    def after_fork(self) -> None:
        """Continue from the parent's counts in a forked child; only the parent sends metrics over OTLP."""
        self._lock = threading.Lock()

    def on_acknowledged(self, message: Message, error: Exception | None) -> None:
        """Count a sent message."""
        with self._lock:
            counts = self._counts(str(message.topic))
            if error is not None:
                counts.failed += 1
                return
            counts.sent += 1
            counts.sent_bytes += len(message.payload or b"")

    def on_receive(self, message: Message) -> Message:
        """Count a received message."""
        delay_s = 0.0 if message.timestamp is None else max(time.time() - message.timestamp / 1_000_000, 0.0)
        with self._lock:
            counts = self._counts(str(message.topic))
            counts.received += 1
            counts.received_bytes += len(message.payload or b"")
            counts.delay_s += delay_s
            counts.delays[bisect.bisect_left(_BOUNDS_S, delay_s)] += 1
        return message

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Count a commit."""
        with self._lock:
            self._counts(topic).commits += 1

    def collect(self) -> list[Metric]:
        """Return the metrics; called by the registry."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        with self._lock:
            topics = sorted(self._topics.items())
            found: list[Metric] = []
            for name, attribute, text in _COUNTERS:
                family = CounterMetricFamily(f"headstream_client_{name}", text, labels=["topic"])
                for topic, counts in topics:
                    family.add_metric([topic], getattr(counts, attribute))
                found.append(family)
            delays = HistogramMetricFamily(
                "headstream_client_delay_seconds", "Time from storing a message to receiving it.", labels=["topic"]
            )
            for topic, counts in topics:
                below, buckets = 0, []
                for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), counts.delays, strict=True):
                    below += count
                    buckets.append((bound, float(below)))
                delays.add_metric([topic], buckets, counts.delay_s)
            return [*found, delays]

    def close(self) -> None:
        """Remove the metrics from the registry, and send them over OTLP one last time. The application calls this method."""
        self._registry.unregister(self)
        if self._push is not None:
            self._push.close()

    def _counts(self, topic: str) -> _Counts:
        counts = self._topics.get(topic)
        if counts is None:
            from headstream.metrics.families import MOST_SERIES

            counts = self._topics.setdefault(topic if len(self._topics) < MOST_SERIES else _REMAINING, _Counts())
        return counts
