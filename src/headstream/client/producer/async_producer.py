"""AsyncProducer: the API of Producer for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import ParamSpec, TypeVar, cast

from headstream.client.arguments import MessageIdInput, PartitionInput
from headstream.client.checks import check_many
from headstream.client.producer.outcomes import ProducerStats
from headstream.client.producer.producer import Producer
from headstream.client.producer.receipts import Delivered, Receipt
from headstream.client.worker import Worker, slices_ms
from headstream.core.model.headers import HeadersInput
from headstream.core.model.message import Message

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncProducer:
    """Sends messages to one topic. Created by AsyncClient.producer(); use it in an `async with` statement.

    Args:
        make: Creates the wrapped producer at its first use.
        interrupt: See Worker.
    """

    def __init__(self, make: Callable[[], Producer], interrupt: Callable[[int, bool], None]) -> None:
        self._make = make
        self._producer: Producer | None = None
        self._worker = Worker("async producer", interrupt)

    async def _opened(self) -> Producer:
        if self._producer is None:
            await self._worker.run(self._open)
        assert self._producer is not None
        return self._producer

    def _open(self) -> None:
        """Create the producer, in the worker thread; if the call is cancelled, the next call uses this producer."""
        if self._producer is None:
            self._producer = self._make()

    async def send(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Receipt:
        """Send one message; see Producer.send().

        Awaits space in the producer's buffer, which is usually available immediately. The message is then buffered, not yet
        stored. To wait until the message is stored, `await` the returned receipt or use send_and_wait(). If send() is cancelled
        while it awaits space, the message is not sent.
        """
        producer = await self._opened()
        for slice_ms in slices_ms():
            if not producer.is_full:
                return producer.send(payload, key=key, headers=headers, id=id, partition=partition)
            if await self._run(producer, producer.wait_for_room, slice_ms / 1000):
                break
        if producer.is_full:  # asynchronous interceptors need the thread even if the buffer has space
            return await self._run(producer, producer.send, payload, key=key, headers=headers, id=id, partition=partition)
        return producer.send(payload, key=key, headers=headers, id=id, partition=partition)

    async def send_and_wait(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Delivered:
        """Send one message without linger, and return its position once it is stored.

        A cancellation does not revoke the message.
        """
        return await (await self.send(payload, key=key, headers=headers, id=id, partition=partition))

    async def send_many(self, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Send messages in order; return their receipts in the same order. See Producer.send_many()."""
        receipts = []
        for each in check_many("messages", messages):
            if isinstance(each, Message):
                receipts.append(
                    await self.send(each.payload, key=each.key, headers=each.headers, id=each.id, partition=each.partition)
                )
            else:
                receipts.append(await self.send(each))
        return receipts

    async def stats(self) -> ProducerStats:
        """Return the message counts by outcome; see Producer.stats()."""
        return (await self._opened()).stats()

    async def flush(self) -> None:
        """Wait until all sent messages are stored; see Producer.flush()."""
        producer = await self._opened()
        if self._worker.is_closed:
            producer.flush()  # which raises ClosedError
        await self._flush(producer)

    async def close(self) -> None:
        """Flush and close; see Producer.close(). After a cancellation, a second call continues closing."""
        producer = self._producer
        if producer is not None and not self._worker.is_closed and not producer.is_parents:
            try:
                await self._flush(producer)
            except Exception:
                await self._worker.run(producer.close)
                self._worker.close()
                raise
            await self._worker.run(producer.close)
        self._worker.close()

    async def _flush(self, producer: Producer) -> None:
        """Flush in time slices; a cancellation takes effect between two slices."""
        for slice_ms in slices_ms():
            if await self._run(producer, producer.flush_within, slice_ms / 1000):
                return

    async def _run(self, producer: Producer, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a call in the worker thread; the next call raises the error of a cancelled call."""
        raised: list[Exception] = []

        def attempt() -> _T | None:
            try:
                return call(*args, **kwargs)
            except Exception as error:
                raised.append(error)
                return None

        def undo(_: _T | None) -> None:
            for error in raised:
                producer.raise_again(error)

        result = await self._worker.take(attempt, undo)
        if raised:
            raise raised[0]
        return cast(_T, result)

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
