"""Subscription: the topics and partitions to read, from one of three options.

subscribe          shop/orders,shop/returns
subscribePattern   shop/.*                                      a regular expression (Python's) for the whole stream/topic
assign             {"shop/orders": [1, 2], "shop/returns": [1]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headstream.core.model.identifiers import TopicName
from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.spark.source.offsets import TopicPartition

_OPTIONS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics and partitions to read.

    Args:
        pattern: A regular expression for the full name of a topic, or None.
        partitions: The partitions of each topic to read, with `assign`; None means all.
    """

    option: str
    topics: tuple[TopicName, ...] | None
    pattern: str | None = None
    partitions: Mapping[str, frozenset[int]] | None = None

    def has_topic(self, topic: str) -> bool:
        """Return whether an existing topic with this name is read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return self.topics is not None and any(str(name) == topic for name in self.topics)

    def has(self, partition: TopicPartition) -> bool:
        """Return whether an existing partition is read."""
        if self.partitions is not None:
            return partition.number in self.partitions.get(partition.topic, ())
        return self.has_topic(partition.topic)


def parse_subscription(given: Mapping[str, str]) -> Subscription:
    """Return the topics and partitions to read; exactly one of the three options must be set."""
    given_names = [option for option in _OPTIONS if option.lower() in given]
    if len(given_names) > 1:
        raise InvalidOptionError(f"{given_names[0]} and {given_names[1]} both name topics", advice="Set one of them")
    if not given_names:
        raise InvalidOptionError(
            "the option subscribe is missing",
            advice='Specify one or more topics with .option("subscribe", "shop/orders"); or set subscribePattern or assign',
        )
    text = given[given_names[0].lower()]
    if given_names[0] == "subscribe":
        return Subscription("subscribe", _parse_names(text))
    return _parse_pattern(text) if given_names[0] == "subscribePattern" else _parse_assignment(text)


def _parse_names(text: str) -> tuple[TopicName, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidOptionError(f"subscribe={text} names no topic", advice='Write .option("subscribe", "shop/orders")')
    topics = tuple(_parse_topic(name, "subscribe") for name in names)
    if len(set(topics)) < len(topics):
        raise InvalidOptionError(f"subscribe names a topic twice: {text}")
    return topics


def _parse_topic(name: str, option: str) -> TopicName:
    try:
        return TopicName.parse(name)
    except InvalidInputError as error:
        raise InvalidOptionError(f"{option}: {error}") from error


def _parse_pattern(text: str) -> Subscription:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidOptionError(
            f"subscribePattern={text} is not a valid regular expression: {error}",
            advice="Write an expression that matches the entire stream/topic, for example shop/.*",
        ) from None
    return Subscription("subscribePattern", None, pattern=text)


def _parse_assignment(text: str) -> Subscription:
    try:
        value = json.loads(text)
        partitions = {str(_parse_topic(topic, "assign")): list(numbers) for topic, numbers in value.items()}
    except (ValueError, AttributeError, TypeError) as error:
        if isinstance(error, InvalidOptionError):
            raise
        partitions = {}
    numbers = [number for numbers in partitions.values() for number in numbers]
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        raise InvalidOptionError(
            f"assign cannot be read: {text!r}", advice='Write partitions (from 1) by topic, for example {"shop/orders": [1, 2]}'
        )
    chosen = {topic: frozenset(numbers) for topic, numbers in partitions.items()}
    return Subscription("assign", tuple(TopicName.parse(topic) for topic in chosen), partitions=chosen)
