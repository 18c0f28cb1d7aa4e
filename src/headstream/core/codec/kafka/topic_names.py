"""Topic names: `stream/topic` is `stream.topic` in Kafka.

A stream's name has no dot, so the first dot is the separator, and the mapping is unambiguous. A Kafka name without a dot is
unchanged (in Spark), or belongs to a default stream (KafkaTopicNames, used by the server's Kafka listener and for Kafka
clusters). The same applies to `/path/to/stream:topic`, a topic name of HPE Data Fabric (MapR) that contains the path of a stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headstream.core.model.identifiers import TopicName, check_name
from headstream.errors import InvalidInputError

DEFAULT_STREAM: Final = "kafka"
"""The stream of topics whose names have no dot, unless a setting names another stream."""

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_DATA_FABRIC: Final = re.compile(r"(/[^/:,\s\x00]+)+:[A-Za-z0-9._-]{1,249}")
"""Topics of HPE Data Fabric, whose paths contain no comma (separates topics in subscriptions) or colon (precedes the topic)."""


def to_kafka_topic(name: str) -> str:
    """Return a topic's name in Kafka.

    Raises:
        InvalidInputError: the name does not consist of 1 to 249 characters a-z, A-Z, 0-9, dot, underscore or minus.
    """
    if _DATA_FABRIC.fullmatch(name):
        return name
    text = f"{topic.stream}.{topic.topic}" if "/" in name and (topic := TopicName.parse(name)) else name
    if not _LEGAL.fullmatch(text) or text in (".", ".."):
        raise _invalid(name)
    return text


def from_kafka_topic(name: str) -> str:
    """Return `stream/topic` for a Kafka topic whose name has a dot, and any other name unchanged."""
    stream, dot, topic = name.partition(".")
    if name.startswith("/"):
        return name
    return f"{stream}/{topic}" if dot and stream and topic else name


@dataclass(frozen=True, slots=True)
class KafkaTopicNames:
    """Converts topic names if each topic must have a stream: `shop.orders` is shop/orders, and `orders` is kafka/orders."""

    default_stream: str = DEFAULT_STREAM

    def __post_init__(self) -> None:
        check_name(self.default_stream, "stream")

    def topic_name(self, name: str) -> TopicName:
        """Return the topic for a name that a Kafka client uses; InvalidInputError if the name is invalid in Kafka."""
        if not _LEGAL.fullmatch(name) or name in (".", ".."):
            raise _invalid(name)
        stream, _, topic = name.partition(".")
        return TopicName(stream, topic) if stream and topic else TopicName(self.default_stream, name)

    def find_kafka_name(self, name: TopicName) -> str | None:
        """Return a topic's name in Kafka; None if no valid Kafka name refers to the topic."""
        is_default = name.stream == self.default_stream and "." not in name.topic.strip(".")
        spelled = name.topic if is_default else f"{name.stream}.{name.topic}"
        if not _LEGAL.fullmatch(spelled) or spelled in (".", ".."):
            return None
        return spelled if self.topic_name(spelled) == name else None

    def kafka_name(self, name: TopicName) -> str:
        """Return a topic's name in Kafka; InvalidInputError if no valid Kafka name refers to the topic."""
        spelled = self.find_kafka_name(name)
        if spelled is None:
            raise _invalid(str(name))
        return spelled


def _invalid(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name!r} is not a valid topic name in Kafka", advice="Use 1 to 249 ASCII letters, digits, dots, underscores and hyphens"
    )
