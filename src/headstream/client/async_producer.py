"""AsyncProducer: Producer's names, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import ParamSpec, TypedDict, TypeVar

from headstream.client.arguments import MessageIdInput
from headstream.client.outcomes import ProducerStats
from headstream.client.producer import Producer
from headstream.client.receipts import Delivered, Receipt
from headstream.client.worker import Worker, slices_ms
from headstream.model.headers import HeadersInput
from headstream.model.message import Message

__all__ = ["AsyncProducer", "ProducerOptions"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ProducerOptions(TypedDict, total=False):
    """What Client.producer() takes."""

    linger_ms: float
    batch_bytes: int
    batch_count: int
    buffer_bytes: int
    delivery_timeout_ms: float


class AsyncProducer:
    """Sends messages to one topic. Made by AsyncClient.producer(); use it in an `async with` statement.

    Args:
        make: Makes the producer behind it, at the first use.
        interrupt: See Worker.
    """

    def __init__(self, make: Callable[[], Producer], interrupt: Callable[[int], None]) -> None:
        self._make = make
        self._producer: Producer | None = None
        self._worker = Worker("async producer", interrupt)

    async def _opened(self) -> Producer:
        if self._producer is None:
            self._producer = await self._worker.run(self._make)
        return self._producer

    async def send(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: int | None = None,
    ) -> Receipt:
        """Send one message; see Producer.send().

        What is awaited is room in the producer's buffer, which mostly is there at once: the message is on its way then,
        not yet stored. `await` the receipt that is returned, or send_and_wait(), for that.
        """
        producer = await self._opened()
        if producer.is_full:
            return await self._run(producer, producer.send, payload, key=key, headers=headers, id=id, partition=partition)
        return producer.send(payload, key=key, headers=headers, id=id, partition=partition)

    async def send_and_wait(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: int | None = None,
    ) -> Delivered:
        """Send one message without waiting for others to go with, and return where it is once it is stored.

        Where this is cancelled, the message is on its way nevertheless.
        """
        return await (await self.send(payload, key=key, headers=headers, id=id, partition=partition))

    async def send_many(self, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Send messages one after the other, and return their receipts in the same order; see Producer.send_many()."""
        receipts = []
        for each in messages:
            if isinstance(each, Message):
                receipts.append(
                    await self.send(each.payload, key=each.key, headers=each.headers, id=each.id, partition=each.partition)
                )
            else:
                receipts.append(await self.send(each))
        return receipts

    async def stats(self) -> ProducerStats:
        """Return what has become of the messages that were sent until now; see Producer.stats()."""
        return (await self._opened()).stats()

    async def flush(self) -> None:
        """Return when all that was sent is stored; see Producer.flush()."""
        producer = await self._opened()
        if self._worker.is_closed:
            producer.flush()  # which says that it is closed
        await self._flush(producer)

    async def close(self) -> None:
        """Flush and end; see Producer.close(). Where it was cancelled, closing again goes on."""
        producer = self._producer
        if producer is not None and not self._worker.is_closed:
            try:
                await self._flush(producer)
            except Exception:
                await self._worker.run(producer.close)
                self._worker.close()
                raise
            await self._worker.run(producer.close)
        self._worker.close()

    async def _flush(self, producer: Producer) -> None:
        """Flush in slices of time that a cancellation can end."""
        for slice_ms in slices_ms():
            if await self._run(producer, producer.flush_within, slice_ms / 1000):
                return

    async def _run(self, producer: Producer, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await self._worker.run(call, *args, **kwargs)
        except asyncio.CancelledError:
            producer.raise_again()
            raise

    async def __aenter__(self) -> AsyncProducer:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close()
        except Exception as also:
            error.add_note(f"Closing the producer failed too: {also}")
