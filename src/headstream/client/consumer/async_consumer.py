"""AsyncConsumer and AsyncTopicsConsumer: Consumer and TopicsConsumer for asyncio.

Both classes share all code except methods that take a topic name. Calls run in the consumer's thread, except for buffered
messages.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from headstream.client.arguments import ConsumerOptions, Milliseconds, StartInput
from headstream.client.checks import milliseconds
from headstream.client.consumer.base import DelayInput
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.filtering import FilterCounts
from headstream.client.consumer.listening import PartitionsCallback
from headstream.client.consumer.topics_consumer import TopicsConsumer
from headstream.client.worker import Worker, slices_ms
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import HeadstreamError, InvalidInputError

_T = TypeVar("_T")
_Reader = TypeVar("_Reader", bound=Consumer | TopicsConsumer)

_calling: Final[ContextVar[LoopCallbacks | None]] = ContextVar("_calling", default=None)
"""The LoopCallbacks whose callback runs in the current task; a call to the same consumer would deadlock."""


class LoopCallbacks:
    """Runs the callbacks of a consumer in the event loop, while the consumer's thread waits for them.

    Attributes:
        options: Options for Client.consumer(), with the user's callbacks replaced.
        is_used: Whether there is a callback.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self.options: ConsumerOptions = {**options}
        assigned, revoked = options.get("on_assigned"), options.get("on_revoked")
        if assigned is not None:
            self.options["on_assigned"] = self._wrap(assigned)
        if revoked is not None:
            self.options["on_revoked"] = self._wrap(revoked)
        self.is_used = assigned is not None or revoked is not None

    def use_loop(self) -> None:
        """Run callbacks in the current event loop; InvalidInputError if a callback calls this method."""
        if _calling.get() is self:
            raise InvalidInputError(
                "a callback used the consumer that called it",
                advice="Store the partitions in the callback, and use the consumer after the callback has returned",
            )
        self._loop = asyncio.get_running_loop()

    def _wrap(self, callback: PartitionsCallback) -> PartitionsCallback:
        async def call(topic: str, partitions: frozenset[int]) -> None:
            _calling.set(self)  # inherited by the tasks that the callback creates
            result = callback(topic, partitions)
            if inspect.isawaitable(result):
                await result

        def call_in_loop(topic: str, partitions: frozenset[int]) -> None:
            loop = self._loop
            if loop is not None and loop.is_running():  # otherwise the program is shutting down
                asyncio.run_coroutine_threadsafe(call(topic, partitions), loop).result()

        return call_in_loop


