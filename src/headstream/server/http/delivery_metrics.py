"""Metrics of deliveries: what happens to the messages of groups, which groups are paused, and how long the oldest ones wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headstream.broker.deliveries.delivery_views import GroupAges
from headstream.core.model.transitions import TransitionKind
from headstream.metrics.families import MOST_SERIES

_OTHERS: Final = frozenset((TransitionKind.PAUSED, TransitionKind.RESUMED, TransitionKind.STATE_SET))
"""Transitions that are no deliveries of messages: they have metrics of their own."""
_LABELS: Final = ["stream", "topic", "group"]


def describe_deliveries(
    counts: Mapping[TransitionKind, int],
    states: Mapping[str, int],
    ages: Iterable[GroupAges],
    now_us: int,
    *,
    lost_rows: int,
    tells_groups: bool,
) -> Iterator[Metric]:
    """Yield the metrics of deliveries.

    Args:
        ages: The groups whose journals are in memory.
        tells_groups: Whether metrics name groups.
    """
    found = list(ages)
    transitions = CounterMetricFamily(
        "headstream_delivery_transitions", "Messages of consumer groups by what happened to them.", labels=["transition"]
    )
    for kind, count in counts.items():
        if kind not in _OTHERS:
            transitions.add_metric([kind.value], count)
    yield transitions
    state_changes = CounterMetricFamily(
        "headstream_state_changes", "Messages whose state was set, by the new state.", labels=["state"]
    )
    for name, count in states.items():
        state_changes.add_metric([name], count)
    yield state_changes
    yield CounterMetricFamily(
        "headstream_group_pauses",
        "How often a group was paused, because too many of its attempts failed.",
        value=counts[TransitionKind.PAUSED],
    )
    yield GaugeMetricFamily("headstream_paused_groups", "Groups that are paused.", value=sum(each.is_paused for each in found))
    yield CounterMetricFamily("headstream_delivery_audit_lost", "Audit rows that were lost.", value=lost_rows)
    leased = [(_seconds(each.oldest_leased_us, now_us), each) for each in found]
    poisoned = [(_seconds(each.oldest_poisoned_us, now_us), each) for each in found]
    for name, text, of_groups in (
        ("oldest_leased", "Age of the oldest lease.", leased),
        ("oldest_poisoned", "Age of the oldest message given up whose dead letter is neither redriven nor discarded.", poisoned),
    ):
        oldest = max((seconds for seconds, _ in of_groups), default=0.0)
        yield GaugeMetricFamily(f"headstream_{name}_seconds", text, value=oldest)
        if tells_groups:
            named = GaugeMetricFamily(f"headstream_group_{name}_seconds", f"{text[:-1]} of a group.", labels=_LABELS)
            largest = sorted((each for each in of_groups if each[0]), key=lambda each: (-each[0], each[1].topic, each[1].group))
            for seconds, each in largest[:MOST_SERIES]:
                named.add_metric([each.topic.stream, each.topic.topic, each.group], seconds)
            yield named
    if tells_groups:
        paused = GaugeMetricFamily("headstream_group_paused", "1 for each group that is paused.", labels=_LABELS)
        for each in [each for each in found if each.is_paused][:MOST_SERIES]:
            paused.add_metric([each.topic.stream, each.topic.topic, each.group], 1)
        yield paused


def _seconds(since_us: int | None, now_us: int) -> float:
    return 0.0 if since_us is None else max(now_us - since_us, 0) / 1_000_000
