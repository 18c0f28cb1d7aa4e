"""find_offset(): the offset that a place in a partition stands for, as of now."""

from __future__ import annotations

from headstream.client.transport import Transport
from headstream.errors import InvalidInputError, PartitionNotFoundError
from headstream.model.identifiers import TopicName
from headstream.model.polling import PollingKind, PollingStrategy

__all__ = ["check_start", "find_offset"]


def check_start(strategy: PollingStrategy, topic: TopicName) -> PollingStrategy:
    """Return a strategy that says where to begin; InvalidInputError for `next`, which says nothing of its own."""
    if strategy.kind is PollingKind.NEXT:
        raise InvalidInputError(
            "a consumer begins where it has committed to; 'next' says nothing for the first time",
            where=str(topic),
            advice="Use 'first' or 'last'",
        )
    return strategy


def find_offset(transport: Transport, topic: TopicName, partition: int, strategy: PollingStrategy) -> int:
    """Return the offset that a strategy stands for in a partition.

    Args:
        transport: What is behind the client.
        topic: Stream and topic.
        partition: From 1.
        strategy: Anything but `next`; `last` is after the newest message.

    Raises:
        TopicNotFoundError, PartitionNotFoundError: there is no such place.
        InvalidInputError: the strategy is `next`.
    """
    kind = check_start(strategy, topic).kind
    if kind is PollingKind.OFFSET:
        return strategy.value
    if kind is PollingKind.TIMESTAMP:
        polled = transport.messages.poll(topic, partition, strategy, 1, states=None)
        return polled.next_offset - polled.count
    for place in transport.topics.get(topic).partitions:
        if place.number == partition:
            return place.first_offset if kind is PollingKind.FIRST else place.end_offset
    raise PartitionNotFoundError(f"topic {str(topic)!r} has no partition {partition}", advice="Look with log.topic()")
