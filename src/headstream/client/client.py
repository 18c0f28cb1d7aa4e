"""Client: what hs.connect() returns, over any transport."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Unpack, overload

from headstream.client.arguments import (
    ConsumerOptions,
    MessageIdInput,
    StartInput,
    StatesInput,
    committer_of,
    start_of,
    state_codes,
    topic_name,
)
from headstream.client.consumer import Consumer
from headstream.client.producer import Producer
from headstream.client.progress import Progress
from headstream.client.receipts import Delivered
from headstream.client.receiving import poll_checked
from headstream.client.senders import Senders
from headstream.client.sending import SendingOptions
from headstream.client.topics_consumer import TopicsConsumer
from headstream.client.topology import Topology
from headstream.client.transport import RemoteAccess, Transport
from headstream.errors import ClosedError, InvalidOptionError, InvalidUrlError
from headstream.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.model.headers import HeadersInput
from headstream.model.identifiers import TopicName
from headstream.model.message import ReceivedMessage, StateChange, parse_state
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import PollingKind

if TYPE_CHECKING:
    from headstream.client.remote.server import Server

__all__ = ["Client"]


class Client(Topology, Progress):
    """A log of streams and topics; any thread. Made by hs.connect(); use it in a `with` statement, or close() it.

    Args:
        transport: What is behind it; the client closes it.
        server: What can be asked of the server that is behind it, if one is.
    """

    def __init__(self, transport: Transport, server: Server | None = None) -> None:
        self._transport = transport
        self._server = server
        self._is_closed = False
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._senders = Senders(lambda topic: self.producer(topic, linger_ms=0))
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()

    @property
    def identity(self) -> str | None:
        """The UUID of this log, or None before its first write."""
        return self._open_transport().identity

    def open(self) -> None:
        """Connect to the server that is behind it, if one is; hs.connect() has done so.

        Raises:
            ServerUnreachableError: it cannot be reached.
            AuthenticationError: it does not know the user, or the password is wrong.
        """
        if isinstance(self._transport, RemoteAccess):
            self._transport.open()

    def interrupt(self, thread: int) -> None:
        """Have the call end soon that a thread is in and that waits for a server, as if the connection had broken.

        Args:
            thread: As threading.get_ident() numbers it.
        """
        if isinstance(self._transport, RemoteAccess):
            self._transport.interrupt(thread)

    @property
    def server(self) -> Server:
        """Users, tokens, clients and statistics of the server that is behind it.

        Raises:
            InvalidUrlError: there is none: the log is embedded.
        """
        self._open_transport()
        if self._server is None:
            raise InvalidUrlError(
                "there is no server behind this log: it is embedded",
                advice="Start `headstream server`, and connect to headstream://user:password@host:8090",
            )
        return self._server

    def _open_transport(self) -> Transport:
        if self._is_closed:
            raise ClosedError("the log is closed", advice="Connect again")
        return self._transport

    # -- messages ---------------------------------------------------------------------------------------------

    def producer(
        self,
        topic: str | TopicName,
        *,
        linger_ms: float = 5,
        batch_bytes: int = 1 << 20,
        batch_count: int = 1000,
        buffer_bytes: int = 32 << 20,
        delivery_timeout_ms: float = 120_000,
    ) -> Producer:
        """Return a producer, which sends messages to a topic in batches.

        Args:
            topic: `stream/topic`.
            linger_ms: How long a message waits for others to go with, milliseconds; 0 sends each as soon as it can.
            batch_bytes: A batch of so many bytes goes at once, 1 to 64 MiB.
            batch_count: A batch of so many messages goes at once.
            buffer_bytes: So many bytes may wait to be acknowledged before send() waits too.
            delivery_timeout_ms: For how long a message is tried, through broken connections and restarts of the server,
                milliseconds, at most an hour; then it is given up, and an error has it.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: an option is out of range.
        """
        options = SendingOptions(
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            batch_count=batch_count,
            buffer_bytes=buffer_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
        )
        producer = Producer(self._open_transport(), self.topic(topic), options)
        self._producers.add(producer)
        return producer

    def send(
        self,
        topic: str | TopicName,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: int | None = None,
    ) -> Delivered:
        """Send one message, and return where it is once it is stored; for many of them a producer() costs much less.

        Args:
            topic: `stream/topic`.
            payload: As for Producer.send(), as are the others.
            key: See Producer.send().
            headers: See Producer.send().
            id: See Producer.send().
            partition: See Producer.send().

        Raises:
            TopicNotFoundError: there is no such topic.
            OutcomeUnknownError: the message may be stored or not.
            HeadstreamError: it is not stored.
        """
        receipt = self._senders.send(
            topic_name(topic),
            lambda producer: producer.send(payload, key=key, headers=headers, id=id, partition=partition),
        )
        return receipt.result()

    @overload
    def consumer(self, topic: str | TopicName, **options: Unpack[ConsumerOptions]) -> Consumer: ...

    @overload
    def consumer(self, topic: list[str], **options: Unpack[ConsumerOptions]) -> TopicsConsumer: ...

    def consumer(self, topic: str | TopicName | list[str], **options: Unpack[ConsumerOptions]) -> Consumer | TopicsConsumer:
        """Return a consumer of a topic, or of several, which continues where its group or name has committed.

        The consumers of a group share the partitions of each topic: each partition is read by one of them. Over a server they
        may be in any processes; those of an embedded log share in one process, and those in another one wait until it has
        none any more.

        Args:
            topic: `stream/topic`; or a list of such names, and of patterns with `*`, `?` and `[...]`: topics that one matches
                are read as long as they are there, those that are made later from their beginning on.
            options: group: Whose offsets are committed: those of a group, or by
                name: those of a single consumer; with neither, nothing is committed.
                partitions: Which partitions; None is all, or what the group gives. Partitions named are not shared.
                start: Where to begin in a partition where nothing is committed: an offset, `first` (the default), `last` (after
                the newest: what is appended from now on), or a PollingStrategy.
                states: States to deliver, `available` where nothing is said, others are stepped over; None delivers all.
                timeout_ms: Iteration ends after so long without a message; None waits until there is one.
                session_timeout_ms: A consumer of a group that neither polls, commits nor finishes a message for so long loses
                its partitions, if others wait for them; its later commits there are refused.
                on_assigned, on_revoked: Called with `stream/topic` and the partitions that the consumer begins to read, and
                with those that it reads no longer; by the consumer's own calls, in their thread.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            InvalidInputError: an option cannot be used.
        """
        if isinstance(topic, (str, TopicName)):
            return self._make_consumer(topic, options)

        def make(name: TopicName, is_new: bool) -> Consumer:
            return self._make_consumer(name, {**options, "start": "first"} if is_new else options)

        return TopicsConsumer(
            topic, make, lambda: [f"{each.stream}/{each.name}" for each in self.topics()], options.get("timeout_ms")
        )

    def _make_consumer(self, topic: str | TopicName, options: ConsumerOptions) -> Consumer:
        consumer = Consumer(
            self._open_transport(),
            self.topic(topic),
            committer=committer_of(options.get("group"), options.get("name")),
            partitions=options.get("partitions"),
            start=options.get("start", "first"),
            states=state_codes(options.get("states", ("available",))),
            timeout_ms=options.get("timeout_ms"),
            session_timeout_ms=options.get("session_timeout_ms", DEFAULT_SESSION_TIMEOUT_MS),
            on_assigned=options.get("on_assigned"),
            on_revoked=options.get("on_revoked"),
        )
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
        consumer: str | Committer | None = None,
        auto_commit: bool = False,
    ) -> list[ReceivedMessage]:
        """Return messages of one partition or of all, without waiting for any.

        Args:
            topic: `stream/topic`.
            partition: From 1; None polls one partition after the other until there are `count` messages. `last` then gives the
                newest of all partitions.
            start: An offset, `first`, `last` (the newest ones), `next` (where the consumer has committed to), a time, how long
                ago, or a PollingStrategy; `next` where a consumer is given, else `first`, unless said otherwise.
            count: The most messages; fewer come where they have more than 64 MiB a partition.
            states: States to return, others are stepped over; None returns all.
            consumer: Who polls: a consumer's name, or Consumer.group(name).
            auto_commit: Whether what is returned is committed for the consumer at once.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            InvalidInputError: an argument cannot be used.
        """
        if start is None:
            start = "first" if consumer is None else "next"
        strategy, found = start_of(start), list[ReceivedMessage]()
        newest = strategy.kind is PollingKind.LAST
        if newest and partition is None and auto_commit:
            raise InvalidOptionError("the newest messages of all partitions cannot be committed", advice="Name the partition")
        for number in [place.number for place in self.topic(topic).partitions] if partition is None else [partition]:
            found += poll_checked(
                self._open_transport(),
                topic_name(topic),
                number,
                strategy,
                count if newest else count - len(found),
                states=state_codes(states),
                consumer=Committer.named(consumer) if isinstance(consumer, str) else consumer,
                auto_commit=auto_commit,
            )[1]
            if len(found) >= count and not newest:
                break
        if newest and partition is None:
            found = sorted(found, key=lambda message: message.timestamp)[-count:]
            found.sort(key=lambda message: (message.partition, message.offset))
        return found

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
        """Set the state of messages, and record why; it is durable when this returns.

        Args:
            topic: `stream/topic`.
            partition: From 1.
            offsets: Which messages; one or more.
            state: `available`, `unavailable`, `poisoned`, `marked_for_deletion`, or a code from 1 to 255.
            reason: Why; at most 1,000 bytes.
            by: The author, at most 255 bytes; on a server it is the logged-in user, whatever is given.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            OffsetOutOfRangeError: one of the messages is not there; nothing is changed.
            LogLockedError: another process is the writer of an embedded log.
        """
        wanted = (offsets,) if isinstance(offsets, int) else offsets
        code = parse_state(state) if isinstance(state, str) else int(state)
        self._open_transport().messages.set_state(topic_name(topic), partition, wanted, code, reason=reason, by=by)

    def states(self, topic: str | TopicName, partition: int = 1) -> list[StateChange]:
        """Return every message of a partition that is not available, by offset, with why, by whom and when.

        Args:
            topic: `stream/topic`.
            partition: From 1.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
        """
        return self._open_transport().messages.states(topic_name(topic), partition)

    def close(self) -> None:
        """Close its producers, which flush, and its consumers, which commit nothing more; closing twice is fine.

        Raises:
            HeadstreamError: a producer could not store everything; all is closed nevertheless.
        """
        if self._is_closed:
            return
        errors: list[Exception] = []
        for consumer in list(self._consumers):
            consumer.close(commit=False)  # whether the message in hand was done only its own `with` could say
        for producer in list(self._producers):
            try:
                producer.close()
            except Exception as error:  # but Ctrl-C leaves the log open: what was sent is flushed at the program's end
                errors.append(error)
        self._is_closed = True
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
