"""The metrics as text (OpenMetrics), generated on request.

Metrics that tools for the protocol's original expect have its names: http_requests_total, streams, topics, partitions,
segments, messages, users, clients. All others begin with headstream_.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from headstream.server.fast_path.traffic import BOUNDS_S, Traffic
from headstream.wire.commands.system import Stats
from headstream.wire.statuses import Status

if TYPE_CHECKING:
    from headstream.server.resources.memory_budget import MemoryBudget

__all__ = ["MOST_GROUPS", "GroupBehind", "expose"]

MOST_GROUPS: Final = 1000
"""Consumer groups with a series of their own."""

GroupBehind: TypeAlias = tuple[str, str, str, int]
"""Stream, topic, group, and its lag in messages."""


def expose(
    traffic: Sequence[Traffic],
    stats: Stats,
    users: int,
    groups: Iterable[GroupBehind],
    filters: tuple[int, int] = (0, 0),
    budget: MemoryBudget | None = None,
    deliveries: Iterable[Metric] = (),
) -> bytes:
    """Return the metrics as text.

    Args:
        traffic: Counters of each transport.
        stats: The server's statistics.
        users: Number of users.
        groups: Lag of each consumer group.
        filters: The number of messages that filters have examined, and of those that they could not be applied to.
        budget: The memory budget of requests and responses.
        deliveries: The metrics of deliveries and removals.
    """
    registry = CollectorRegistry(auto_describe=False)
    metrics = [*_original(traffic, stats, users), *_own(traffic, stats, groups), *_of_filters(*filters), *deliveries]
    registry.register(_Once([*metrics, *([] if budget is None else _of_budget(budget))]))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


class _Once(Collector):
    """A collector of finished metrics."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        """Return them."""
        return self._metrics


def _original(traffic: Sequence[Traffic], stats: Stats, users: int) -> Iterator[Metric]:
    over_http = sum(sum(command.counts) for one in traffic if one.transport == "http" for command in one.commands.values())
    yield CounterMetricFamily("http_requests", "Requests over HTTP.", value=over_http)
    for name, value in (
        ("streams", stats.streams_count),
        ("topics", stats.topics_count),
        ("partitions", stats.partitions_count),
        ("segments", stats.segments_count),
        ("messages", stats.messages_count),
        ("users", users),
        ("clients", stats.clients_count),
    ):
        yield GaugeMetricFamily(name, f"The {name} of the server.", value=value)


def _own(traffic: Sequence[Traffic], stats: Stats, groups: Iterable[GroupBehind]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "headstream_requests", "Requests by command and status.", labels=["transport", "command", "status"]
    )
    durations = HistogramMetricFamily("headstream_request_seconds", "How long requests took.", labels=["transport", "command"])
    received = CounterMetricFamily("headstream_received_bytes", "Bytes of requests.", labels=["transport"])
    sent = CounterMetricFamily("headstream_sent_bytes", "Bytes of responses.", labels=["transport"])
    connections = GaugeMetricFamily("headstream_connections", "Open connections.", labels=["transport"])
    refused = CounterMetricFamily(
        "headstream_refused_connections", "Connections beyond the limit, which were closed.", labels=["transport"]
    )
    for one in traffic:
        for code, command in sorted(one.commands.items()):
            name = one.name_of_command(code)
            for status, count in sorted({Status.OK: command.done, **command.refused}.items()):
                if count:
                    requests.add_metric([one.transport, name, one.name_of_status(status)], count)
            durations.add_metric([one.transport, name], _buckets(command.counts), command.seconds)
        received.add_metric([one.transport], one.received_bytes)
        sent.add_metric([one.transport], one.sent_bytes)
        connections.add_metric([one.transport], one.connections)
        refused.add_metric([one.transport], one.refused_connections)
    behind = GaugeMetricFamily(
        "headstream_group_lag", "Messages that a consumer group has not come to.", labels=["stream", "topic", "group"]
    )
    for stream, topic, group, lag in _largest(groups):
        behind.add_metric([stream, topic, group], lag)
    yield from (requests, durations, received, sent, connections, refused, behind)
    for name, text, value in (
        ("messages_bytes", "Bytes of stored messages.", stats.messages_size_bytes),
        ("consumer_groups", "Consumer groups.", stats.groups_count),
        ("resident_memory_bytes", "Memory of the process.", stats.memory_bytes),
        ("cpu_percent", "Processor time of the process.", stats.cpu_usage),
        ("start_time_seconds", "When the server started, since 1970 UTC.", stats.start_time_us / 1_000_000),
    ):
        yield GaugeMetricFamily(f"headstream_{name}", text, value=value)


def _of_filters(scanned: int, failed: int) -> Iterator[Metric]:
    yield CounterMetricFamily("headstream_filter_scanned_messages", "Messages that filters have examined.", value=scanned)
    yield CounterMetricFamily(
        "headstream_filter_failed_messages",
        "Messages that filters could not be applied to: they compare a number with a text.",
        value=failed,
    )


def _of_budget(budget: MemoryBudget) -> Iterator[Metric]:
    text = "Bytes that requests and unread responses of all clients can have."
    yield GaugeMetricFamily("headstream_memory_budget_bytes", text, value=budget.total_bytes)
    yield GaugeMetricFamily("headstream_memory_budget_used_bytes", "Bytes that they have.", value=budget.held_bytes)
    yield CounterMetricFamily("headstream_memory_budget_refused", "Requests refused for lack of memory.", value=budget.refused)


def _largest(groups: Iterable[GroupBehind]) -> list[GroupBehind]:
    """Return the groups with the largest lags, and the sum of all others as one: collectors suffer from too many series."""
    found = sorted(groups, key=lambda group: (-group[-1], group))
    others = found[MOST_GROUPS:]
    return [*found[:MOST_GROUPS], ("", "", "others", sum(group[-1] for group in others))] if others else found


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    found, below = [], 0
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), counts, strict=True):
        below += count
        found.append((bound, float(below)))
    return found
