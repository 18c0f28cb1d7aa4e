"""Positions: validates partitions and resolves positions to offsets."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.transports.transport import Transport
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import PollingKind, PollingStrategy
from headstream.core.model.topology import Topic
from headstream.errors import InvalidInputError, InvalidOptionError, PartitionNotFoundError, RebalancedError


def check_start(strategy: PollingStrategy, topic: TopicName) -> PollingStrategy:
    """Return the strategy if a consumer can start with it; InvalidInputError for `next`, which requires a committed offset."""
    if strategy.kind is PollingKind.NEXT:
        raise InvalidInputError(
            "'next' is not a valid start: a consumer that commits always continues at its committed offset",
            where=str(topic),
            advice="Use 'first' or 'last'",
        )
    return strategy


def find_offset(transport: Transport, topic: TopicName, partition: int, strategy: PollingStrategy) -> int:
    """Resolve a strategy to an offset in a partition.

    Args:
        strategy: `last` is the position after the newest message; `next` raises InvalidInputError.
    """
    kind = check_start(strategy, topic).kind
    if kind is PollingKind.OFFSET:
        return strategy.value
    if kind is PollingKind.TIMESTAMP:
        polled = transport.messages.poll(topic, partition, PollRequest(strategy, 1, states=None))
        return polled.next_offset - polled.count
    for found in transport.topics.get(topic).partitions:
        if found.number == partition:
            return found.first_offset if kind is PollingKind.FIRST else found.end_offset
    raise PartitionNotFoundError(f"topic {str(topic)!r} has no partition {partition}", advice="List partitions with log.topic()")


def numbers_of(topic: Topic) -> range:
    """Return the numbers of a topic's partitions."""
    first = topic.partitions[0].number if topic.partitions else 1
    return range(first, first + len(topic.partitions))


def check_partitions(topic: Topic, partitions: Iterable[int] | None) -> list[int]:
    """Return the named or all partitions in ascending order. PartitionNotFoundError; InvalidOptionError for an empty list."""
    name, known = f"{topic.stream}/{topic.name}", [partition.number for partition in topic.partitions]
    if partitions is None:
        return known
    wanted = sorted(set(partitions))
    for number in wanted:
        if number not in known:
            raise PartitionNotFoundError(
                f"topic {name!r} has no partition {number}", advice=f"Use a partition from {known[0]} to {known[-1]}"
            )
    if not wanted:
        raise InvalidOptionError("the list of partitions is empty", where=name, advice="Omit the option to read all partitions")
    return wanted


def position_of(message: Message, topic: TopicName) -> tuple[int, int]:
    """Return a message's partition and offset; InvalidInputError if the message is from a different topic."""
    if not isinstance(message, Message):
        raise InvalidInputError(f"{message!r} is not a message", advice="Commit a message that this consumer has delivered")
    if message.topic != str(topic) or message.partition is None or message.offset is None:
        raise InvalidInputError(
            f"the message is from {message.topic or 'no topic'}, not from {topic}",
            advice="Commit a message that this consumer has delivered",
        )
    return message.partition, message.offset


def unnamed(topic: TopicName) -> InvalidOptionError:
    """Return the error for a commit by a consumer that has neither a name nor a group."""
    return InvalidOptionError(
        "the consumer cannot commit, because it has neither a group nor a name",
        where=str(topic),
        advice='Specify a group, as in log.consumer("shop/orders", group="billing")',
    )


def not_read(partition: int, topic: TopicName) -> RebalancedError:
    """Return the error for a message whose partition was lost."""
    return RebalancedError(
        f"the consumer no longer reads partition {partition}",
        where=str(topic),
        advice="The member of the group that now owns the partition receives the message again",
    )
