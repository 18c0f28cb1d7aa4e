"""The metrics of a server, collected on request.

Metrics that exist in Iggy's server have the same names: http_requests_total, streams, topics, partitions, segments, messages,
users, clients. The names of all other metrics start with headstream_.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.commands.system import Stats
from headstream.core.wire.statuses import Status
from headstream.metrics.families import MOST_SERIES, limit_series
from headstream.server.iggy.fast_path.traffic import BOUNDS_S, Traffic

if TYPE_CHECKING:
    from headstream.broker.deliveries.delivery_views import GroupAges
    from headstream.server.resources.memory_budget import MemoryBudget

GroupBehind: TypeAlias = tuple[str, str, str, int]
"""Stream, topic, group, and the group's lag in messages."""

_REMAINING: Final = frozenset((TransitionKind.PAUSED, TransitionKind.RESUMED, TransitionKind.STATE_SET))
"""Transitions that do not concern single messages and have separate metrics."""
_LABELS: Final = ["stream", "topic", "group"]


def describe_server(
    traffic: Sequence[Traffic],
    stats: Stats,
    users: int,
    groups: Iterable[GroupBehind],
    filters: tuple[int, int] = (0, 0),
    budget: MemoryBudget | None = None,
) -> Iterator[Metric]:
    """Yield the metrics of a server, except for deliveries and removals.

    Args:
        filters: Number of messages that filters have examined, and number of messages to which filters could not be applied.
    """
    yield from _original(traffic, stats, users)
    yield from _own(traffic, stats, groups)
    yield from _of_filters(*filters)
    if budget is not None:
        yield from _of_budget(budget)


def _original(traffic: Sequence[Traffic], stats: Stats, users: int) -> Iterator[Metric]:
    over_http = sum(sum(command.counts) for one in traffic if one.transport == "http" for command in one.commands.values())
    yield CounterMetricFamily("http_requests", "HTTP requests.", value=over_http)
    for name, value in (
        ("streams", stats.streams_count),
        ("topics", stats.topics_count),
        ("partitions", stats.partitions_count),
        ("segments", stats.segments_count),
        ("messages", stats.messages_count),
        ("users", users),
        ("clients", stats.clients_count),
    ):
        yield GaugeMetricFamily(name, f"Number of {name} on the server.", value=value)


def _own(traffic: Sequence[Traffic], stats: Stats, groups: Iterable[GroupBehind]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "headstream_requests", "Requests by command and status.", labels=["transport", "command", "status"]
    )
    durations = HistogramMetricFamily("headstream_request_seconds", "Duration of requests.", labels=["transport", "command"])
    received = CounterMetricFamily("headstream_received_bytes", "Bytes of requests.", labels=["transport"])
    sent = CounterMetricFamily("headstream_sent_bytes", "Bytes of responses.", labels=["transport"])
    connections = GaugeMetricFamily("headstream_connections", "Open connections.", labels=["transport"])
    refused = CounterMetricFamily(
        "headstream_refused_connections", "Connections closed because the limit was reached.", labels=["transport"]
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
        "headstream_group_lag", "Messages that a consumer group has not read yet.", labels=["stream", "topic", "group"]
    )
    largest = sorted(groups, key=lambda group: (-group[-1], group))
    for labels, lag in limit_series([(each[:-1], each[-1]) for each in largest], ("", "", "others")):
        behind.add_metric(labels, lag)
    yield from (requests, durations, received, sent, connections, refused, behind)
    for name, text, value in (
        ("messages_bytes", "Bytes of stored messages.", stats.messages_size_bytes),
        ("consumer_groups", "Consumer groups.", stats.groups_count),
        ("resident_memory_bytes", "Resident memory of the server process.", stats.memory_bytes),
        ("cpu_percent", "CPU usage of the server process.", stats.cpu_usage),
        ("start_time_seconds", "Start time of the server, seconds since 1970 UTC.", stats.start_time_us / 1_000_000),
    ):
        yield GaugeMetricFamily(f"headstream_{name}", text, value=value)


