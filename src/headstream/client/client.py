"""Client: what hs.connect() returns, over any transport."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType

from headstream.client.arguments import StatesInput, committer_of, state_codes, topic_name
from headstream.client.consumer import Consumer, StartInput
from headstream.client.producer import Producer
from headstream.client.sending import SendingOptions
from headstream.client.transport import Transport
from headstream.codec.binary import decode_polled
from headstream.errors import ClosedError, InvalidOptionError
from headstream.model.identifiers import TopicName
from headstream.model.message import Message, StateChange, parse_state
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import PollingStrategy
from headstream.model.topology import Fsync, Limits, Stream, Topic

__all__ = ["Client"]


class Client:
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
    ) -> Topic:
        """Make a topic, and its stream where there is none.

        Args:
            name: `stream/topic`.
            partitions: 1 to 1000.
            limits: `iggy`: whatever is stored, any Iggy client can read; `wide`: empty and null values and payloads too.
            fsync: When what was acknowledged is on the disk itself, and so what a power cut may cost. `always`: before
                it is acknowledged; `interval`: within a second; `never`: when the operating system pleases.
            if_not_exists: Return the topic of that name where there is one, as it is.

        Raises:
            AlreadyExistsError: there is one of that name.
            InvalidOptionError: the number of partitions, the limits or the policy cannot be used.
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
            topic_name(name), partitions, chosen, fsync=policy, if_not_exists=if_not_exists
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

    def update_topic(
        self, name: str | TopicName, *, retention_us: int | None = None, retention_bytes: int | None = None
    ) -> Topic:
        """Say how long and how much a topic keeps, and return it; what is left out has no end.

        In the background whole files of old messages are dropped, the one that is written to never: some more is kept
        than said, by up to a file of each partition.

        Args:
            name: `stream/topic`.
            retention_us: Messages older than so many microseconds may go.
            retention_bytes: With more than so many bytes in all partitions, the oldest messages may go.

        Raises:
            TopicNotFoundError: there is no such topic.
            InvalidOptionError: a number is less than 1.
            LogLockedError: another process is the writer of an embedded log.
        """
        return self._open_transport().topics.update(topic_name(name), retention_us=retention_us, retention_bytes=retention_bytes)

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

        Producers and consumers made before keep to the partitions there were. Keys may go to other partitions than before.

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
    ) -> Consumer:
        """Return what reads a topic, from where its group or name has committed to.

        Args:
            topic: `stream/topic`.
            group: Whose offsets are committed: those of a group,
            name: or those of a single consumer; with neither, nothing is committed.
            partitions: Which partitions; None is all.
            start: Where to begin in a partition where nothing is committed: an offset, `first`, `last` (after the newest:
                what is appended from now on), or a PollingStrategy.
            states: States to deliver, others are stepped over; None delivers all.
            timeout_ms: Iteration ends after so long without a message; None waits for ever.

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
        return [
            message for chunk in polled.chunks for message in decode_polled(chunk, topic=str(name), partition=polled.partition)
        ]

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

    def offsets(self, topic: str | TopicName, group: str | None = None, *, name: str | None = None) -> dict[int, int]:
        """Return where a group, or a single consumer, goes on in each partition where it has committed.

        Args:
            topic: `stream/topic`.
            group: The group's name,
            name: or the consumer's.

        Returns:
            Partition -> offset of the next message: one past the last that is done.
        """
        committer = committer_of(group, name)
        if committer is None:
            raise InvalidOptionError("whose offsets is not said", advice="Give the name of a group, or name=")
        return self._open_transport().offsets.committed(topic_name(topic), committer)

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
