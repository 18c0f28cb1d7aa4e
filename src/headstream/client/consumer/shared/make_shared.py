"""Policy: what a consumer with mode="shared" needs is checked before it is made, its dead-letter topic included."""

from __future__ import annotations

from typing import Any

from headstream.client.arguments import ConsumerOptions
from headstream.client.consumer.retrying.make_retrying import make_policy
from headstream.client.consumer.shared.consumer import SharedConsumer
from headstream.client.interception.consumer import Transform
from headstream.client.interception.interception import Interception, make_transform
from headstream.client.transports.delivery_transport import LeaseAccess
from headstream.client.transports.transport import Transport
from headstream.core.model.deliveries import Retry, RetryOrder
from headstream.core.model.leases import DEFAULT_LEASE_US
from headstream.core.model.quantities import parse_duration_us
from headstream.core.model.topology import Topic
from headstream.errors import InvalidOptionError, UnsupportedError

__all__ = ["make_shared"]


def make_shared(
    interception: Interception | None,
    decode: Transform | None,
    options: ConsumerOptions,
    transport: Transport,
    topic: Topic,
    **consumer_options: Any,
) -> SharedConsumer:
    """Return a consumer that leases messages.

    Args:
        interception: The client's interceptors, or None.
        decode: Returns a message with its value, or None.
        options: As for Client.consumer().
        topic: The topic's current metadata.

    Raises:
        InvalidOptionError: an option is missing or does not fit the mode, or the dead-letter topic would drop letters.
        UnsupportedError: the log is in Kafka.
    """
    if not isinstance(transport, LeaseAccess):
        raise UnsupportedError(
            "Kafka remembers one offset of a group, and no single messages: mode='shared' is not available there",
            where="kafka://",
            advice="Use Kafka's share groups by a client that has them, or mirror the topic into a Headstream server",
        )
    if options.get("group") is None:
        raise InvalidOptionError("mode='shared' needs a group, whose workers share the messages", advice='Add group="workers"')
    for name in ("on_assigned", "on_revoked"):
        if options.get(name) is not None:
            raise InvalidOptionError(f"{name} is not called with mode='shared'", advice="Its workers own no partitions")
    retry = options.get("on_error")
    given: ConsumerOptions = {**options, "on_error": Retry(attempts=None) if retry is None else retry}
    policy = make_policy(transport, topic, given)
    if policy.retry.order is RetryOrder.PARTITION:
        raise InvalidOptionError(
            "order='partition' does not fit mode='shared': workers take the messages of a partition side by side",
            advice="Use order='key', order='skip', or mode='ordered'",
        )
    lease = options.get("lease")
    lease_us = DEFAULT_LEASE_US if lease is None else parse_duration_us(lease, plain_unit="us")
    transform = make_transform(interception, decode)
    chain = None if interception is None else interception.chain
    return SharedConsumer(transport, topic, chain, transform, policy, lease_us, **consumer_options)
