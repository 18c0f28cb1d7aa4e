"""A client's filters: options, consumer counts, and where filters are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from headstream.client.transports.transport import ClusterCounts, RemoteAccess, Transport
from headstream.core.filters.filter import Filter, check_states, parse_filter
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import SegmentCounts


class FilterCounts(NamedTuple):
    """The messages that a consumer's filter has examined.

    Args:
        scanned: Messages examined.
        failed: Examined messages to which the filter could not be applied.
    """

    scanned: int
    failed: int


@dataclass(frozen=True, slots=True)
class FilterPlan:
    """How a filter is evaluated.

    Args:
        evaluated: Where the filter runs: `in this process`, `by the server` or `in this client`.
        on: Input of the filter: `stored bytes` or `decoded messages`.
        page: Part of a partition that one request examines.
        states: Codes of the message states to which the filter is applied; None for all states.
        on_filter_error: Action for a message to which the filter cannot be applied.
        summarized: The headers that the topic summarizes; empty if no topic is given.
        segments: Number of skipped segments, and of all segments, of the topic; None if no topic is given or the log is in Kafka.
    """

    where: str
    headers: tuple[str, ...]
    fields: tuple[str, ...]
    evaluated: str
    on: str
    page: str
    states: tuple[int, ...] | None
    on_filter_error: str
    summarized: tuple[str, ...] = ()
    segments: SegmentCounts | None = None


def make_filter(where: str | None, on_error: str, states: frozenset[int] | None) -> Filter | None:
    """Return the filter of a poll or consumer; None if no filter is set.

    Raises:
        InvalidInputError: `where` is not a valid filter.
        InvalidOptionError: `on_error` is unknown, or the filter names `_state` although only available messages are polled.
    """
    found = parse_filter("TRUE" if where is None else where, on_error)
    return None if where is None else check_states(found, states)


def plan_filter(
    transport: Transport, where: str, on_error: str, states: frozenset[int] | None, topic: TopicName | None
) -> FilterPlan:
    """Return how a filter is evaluated, with segment counts if a topic is given; raises the errors of make_filter()."""
    found = check_states(parse_filter(where, on_error), states)
    place = "by the server" if isinstance(transport, RemoteAccess) else "in this process"
    on, page = "stored bytes", "up to 16 MiB of stored messages"
    if isinstance(transport, ClusterCounts):
        place, on, page = ("in this client", "decoded messages", "every message, sent to this client")
    codes = None if states is None else tuple(sorted(states))
    plan = FilterPlan(where, found.headers, found.fields, place, on, page, codes, on_error)
    if topic is None:
        return plan
    names = (transport.topics.get(topic).summary_headers or "").split(",")
    summarized = tuple(name for name in found.headers if name in names)
    return replace(plan, summarized=summarized, segments=transport.messages.count_segments(topic, found))
