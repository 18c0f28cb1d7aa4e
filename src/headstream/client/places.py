"""Places: partitions that are named, and the offsets that places in them stand for, as of now."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.transport import Transport
from headstream.errors import InvalidInputError, InvalidOptionError, PartitionNotFoundError
from headstream.model.identifiers import TopicName
from headstream.model.message import Message
from headstream.model.polling import PollingKind, PollingStrategy
from headstream.model.topology import Topic

__all__ = ["check_partitions", "check_start", "find_offset", "place_of"]


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


def check_partitions(topic: Topic, partitions: Iterable[int] | None) -> list[int]:
    """Return partitions that are named, ascending, or all of a topic.

    Args:
        topic: The topic.
        partitions: Their numbers, or None for all.

    Raises:
        PartitionNotFoundError: the topic has no such partition.
        InvalidOptionError: none is named.
    """
    name, known = f"{topic.stream}/{topic.name}", [partition.number for partition in topic.partitions]
    if partitions is None:
        return known
    wanted = sorted(set(partitions))
    for number in wanted:
        if number not in known:
            raise PartitionNotFoundError(
                f"topic {name!r} has no partition {number}", advice=f"Its partitions are 1 to {len(known)}"
            )
    if not wanted:
        raise InvalidOptionError("no partition is named", where=name, advice="Leave the option out for all")
    return wanted


def place_of(message: Message, topic: TopicName) -> tuple[int, int]:
    """Return partition and offset of a message that was read from a topic.

    Raises:
        InvalidInputError: it was not.
    """
    if message.topic != str(topic) or message.partition is None or message.offset is None:
        raise InvalidInputError(
            f"the message is from {message.topic or 'no topic'}, not from {topic}",
            advice="Commit a message that this consumer has delivered",
        )
    return message.partition, message.offset
