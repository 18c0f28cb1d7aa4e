"""Metrics of messages that are marked for deletion: how many there are, how old the marks are, and what was removed."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headstream.log.catalog.catalog import find_topic
from headstream.log.catalog.state_records import count_marks
from headstream.log.log import Log

__all__ = ["describe_removals"]


def describe_removals(log: Log, now_us: int) -> Iterator[Metric]:
    """Yield the metrics of removals.

    Args:
        log: The log.
        now_us: The time, microseconds since 1970 UTC.
    """
    catalog, topics = log.catalog(), log.snapshot()
    marked = held = 0
    oldest_us = now_us
    for number, count, marked_us in () if catalog is None else count_marks(catalog):
        topic = find_topic(topics, number)
        if topic is not None and topic.options.legal_hold:
            held += count
        elif topic is not None:
            marked, oldest_us = marked + count, min(oldest_us, marked_us)
    removed = log.background.removed
    for name, text, total in (
        ("messages", "Messages marked for deletion that were removed from the disk.", removed.removed_count),
        ("bytes", "Bytes by which segments became smaller because marked messages were removed.", removed.removed_bytes),
    ):
        yield CounterMetricFamily(f"headstream_removed_{name}", text, value=total)
    for name, text, value in (
        ("marked_messages", "Messages marked for deletion that are still on the disk, of topics without legal hold.", marked),
        ("held_messages", "Messages marked for deletion that a legal hold keeps.", held),
        ("oldest_mark_seconds", "Age of the oldest mark for deletion, of topics without legal hold.", (now_us - oldest_us) / 1e6),
    ):
        yield GaugeMetricFamily(f"headstream_{name}", text, value=value)
