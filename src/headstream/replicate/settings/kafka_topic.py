"""Topics of Kafka clusters in a pipeline's settings: `kafka://host:9092/replicate.delayed?kafka.security.protocol=SSL`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from headstream.client.transports.kafka.address import split_kafka_url
from headstream.client.transports.remote.address import restore_slashes
from headstream.core.codec.kafka import KafkaTopicNames
from headstream.core.model.urls import split_url
from headstream.errors import InvalidInputError, InvalidOptionError

_SCHEME: Final = "kafka://"


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic of a Kafka cluster.

    Args:
        topic: `stream/topic`.
        place: The topic's URL without credentials and settings, for errors and log messages.
    """

    url: str = field(repr=False)
    topic: str
    place: str


def is_kafka_topic(text: str) -> bool:
    """Return whether a setting is a topic of a Kafka cluster, and not of the pipeline's own log."""
    return text.lower().startswith(_SCHEME)


def parse_kafka_topic(text: str) -> KafkaTopic:
    """Return the topic of a URL, which is the cluster's URL with the topic's Kafka name as the path.

    Raises:
        InvalidOptionError: the URL has no cluster or no valid topic.
    """
    parts = restore_slashes(split_url(text))
    name = unquote(parts.path).strip("/")
    try:
        hosts, *_ = split_kafka_url(parts._replace(path=""))
        topic = KafkaTopicNames().topic_name(name.replace("/", ".", 1))
    except InvalidInputError as error:
        advice = error.advice if name else "Write kafka://host:9092/replicate.delayed"
        raise InvalidOptionError(error.what if name else "the URL must name a topic", where=error.where, advice=advice) from None
    return KafkaTopic(parts._replace(path="").geturl(), str(topic), f"{_SCHEME}{hosts}/{name}")
