"""InterceptedConsumer: a consumer whose messages pass a client's interceptors and are decoded.

A message is transformed when it is delivered. If that raises an error, the message stays the first one of the buffer: it is
not in progress, so nothing commits it, and the next call raises the error again until seek() passes over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from headstream.client.closing import unlimited
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.fetching import Fetching
from headstream.client.transports.transport import Transport
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.topology import Topic
from headstream.interceptors.chain import Chain

__all__ = ["InterceptedConsumer", "Transform", "TransformingFetching"]

Transform: TypeAlias = Callable[[ReceivedMessage], ReceivedMessage | None]
"""A message as stored -> the message to deliver, or None if it went to a dead-letter topic."""


class InterceptedConsumer(Consumer):
    """A consumer that runs interceptors and decodes values.

    Args:
        topic: The topic's current metadata.
        chain: The client's interceptors, or None.
        transform: Called with each message when it is delivered.
        options: As for Consumer.
    """

    def __init__(self, transport: Transport, topic: Topic, chain: Chain | None, transform: Transform, **options: Any) -> None:
        self._chain = chain
        self._transform = transform
        if chain is not None:
            chain.remember_loop()
        super().__init__(transport, topic, **options)

    @property
    def may_wait(self) -> bool:
        """Whether take() can block although a message is buffered; see Consumer.may_wait."""
        return super().may_wait or (self._chain is not None and self._chain.is_async)

    def __next__(self) -> ReceivedMessage:
        """Commit the previous message and return the next one, waiting up to timeout_ms."""
        while True:
            message = self.take()
            if message is not None:
                return message
            if not self.fetch(self._timeout_ms):
                raise StopIteration

    def _make_fetching(self, positions: Mapping[int, int]) -> Fetching:
        return TransformingFetching(positions, self._transform)

    def _on_committed(self, offsets: Mapping[int, int]) -> None:
        if self._chain is not None:
            with unlimited():  # also for tasks that an interceptor starts, which inherit the context
                self._chain.commit(str(self._name), dict(offsets))


class TransformingFetching(Fetching):
    """Fetching that transforms each message when it is delivered."""

    def __init__(self, positions: Mapping[int, int], transform: Transform) -> None:
        super().__init__(positions)
        self._transform = transform
        self._transformed: dict[tuple[int, int], ReceivedMessage] = {}
        """Messages that were put back: they are transformed once."""

    def _change(self) -> ReceivedMessage | None:
        """Return the first message of the buffer, transformed."""
        first, partition, _ = self._buffer[0]
        if self._transformed and self._transformed.pop((partition, first.offset), None) is first:
            return first
        return self._transform(first)

    def undeliver(self, messages: Iterable[ReceivedMessage]) -> None:
        """Have messages returned again; see Fetching.undeliver()."""
        messages = list(messages)
        super().undeliver(messages)
        self._transformed.update(((message.partition, message.offset), message) for message in messages)

    def deliver(self) -> ReceivedMessage | None:
        """Return the next message, transformed, or None; those set aside are done."""
        while self._buffer:
            changed = self._change()
            super().deliver()
            if changed is not None:
                return changed
            self.finish()
        return None

    def hand_out(self, count: int, *, is_first: bool = False) -> list[ReceivedMessage]:
        """Return up to `count` messages, transformed; an error is raised when those before it have been returned."""
        self._begin_handing_out(is_first=is_first)
        messages: list[ReceivedMessage] = []
        while self._buffer and len(messages) < count:
            try:
                changed = self._change()
            except Exception:
                if messages:
                    break
                raise
            _, partition, next_offset = self._buffer.popleft()
            self._handed_out[partition] = next_offset
            if changed is not None:
                messages.append(changed)
        return messages
