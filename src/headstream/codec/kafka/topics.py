"""Topic names: `stream/topic` is `stream.topic` in Kafka; a name without a slash is Kafka's own.

A stream's name has no dot, so the first dot divides, and no two names are mixed up.
"""

from __future__ import annotations

import re
from typing import Final

from headstream.errors import InvalidInputError
from headstream.model.identifiers import TopicName

__all__ = ["from_kafka_topic", "to_kafka_topic"]

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def to_kafka_topic(name: str) -> str:
    """Return the name that a topic has in Kafka.

    Args:
        name: `stream/topic`, or a name of Kafka's own.

    Raises:
        InvalidInputError: Kafka takes no such name: 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and minus.
    """
    text = f"{topic.stream}.{topic.topic}" if "/" in name and (topic := TopicName.parse(name)) else name
    if not _LEGAL.fullmatch(text) or text in (".", ".."):
        raise InvalidInputError(
            f"{name!r} is no name that Kafka takes",
            advice="It takes 1 to 249 ASCII letters, digits, dots, underscores, minuses",
        )
    return text


def from_kafka_topic(name: str) -> str:
    """Return `stream/topic` for a Kafka topic whose name has a dot, and any other name as it is.

    Args:
        name: The name in Kafka.
    """
    stream, dot, topic = name.partition(".")
    return f"{stream}/{topic}" if dot and stream and topic else name
