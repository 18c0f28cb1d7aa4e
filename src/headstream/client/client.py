"""Client: what hs.connect() returns, over any transport."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from headstream.client.arguments import StartInput, StatesInput, committer_of, state_codes, topic_name
from headstream.client.consumer import Consumer
from headstream.client.producer import Producer
from headstream.client.progress import Progress
from headstream.client.receiving import poll_checked
from headstream.client.sending import SendingOptions
from headstream.client.topology import Topology
from headstream.client.transport import RemoteAccess, Transport
from headstream.errors import ClosedError, InvalidUrlError
from headstream.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, StateChange, parse_state
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import PollingStrategy

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

    def consumer(
        self,
        topic: str | TopicName,
        *,
        group: str | None = None,
        name: str | None = None,
        partitions: Iterable[int] | None = None,
        start: StartInput = "first",
        states: StatesInput = ("available",),
        timeout_ms: float | None = None,
        session_timeout_ms: float = DEFAULT_SESSION_TIMEOUT_MS,
    ) -> Consumer:
        """Return a consumer of a topic, which continues where its group or name has committed.

        The consumers of a group, in any threads and clients of one process, share the topic's partitions: each is read by
        one of them. Those in another process stand by until it has none any more.

        Args:
            topic: `stream/topic`.
            group: Whose offsets are committed: those of a group,
            name: or those of a single consumer; with neither, nothing is committed.
            partitions: Which partitions; None is all, or what the group gives. Partitions named are not shared.
            start: Where to begin in a partition where nothing is committed: an offset, `first`, `last` (after the newest:
                what is appended from now on), or a PollingStrategy.
            states: States to deliver, others are stepped over; None delivers all.
            timeout_ms: Iteration ends after so long without a message; None waits for ever.
            session_timeout_ms: A consumer of a group that neither polls, commits nor finishes a message for so long loses its
                partitions, if others wait for them; its later commits there are refused.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            InvalidInputError: an option cannot be used.
        """
        consumer = Consumer(
            self._open_transport(),
            self.topic(topic),
            committer=committer_of(group, name),
            partitions=partitions,
            start=start,
            states=state_codes(states),
            timeout_ms=timeout_ms,
            session_timeout_ms=session_timeout_ms,
        )
        self._consumers.add(consumer)
        return consumer

    def poll(
        self,
        topic: str | TopicName,
        partition: int = 1,
        *,
        start: StartInput | None = None,
        count: int = 10,
        states: StatesInput = ("available",),
        consumer: str | Committer | None = None,
        auto_commit: bool = False,
    ) -> list[Message]:
        """Return messages of one partition, without waiting for any.

        Args:
            topic: `stream/topic`.
            partition: From 1.
            start: An offset, `first`, `last` (the newest ones), `next` (where the consumer has committed to), or a
                PollingStrategy; `next` where a consumer is given, else `first`, unless said otherwise.
            count: The most messages; fewer come where they have more than 64 MiB.
            states: States to return, others are stepped over; None returns all.
            consumer: Who polls: a consumer's name, or Consumer.group(name).
            auto_commit: Whether what is returned is committed for the consumer at once.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            InvalidInputError: an argument cannot be used.
        """
        if start is None:
            start = "first" if consumer is None else "next"
        name = topic_name(topic)
        return poll_checked(
            self._open_transport(),
            name,
            partition,
            start if isinstance(start, PollingStrategy) else PollingStrategy.parse(start),
            count,
            states=state_codes(states),
            consumer=Committer.named(consumer) if isinstance(consumer, str) else consumer,
            auto_commit=auto_commit,
        )[1]

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
            reason: Why.
            by: Who says so; on a server who is logged in, where nothing is said.

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
