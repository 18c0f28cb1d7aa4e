"""AsyncClient: the API of Client for asyncio.

An embedded log answers in microseconds, but disk I/O can be slow and consumers block. Calls therefore run in threads: one for the
client, and one for each producer and consumer. A call whose result is available immediately (space in a batch, a buffered
message) uses no thread. When a call is cancelled, it ends before the cancellation propagates, so that no work continues in
the background. If the server does not answer a cancelled call within two seconds, the connection is closed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from headstream.client.arguments import (
    ConsumerOptions,
    MessageIdInput,
    PartitionInput,
    ProducerOptions,
    StartInput,
    StatesInput,
    TopicOptionsInput,
    start_of,
)
from headstream.client.checks import check_consumer_options, milliseconds
from headstream.client.client import Client
from headstream.client.consumer.async_consumer import AsyncConsumer, AsyncTopicsConsumer, LoopCallbacks
from headstream.client.consumer.filtering import FilterPlan
from headstream.client.producer.async_producer import AsyncProducer
from headstream.client.producer.receipts import Delivered
from headstream.client.worker import Worker
from headstream.core.model.delivery_views import GroupDeliveries, MessageStory
from headstream.core.model.groups import Group
from headstream.core.model.headers import HeadersInput
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage, StateChange
from headstream.core.model.polling import OffsetOwner, PollingKind
from headstream.core.model.removals import Removal
from headstream.core.model.topology import ClusterStats, Stream, Topic

if TYPE_CHECKING:
    from headstream.client.admin.async_server import AsyncServer
    from headstream.client.consumer.async_decoding import AsyncDecodingConsumer, AsyncDecodingTopicsConsumer
    from headstream.client.producer.encoding_producer import AsyncEncodingProducer
    from headstream.serializers.serializer import Decode, Encode

__all__ = ["AsyncClient", "AsyncConsumer", "ConsumerOptions"]

_T = TypeVar("_T")


class PollOptions(TypedDict, total=False):
    """Keyword arguments of Client.poll()."""

    start: StartInput | None
    count: int
    states: StatesInput
    where: str | None
    on_filter_error: str
    consumer: str | OffsetOwner | None
    auto_commit: bool


class AsyncClient:
    """A log of streams and topics, for asyncio. Created by hs.connect_async(); use it in an `async with` statement.

    Args:
        client: The wrapped client, which close() also closes.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._worker = Worker("async client", client.interrupt)
        self._undelivered: dict[tuple[Any, ...], list[ReceivedMessage]] = {}
        """Messages that cancelled polls committed, by process and arguments; a forked child ignores its parent's messages."""

    async def open(self) -> None:
        """Connect to the server, if the log is on a server; `async with` and the first call also connect."""
        await self._worker.run(self._client.open)

    @property
    def server(self) -> AsyncServer:
        """Users, tokens, clients and statistics of the log's server; see Client.server."""
        from headstream.client.admin.async_server import AsyncServer

        return AsyncServer(self._client.server, self._worker)

    @property
    def identity(self) -> Awaitable[str | None]:
        """The UUID of this log, as `await log.identity`; None before the first write."""
        return self._worker.run(lambda: self._client.identity)

    @property
    def first_partition(self) -> int:
        """The number of the first partition of each topic: 1, or 0 in Kafka."""
        return self._client.first_partition

    async def cluster_stats(self) -> ClusterStats:
        """Return statistics of a Kafka cluster; see Client.cluster_stats()."""
        return await self._worker.run(self._client.cluster_stats)

    async def create_stream(self, name: str) -> Stream:
        """Create a stream; see Client.create_stream()."""
        return await self._worker.run(self._client.create_stream, name)

    async def stream(self, name: str) -> Stream:
        """Return a stream."""
        return await self._worker.run(self._client.stream, name)

    async def streams(self) -> list[Stream]:
        """Return all streams."""
        return await self._worker.run(self._client.streams)

    async def rename_stream(self, name: str, to: str) -> Stream:
        """Rename a stream; see Client.rename_stream()."""
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
        """Create a topic, and its stream if missing; see Client.create_topic()."""
        create = functools.partial(self._client.create_topic, limits=limits, fsync=fsync, if_not_exists=if_not_exists, **options)
        return await self._worker.run(create, name, partitions)

    async def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its current partitions."""
        return await self._worker.run(self._client.topic, name)

    async def topics(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all streams."""
        return await self._worker.run(self._client.topics, stream)

    async def delete_topic(self, name: str | TopicName) -> None:
        """Delete a topic with its messages and committed offsets."""
        await self._worker.run(self._client.delete_topic, name)

    async def update_topic(self, name: str | TopicName, **options: Unpack[TopicOptionsInput]) -> Topic:
        """Change options of a topic; see Client.update_topic()."""
        return await self._worker.run(functools.partial(self._client.update_topic, **options), name)

    async def rename_topic(self, name: str | TopicName, to: str) -> Topic:
        """Rename a topic within its stream; see Client.rename_topic()."""
        return await self._worker.run(self._client.rename_topic, name, to)

    async def purge_topic(self, name: str | TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; see Client.purge_topic()."""
        await self._worker.run(self._client.purge_topic, name)

    async def create_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Add partitions to a topic; see Client.create_partitions()."""
        return await self._worker.run(self._client.create_partitions, topic, count)

    async def delete_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Delete the highest-numbered partitions of a topic; see Client.delete_partitions()."""
        return await self._worker.run(self._client.delete_partitions, topic, count)

    @overload
    def producer(self, topic: str | TopicName, **options: Unpack[ProducerOptions]) -> AsyncProducer: ...

    @overload
    def producer(
        self, topic: str | TopicName, *, encode: Encode[_T], **options: Unpack[ProducerOptions]
    ) -> AsyncEncodingProducer[_T]: ...

    def producer(
        self, topic: str | TopicName, *, encode: Encode[Any] | None = None, **options: Unpack[ProducerOptions]
    ) -> AsyncProducer | AsyncEncodingProducer[Any]:
        """Return a producer for a topic; see Client.producer()."""
        producer = AsyncProducer(functools.partial(self._client.producer, topic, **options), self._client.interrupt)
        if encode is None:
            return producer
        from headstream.client.producer.encoding_producer import AsyncEncodingProducer

        return AsyncEncodingProducer(producer, str(topic), encode)

    async def send(
        self,
        topic: str | TopicName,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Delivered:
        """Send one message, and return its position once it is stored; see Client.send()."""
        send = functools.partial(self._client.send, key=key, headers=headers, id=id, partition=partition)
        return await self._worker.run(send, topic, payload)

    @overload
    def consumer(self, topic: str | TopicName, **options: Unpack[ConsumerOptions]) -> AsyncConsumer: ...

    @overload
    def consumer(self, topic: list[str], **options: Unpack[ConsumerOptions]) -> AsyncTopicsConsumer: ...

    @overload
    def consumer(
        self, topic: str | TopicName, *, decode: Decode[_T], **options: Unpack[ConsumerOptions]
    ) -> AsyncDecodingConsumer[_T]: ...

    @overload
    def consumer(
        self, topic: list[str], *, decode: Decode[_T], **options: Unpack[ConsumerOptions]
    ) -> AsyncDecodingTopicsConsumer[_T]: ...

    def consumer(
        self, topic: str | TopicName | list[str], *, decode: Decode[Any] | None = None, **options: Unpack[ConsumerOptions]
    ) -> AsyncConsumer | AsyncTopicsConsumer:
        """Return a consumer of one or several topics; see Client.consumer().

        Args:
            topic: `stream/topic`, or a list of names and patterns with `*`, `?` and `[...]`.
            decode: See Client.consumer().
            options: As for Client.consumer(). `on_assigned` and `on_revoked` run in the event loop and can be coroutine
                functions. These functions must not use the consumer that calls them.
        """
        callbacks = LoopCallbacks(check_consumer_options(options))
        given, interrupt = options.get("timeout_ms"), self._client.interrupt
        timeout_ms = None if given is None else milliseconds("timeout_ms", given)
        client: Any = self._client  # the overloads do not accept that decode can be None
        make = functools.partial(client.consumer, topic, decode=decode, **callbacks.options)
        consumer = AsyncConsumer if isinstance(topic, (str, TopicName)) else AsyncTopicsConsumer
        return consumer(make, timeout_ms, interrupt, callbacks)

    async def poll(
        self, topic: str | TopicName, partition: int | None = None, **options: Unpack[PollOptions]
    ) -> list[ReceivedMessage]:
        """Return messages of one partition or of all partitions, without waiting; see Client.poll().

        If a poll with `auto_commit` is cancelled after its commit, its messages are returned by the next poll of the same topic,
        partition, consumer and filter that starts at `next`.
        """
        poll = functools.partial(self._client.poll, topic, partition, **options)
        if not options.get("auto_commit"):
            return await self._worker.run(poll)
        place = os.getpid(), str(topic), partition, str(options.get("consumer")), options.get("where")
        return await self._worker.take(lambda: self._poll_kept(place, poll, options), functools.partial(self._keep, place))

    def _poll_kept(
        self, place: tuple[Any, ...], poll: Callable[[], list[ReceivedMessage]], options: PollOptions
    ) -> list[ReceivedMessage]:
        """Return messages of cancelled polls, else poll. Runs in the worker thread, after any cancelled poll has ended."""
        kept, start = self._undelivered.pop(place, []), options.get("start")
        if not kept or not (start is None or start_of(start).kind is PollingKind.NEXT):
            return poll()
        count = max(options.get("count", len(kept)), 1)
        self._keep(place, kept[count:])
        return kept[:count]

    def _keep(self, place: tuple[Any, ...], messages: list[ReceivedMessage]) -> None:
        if messages:
            self._undelivered[place] = messages + self._undelivered.get(place, [])

    async def explain_filter(
        self,
        where: str,
        topic: str | TopicName | None = None,
        *,
        states: StatesInput = ("available",),
        on_filter_error: str = "skip",
    ) -> FilterPlan:
        """Return how a filter is evaluated in this log; see Client.explain_filter()."""
        explain = functools.partial(self._client.explain_filter, states=states, on_filter_error=on_filter_error)
        return await self._worker.run(explain, where, topic)

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
        """Set the state of messages and record the reason; see Client.set_state()."""
        change = functools.partial(self._client.set_state, reason=reason, by=by)
        await self._worker.run(change, topic, partition, offsets, state)

    async def remove_marked(self, topic: str | TopicName, partition: int, *, reason: str) -> Removal:
        """Remove from the disk messages that are marked for deletion; see Client.remove_marked()."""
        return await self._worker.run(functools.partial(self._client.remove_marked, reason=reason), topic, partition)

    async def states(self, topic: str | TopicName, partition: int = 1) -> list[StateChange]:
        """Return all messages of a partition whose state is not `available`; see Client.states()."""
        return await self._worker.run(self._client.states, topic, partition)

    async def offsets(self, topic: str | TopicName, group: str | None = None, *, name: str | None = None) -> dict[int, int]:
        """Return the committed offsets of a group or of a single consumer; see Client.offsets()."""
        return await self._worker.run(self._client.offsets, topic, group, name=name)

    async def groups(self, topic: str | TopicName) -> list[Group]:
        """Return the consumer groups of a topic; see Client.groups()."""
        return await self._worker.run(self._client.groups, topic)

    async def group(self, topic: str | TopicName, name: str) -> Group:
        """Return one consumer group of a topic; see Client.group()."""
        return await self._worker.run(self._client.group, topic, name)

    async def group_deliveries(self, topic: str | TopicName, group: str) -> GroupDeliveries:
        """Return a group's counts of unfinished messages; see Client.group_deliveries()."""
        return await self._worker.run(self._client.group_deliveries, topic, group)

    async def message_story(self, topic: str | TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return the delivery history of one message in a group; see Client.message_story()."""
        return await self._worker.run(self._client.message_story, topic, group, partition, offset)

    async def seek_group(
        self, topic: str | TopicName, group: str, to: StartInput, *, partitions: Iterable[int] | None = None
    ) -> Group:
        """Set the committed offsets of a group that has no members; see Client.seek_group()."""
        return await self._worker.run(self._client.seek_group, topic, group, to, partitions=partitions)

    async def delete_group(self, topic: str | TopicName, name: str) -> None:
        """Delete a group and its committed offsets; see Client.delete_group()."""
        await self._worker.run(self._client.delete_group, topic, name)

    async def close(self) -> None:
        """Close the client, its producers and its consumers; see Client.close()."""
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
