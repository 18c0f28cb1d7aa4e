"""Client: the result of hs.connect(), over any transport."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from headstream.client.admin.numbered import find_stream_name, find_topic_name
from headstream.client.arguments import (
    ConsumerOptions,
    MessageIdInput,
    Milliseconds,
    PartitionInput,
    ProducerOptions,
    StartInput,
    StatesInput,
    TopicOptionsInput,
    committer_of,
    fsync_of,
    limits_of,
    start_of,
    state_codes,
    topic_name,
)
from headstream.client.checks import (
    check_consumer_options,
    check_many,
    check_names,
    check_text,
    check_topic_options,
    check_whole,
    milliseconds,
)
from headstream.client.closing import closing
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.consumers import make_consumer, timeout_of
from headstream.client.consumer.filtering import FilterPlan, make_filter, plan_filter
from headstream.client.consumer.positions import find_offset
from headstream.client.consumer.receiving import poll_topic
from headstream.client.consumer.topics_consumer import TopicsConsumer, is_pattern
from headstream.client.producer.producer import Producer
from headstream.client.producer.receipts import Delivered
from headstream.client.producer.senders import Senders
from headstream.client.producer.sending import DEFAULT_LINGER_MS, SendingOptions
from headstream.client.transports.delivery_transport import find_views
from headstream.client.transports.transport import ClusterCounts, KeyPartitioning, RemoteAccess, Transport
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.delivery_views import GroupDeliveries, MessageStory
from headstream.core.model.groups import Group
from headstream.core.model.headers import HeadersInput
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage, StateChange, parse_state
from headstream.core.model.polling import OffsetOwner, PollingKind
from headstream.core.model.removals import Removal
from headstream.core.model.topology import ClusterStats, NewTopic, Stream, Topic, TopicOptions
from headstream.errors import ClosedError, InvalidOptionError, InvalidUrlError, UnsupportedError
from headstream.forks import closed_by_fork, register_for_forks

if TYPE_CHECKING:
    from headstream.client.consumer.decoding import DecodingConsumer, DecodingTopicsConsumer
    from headstream.client.consumer.fetching import Transform
    from headstream.client.interception.interception import Interception
    from headstream.client.producer.encoding_producer import EncodingProducer
    from headstream.client.producer.forwarding import ForwardingProducer
    from headstream.client.transports.remote.server import Server
    from headstream.interceptors.chain import Chain
    from headstream.serializers.serializer import Decode, Encode

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Consumer | Producer)


class Client:
    """A log of streams and topics; thread-safe. Created by hs.connect(); use it in a `with` statement, or call close().

    A topic is named `stream/topic` everywhere.

    Args:
        transport: The embedded broker or a connection to a server; the client closes it.
        server: The administration API, if the log is on a server.
        chain: The interceptors, or None.
    """

    def __init__(self, transport: Transport, server: Server | None = None, chain: Chain | None = None) -> None:
        self._interception = None if chain is None else _intercept(transport, chain)
        self._transport = transport
        self._server = server
        self._is_closed = self._is_parents = False
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._senders = Senders(lambda topic: self.producer(topic, linger_ms=0))
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: leave an embedded log to the parent process, or open new connections to the server."""
        if not isinstance(self._transport, RemoteAccess):
            self._is_parents = self._is_closed = True

    @property
    def identity(self) -> str | None:
        """The UUID of this log; None before the first write."""
        return self._open_transport().identity

    @property
    def has_interceptors(self) -> bool:
        """Whether this client has interceptors for messages."""
        return self._interception is not None

    @property
    def first_partition(self) -> int:
        """The number of the first partition of each topic: 1, or 0 in Kafka."""
        transport = self._open_transport()
        return transport.first_partition if isinstance(transport, KeyPartitioning) else 1

    def open(self) -> None:
        """Connect to the server, if the log is on a server; hs.connect() calls this method.

        Raises:
            ServerUnreachableError: the server cannot be reached.
            AuthenticationError: the user is unknown or the password is wrong.
        """
        if isinstance(self._transport, RemoteAccess):
            self._transport.open()

    def interrupt(self, thread: int, is_over: bool = False) -> None:
        """Interrupt a thread's call that waits for a server; the call fails as if the connection had broken.

        Args:
            thread: Thread identifier, as returned by threading.get_ident().
            is_over: Whether the interrupted call has ended, so that the interrupt must not affect the thread's next call.
        """
        if isinstance(self._transport, RemoteAccess):
            self._transport.interrupt(thread, is_over)

    @property
    def server(self) -> Server:
        """Users, tokens, clients and statistics of the log's server.

        Raises:
            InvalidUrlError: the log is embedded.
            UnsupportedError: the log is in Kafka.
        """
        if isinstance(self._open_transport(), ClusterCounts):
            raise UnsupportedError(
                "this client cannot administer the users, tokens and connections of Kafka",
                where="kafka://",
                advice="Use Kafka's own tools, and log.cluster_stats() for the counts of the cluster",
            )
        if self._server is None:
            raise InvalidUrlError(
                "this log is embedded and has no server",
                advice="Start `headstream server`, and connect to headstream://user:password@host:8090",
            )
        return self._server

    def cluster_stats(self) -> ClusterStats:
        """Return statistics of a Kafka cluster; for a server use log.server.stats().

        Raises:
            UnsupportedError: the log is not in Kafka.
        """
        transport = self._open_transport()
        if not isinstance(transport, ClusterCounts):
            raise UnsupportedError("the log is not in a Kafka cluster", advice="Use log.server.stats() for a server's counts")
        return transport.stats()

    def _open_transport(self) -> Transport:
        if self._is_parents:
            raise closed_by_fork("log")
        if self._is_closed:
            raise ClosedError("the log is closed", advice="Connect again")
        return self._transport

    @property
    def transport(self) -> Transport:
        """The transport's commands, for tools. This interface is not stable: it can change in any version."""
        return self._open_transport()

    # -- streams, topics, partitions ----------------------------------------------------------------------------------

    def create_stream(self, name: str) -> Stream:
        """Create a stream.

        Args:
            name: Must not contain a dot or slash.

        Raises:
            AlreadyExistsError: the name is taken.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().streams.create(name)

    def stream(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError if it does not exist."""
        transport = self._open_transport()
        return transport.streams.get(find_stream_name(transport, name))

    def streams(self) -> list[Stream]:
        """Return all streams, in the order of their ids."""
        return self._open_transport().streams.list()

    def rename_stream(self, name: str, to: str) -> Stream:
        """Rename a stream, and return it.

        Existing producers, consumers and Spark queries use the old name, and fail after the change.

        Args:
            to: The new name; must not contain a dot or slash.

        Raises:
            StreamNotFoundError: the stream does not exist.
            AlreadyExistsError: another stream has this name.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        transport.streams.rename(find_stream_name(transport, name), to)
        return self.stream(to)

    def delete_stream(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError if it does not exist."""
        transport = self._open_transport()
        transport.streams.delete(find_stream_name(transport, name))

    def create_topic(
        self,
        name: str | TopicName,
        partitions: int = 1,
        *,
        limits: str = "iggy",
        fsync: str = "interval",
        if_not_exists: bool = False,
        **options: Unpack[TopicOptionsInput],
    ) -> Topic:
        """Create a topic, and its stream if missing.

        Args:
            name: `stream/topic`.
            partitions: 1 to 1000.
            limits: `iggy`: every Iggy client can read all messages; `wide`: payloads and header values can also be empty or null.
            fsync: When messages are synced to disk: `always`: before they are acknowledged; `interval`: within a second; `never`:
                when the operating system writes them. A power failure can lose acknowledged messages that are not synced.
            if_not_exists: Whether to return an existing topic with this name unchanged.
            options: See update_topic(): retention_us, retention_bytes, compaction_delay_us, deduplication_count, summary_headers,
                deletion_grace_us, legal_hold, kafka_headers. Omitted options are off; deletion_grace_us defaults to a week.

        Raises:
            AlreadyExistsError: the name is taken.
            InvalidOptionError: `partitions`, `limits`, `fsync` or an option is invalid.
            LogLockedError: another process is the writer of an embedded log.
        """
        chosen, policy = limits_of(limits, str(name)), fsync_of(fsync, str(name))
        transport = self._open_transport()
        return transport.topics.create(
            NewTopic(
                topic_name(name, transport),
                check_whole("partitions", partitions),
                chosen,
                fsync=policy,
                options=TopicOptions(**check_topic_options(options)),
            ),
            if_not_exists=if_not_exists,
        )

    def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its current partitions; TopicNotFoundError if it does not exist."""
        transport = self._open_transport()
        return transport.topics.get(find_topic_name(transport, name))

    def topics(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all streams."""
        transport = self._open_transport()
        return transport.topics.list(None if stream is None else find_stream_name(transport, stream))

    def delete_topic(self, name: str | TopicName) -> None:
        """Delete a topic with its messages and committed offsets; TopicNotFoundError if it does not exist."""
        transport = self._open_transport()
        transport.topics.delete(find_topic_name(transport, name))

    def update_topic(self, name: str | TopicName, **options: Unpack[TopicOptionsInput]) -> Topic:
        """Change options of a topic, and return it; omitted options stay unchanged, and None disables an option.

        Retention deletes whole segment files in the background, never the active file. Each partition can exceed a limit by up to
        one file.

        Args:
            name: `stream/topic`.
            options: By name:
                retention_us: Maximum age of messages, microseconds; older messages are deleted.
                retention_bytes: Maximum size of all partitions together, bytes; above it, the oldest messages are deleted.
                compaction_delay_us: Retain only the last message per key; every message must have a key. A message with a null
                    payload deletes its key, and is removed after this delay, 0 or more microseconds.
                deduplication_count: Number of newest messages per partition in which a message id must be unique, 1 to
                    10,000,000; a message with a repeated id is dropped.
                summary_headers: Names of at most 8 headers, as a list or separated by commas. Their values are summarized for
                    each closed segment file, so that filters skip files that lack the searched value.
                deletion_grace_us: Time until messages marked for deletion are removed from the disk, microseconds; None: never.
                legal_hold: Whether to keep all messages; no operation then removes messages.
                kafka_headers: Header convention for Kafka clients of the server: `headstream` (the default), `spring`, `connect`,
                    `connect-json`, `cloudevents` or `raw`.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: a number is out of range or a header name is invalid.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        return transport.topics.update(find_topic_name(transport, name), **check_topic_options(options))

    def rename_topic(self, name: str | TopicName, to: str) -> Topic:
        """Rename a topic within its stream, and return it.

        Existing producers, consumers and Spark queries use the old name, and fail after the change. Committed offsets are kept.

        Args:
            name: `stream/topic`.
            to: The topic's new name, without the stream.

        Raises:
            TopicNotFoundError: the topic does not exist.
            AlreadyExistsError: another topic of the stream has this name.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        old = find_topic_name(transport, name)
        transport.topics.rename(old, to)
        return self.topic(TopicName(old.stream, to))

    def purge_topic(self, name: str | TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; the next message gets offset 0.

        Consumers of the topic raise OffsetOutOfRangeError and must call seek() to continue.

        Raises:
            TopicNotFoundError: the topic does not exist.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        transport.topics.purge(find_topic_name(transport, name))

    def create_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Add partitions to a topic, and return the changed topic.

        Existing producers, and existing consumers without a group, use only the old partitions; consumers of a group also read
        the new partitions. Afterwards, a key can map to a different partition.

        Args:
            count: Number of partitions to add, at least 1.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: the topic would have more than 1000 partitions.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        return transport.partitions.create(find_topic_name(transport, topic), check_whole("count", count))

    def delete_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Delete the highest-numbered partitions of a topic, with their messages, and return the changed topic.

        Args:
            count: Number of partitions to delete; at least one must remain.

        Raises:
            TopicNotFoundError: the topic does not exist.
            InvalidOptionError: no partition would remain.
            LogLockedError: another process is the writer of an embedded log.
        """
        transport = self._open_transport()
        return transport.partitions.delete(find_topic_name(transport, topic), check_whole("count", count))

    # -- sending ------------------------------------------------------------------------------------------------------

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
        """Return a producer that sends messages to a topic in batches.

        Args:
            encode: A serializer, such as serializers.json(), or a function from a value to bytes; the producer then accepts
                values.
            linger_ms: Maximum time that a message waits for its batch to fill, milliseconds or a timedelta; 0 sends immediately.
            batch_bytes: Size at which a batch is sent immediately, bytes; 1 byte to 64 MiB.
            batch_count: Number of messages at which a batch is sent immediately.
            buffer_bytes: Maximum unacknowledged bytes before send() blocks.
            delivery_timeout_ms: Maximum time to retry a message after lost connections and server restarts, milliseconds or a
                timedelta, at most an hour. After this time, sending fails with an error that contains the message.

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
        self._note(producer, self._producers)
        if encode is None:
            return producer
        from headstream.client.producer.encoding_producer import EncodingProducer

        return EncodingProducer(producer, str(topic), encode)

    def forwarding_producer(self, topic: str | TopicName, *, linger_ms: Milliseconds = DEFAULT_LINGER_MS) -> ForwardingProducer:
        """Return a producer for messages copied from another topic or log: it keeps reserved headers and runs no interceptors.

        Args:
            linger_ms: See producer().

        Raises:
            TopicNotFoundError: the topic does not exist.
        """
        from headstream.client.producer.forwarding import ForwardingProducer

        options = SendingOptions(linger_ms=milliseconds("linger_ms", linger_ms))
        return self._note(ForwardingProducer(self._open_transport(), self.topic(topic), options), self._producers)

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
        """Send one message, and return its position once it is stored. For many messages, a producer() is much faster.

        Args:
            payload, key, headers, id, partition: See Producer.send().

        Raises:
            TopicNotFoundError: the topic does not exist.
            OutcomeUnknownError: the message may or may not be stored.
            HeadstreamError: the message is not stored.
        """
        return self._senders.send(
            find_topic_name(self._open_transport(), topic),
            lambda producer: producer.send(payload, key=key, headers=headers, id=id, partition=partition),
        )

    # -- consuming ----------------------------------------------------------------------------------------------------

    @overload
    def consumer(self, topic: str | TopicName, **options: Unpack[ConsumerOptions]) -> Consumer: ...

    @overload
    def consumer(self, topic: list[str], **options: Unpack[ConsumerOptions]) -> TopicsConsumer: ...

    @overload
    def consumer(
        self, topic: str | TopicName, *, decode: Decode[_T], **options: Unpack[ConsumerOptions]
    ) -> DecodingConsumer[_T]: ...

    @overload
    def consumer(
        self, topic: list[str], *, decode: Decode[_T], **options: Unpack[ConsumerOptions]
    ) -> DecodingTopicsConsumer[_T]: ...

    def consumer(
        self, topic: str | TopicName | list[str], *, decode: Decode[Any] | None = None, **options: Unpack[ConsumerOptions]
    ) -> Consumer | TopicsConsumer:
        """Return a consumer of one or several topics that starts at the committed offsets of its group or name.

        The consumers of a group share the partitions of each topic: each partition is read by exactly one consumer. On a server,
        the consumers can run in any process. With an embedded log, only consumers of one process share partitions; consumers of
        another process wait until the first process has no consumers.

        Args:
            topic: `stream/topic`, or a list of names and patterns with `*`, `?` and `[...]`. Topics that match a pattern are read
                while they exist; topics created later are read from their first message.
            decode: A serializer, such as serializers.json(), or a function from bytes to a value; messages then have a `value`. A
                payload that cannot be decoded raises SerializerError on every call until seek() skips the message.
            options: By name:
                group: Group for which offsets are committed.
                name: Single consumer for which offsets are committed. Without group and name, nothing is committed.
                partitions: Partitions to read, not shared with the group; None: all partitions, or the partitions that the group
                    assigns.
                start: Where to start in a partition without a committed offset: an offset, `first` (the default), `last` (only
                    messages appended later), or a PollingStrategy.
                states: States to deliver, by default `available`; None delivers all messages.
                where: A filter on headers and fields, for example `attempt >= 3 AND source IN ('web', 'app')`.
                on_filter_error: Action for a message in which the filter compares incomparable values, such as a string
                    and a number: `skip` (the default), `deliver`, or `raise` HeaderError.
                timeout_ms: Iteration ends after this time without a message; None waits without limit.
                session_timeout_ms: A group member that neither polls, commits nor finishes a message for this time loses its
                    partitions if other members wait for them; later commits in these partitions are rejected.
                on_error: Policy for messages whose processing raises an error, such as hs.Retry(attempts=5): the failure is
                    counted, and the message is retried later. Requires a group. Without a policy, the message is not committed.
                dead_letter: Topic for messages that failed in their last attempt; a missing topic is created.
                mode: `ordered` (the default), or `shared`: the consumers of the group are workers that lease single messages.
                    A group can have more workers than partitions. hs.Retry(order="key") keeps the order per key.
                lease: With `mode="shared"`: time that a worker holds a message, for example `30s` (the default), before another
                    worker receives it.
                on_assigned, on_revoked: Called with `stream/topic` and the partitions that the consumer starts or stops
                    reading, within the consumer's calls and in their thread.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            InvalidInputError: an option is invalid.
        """
        options = check_consumer_options(options)
        decoder = None if decode is None else _make_decoder(decode)
        if isinstance(topic, (str, TopicName)):
            return self._make_consumer(topic, options, decoder)

        def make(name: TopicName, is_new: bool) -> Consumer:
            return self._make_consumer(name, {**options, "start": "first"} if is_new else options, decoder)

        names = [name if is_pattern(name) else str(find_topic_name(self._open_transport(), name)) for name in check_names(topic)]
        return TopicsConsumer(names, make, lambda: [f"{each.stream}/{each.name}" for each in self.topics()], timeout_of(options))

    def _make_consumer(self, topic: str | TopicName, options: ConsumerOptions, decode: Transform | None) -> Consumer:
        consumer = make_consumer(self._open_transport(), self.topic(topic), options, self._interception, decode)
        return self._note(consumer, self._consumers)

    def _note(self, made: _M, among: weakref.WeakSet[Any]) -> _M:
        """Register a producer or consumer for close(); ClosedError if another thread has closed the log."""
        among.add(made)
        if self._is_closed:
            made.close()
            self._open_transport()
        return made

    def poll(
        self,
        topic: str | TopicName,
        partition: int | None = None,
        *,
        start: StartInput | None = None,
        count: int = 10,
        states: StatesInput = ("available",),
        where: str | None = None,
        on_filter_error: str = "skip",
        consumer: str | OffsetOwner | None = None,
        auto_commit: bool = False,
    ) -> list[ReceivedMessage]:
        """Return messages of one partition or of all partitions, without waiting.

        Args:
            partition: From 1; None polls all partitions until there are `count` messages, and `last` then returns the newest
                messages of all partitions.
            start: An offset, `first`, `last` (the newest messages), `next` (the consumer's committed offset), a time, an age, or
                a PollingStrategy. The default is `next` with a consumer, else `first`.
            count: Maximum number of messages; a poll returns at most 64 MiB per partition.
            states: States to return; None returns all messages.
            where: A filter on headers and fields, for example `attempt >= 3 AND source IN ('web', 'app')`; stored messages are
                examined until `count` messages match.
            on_filter_error: Action for a message to which the filter cannot be applied: `skip`, `deliver` or `raise`.
            consumer: Name of the polling consumer, or `headstream.core.model.polling.OffsetOwner.group(name)`.
            auto_commit: Whether to commit the returned messages for the consumer immediately.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            InvalidInputError: an argument is invalid.
        """
        if start is None:
            start = "first" if consumer is None else "next"
        check_whole("count", count)
        if partition is not None:
            check_whole("partition", partition)
        if consumer is not None and not isinstance(consumer, OffsetOwner):
            consumer = OffsetOwner.named(check_text("consumer", consumer))
        strategy, codes, transport = start_of(start), state_codes(states), self._open_transport()
        if strategy.kind is PollingKind.LAST and partition is None and auto_commit:
            raise InvalidOptionError("auto_commit from the newest message requires a partition", advice="Specify the partition")
        name = find_topic_name(transport, topic)
        chosen, commits = make_filter(where, on_filter_error, codes), auto_commit and self._interception is None
        request = PollRequest(strategy, count, codes, consumer=consumer, auto_commit=commits, where=chosen)
        found = poll_topic(transport, name, partition, request)
        if self._interception is not None:
            return self._interception.receive_polled(name, found, consumer if auto_commit else None)
        return found

    def explain_filter(
        self,
        where: str,
        topic: str | TopicName | None = None,
        *,
        states: StatesInput = ("available",),
        on_filter_error: str = "skip",
    ) -> FilterPlan:
        """Return how a filter is evaluated in this log: the fields that it reads, where it runs, and the form of its input.

        Args:
            topic: `stream/topic` in which to count the segments that the filter skips and reads.
            on_filter_error: Action for a message to which the filter cannot be applied.

        Raises:
            InvalidInputError: the filter is invalid; the error contains the position in the filter.
        """
        transport = self._open_transport()
        name = None if topic is None else find_topic_name(transport, topic)
        return plan_filter(transport, where, on_filter_error, state_codes(states), name)

    # -- groups -------------------------------------------------------------------------------------------------------

    def offsets(self, topic: str | TopicName, group: str | None = None, *, name: str | None = None) -> dict[int, int]:
        """Return the next offset of a group or a single consumer for each partition with a committed offset.

        Args:
            group: Name of the group; pass either group or name.
            name: Name of the single consumer.

        Returns:
            Partition -> offset of the next message: one past the last committed message.
        """
        committer = committer_of(group, name)
        if committer is None:
            raise InvalidOptionError("the group or name that owns the offsets is missing", advice="Pass group= or name=")
        transport = self._open_transport()
        return transport.offsets.committed(find_topic_name(transport, topic), committer)

    def groups(self, topic: str | TopicName) -> list[Group]:
        """Return the consumer groups of a topic, by name, with their members, committed offsets and lag.

        A group exists if it was created on a server, has committed offsets or has members. Members in this process or on the
        server are listed.

        Raises:
            TopicNotFoundError: the topic does not exist.
        """
        transport = self._open_transport()
        return transport.groups.list(find_topic_name(transport, topic))

    def group(self, topic: str | TopicName, name: str) -> Group:
        """Return one consumer group of a topic; GroupNotFoundError if it does not exist."""
        transport = self._open_transport()
        return transport.groups.get(find_topic_name(transport, topic), name)

    def seek_group(self, topic: str | TopicName, group: str, to: StartInput, *, partitions: Iterable[int] | None = None) -> Group:
        """Set the committed offsets of a group without active members; a missing group is created.

        Args:
            to: An offset, `first`, `last` (only messages appended later), or a PollingStrategy.
            partitions: Partitions to set; None for all partitions.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            OffsetOutOfRangeError: an offset is not in its partition.
            GroupInUseError: the group has members, in this or another process. Members call Consumer.seek() instead.
        """
        transport = self._open_transport()
        name = find_topic_name(transport, topic)
        strategy = start_of(to)
        if partitions is None:
            numbers = [each.number for each in transport.topics.get(name).partitions]
        else:
            numbers = [check_whole("a partition", number) for number in check_many("partitions", partitions)]
        return transport.groups.seek(name, group, {number: find_offset(transport, name, number, strategy) for number in numbers})

    def delete_group(self, topic: str | TopicName, name: str) -> None:
        """Delete a group and its committed offsets.

        Raises:
            GroupNotFoundError: the group does not exist.
            GroupInUseError: the group has members, in this or another process.
        """
        transport = self._open_transport()
        transport.groups.delete(find_topic_name(transport, topic), name)

    def group_deliveries(self, topic: str | TopicName, group: str) -> GroupDeliveries:
        """Return the counts of a group's unfinished messages by partition and status, and whether the group is paused.

        Raises:
            TopicNotFoundError, GroupNotFoundError: the topic or the group does not exist.
            UnsupportedError: the log is in Kafka.
        """
        transport = self._open_transport()
        return find_views(transport).group(find_topic_name(transport, topic), group)

    def message_story(self, topic: str | TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return the delivery history of a message in a group: attempts with times, workers and errors, and the next step.

        Raises:
            TopicNotFoundError, PartitionNotFoundError, GroupNotFoundError: the topic, the partition or the group does not exist.
            OffsetOutOfRangeError: the partition has no such message.
            UnsupportedError: the log is in Kafka.
        """
        transport = self._open_transport()
        place = check_whole("partition", partition), check_whole("an offset", offset)
        return find_views(transport).message(find_topic_name(transport, topic), group, *place)

    # -- message states -----------------------------------------------------------------------------------------------

    def set_state(
        self,
        topic: str | TopicName,
        partition: int,
        offsets: int | Iterable[int],
        state: str | int,
        *,
        reason: str = "",
        by: str = "",
    ) -> None:
        """Set the state of messages and record the reason; the change is durable when the call returns.

        Args:
            partition: From 1.
            offsets: Offsets of the messages, at least one.
            state: `available`, `unavailable`, `poisoned`, `marked_for_deletion`, or a code from 1 to 255.
            reason: At most 1,000 bytes of UTF-8.
            by: The author, at most 255 bytes of UTF-8; a server records the logged-in user instead.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            OffsetOutOfRangeError: a message does not exist; nothing is changed.
            LogLockedError: another process is the writer of an embedded log.
        """
        check_whole("partition", partition)
        given = (offsets,) if isinstance(offsets, int) else check_many("offsets", offsets)
        wanted = [check_whole("an offset", offset) for offset in given]
        code = parse_state(state) if isinstance(state, str) else check_whole("state", state)
        check_text("reason", reason), check_text("by", by)
        transport = self._open_transport()
        transport.messages.set_state(find_topic_name(transport, topic), partition, wanted, code, reason=reason, by=by)

    def remove_marked(self, topic: str | TopicName, partition: int, *, reason: str) -> Removal:
        """Remove from the disk a partition's messages that are marked for deletion, before their grace ends.

        Args:
            partition: From 1.
            reason: Remove only messages marked with this reason.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            LegalHoldError: the topic is under legal hold; nothing is removed.
            CorruptLogError: a segment is damaged; its messages are kept, and all other marked messages are removed.
            LogLockedError: another process is the writer of an embedded log.
        """
        check_whole("partition", partition)
        check_text("reason", reason)
        transport, removed = self._open_transport(), Removal(left_count=1)
        name = find_topic_name(transport, topic)
        while removed.left_count:
            removed += transport.messages.remove_marked(name, partition, reason)
        return removed

    def states(self, topic: str | TopicName, partition: int = 1) -> list[StateChange]:
        """Return all messages of a partition whose state is not `available`, by offset, with reason, author and time.

        Args:
            partition: From 1.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
        """
        check_whole("partition", partition)
        transport = self._open_transport()
        return transport.messages.states(find_topic_name(transport, topic), partition)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush and close the client's producers, and close its consumers without a commit; a second call does nothing.

        Raises:
            HeadstreamError: a producer could not store all messages, or a consumer failed to close; the client is closed anyway.
        """
        if self._is_closed:
            return
        errors: list[Exception] = []
        self._close_consumers(errors)
        for producer in list(self._producers):
            try:
                producer.close()
            except Exception as error:  # Ctrl-C is not caught, and the log stays open: sent messages are flushed at exit
                errors.append(error)
        self._is_closed = True
        self._close_consumers(errors)  # consumers that another thread has created meanwhile
        with closing():
            self._transport.close()
        if errors:
            raise errors[0]

    def _close_consumers(self, errors: list[Exception]) -> None:
        with closing():
            for consumer in list(self._consumers):
                try:
                    consumer.close(commit=False)  # only the consumer's own `with` can tell whether its message is done
                except Exception as error:
                    errors.append(error)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception as also:
            error.add_note(f"Closing the log failed too: {also}")


def _intercept(transport: Transport, chain: Chain) -> Interception:
    from headstream.client.interception.interception import Interception  # most programs have no interceptors

    return Interception(transport, chain)


def _make_decoder(decode: Decode[Any]) -> Transform:
    from headstream.client.consumer.decoding import message_decoder

    return message_decoder(decode)
