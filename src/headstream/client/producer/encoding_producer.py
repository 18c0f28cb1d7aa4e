"""EncodingProducer and AsyncEncodingProducer: producers of values, returned by log.producer(topic, encode=…)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Generic, TypeVar

from headstream.client.arguments import MessageIdInput, PartitionInput
from headstream.client.checks import check_many
from headstream.client.producer.async_producer import AsyncProducer
from headstream.client.producer.outcomes import ProducerStats
from headstream.client.producer.producer import Producer
from headstream.client.producer.receipts import Delivered, Receipt
from headstream.core.model.headers import HeadersInput
from headstream.errors import InvalidInputError
from headstream.serializers.serializer import encoder_of, explain_failure

_T = TypeVar("_T")


class EncodingProducer(Generic[_T]):
    """Sends values to one topic; thread-safe if the encoder is. Created by Client.producer(); use it in a `with` statement.

    Args:
        topic: `stream/topic`, used in errors.
        encode: A Serializer, or a function from a value to bytes.

    Raises:
        InvalidOptionError: `encode` is neither a Serializer nor a function.
    """

    def __init__(self, producer: Producer, topic: str, encode: Any) -> None:
        self.producer = producer
        self._encode: Callable[[_T | None], bytes | None] = payload_encoder(topic, encode)

    def send(
        self,
        value: _T | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Receipt:
        """Encode a value and send it; for the other arguments see Producer.send().

        Args:
            value: None is sent as a null payload, which deletes the key in a topic with compaction.

        Raises:
            SerializerError: the value cannot be encoded; nothing was sent.
        """
        return self.producer.send(self._encode(value), key=key, headers=headers, id=id, partition=partition)

    def send_and_wait(
        self,
        value: _T | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Delivered:
        """Send one value without linger, and return its position once it is stored."""
        return self.send(value, key=key, headers=headers, id=id, partition=partition).result()

    def send_many(self, values: Iterable[_T]) -> list[Receipt]:
        """Send values in order; return their receipts in the same order."""
        return [self.send(value) for value in check_many("values", values)]

    def stats(self) -> ProducerStats:
        """Return the message counts by outcome."""
        return self.producer.stats()

    def flush(self) -> None:
        """Wait until all sent messages are stored; see Producer.flush()."""
        self.producer.flush()

    def close(self) -> None:
        """Flush and close; see Producer.close()."""
        self.producer.close()

    def __enter__(self) -> EncodingProducer[_T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.producer.__exit__(kind, error, traceback)


class AsyncEncodingProducer(Generic[_T]):
    """EncodingProducer for asyncio. Created by AsyncClient.producer(); use it in an `async with` statement."""

    def __init__(self, producer: AsyncProducer, topic: str, encode: Any) -> None:
        self.producer = producer
        self._encode: Callable[[_T | None], bytes | None] = payload_encoder(topic, encode)

    async def send(
        self,
        value: _T | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Receipt:
        """Encode a value and send it; see EncodingProducer.send() and AsyncProducer.send()."""
        return await self.producer.send(self._encode(value), key=key, headers=headers, id=id, partition=partition)

    async def send_and_wait(
        self,
        value: _T | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Delivered:
        """Send one value without linger, and return its position once it is stored."""
        return await (await self.send(value, key=key, headers=headers, id=id, partition=partition))

    async def send_many(self, values: Iterable[_T]) -> list[Receipt]:
        """Send values in order; return their receipts in the same order."""
        return [await self.send(value) for value in check_many("values", values)]

    async def stats(self) -> ProducerStats:
        """Return the message counts by outcome."""
        return await self.producer.stats()

    async def flush(self) -> None:
        """Wait until all sent messages are stored; see Producer.flush()."""
        await self.producer.flush()

    async def close(self) -> None:
        """Flush and close; see AsyncProducer.close()."""
        await self.producer.close()

    async def __aenter__(self) -> AsyncEncodingProducer[_T]:
        await self.producer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.producer.__aexit__(kind, error, traceback)


def payload_encoder(topic: str, encode: Any) -> Callable[[Any], bytes | None]:
    """Return the function that encodes a producer's values (None stays None); InvalidOptionError as EncodingProducer."""
    name, function = encoder_of(encode)

    def encode_payload(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            payload = function(value)
            if not isinstance(payload, bytes):
                raise InvalidInputError(f"the result is {type(payload).__name__}, not bytes")
        except Exception as error:
            advice = "The value was not sent: correct the value, or use another serializer"
            raise explain_failure(error, "encoded", name, where=topic, advice=advice) from error
        return payload

    return encode_payload
