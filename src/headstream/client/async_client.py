"""AsyncClient: the same names, awaited.

An embedded log answers in microseconds, but a disk may take its time, and a consumer waits: so calls run in a thread,
one for the client and one for each producer and consumer, and what is there already (room in a batch, a message that
was fetched) is taken without a thread. A cancelled call ends before its cancellation goes on, so that nothing runs
behind the caller's back; where a server does not answer, its connection is given up after two seconds.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict, Unpack

from headstream.client.arguments import ConsumerOptions, MessageIdInput, StartInput, StatesInput, TopicOptionsInput
from headstream.client.async_producer import AsyncProducer, ProducerOptions
from headstream.client.client import Client
from headstream.client.consumer import Consumer
from headstream.client.receipts import Delivered
from headstream.client.worker import Worker, slices_ms
from headstream.model.groups import Group
from headstream.model.headers import HeadersInput
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, ReceivedMessage, StateChange
from headstream.model.polling import Consumer as Committer
from headstream.model.topology import Stream, Topic

if TYPE_CHECKING:
    from headstream.client.async_server import AsyncServer

__all__ = ["AsyncClient", "AsyncConsumer", "ConsumerOptions"]


class PollOptions(TypedDict, total=False):
    """What Client.poll() takes."""

    start: StartInput | None
    count: int
    states: StatesInput
    consumer: str | Committer | None
    auto_commit: bool


class AsyncConsumer:
    """Reads one topic. Made by AsyncClient.consumer(); use it in an `async with` statement.

    Args:
        make: Makes the consumer behind it, at the first use.
        timeout_ms: Iteration ends after so long without a message; None waits for ever.
        interrupt: See Worker.
    """

    def __init__(self, make: Callable[[], Consumer], timeout_ms: float | None, interrupt: Callable[[int], None]) -> None:
        self._make = make
        self._timeout_ms = timeout_ms
        self._consumer: Consumer | None = None
        self._worker = Worker("async consumer", interrupt)

    async def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = await self._worker.run(self._make)
        return self._consumer

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset of the next message to fetch; nothing before it is entered or first used."""
        return {} if self._consumer is None else self._consumer.positions

    async def _fetch(self, consumer: Consumer, timeout_ms: float | None) -> bool:
        """Have messages ready, in slices of time that a cancellation can end."""
        loop = asyncio.get_running_loop()
        until = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        for slice_ms in slices_ms():
            rest_ms = slice_ms if until is None else min(slice_ms, (until - loop.time()) * 1000)
            if consumer.is_ready or await self._worker.run(consumer.fetch, max(0, rest_ms)):
                return True
            if rest_ms <= 0:
                break
        return False

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Return the next message, having committed the one before."""
        consumer = await self._opened()
        while True:
            if consumer.is_ready:  # a rebalance may have taken what was ready
                message = await self._worker.run(consumer.take) if consumer.may_wait else consumer.take()
                if message is not None:
                    return message
            else:
                await self._worker.run(consumer.finish)
            if not await self._fetch(consumer, self._timeout_ms):
                raise StopAsyncIteration

    async def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[ReceivedMessage]:
        """Return up to so many messages; see Consumer.poll()."""
        consumer = await self._opened()
        await self._fetch(consumer, timeout_ms)
        return await self._worker.run(consumer.poll, count)

    async def commit(self, message: Message | None = None) -> None:
        """Commit everything that was delivered until now, or up to one message; see Consumer.commit()."""
        await self._worker.run((await self._opened()).commit, message)

    async def seek(self, partition: int, offset: StartInput) -> None:
        """Go on from another place in a partition; see Consumer.seek()."""
        await self._worker.run((await self._opened()).seek, partition, offset)

    async def close(self, *, commit: bool = True) -> None:
        """End; see Consumer.close()."""
        if self._consumer is not None and not self._worker.is_closed:
            await self._worker.run(self._consumer.close, commit=commit)
        self._worker.close()

    async def __aenter__(self) -> AsyncConsumer:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(commit=error is None)


class AsyncClient:
    """A log of streams and topics, awaited. Made by hs.connect_async(); use it in an `async with` statement.

    Args:
        client: The client behind it; this one closes it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._worker = Worker("async client", client.interrupt)

    async def open(self) -> None:
        """Connect to the server that is behind it, if one is; entering `async with` does, and so does the first call."""
        await self._worker.run(self._client.open)

    @property
    def server(self) -> AsyncServer:
        """Users, tokens, clients and statistics of the server that is behind it; see Client.server."""
        from headstream.client.async_server import AsyncServer

        return AsyncServer(self._client.server, self._worker)

    @property
    def identity(self) -> Awaitable[str | None]:
        """The UUID that tells this log from every other, or None before its first write: `await log.identity`."""
        return self._worker.run(lambda: self._client.identity)

    async def create_stream(self, name: str) -> Stream:
        """Make a stream; see Client.create_stream()."""
        return await self._worker.run(self._client.create_stream, name)

    async def stream(self, name: str) -> Stream:
        """Return a stream."""
        return await self._worker.run(self._client.stream, name)

    async def streams(self) -> list[Stream]:
        """Return all streams."""
        return await self._worker.run(self._client.streams)

    async def rename_stream(self, name: str, to: str) -> Stream:
        """Give a stream another name; see Client.rename_stream()."""
        return await self._worker.run(self._client.rename_stream, name, to)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream with all its topics."""
        await self._worker.run(self._client.delete_stream, name)

    async def create_topic(
        self,
        name: str | TopicName,
        partitions: int = 1,
        *,
        limits: str = "iggy",
        fsync: str = "interval",
        if_not_exists: bool = False,
        **options: Unpack[TopicOptionsInput],
    ) -> Topic:
        """Make a topic, and its stream where there is none; see Client.create_topic()."""
        create = functools.partial(self._client.create_topic, limits=limits, fsync=fsync, if_not_exists=if_not_exists, **options)
        return await self._worker.run(create, name, partitions)

    async def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its partitions as they are now."""
        return await self._worker.run(self._client.topic, name)

    async def topics(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all."""
        return await self._worker.run(self._client.topics, stream)

    async def delete_topic(self, name: str | TopicName) -> None:
        """Delete a topic with its messages and offsets."""
        await self._worker.run(self._client.delete_topic, name)

    async def update_topic(self, name: str | TopicName, **options: Unpack[TopicOptionsInput]) -> Topic:
        """Change what a topic keeps and takes; see Client.update_topic()."""
        return await self._worker.run(functools.partial(self._client.update_topic, **options), name)

    async def rename_topic(self, name: str | TopicName, to: str) -> Topic:
        """Give a topic another name in its stream; see Client.rename_topic()."""
        return await self._worker.run(self._client.rename_topic, name, to)

    async def purge_topic(self, name: str | TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; see Client.purge_topic()."""
        await self._worker.run(self._client.purge_topic, name)

    async def create_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Add partitions to a topic; see Client.create_partitions()."""
        return await self._worker.run(self._client.create_partitions, topic, count)

    async def delete_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Delete the highest numbered partitions of a topic; see Client.delete_partitions()."""
        return await self._worker.run(self._client.delete_partitions, topic, count)

    def producer(self, topic: str | TopicName, **options: Unpack[ProducerOptions]) -> AsyncProducer:
        """Return what sends messages to a topic; see Client.producer()."""
        return AsyncProducer(functools.partial(self._client.producer, topic, **options), self._client.interrupt)

    async def send(
        self,
        topic: str | TopicName,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: int | None = None,
    ) -> Delivered:
        """Send one message, and return where it is once it is stored; see Client.send()."""
        send = functools.partial(self._client.send, key=key, headers=headers, id=id, partition=partition)
        return await self._worker.run(send, topic, payload)

    def consumer(self, topic: str | TopicName, **options: Unpack[ConsumerOptions]) -> AsyncConsumer:
        """Return what reads a topic; see Client.consumer()."""
        make = functools.partial(self._client.consumer, topic, **options)
        return AsyncConsumer(make, options.get("timeout_ms"), self._client.interrupt)

    async def poll(
        self, topic: str | TopicName, partition: int | None = None, **options: Unpack[PollOptions]
    ) -> list[ReceivedMessage]:
        """Return messages of one partition or of all, without waiting for any; see Client.poll()."""
        return await self._worker.run(functools.partial(self._client.poll, **options), topic, partition)

    async def set_state(
        self,
        topic: str | TopicName,
        partition: int,
        offsets: int | Iterable[int],
        state: str | int,
        *,
        reason: str = "",
        by: str = "",
    ) -> None:
        """Set the state of messages, and record why; see Client.set_state()."""
        change = functools.partial(self._client.set_state, reason=reason, by=by)
        await self._worker.run(change, topic, partition, offsets, state)

    async def states(self, topic: str | TopicName, partition: int = 1) -> list[StateChange]:
        """Return every message of a partition that is not available; see Client.states()."""
        return await self._worker.run(self._client.states, topic, partition)

    async def offsets(self, topic: str | TopicName, group: str | None = None, *, name: str | None = None) -> dict[int, int]:
        """Return where a group, or a single consumer, goes on; see Client.offsets()."""
        return await self._worker.run(self._client.offsets, topic, group, name=name)

    async def groups(self, topic: str | TopicName) -> list[Group]:
        """Return the consumer groups of a topic; see Client.groups()."""
        return await self._worker.run(self._client.groups, topic)

    async def group(self, topic: str | TopicName, name: str) -> Group:
        """Return one consumer group of a topic; see Client.group()."""
        return await self._worker.run(self._client.group, topic, name)

    async def seek_group(
        self, topic: str | TopicName, group: str, to: StartInput, *, partitions: Iterable[int] | None = None
    ) -> Group:
        """Say where a group that nobody reads for goes on; see Client.seek_group()."""
        return await self._worker.run(self._client.seek_group, topic, group, to, partitions=partitions)

    async def delete_group(self, topic: str | TopicName, name: str) -> None:
        """Forget everything a group has committed; see Client.delete_group()."""
        await self._worker.run(self._client.delete_group, topic, name)

    async def close(self) -> None:
        """Close it and all that was made from it; see Client.close()."""
        if not self._worker.is_closed:
            await self._worker.run(self._client.close)
        self._worker.close()

    async def __aenter__(self) -> AsyncClient:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
