"""Producing: the client's calls that send messages."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from headstream.client.admin.numbered import find_topic_name
from headstream.client.arguments import MessageIdInput, PartitionInput
from headstream.client.checks import Milliseconds, check_whole, milliseconds
from headstream.client.producer.producer import Producer
from headstream.client.producer.receipts import Delivered
from headstream.client.producer.senders import Senders
from headstream.client.producer.sending import DEFAULT_LINGER_MS, SendingOptions
from headstream.client.transports.transport import Transport
from headstream.core.model.headers import HeadersInput
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Topic

if TYPE_CHECKING:
    from headstream.client.interception.interception import Interception
    from headstream.client.producer.encoding_producer import EncodingProducer
    from headstream.client.producer.forwarding import ForwardingProducer
    from headstream.serializers.serializer import Encode

__all__ = ["ProducerOptions", "Producing"]

_T = TypeVar("_T")


class ProducerOptions(TypedDict, total=False):
    """Keyword arguments of Client.producer()."""

    linger_ms: Milliseconds
    batch_bytes: int
    batch_count: int
    buffer_bytes: int
    delivery_timeout_ms: Milliseconds


class Producing:
    """The client's calls that send messages."""

    _interception: Interception | None

    def __init__(self) -> None:
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._senders = Senders(lambda topic: self._make_producer(topic, linger_ms=0))

    def _open_transport(self) -> Transport:
        raise NotImplementedError

    def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its partitions as of now."""
        raise NotImplementedError

    @overload
    def producer(self, topic: str | TopicName, **options: Unpack[ProducerOptions]) -> Producer: ...

    @overload
    def producer(
        self, topic: str | TopicName, *, encode: Encode[_T], **options: Unpack[ProducerOptions]
    ) -> EncodingProducer[_T]: ...

    def producer(
        self,
        topic: str | TopicName,
        *,
        encode: Encode[Any] | None = None,
        linger_ms: Milliseconds = DEFAULT_LINGER_MS,
        batch_bytes: int = 1 << 20,
        batch_count: int = 1000,
        buffer_bytes: int = 32 << 20,
        delivery_timeout_ms: Milliseconds = 120_000,
    ) -> Producer | EncodingProducer[Any]:
        """Return a producer, which sends messages to a topic in batches.

        Args:
            topic: `stream/topic`.
            encode: A serializer, as serializers.json(), or a function from a value to bytes: the producer then sends
                values instead of payloads.
            linger_ms: How long a message waits for its batch to fill, milliseconds or a timedelta; 0 sends it as soon as
                possible.
            batch_bytes: A batch of this size, bytes, is sent at once; 1 byte to 64 MiB.
            batch_count: A batch with this many messages is sent at once.
            buffer_bytes: Maximum unacknowledged bytes before send() blocks.
            delivery_timeout_ms: How long to retry a message, through broken connections and restarts of the server,
                milliseconds or a timedelta, at most an hour; then it fails, and an error carries it.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: an option is out of range.
        """
        options = SendingOptions(
            linger_ms=milliseconds("linger_ms", linger_ms),
            batch_bytes=check_whole("batch_bytes", batch_bytes),
            batch_count=check_whole("batch_count", batch_count),
            buffer_bytes=check_whole("buffer_bytes", buffer_bytes),
            delivery_timeout_ms=milliseconds("delivery_timeout_ms", delivery_timeout_ms),
        )
        transport, interception = self._open_transport(), self._interception
        found = self.topic(topic)
        producer = Producer(transport, found, options) if interception is None else interception.make_producer(found, options)
        self._producers.add(producer)
        if encode is None:
            return producer
        from headstream.client.producer.encoding_producer import EncodingProducer

        return EncodingProducer(producer, str(topic), encode)

    def forwarding_producer(self, topic: str | TopicName, *, linger_ms: Milliseconds = DEFAULT_LINGER_MS) -> ForwardingProducer:
        """Return a producer of messages that were stored elsewhere: it keeps reserved headers, and runs no interceptors.

        Args:
            topic: `stream/topic`.
            linger_ms: See producer().

        Raises:
            TopicNotFoundError: the topic does not exist.
        """
        from headstream.client.producer.forwarding import ForwardingProducer

        options = SendingOptions(linger_ms=milliseconds("linger_ms", linger_ms))
        producer = ForwardingProducer(self._open_transport(), self.topic(topic), options)
        self._producers.add(producer)
        return producer

    def _make_producer(self, topic: TopicName, **options: Unpack[ProducerOptions]) -> Producer:
        return self.producer(topic, **options)

    def send(
        self,
        topic: str | TopicName,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Delivered:
        """Send one message, and return its position once it is stored; for many messages a producer() is much cheaper.

        Args:
            topic: `stream/topic`.
            payload: See Producer.send().
            key: See Producer.send().
            headers: See Producer.send().
            id: See Producer.send().
            partition: See Producer.send().

        Raises:
            TopicNotFoundError: the topic does not exist.
            OutcomeUnknownError: it is unknown whether the message is stored.
            HeadstreamError: the message is not stored.
        """
        return self._senders.send(
            find_topic_name(self._open_transport(), topic),
            lambda producer: producer.send(payload, key=key, headers=headers, id=id, partition=partition),
        )
