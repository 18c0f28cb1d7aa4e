"""Client: what hs.connect() returns, over any transport."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Unpack

from headstream.client.arguments import StartInput, StatesInput, TopicOptionsInput, committer_of, state_codes, topic_name
from headstream.client.consumer import Consumer
from headstream.client.producer import Producer
from headstream.client.progress import Progress
from headstream.client.receiving import receive
from headstream.client.sending import SendingOptions
from headstream.client.transport import Transport
from headstream.errors import ClosedError, InvalidOptionError
from headstream.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, StateChange, parse_state
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import PollingStrategy
from headstream.model.topology import Fsync, Limits, Stream, Topic, TopicOptions

__all__ = ["Client"]


class Client(Progress):
    """A log of streams and topics; any thread. Made by hs.connect(); use it in a `with` statement, or close() it.

    Args:
        transport: What is behind it; the client closes it.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._is_closed = False
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()

    @property
    def identity(self) -> str | None:
        """The UUID that tells this log from every other, or None before its first write."""
        return self._open_transport().identity

    def _open_transport(self) -> Transport:
        if self._is_closed:
            raise ClosedError("the log is closed", advice="Connect again")
        return self._transport

    # -- streams and topics -----------------------------------------------------------------------------------

    def create_stream(self, name: str) -> Stream:
        """Make a stream.

        Args:
            name: Without dot or slash.

        Raises:
            AlreadyExistsError: there is one of that name.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().streams.create(name)

    def stream(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError where there is none."""
        return self._open_transport().streams.get(name)

    def streams(self) -> list[Stream]:
        """Return all streams, in the order of their ids."""
        return self._open_transport().streams.list()

    def delete_stream(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError where there is none."""
        self._open_transport().streams.delete(name)

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
        """Make a topic, and its stream where there is none.

        Args:
            name: `stream/topic`.
            partitions: 1 to 1000.
            limits: `iggy`: whatever is stored, any Iggy client can read; `wide`: empty and null values and payloads too.
            fsync: When what was acknowledged is on the disk itself, and so what a power cut may cost. `always`: before
                it is acknowledged; `interval`: within a second; `never`: when the operating system pleases.
            if_not_exists: Return the topic of that name where there is one, as it is.
            options: What it keeps and takes, see update_topic(): retention_us, retention_bytes, compaction_delay_us,
                deduplication_count. What is left out is None: everything.

        Raises:
            AlreadyExistsError: there is one of that name.
            InvalidOptionError: the number of partitions, the limits, the policy or an option cannot be used.
            LogLockedError: another process is the writer of an embedded log.
        """
        try:
            chosen = Limits(limits)
        except ValueError:
            raise InvalidOptionError(
                f"{limits!r} is no kind of limits", where=str(name), advice=f"Use {' or '.join(Limits)}"
            ) from None
        try:
            policy = Fsync(fsync)
        except ValueError:
            raise InvalidOptionError(
                f"{fsync!r} is no policy of fsync", where=str(name), advice=f"Use {', '.join(Fsync)}"
            ) from None
        return self._open_transport().topics.create(
            topic_name(name), partitions, chosen, fsync=policy, options=TopicOptions(**options), if_not_exists=if_not_exists
        )

    def topic(self, name: str | TopicName) -> Topic:
        """Return a topic with its partitions as they are now; TopicNotFoundError where there is none."""
        return self._open_transport().topics.get(topic_name(name))

    def topics(self, stream: str | None = None) -> list[Topic]:
        """Return all topics of one stream, or of all."""
        return self._open_transport().topics.list(stream)

    def delete_topic(self, name: str | TopicName) -> None:
        """Delete a topic with its messages and offsets; TopicNotFoundError where there is none."""
        self._open_transport().topics.delete(topic_name(name))

    def update_topic(self, name: str | TopicName, **options: Unpack[TopicOptionsInput]) -> Topic:
        """Change what a topic keeps and takes, and return it; what is not named stays as it is, None takes an option back.

        Old messages go in the background, by whole files, the one that is written to never: some more is kept than said,
        by up to a file of each partition.

        Args:
            name: `stream/topic`.
            options: By name:
                retention_us: Messages older than so many microseconds may go.
                retention_bytes: With more than so many bytes in all partitions, the oldest messages may go.
                compaction_delay_us: Of each key only the last message is kept, and every message has to have a key. A null
                    payload removes its key, and goes itself after so many microseconds, 0 or more.
                deduplication_count: A message is dropped whose id one of so many newest messages of its partition has,
                    1 to 10,000,000.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: a number is out of range.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().topics.update(topic_name(name), **options)

    def purge_topic(self, name: str | TopicName) -> None:
        """Remove all messages of a topic and all offsets committed in it; the next message gets offset 0.

        Consumers that are reading it get OffsetOutOfRangeError, and go on after seek().

        Args:
            name: `stream/topic`.

        Raises:
            TopicNotFoundError: there is no such topic.
            LogLockedError: another process is the writer of an embedded log.
        """
        self._open_transport().topics.purge(topic_name(name))

    def create_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Add partitions to a topic, behind its last one, and return the topic as it is then.

        Producers and consumers made before keep to the partitions there were, but consumers of a group share the new ones
        too. Keys may go to other partitions than before.

        Args:
            topic: `stream/topic`.
            count: How many, 1 or more.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: the topic would have more than 1000.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().partitions.create(topic_name(topic), count)

    def delete_partitions(self, topic: str | TopicName, count: int = 1) -> Topic:
        """Delete the highest numbered partitions of a topic, with their messages, and return the topic as it is then.

        Args:
            topic: `stream/topic`.
            count: How many; one at least stays.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: none would stay.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().partitions.delete(topic_name(topic), count)

    # -- messages ---------------------------------------------------------------------------------------------

    def producer(
        self,
        topic: str | TopicName,
        *,
        linger_ms: float = 5,
        batch_bytes: int = 1 << 20,
        batch_count: int = 1000,
        buffer_bytes: int = 32 << 20,
    ) -> Producer:
        """Return what sends messages to a topic in batches.

        Args:
            topic: `stream/topic`.
            linger_ms: How long a message waits for others to go with, milliseconds; 0 sends each as soon as it can.
            batch_bytes: A batch of so many bytes goes at once, 1 to 64 MiB.
            batch_count: A batch of so many messages goes at once.
            buffer_bytes: So many bytes may wait to be acknowledged before send() waits too.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: an option is out of range.
        """
        options = SendingOptions(linger_ms=linger_ms, batch_bytes=batch_bytes, batch_count=batch_count, buffer_bytes=buffer_bytes)
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
        """Return what reads a topic, from where its group or name has committed to.

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
        polled = self._open_transport().messages.poll(
            name,
            partition,
            start if isinstance(start, PollingStrategy) else PollingStrategy.parse(start),
            count,
            states=state_codes(states),
            consumer=Committer.named(consumer) if isinstance(consumer, str) else consumer,
            auto_commit=auto_commit,
        )
        return receive(polled, name)[1]

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
            by: Who says so.

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