class _AsyncReading(Generic[_Reader]):
    """The shared part of AsyncConsumer and AsyncTopicsConsumer.

    Args:
        make: Creates the wrapped consumer at its first use.
        timeout_ms: Iteration ends after this time without a message; None waits without limit.
    """

    def __init__(
        self,
        make: Callable[[], _Reader],
        timeout_ms: float | None,
        interrupt: Callable[[int, bool], None],
        callbacks: LoopCallbacks,
    ) -> None:
        self._make = make
        self._timeout_ms = timeout_ms
        self._callbacks = callbacks
        self._consumer: _Reader | None = None
        self._worker = Worker("async consumer", interrupt)

    async def _opened(self) -> _Reader:
        if self._callbacks.is_used:
            self._callbacks.use_loop()
        if self._consumer is None:
            await self._worker.run(self._open)
        assert self._consumer is not None
        return self._consumer

    def _open(self) -> None:
        """Create the consumer, in the worker thread; if the call is cancelled, the next call uses this consumer."""
        if self._consumer is None:
            self._consumer = self._make()

    async def _in_slices(self, call: Callable[[float], _T], timeout_ms: float | None, put_back: Callable[[_T], object]) -> _T:
        """Call repeatedly with parts of the timeout until a result is returned; a cancellation takes effect between two calls."""
        loop = asyncio.get_running_loop()
        until_s = math.inf if timeout_ms is None else loop.time() + timeout_ms / 1000
        slices = slices_ms()
        while True:
            rest_ms = min(next(slices), (until_s - loop.time()) * 1000)
            found = await self._worker.take(functools.partial(call, max(0.0, rest_ms)), put_back)
            if found or rest_ms <= 0:
                return found

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Begin a loop; see Consumer.__iter__()."""
        if self._consumer is not None:
            iter(self._consumer)
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Commit the previous message and return the next message."""
        consumer = await self._opened()
        message: ReceivedMessage | None = None
        if consumer.is_ready and not (consumer.may_wait or self._callbacks.is_used or self._worker.is_busy):
            message = consumer.take()
        if message is None:  # also if a rebalance has revoked the buffered messages
            message = await self._in_slices(
                consumer.take_within, self._timeout_ms, lambda taken: consumer.put_back([] if taken is None else [taken])
            )
        if message is None:
            raise StopAsyncIteration
        return message

    async def poll(self, count: int = 100, *, timeout_ms: Milliseconds = 0) -> list[ReceivedMessage]:
        """Return up to `count` messages; see Consumer.poll()."""
        consumer = await self._opened()
        return await self._in_slices(
            lambda slice_ms: consumer.poll(count, timeout_ms=slice_ms), milliseconds("timeout_ms", timeout_ms), consumer.put_back
        )

    async def commit(self, message: Message | None = None) -> None:
        """Commit all delivered messages, or the messages up to one message; see Consumer.commit()."""
        await self._worker.run((await self._opened()).commit, message)

    async def ack(self, message: Message) -> None:
        """Record that a message is done; see Consumer.ack()."""
        await self._worker.run((await self._opened()).ack, message)

    async def retry(self, message: Message, *, delay: DelayInput | None = None, reason: str | BaseException = "") -> None:
        """Record that a message failed; see Consumer.retry()."""
        await self._worker.run(functools.partial((await self._opened()).retry, delay=delay, reason=reason), message)

    async def reject(self, message: Message, *, reason: str | BaseException = "") -> None:
        """Reject a message; see Consumer.reject()."""
        await self._worker.run(functools.partial((await self._opened()).reject, reason=reason), message)

    async def extend(self, message: Message, lease: DelayInput) -> None:
        """Extend the lease of a message; see Consumer.extend()."""
        await self._worker.run((await self._opened()).extend, message, lease)

    async def defer(self, message: Message) -> None:
        """Defer a message; see Consumer.defer()."""
        await self._worker.run((await self._opened()).defer, message)

    @asynccontextmanager
    async def attempting(self, message: Message) -> AsyncIterator[None]:
        """Return an `async with` context that records an Exception with retry(); see Consumer.attempting()."""
        consumer = await self._opened()
        context = consumer.attempting(message)
        context.__enter__()
        try:
            yield
        except Exception as error:
            if not await self._worker.run(context.__exit__, type(error), error, error.__traceback__):
                raise
        else:
            await self._worker.run(context.__exit__, None, None, None)

    async def run(self, handler: Callable[[ReceivedMessage], Any]) -> None:
        """Call a function, or await a coroutine function, with each message; see Consumer.run().

        If the handler is cancelled, its message is delivered again, and no failure is counted.
        """
        consumer = await self._opened()
        await self._worker.run(self._open)  # a cancelled call has then ended, and its message is settled
        message: ReceivedMessage | None = None
        is_done = False
        try:
            async for message in self:
                is_done, context = False, consumer.attempting(message)
                context.__enter__()
                try:
                    result = handler(message)
                    if inspect.isawaitable(result):
                        await result
                except Exception as error:
                    if not await self._worker.run(context.__exit__, type(error), error, error.__traceback__):
                        raise
                else:
                    is_done = True  # the loop records this when it requests the next message
        except asyncio.CancelledError:
            if message is not None:
                with suppress(HeadstreamError):  # the session or lease then expires
                    await self._worker.run(consumer.end_cancelled, message, is_done)
            raise

    async def close(self, *, commit: bool = True) -> None:
        """Close the consumer; see Consumer.close()."""
        await self._end(lambda consumer: consumer.close(commit=commit))

    async def _end(self, close: Callable[[_Reader], None]) -> None:
        if self._callbacks.is_used:
            self._callbacks.use_loop()
        if (self._consumer is not None or self._worker.is_busy) and not self._worker.is_closed:
            try:
                await self._worker.run(lambda: None if self._consumer is None else close(self._consumer))
            except Exception:  # after a cancellation, a second call resumes
                self._worker.close()
                raise
        self._worker.close()

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end(lambda consumer: consumer.__exit__(kind, error, traceback))


class AsyncConsumer(_AsyncReading[Consumer]):
    """Reads one topic. Created by AsyncClient.consumer(); use it in an `async with` statement."""

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset of the next message to fetch; empty before the consumer is entered or first used."""
        return {} if self._consumer is None else self._consumer.positions

    @property
    def filter_counts(self) -> FilterCounts:
        """The number of messages that the filter has examined, and the number of messages to which it could not be applied."""
        return FilterCounts(0, 0) if self._consumer is None else self._consumer.filter_counts

    async def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage:
        """Return a deferred message; see Consumer.fetch_deferred()."""
        consumer = await self._opened()
        return await self._worker.take(functools.partial(consumer.fetch_deferred, partition, offset), consumer.defer)

    async def seek(self, partition: int, offset: StartInput) -> None:
        """Continue at a different position in a partition; see Consumer.seek()."""
        await self._worker.run((await self._opened()).seek, partition, offset)


class AsyncTopicsConsumer(_AsyncReading[TopicsConsumer]):
    """Reads several topics and patterns. Created by AsyncClient.consumer(); use it in an `async with` statement."""

    @property
    def topics(self) -> list[str]:
        """The topics being read; empty before the consumer is entered or first used."""
        return [] if self._consumer is None else self._consumer.topics

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> offset of the next message to fetch; empty before the consumer is entered or first used."""
        return {} if self._consumer is None else self._consumer.positions

    async def fetch_deferred(self, topic: str, partition: int, offset: int) -> ReceivedMessage:
        """Return a deferred message of a topic; see Consumer.fetch_deferred().

        Args:
            topic: `stream/topic`.

        Raises:
            TopicNotFoundError: the consumer does not read the topic.
        """
        consumer = await self._opened()
        return await self._worker.take(lambda: consumer.consumer(topic).fetch_deferred(partition, offset), consumer.defer)

    async def seek(self, topic: str, partition: int, offset: StartInput) -> None:
        """Continue at a different position in a partition of a topic; see Consumer.seek().

        Args:
            topic: `stream/topic`.
            partition: A partition of the topic that the consumer reads.
            offset: See Consumer.seek().

        Raises:
            TopicNotFoundError: the consumer does not read the topic.
        """
        consumer = await self._opened()
        await self._worker.run(lambda: consumer.consumer(topic).seek(partition, offset))
