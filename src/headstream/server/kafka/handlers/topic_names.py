"""Maps Kafka's topic names: `shop.orders` is shop/orders; names without a dot are in the default stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import lru_cache

from headstream.broker.accounts.permissions import Rights
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.core.codec.kafka import KafkaTopicNames
from headstream.core.model.identifiers import TopicName
from headstream.errors import HeadstreamError, InvalidInputError, PermissionDeniedError, TopicNotFoundError
from headstream.server.kafka.calls import Call
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError


def topic_name(call: Call, name: str) -> TopicName:
    """Return the topic name for a Kafka name; ProtocolError if Kafka does not allow the name."""
    try:
        return _topic_name(call.context.settings.default_stream, name)
    except InvalidInputError:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is an invalid topic name") from None


@lru_cache(maxsize=4096)
def _topic_name(default_stream: str, name: str) -> TopicName:
    return KafkaTopicNames(default_stream).topic_name(name)


def kafka_name(call: Call, name: TopicName) -> str | None:
    """Return the Kafka name of a topic; None if no Kafka name maps back to it."""
    return KafkaTopicNames(call.context.settings.default_stream).find_kafka_name(name)


def topic_id(place: FoundTopic) -> uuid.UUID:
    """Return the id of a topic; a recreated topic with the same name has a different id."""
    topic = place.topic
    return uuid.UUID(int=(topic.stream_number << 64) | (topic.number << 1) | 1)


def find_place(call: Call, name: str, right: Callable[[Rights, int, int], None]) -> FoundTopic:
    """Return the topic for a Kafka name if the user has the right.

    Raises:
        ProtocolError: the name is invalid in Kafka or the user does not have the right.
        TopicNotFoundError: the topic does not exist and the user is allowed to know this.
    """
    named = topic_name(call, name)
    try:
        place = call.context.dispatcher.lookup.topic(named.stream, named.topic)
        right(call.rights, place.stream.id, place.topic.id)
    except PermissionDeniedError as error:
        raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, error.what) from None
    except HeadstreamError as error:
        if not call.rights.may_see():
            raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, call.rights.unknown().what) from None
        raise TopicNotFoundError(f"there is no topic {name!r}") from error
    return place


def is_allowed(right: Callable[..., None], *arguments: int) -> bool:
    """Return whether the user has a right; `right` is a method of Rights, called with `arguments`."""
    try:
        right(*arguments)
    except PermissionDeniedError:
        return False
    return True


def list_places(call: Call) -> Iterator[tuple[str, FoundTopic]]:
    """Yield the topics, with Kafka names, that a user is allowed to read, poll or send to."""
    rights = call.rights
    for stream in call.context.dispatcher.lookup.snapshot().values():
        for topic in stream.topics.values():
            name = kafka_name(call, topic.name)
            is_known = any(is_allowed(right, stream.id, topic.id) for right in (rights.read_topic, rights.poll, rights.send))
            if name is not None and is_known:
                yield name, FoundTopic(stream, topic)
