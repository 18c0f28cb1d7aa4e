"""Member: one member of a handler's group. The member calls the handler for one message after another, in order."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headstream.client.arguments import ConsumerOptions
from headstream.client.async_client import AsyncClient
from headstream.client.consumer.async_consumer import AsyncConsumer, AsyncTopicsConsumer
from headstream.client.consumer.decoding import place_of
from headstream.client.producer.async_producer import AsyncProducer
from headstream.client.producer.encoding_producer import payload_encoder
from headstream.core.model.message import Message, ReceivedMessage
from headstream.handlers.signature import Signature

_log: Final = logging.getLogger("headstream.handlers")


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function with the arguments of App.consume()."""

    topic: str | list[str]
    signature: Signature
    options: ConsumerOptions
    concurrency: int
    produce: str | None
    encode: Any


class Member:
    """A loop over a consumer. The producer sends the handler's results; None if results are not sent."""

    def __init__(self, handler: Handler, log: AsyncClient, producer: AsyncProducer | None) -> None:
        self.handler = handler
        self._producer = producer
        self._encode: Callable[[Any], bytes | None] | None = None
        if handler.produce is not None:
            self._encode = payload_encoder(handler.produce, handler.encode)
        self._is_async = inspect.iscoroutinefunction(handler.signature.function)
        self._tries_again = handler.options.get("on_error") is not None or handler.options.get("mode") == "shared"
        self._is_busy = self._is_stopping = False
        self._task: asyncio.Task[None] | None = None
        client: Any = log  # the overloads do not accept that decode can be None, nor that the topic can be a list or a string
        self.consumer: AsyncConsumer | AsyncTopicsConsumer = client.consumer(
            handler.topic, decode=handler.signature.decode, **handler.options
        )

    def begin(self) -> asyncio.Task[None]:
        """Return the task that calls the handler. The consumer must be open."""
        self._task = asyncio.create_task(self._run(), name=self.handler.signature.where)
        return self._task

    def stop(self) -> None:
        """End after the handler's current message, or immediately if no message is in progress."""
        self._is_stopping = True
        if self._task is not None and not self._is_busy:
            self._task.cancel()

    async def _run(self) -> None:
        async with self.consumer as consumer:
            try:
                async for message in consumer:
                    self._is_busy = True
                    if self._tries_again:
                        async with consumer.attempting(message):
                            await self._handle(message)
                    else:
                        await self._handle(message)
                    self._is_busy = False
                    if self._is_stopping:
                        break
                    await asyncio.sleep(0)  # a handler that never awaits must not block the event loop
            except asyncio.CancelledError:
                if self._is_busy or not self._is_stopping:
                    raise  # the message is not committed

    async def _handle(self, message: ReceivedMessage) -> None:
        signature = self.handler.signature
        try:
            arguments = signature.arguments(message)
            if self._is_async:
                result = await signature.function(**arguments)
            else:
                result = await asyncio.to_thread(signature.function, **arguments)
            if self._producer is not None and result is not None:
                await self._send(self._producer, message, result)
        except Exception as error:
            if self._tries_again:
                failed = signature.where, message.attempt, place_of(message), error
                _log.warning("%s failed at attempt %d of %s: %s", *failed, exc_info=True)
            raise

    async def _send(self, producer: AsyncProducer, message: ReceivedMessage, result: Any) -> None:
        """Send a result and wait until it is stored; the message is committed afterwards."""
        assert self._encode is not None
        if isinstance(result, Message):
            await producer.send_and_wait(result.payload, key=result.key, headers=result.headers, id=result.id)
        else:
            await producer.send_and_wait(self._encode(result), key=message.key)