def _of_filters(scanned: int, failed: int) -> Iterator[Metric]:
    yield CounterMetricFamily("headstream_filter_scanned_messages", "Messages that filters have examined.", value=scanned)
    yield CounterMetricFamily(
        "headstream_filter_failed_messages",
        "Messages to which a filter could not be applied, for example because it compares a number with a string.",
        value=failed,
    )


def _of_budget(budget: MemoryBudget) -> Iterator[Metric]:
    text = "Memory limit for requests and unread responses of all clients."
    yield GaugeMetricFamily("headstream_memory_budget_bytes", text, value=budget.total_bytes)
    yield GaugeMetricFamily(
        "headstream_memory_budget_used_bytes", "Memory used by requests and unread responses.", value=budget.held_bytes
    )
    yield CounterMetricFamily("headstream_memory_budget_refused", "Requests refused for lack of memory.", value=budget.refused)


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    found, below = [], 0
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), counts, strict=True):
        below += count
        found.append((bound, float(below)))
    return found


def describe_deliveries(
    counts: Mapping[TransitionKind, int],
    states: Mapping[str, int],
    ages: Iterable[GroupAges],
    now_us: int,
    *,
    lost_rows: int,
    names_groups: bool,
) -> Iterator[Metric]:
    """Yield the delivery metrics: message transitions, paused groups, and the ages of the oldest messages.

    Args:
        ages: The groups whose journals are in memory.
        names_groups: Whether metrics contain group names.
    """
    found = list(ages)
    transitions = CounterMetricFamily(
        "headstream_delivery_transitions", "Changes of the delivery status of messages, by transition.", labels=["transition"]
    )
    for kind, count in counts.items():
        if kind not in _REMAINING:
            transitions.add_metric([kind.value], count)
    yield transitions
    state_changes = CounterMetricFamily(
        "headstream_state_changes", "Messages whose state was changed, by the new state.", labels=["state"]
    )
    for name, count in states.items():
        state_changes.add_metric([name], count)
    yield state_changes
    yield CounterMetricFamily(
        "headstream_group_pauses",
        "Pauses of consumer groups because too many attempts failed.",
        value=counts[TransitionKind.PAUSED],
    )
    yield GaugeMetricFamily("headstream_paused_groups", "Paused consumer groups.", value=sum(each.is_paused for each in found))
    yield CounterMetricFamily("headstream_delivery_audit_lost", "Audit rows of deliveries that were lost.", value=lost_rows)
    leased = [(_seconds(each.oldest_leased_us, now_us), each) for each in found]
    poisoned = [(_seconds(each.oldest_poisoned_us, now_us), each) for each in found]
    for name, text, of_groups in (
        ("oldest_leased", "Age of the oldest lease.", leased),
        ("oldest_poisoned", "Age of the oldest failed message whose dead letter is neither redriven nor discarded.", poisoned),
    ):
        oldest = max((seconds for seconds, _ in of_groups), default=0.0)
        yield GaugeMetricFamily(f"headstream_{name}_seconds", text, value=oldest)
        if names_groups:
            named = GaugeMetricFamily(f"headstream_group_{name}_seconds", f"{text[:-1]}, per group.", labels=_LABELS)
            largest = sorted((each for each in of_groups if each[0]), key=lambda each: (-each[0], each[1].topic, each[1].group))
            for seconds, each in largest[:MOST_SERIES]:
                named.add_metric([each.topic.stream, each.topic.topic, each.group], seconds)
            yield named
    if names_groups:
        paused = GaugeMetricFamily("headstream_group_paused", "1 if the group is paused.", labels=_LABELS)
        for each in [each for each in found if each.is_paused][:MOST_SERIES]:
            paused.add_metric([each.topic.stream, each.topic.topic, each.group], 1)
        yield paused


def _seconds(since_us: int | None, now_us: int) -> float:
    return 0.0 if since_us is None else max(now_us - since_us, 0) / 1_000_000
