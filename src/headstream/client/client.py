"""Client: what hs.connect() returns, over any transport."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from headstream.client.admin.numbered import find_topic_name
from headstream.client.admin.progress import Progress
from headstream.client.admin.states import States
from headstream.client.admin.topology import Topology
from headstream.client.arguments import (
    ConsumerOptions,
    StartInput,
    StatesInput,
    start_of,
    state_codes,
)
from headstream.client.checks import check_consumer_options, check_names, check_text, check_whole
from headstream.client.closing import closing
from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.consumers import make_consumer, timeout_of
from headstream.client.consumer.filtering import FilterPlan, make_filter, plan_filter
from headstream.client.consumer.receiving import poll_existing
from headstream.client.consumer.topics_consumer import TopicsConsumer, is_pattern
from headstream.client.producer.producing import Producing
from headstream.client.transports.transport import ClusterCounts, KeyPartitioning, RemoteAccess, Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import OffsetOwner, PollingKind
from headstream.core.model.topology import ClusterStats
from headstream.errors import ClosedError, InvalidOptionError, InvalidUrlError, UnsupportedError
from headstream.forks import closed_by_fork, tell_of_forks

if TYPE_CHECKING:
    from headstream.client.consumer.decoding import DecodingConsumer, DecodingTopicsConsumer
    from headstream.client.consumer.fetching import Transform
    from headstream.client.interception.interception import Interception
    from headstream.client.transports.remote.server import Server
    from headstream.interceptors.chain import Chain
    from headstream.serializers.serializer import Decode

__all__ = ["Client"]

_T = TypeVar("_T")


class Client(Topology, Progress, Producing, States):
    """A log of streams and topics; thread-safe. Created by hs.connect(); use it in a `with` statement, or close() it.

    Args:
        transport: The embedded broker or a connection to a server; the client closes it.
        server: The administration API, if the log is on a server.
        chain: The interceptors, or None.
    """

    def __init__(self, transport: Transport, server: Server | None = None, chain: Chain | None = None) -> None:
        super().__init__()
        self._interception = None if chain is None else _intercept(transport, chain)
        self._transport = transport
        self._server = server
        self._is_closed = self._is_parents = False
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()
        tell_of_forks(self)

    def after_fork(self) -> None:
        """Leave an embedded log to the parent; the transport to a server has new connections."""
        if not isinstance(self._transport, RemoteAccess):
            self._is_parents = self._is_closed = True

    @property
    def identity(self) -> str | None:
        """The UUID of this log, or None before its first write."""
        return self._open_transport().identity

    @property
    def has_interceptors(self) -> bool:
        """Whether messages of this client pass interceptors."""
        return self._interception is not None

    @property
    def first_partition(self) -> int:
        """The number of each topic's first partition: 1, in Kafka 0."""
        transport = self._open_transport()
        return transport.first_partition if isinstance(transport, KeyPartitioning) else 1

    def open(self) -> None:
        """Connect to the log's server, if it has one; hs.connect() does so too.

        Raises:
            ServerUnreachableError: the server cannot be reached.
            AuthenticationError: the user is unknown or the password is wrong.
        """
        if isinstance(self._transport, RemoteAccess):
            self._transport.open()

    def interrupt(self, thread: int) -> None:
        """Interrupt a thread's call that waits for a server, as if the connection had broken.

        Args:
            thread: As threading.get_ident() numbers it.
        """
        if isinstance(self._transport, RemoteAccess):
            self._transport.interrupt(thread)

    @property
    def server(self) -> Server:
        """Users, tokens, clients and statistics of the log's server.

        Raises:
            InvalidUrlError: the log is embedded.
            UnsupportedError: it is in Kafka.
        """
        if isinstance(self._open_transport(), ClusterCounts):
            raise UnsupportedError(
                "Kafka has no users, tokens and connections to administer by this client",
                where="kafka://",
                advice="Use Kafka's own tools, and log.cluster_stats() for its counts",
            )
        if self._server is None:
            raise InvalidUrlError(
                "this log is embedded and has no server",
                advice="Start `headstream server`, and connect to headstream://user:password@host:8090",
            )
        return self._server

    def cluster_stats(self) -> ClusterStats:
        """Return the counts of a Kafka cluster; a server's are log.server.stats().

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

    # -- messages ---------------------------------------------------------------------------------------------

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
        """Return a consumer of one or several topics that continues from the committed offsets of its group or name.

        The consumers of a group share the partitions of each topic: each partition is read by one of them. On a server they
        can be in any processes; with an embedded log, only consumers of one process share partitions, and those of
        another process wait until the first has none left.

        Args:
            topic: `stream/topic`; or a list of such names, and of patterns with `*`, `?` and `[...]`: matching topics
                are read as long as they exist, topics created later from their first message.
            decode: A serializer, as serializers.json(), or a function from bytes to a value: messages then have a `value`.
                One that cannot be decoded raises SerializerError, and again until seek() passes over it.
            options: group: Commit the offsets of this group, or with
                name: of this single consumer; with neither, nothing is committed.
                partitions: Partitions to read; None is all, or those the group assigns. Named partitions are not shared.
                start: Where to begin in a partition without a committed offset: an offset, `first` (the default), `last` (after
                the newest: what is appended from now on), or a PollingStrategy.
                states: States to deliver, by default `available`; other messages are skipped. None delivers all.
                where: A filter of messages by headers and fields, as in `attempt >= 3 AND source IN ('web', 'app')`.
                on_filter_error: What happens to a message for which the filter compares values that cannot be compared, as a
                number with a text: `skip` (the default), `deliver`, or `raise` HeaderError.
                timeout_ms: Iteration ends after this time without a message; None waits without limit.
                session_timeout_ms: A group member that neither polls, commits nor finishes a message for this long loses
                its partitions if others wait for them; its later commits there are rejected.
                on_error: What happens to a message whose processing raises an error, as in hs.Retry(attempts=5): it is counted,
                delayed and tried again; without it the message is not committed. It needs a group.
                dead_letter: The topic for messages that failed in their last attempt; it is created if it is missing.
                mode: `ordered` (the default), or `shared`: the consumers of the group are workers, which lease single
                messages; there can be more of them than partitions, and only hs.Retry(order="key") keeps an order.
                lease: With `mode="shared"`: how long a worker has a message, as `30s` (the default); then another one gets it.
                on_assigned, on_revoked: Called with `stream/topic` and the partitions that the consumer starts or
                stops reading; from the consumer's own calls, in their thread.

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
        self._consumers.add(consumer)
        return consumer

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
        """Return messages of one partition or of all, without waiting.

        Args:
            topic: `stream/topic`.
            partition: From 1; None polls the partitions in turn until there are `count` messages. `last` then returns the
                newest of all partitions.
            start: An offset, `first`, `last` (the newest ones), `next` (the consumer's committed offset), a time, how long
                ago, or a PollingStrategy. The default is `next` with a consumer, else `first`.
            count: Maximum number of messages; fewer are returned beyond 64 MiB per partition.
            states: States to return; other messages are skipped. None returns all.
            where: A filter of messages by headers and fields, as in `attempt >= 3 AND source IN ('web', 'app')`; all existing
                messages are examined until there are `count` that match.
            on_filter_error: What happens to a message that it cannot be applied to: `skip`, `deliver` or `raise`.
            consumer: The polling consumer: its name, or `headstream.core.model.polling.OffsetOwner.group(name)`.
            auto_commit: Whether to commit the returned messages for the consumer at once.

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
        strategy, found = start_of(start), list[ReceivedMessage]()
        newest = strategy.kind is PollingKind.LAST
        if newest and partition is None and auto_commit:
            raise InvalidOptionError("the newest messages of all partitions cannot be committed", advice="Name the partition")
        codes = state_codes(states)
        chosen = make_filter(where, on_filter_error, codes)
        transport = self._open_transport()
        name = find_topic_name(transport, topic)
        for number in [each.number for each in transport.topics.get(name).partitions] if partition is None else [partition]:
            found += poll_existing(
                transport,
                name,
                number,
                strategy,
                count if newest else count - len(found),
                states=codes,
                where=chosen,
                consumer=consumer,
                auto_commit=auto_commit and self._interception is None,
            )
            if len(found) >= count and not newest:
                break
        if newest and partition is None:
            found = sorted(found, key=lambda message: message.timestamp)[-count:]
            found.sort(key=lambda message: (message.partition, message.offset))
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
        """Return how a filter of this log is evaluated: what it reads, where, and on what.

        Args:
            topic: `stream/topic`, to count the segments that the filter skips and reads.
            on_filter_error: What happens to a message that it cannot be applied to.

        Raises:
            InvalidInputError: it is not a filter; the error names the character.
        """
        transport = self._open_transport()
        name = None if topic is None else find_topic_name(transport, topic)
        return plan_filter(transport, where, on_filter_error, state_codes(states), name)

    def close(self) -> None:
        """Flush and close its producers, and close its consumers without a commit; a second call does nothing.

        Raises:
            HeadstreamError: a producer could not store everything, or a consumer could not be closed in order; everything is
                closed all the same.
        """
        if self._is_closed:
            return
        errors: list[Exception] = []
        with closing():
            for consumer in list(self._consumers):
                try:
                    consumer.close(commit=False)  # only the consumer's own `with` knows whether its delivered message is done
                except Exception as error:
                    errors.append(error)
        for producer in list(self._producers):
            try:
                producer.close()
            except Exception as error:  # but Ctrl-C leaves the log open: sent messages are flushed at exit
                errors.append(error)
        self._is_closed = True
        with closing():
            self._transport.close()
        if errors:
            raise errors[0]

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
