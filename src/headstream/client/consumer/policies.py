"""Policies: checks the options for `on_error` and `mode="shared"`, and the dead-letter topic, before a consumer is created."""

from __future__ import annotations

from headstream.client.arguments import ConsumerOptions, topic_name
from headstream.client.consumer.retrying.attempts import RetryPolicy
from headstream.client.transports.delivery_transport import DeliveryAccess, LeaseAccess
from headstream.client.transports.transport import Transport
from headstream.core.model.deliveries import Retry, RetryOrder
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import DEFAULT_LEASE_US
from headstream.core.model.quantities import parse_duration_us
from headstream.core.model.topology import Limits, NewTopic, Topic, TopicOptions, check_dead_letter_options
from headstream.errors import InvalidOptionError, UnsupportedError


def make_retry_policy(transport: Transport, topic: Topic, options: ConsumerOptions) -> RetryPolicy:
    """Return the policy for failing messages; a missing dead-letter topic is created.

    Raises:
        InvalidOptionError: an option is missing, or the dead-letter topic would drop dead letters.
        UnsupportedError: the log is in Kafka.
    """
    retry, group, given = options.get("on_error"), options.get("group"), options.get("dead_letter")
    if not isinstance(retry, Retry):
        raise InvalidOptionError(f"on_error must be an hs.Retry, not {retry!r}", advice="Pass on_error=hs.Retry(attempts=5)")
    if not isinstance(transport, DeliveryAccess):
        raise UnsupportedError(
            "Kafka stores one offset per group and partition, and no state of individual messages: on_error is unavailable",
            where="kafka://",
            advice="Use retry topics: see docs/retries.md, section Kafka",
        )
    if group is None:
        raise InvalidOptionError("on_error requires a group, which records unfinished messages", advice='Add group="billing"')
    if given is None:
        if retry.attempts is not None:
            raise InvalidOptionError(
                f"attempts={retry.attempts} requires a dead-letter topic for messages that fail permanently",
                advice='Set dead_letter="shop/orders.dead", or hs.Retry(attempts=None) to set no limit',
            )
        return RetryPolicy(group, retry, None)
    name = topic_name(given)
    if name == TopicName(topic.stream, topic.name):
        raise InvalidOptionError(f"{name} cannot be its own dead-letter topic", advice="Specify another topic")
    letters = transport.topics.find(name.stream, name.topic)
    if letters is None:
        letters = transport.topics.create(NewTopic(name, 1, Limits.WIDE), if_not_exists=True)
    found = TopicOptions(compaction_delay_us=letters.compaction_delay_us, deduplication_count=letters.deduplication_count)
    check_dead_letter_options(str(name), found)
    return RetryPolicy(group, retry, name)


def make_lease_policy(transport: Transport, topic: Topic, options: ConsumerOptions) -> tuple[RetryPolicy, int]:
    """Return a worker's policy for failing messages, and the duration of its leases, microseconds.

    Raises:
        InvalidOptionError: an option is missing or does not fit the mode, or the dead-letter topic would drop dead letters.
        UnsupportedError: the log is in Kafka.
    """
    if not isinstance(transport, LeaseAccess):
        raise UnsupportedError(
            "Kafka stores one offset per group and partition, and no state of individual messages: mode='shared' is unavailable",
            where="kafka://",
            advice="Use a Kafka client that supports share groups, or mirror the topic to a Headstream server",
        )
    if options.get("group") is None:
        raise InvalidOptionError("mode='shared' requires a group, whose workers share the messages", advice='Add group="workers"')
    for name in ("on_assigned", "on_revoked"):
        if options.get(name) is not None:
            raise InvalidOptionError(f"{name} cannot be used with mode='shared'", advice="Omit this option")
    retry = options.get("on_error")
    given: ConsumerOptions = {**options, "on_error": Retry(attempts=None) if retry is None else retry}
    policy = make_retry_policy(transport, topic, given)
    if policy.retry.order is RetryOrder.PARTITION:
        raise InvalidOptionError(
            "order='partition' contradicts mode='shared': workers process the messages of a partition concurrently",
            advice="Use order='key', order='skip', or mode='ordered'",
        )
    lease = options.get("lease")
    return policy, DEFAULT_LEASE_US if lease is None else parse_duration_us(lease, plain_unit="us")
