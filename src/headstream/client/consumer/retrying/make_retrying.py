"""Policy: what a consumer with `on_error` needs is checked before it is made, its dead-letter topic included."""

from __future__ import annotations

from typing import Any

from headstream.client.arguments import ConsumerOptions, topic_name
from headstream.client.consumer.retrying.attempts import RetryPolicy
from headstream.client.consumer.retrying.consumer import RetryingConsumer
from headstream.client.interception.consumer import Transform
from headstream.client.interception.interception import Interception, make_transform
from headstream.client.transports.delivery_transport import DeliveryAccess
from headstream.client.transports.transport import Transport
from headstream.core.model.deliveries import Retry
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, Topic, TopicOptions, check_dead_letter_options
from headstream.errors import InvalidOptionError, UnsupportedError

__all__ = ["make_policy", "make_retrying"]


def make_retrying(
    interception: Interception | None,
    decode: Transform | None,
    options: ConsumerOptions,
    transport: Transport,
    topic: Topic,
    **consumer_options: Any,
) -> RetryingConsumer:
    """Return a consumer that tries failing messages again.

    Args:
        interception: The client's interceptors, or None.
        decode: Returns a message with its value, or None.
        options: As for Client.consumer().
        topic: The topic's current metadata.

    Raises:
        InvalidOptionError: an option is missing, or the dead-letter topic would drop letters.
        UnsupportedError: the log is in Kafka.
    """
    policy = make_policy(transport, topic, options)
    transform = make_transform(interception, decode)
    chain = None if interception is None else interception.chain
    return RetryingConsumer(transport, topic, chain, transform, policy, **consumer_options)


def make_policy(transport: Transport, topic: Topic, options: ConsumerOptions) -> RetryPolicy:
    """Return what a consumer does with failing messages; a missing dead-letter topic is created.

    Args:
        topic: The topic's current metadata.
        options: As for Client.consumer().

    Raises:
        InvalidOptionError: an option is missing, or the dead-letter topic would drop letters.
        UnsupportedError: the log is in Kafka.
    """
    retry, group, given = options.get("on_error"), options.get("group"), options.get("dead_letter")
    if not isinstance(retry, Retry):
        raise InvalidOptionError(f"on_error is {retry!r}", advice="Give a hs.Retry, as in on_error=hs.Retry(attempts=5)")
    if not isinstance(transport, DeliveryAccess):
        raise UnsupportedError(
            "Kafka remembers one offset of a group, and no single messages: on_error is not available there",
            where="kafka://",
            advice="Use retry topics: see docs/retries.md, section Kafka",
        )
    if group is None:
        raise InvalidOptionError("on_error needs a group: what is not done is remembered for it", advice='Add group="billing"')
    if given is None:
        if retry.attempts is not None:
            raise InvalidOptionError(
                f"a message that failed {retry.attempts} times has no place to go",
                advice='Give dead_letter="shop/orders.dead", or hs.Retry(attempts=None) to set no limit',
            )
        return RetryPolicy(group, retry, None)
    name = topic_name(given)
    if name == TopicName(topic.stream, topic.name):
        raise InvalidOptionError(f"{name} cannot be its own dead-letter topic", advice="Name another topic")
    letters = transport.topics.find(name.stream, name.topic)
    if letters is None:
        letters = transport.topics.create(name, 1, Limits.WIDE, if_not_exists=True)
    found = TopicOptions(compaction_delay_us=letters.compaction_delay_us, deduplication_count=letters.deduplication_count)
    check_dead_letter_options(str(name), found)
    return RetryPolicy(group, retry, name)
