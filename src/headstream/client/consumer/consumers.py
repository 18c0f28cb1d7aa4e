"""Consumers: makes the consumer that a user's options describe."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from headstream.client.arguments import ConsumerOptions, committer_of, state_codes
from headstream.client.checks import milliseconds
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.filtering import make_filter
from headstream.client.transports.transport import Transport
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.core.model.topology import Topic
from headstream.errors import InvalidOptionError

if TYPE_CHECKING:
    from headstream.client.interception.consumer import Transform
    from headstream.client.interception.interception import Interception

__all__ = ["make_consumer", "timeout_of"]


def make_consumer(
    transport: Transport,
    topic: Topic,
    options: ConsumerOptions,
    interception: Interception | None,
    decode: Transform | None,
) -> Consumer:
    """Return a consumer of one topic.

    Args:
        topic: The topic's current metadata.
        options: As for Client.consumer(), checked.
        interception: The client's interceptors, or None.
        decode: Returns a message with its value, or None.
    """
    states = state_codes(options.get("states", ("available",)))
    make = _class_for(transport, topic, options, interception, decode)
    return make(
        transport,
        topic,
        committer=committer_of(options.get("group"), options.get("name")),
        partitions=options.get("partitions"),
        start=options.get("start", "first"),
        states=states,
        where=make_filter(options.get("where"), options.get("on_filter_error", "skip"), states),
        timeout_ms=timeout_of(options),
        session_timeout_ms=milliseconds("session_timeout_ms", options.get("session_timeout_ms", DEFAULT_SESSION_TIMEOUT_MS)),
        on_assigned=options.get("on_assigned"),
        on_revoked=options.get("on_revoked"),
    )


def _class_for(
    transport: Transport,
    topic: Topic,
    options: ConsumerOptions,
    interception: Interception | None,
    decode: Transform | None,
) -> Callable[..., Consumer]:
    """Return what makes the consumer; the modules of one with more than messages are imported only then."""
    mode = options.get("mode", "ordered")
    if mode not in ("ordered", "shared"):
        raise InvalidOptionError(f"mode is {mode!r}", advice="Use ordered or shared")
    if mode == "shared":
        from headstream.client.consumer.shared.make_shared import make_shared

        return functools.partial(make_shared, interception, decode, options)
    if options.get("lease") is not None:
        raise InvalidOptionError("lease says how long a worker has a message", advice='Give mode="shared" too')
    if options.get("on_error") is None:
        if options.get("dead_letter") is not None:
            raise InvalidOptionError(
                "dead_letter says where messages go after their last attempt, and there are no attempts",
                advice="Give on_error too, as in on_error=hs.Retry(attempts=5)",
            )
        if decode is None and interception is None:
            return Consumer
        from headstream.client.interception.interception import make_consumer as make_intercepted

        return functools.partial(make_intercepted, interception, decode)
    from headstream.client.consumer.retrying.make_retrying import make_retrying

    return functools.partial(make_retrying, interception, decode, options)


def timeout_of(options: ConsumerOptions) -> float | None:
    """Return the timeout of a consumer's options, milliseconds, or None."""
    timeout_ms = options.get("timeout_ms")
    return None if timeout_ms is None else milliseconds("timeout_ms", timeout_ms)
