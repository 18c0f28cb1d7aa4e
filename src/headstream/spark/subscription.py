"""Subscription: which topics and partitions are read, as one of three options says.

subscribe          shop/orders,shop/returns
subscribePattern   shop/.*                                      a regular expression (Python's) for the whole of stream/topic
assign             {"shop/orders": [1, 2], "shop/returns": [1]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.model.identifiers import TopicName
from headstream.spark.offsets import Place

__all__ = ["Subscription", "parse_subscription"]

_OPTIONS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read.

    Args:
        option: The option that says it.
        topics: The topics it names, in that order; None where a pattern chooses them.
        pattern: A regular expression for the whole name of a topic, or None.
        partitions: The partitions of each topic that are read, where `assign` names them; None is all.
    """

    option: str
    topics: tuple[TopicName, ...] | None
    pattern: str | None = None
    partitions: Mapping[str, frozenset[int]] | None = None

    def has_topic(self, topic: str) -> bool:
        """Return whether a topic of this name is read when it is there."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return self.topics is not None and any(str(name) == topic for name in self.topics)

    def has(self, place: Place) -> bool:
        """Return whether a partition is read when it is there."""
        if self.partitions is not None:
            return place.partition in self.partitions.get(place.topic, ())
        return self.has_topic(place.topic)


def parse_subscription(given: Mapping[str, str]) -> Subscription:
    """Return what the options say is to be read.

    Args:
        given: The options, their names in lower case.

    Raises:
        InvalidOptionError: there is none of the three, more than one, or one that cannot be read.
    """
    said = [option for option in _OPTIONS if option.lower() in given]
    if len(said) > 1:
        raise InvalidOptionError(f"{said[0]} and {said[1]} both say what to read", advice="Give one of them")
    if not said:
        raise InvalidOptionError(
            "the option subscribe is missing",
            advice='Name one topic or several, as .option("subscribe", "shop/orders"); or give subscribePattern or assign',
        )
    text = given[said[0].lower()]
    if said[0] == "subscribe":
        return Subscription("subscribe", _parse_names(text))
    return _parse_pattern(text) if said[0] == "subscribePattern" else _parse_assignment(text)


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
            f"subscribePattern={text} is no regular expression: {error}",
            advice="It is matched with the whole of stream/topic, as shop/.*",
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
            f"assign cannot be read: {text!r}", advice='Write partitions by topic, from 1 on, as {"shop/orders": [1, 2]}'
        )
    chosen = {topic: frozenset(numbers) for topic, numbers in partitions.items()}
    return Subscription("assign", tuple(TopicName.parse(topic) for topic in chosen), partitions=chosen)
