"""DeadLetters: sends messages for which an interceptor failed to the interceptor's dead-letter topic, with origin and reason."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headstream.client.producer.forwarding import ForwardingProducer
from headstream.client.producer.receipts import Receipt
from headstream.core.model.constructors import int32, int64
from headstream.core.model.headers import Headers
from headstream.core.model.message import MAX_REASON_BYTES
from headstream.core.model.reserved import ORIGIN_PREFIX, REASON_HEADER
from headstream.forks import register_for_forks
from headstream.interceptors.chain import RejectedMessageError

_REASON_BYTES = min(MAX_REASON_BYTES, 255)
"""Maximum size of a reason: a header value of a topic with limits `iggy`."""


class DeadLetters:
    """The dead-letter producers of one client; thread-safe. `make` creates a producer, and the topic if missing."""

    def __init__(self, make: Callable[[str], ForwardingProducer]) -> None:
        self._make = make
        register_for_forks(self)
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: start without producers, which belong to the parent process."""
        self._lock = threading.Lock()
        self._producers: dict[str, ForwardingProducer] = {}

    def send(self, rejected: RejectedMessageError) -> Receipt:
        """Send a rejected message and return its receipt; HeadstreamError if the message is not accepted."""
        message = rejected.message
        origin: list[tuple[str, object]] = [(f"{ORIGIN_PREFIX}topic", message.topic or "")]
        if message.offset is not None and message.partition is not None:
            origin += [(f"{ORIGIN_PREFIX}partition", int32(message.partition)), (f"{ORIGIN_PREFIX}offset", int64(message.offset))]
        if message.timestamp is not None:
            origin.append((f"{ORIGIN_PREFIX}timestamp", int64(message.timestamp)))
        reason = rejected.reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        headers = Headers([*message.headers.items(), *origin, (REASON_HEADER, reason)])
        with self._lock:
            producer = self._producers.get(rejected.topic)
            if producer is None:
                producer = self._producers[rejected.topic] = self._make(rejected.topic)
        return producer.send(message.payload, key=message.key, headers=headers, id=message.id)

    def store(self, rejected: RejectedMessageError) -> None:
        """Send a rejected message and wait until it is stored; HeadstreamError if it cannot be stored."""
        self.send(rejected).result()

    def flush(self) -> None:
        """Wait until all sent messages are stored; HeadstreamError if a message could not be stored."""
        with self._lock:
            producers = list(self._producers.values())
        for producer in producers:
            producer.flush()
