"""Consumers: creates the consumer that the given options describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headstream.client.arguments import ConsumerOptions, committer_of, start_of, state_codes
from headstream.client.checks import milliseconds
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.fetching import Transform
from headstream.client.consumer.filtering import make_filter
from headstream.client.consumer.plain import PlainReading
from headstream.client.consumer.reading import Reading, ReadingOptions
from headstream.client.transports.transport import OwnConnections, Transport
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.topology import Topic
from headstream.errors import InvalidOptionError

if TYPE_CHECKING:
    from headstream.client.interception.interception import Interception


def make_consumer(
    transport: Transport, topic: Topic, options: ConsumerOptions, interception: Interception | None, decode: Transform | None
) -> Consumer:
    """Return a consumer of one topic with checked options; `decode` maps a message to a message with a value."""
    states = state_codes(options.get("states", ("available",)))
    make, partitions = _find_reading(transport, topic, options), options.get("partitions")
    chosen = ReadingOptions(
        committer=committer_of(options.get("group"), options.get("name")),
        partitions=None if partitions is None else tuple(partitions),
        start=start_of(options.get("start", "first")),
        states=states,
        where=make_filter(options.get("where"), options.get("on_filter_error", "skip"), states),
        session_timeout_ms=milliseconds("session_timeout_ms", options.get("session_timeout_ms", DEFAULT_SESSION_TIMEOUT_MS)),
        on_assigned=options.get("on_assigned"),
        on_revoked=options.get("on_revoked"),
        transform=_make_transform(interception, decode),
        chain=None if interception is None else interception.chain,
    )
    if interception is not None:
        interception.chain.remember_loop()
    timeout_ms = timeout_of(options)
    own = transport.for_consumer() if isinstance(transport, OwnConnections) else None
    return Consumer(TopicName(topic.stream, topic.name), make(own or transport, topic, chosen), timeout_ms, own)


def _find_reading(
    transport: Transport, topic: Topic, options: ConsumerOptions
) -> Callable[[Transport, Topic, ReadingOptions], Reading]:
    """Return the factory of the consumer's Reading; modules for single messages are imported only if needed."""
    mode = options.get("mode", "ordered")
    if mode not in ("ordered", "shared"):
        raise InvalidOptionError(f"mode must be ordered or shared, not {mode!r}")
    if mode == "shared":
        from headstream.client.consumer.policies import make_lease_policy
        from headstream.client.consumer.shared.reading import SharedReading

        worker, lease_us = make_lease_policy(transport, topic, options)
        return lambda own, topic, chosen: SharedReading(own, topic, chosen, worker, lease_us)
    if options.get("lease") is not None:
        raise InvalidOptionError("lease requires mode='shared'", advice='Add mode="shared"')
    if options.get("on_error") is None:
        if options.get("dead_letter") is not None:
            raise InvalidOptionError(
                "dead_letter requires on_error: without retries, no message becomes a dead letter",
                advice="Set, for example, on_error=hs.Retry(attempts=5)",
            )
        return PlainReading
    from headstream.client.consumer.policies import make_retry_policy
    from headstream.client.consumer.retrying.reading import RetryingReading

    policy = make_retry_policy(transport, topic, options)
    return lambda own, topic, chosen: RetryingReading(own, topic, chosen, policy)


def _make_transform(interception: Interception | None, decode: Transform | None) -> Transform | None:
    """Return the function to call with each delivered message, or None."""
    if interception is None or decode is None:
        return decode if interception is None else interception.receive

    def transform(message: ReceivedMessage) -> ReceivedMessage | None:
        received = interception.receive(message)
        return None if received is None else decode(received)

    return transform


def timeout_of(options: ConsumerOptions) -> float | None:
    """Return the timeout of a consumer's options, milliseconds, or None."""
    timeout_ms = options.get("timeout_ms")
    return None if timeout_ms is None else milliseconds("timeout_ms", timeout_ms)
