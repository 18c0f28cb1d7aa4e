"""Messages of a server: sends that are repeated only where that cannot double them, polls, and waits that the server ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from headstream.client.remote.caller import Caller, Pending
from headstream.client.remote.topology import RemoteTopics
from headstream.codec.binary import decode_sent
from headstream.codec.buffer import BytesLike
from headstream.errors import ClosedError, HeadstreamError, NotFoundError, ServerError, ServerUnreachableError
from headstream.model.groups import Member
from headstream.model.identifiers import TopicName
from headstream.model.message import MAX_STATE_OFFSETS, MessageState, StateChange
from headstream.model.polling import Consumer, Polled, PollingStrategy, check_poll
from headstream.model.producers import Appended, BatchNumber, ProducerId
from headstream.model.topology import MAX_BATCH_BYTES
from headstream.wire.commands.offsets import ConsumerRef
from headstream.wire.extensions.messages import (
    AppendMessages,
    FetchedMessages,
    FetchMessages,
    ListStates,
    SetState,
    WaitMessages,
)
from headstream.wire.extensions.producers import AppendNumbered, InitProducer, ReleaseProducer
from headstream.wire.statuses import Status

__all__ = ["PolledAhead", "RemoteMessages"]

_AVAILABLE: Final = frozenset({MessageState.AVAILABLE.value})
_ALL_STATES: Final = tuple(range(1, 256))
_NO_SUCH_COMMAND: Final = (Status.INVALID_COMMAND, 404)
"""What a server says of a command that it does not know; over HTTP, of a path."""
_RELEASE_S: Final = 1.0
"""For so long is tried to have a producer forgotten."""
_LONGEST_WAIT_MS: Final = 60_000
"""One wait; who waits for longer asks again."""


class PolledAhead:
    """A poll that was sent and not yet looked at.

    Args:
        pending: Its reply.
    """

    def __init__(self, pending: Pending[FetchedMessages]) -> None:
        self._pending = pending

    def result(self) -> Polled:
        """Return what it brought; as RemoteMessages.poll()."""
        return _polled(self._pending.result())

    def cancel(self) -> None:
        """Give it up."""
        self._pending.cancel()


class RemoteMessages:
    """What can be done with messages."""

    def __init__(self, caller: Caller, topics: RemoteTopics) -> None:
        self._caller = caller
        self._topics = topics

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch to a partition and return the offset of its first message; see Messages.send().

        Raises:
            OutcomeUnknownError: the connection broke before the answer, and the topic does not find out repeats by the
                messages' ids: whether they are stored is not known.
        """
        command = AppendMessages(topic.stream, topic.topic, partition, batch)
        return self._caller.call(command, may_repeat=lambda: self._finds_repeats(topic, batch)).offset

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = None,
        *,
        patience_s: float | None = None,
    ) -> Appended:
        """Append a batch to a partition, by its number once however often it is sent; see Appends.append().

        Args:
            topic: Stream and topic.
            partition: From 1.
            batch: Messages as sent, back to back.
            number: Of the batch; None sends it without, as send() does.
            patience_s: For how long to try, seconds; None is as long as the options say.

        Raises:
            OutcomeUnknownError: it may be stored or not.
        """
        if number is None:
            return Appended(self.send(topic, partition, batch), None, -1)
        command = AppendNumbered(topic.stream, topic.topic, partition, *number, batch)
        found = self._caller.call(command, patience_s=patience_s)
        return Appended(found.offset, found.timestamp_us, found.count, found.is_repeat)

    def init_producer(self, *, patience_s: float | None = None) -> ProducerId | None:
        """Return an id to number batches with, None from a server that knows no numbers.

        Args:
            patience_s: For how long to try, seconds; None is as long as the options say.
        """
        try:
            found = self._caller.call(InitProducer(), patience_s=patience_s)
        except (ServerError, NotFoundError) as error:
            if error.status in _NO_SUCH_COMMAND:
                return None
            raise
        return ProducerId(found.producer_id, found.epoch)

    def release_producer(self, topic: TopicName, producer_id: int) -> None:
        """Have the server forget a producer, which sends nothing more to a topic; it is not tried for long."""
        self._caller.call(ReleaseProducer(topic.stream, topic.topic, producer_id), patience_s=_RELEASE_S)

    def _finds_repeats(self, topic: TopicName, batch: BytesLike) -> bool:
        """Return whether a topic passes over what it has of a batch already, as far as the server can be asked."""
        try:
            remembered = self._topics.get(topic).deduplication_count
        except ServerUnreachableError:  # what is to be told is that nobody knows about the send
            return False
        if remembered is None:
            return False
        messages = decode_sent(batch)
        return len(messages) <= remembered and all(message.id for message in messages)

    def poll(
        self,
        topic: TopicName,
        partition: int,
        strategy: PollingStrategy,
        count: int,
        *,
        states: frozenset[int] | None = _AVAILABLE,
        size_bytes: int = MAX_BATCH_BYTES,
        consumer: Consumer | None = None,
        auto_commit: bool = False,
    ) -> Polled:
        """Return messages of a partition as stored bytes, without waiting for any; see Messages.poll()."""
        check_poll(topic, strategy, count, size_bytes, consumer, auto_commit)
        return _polled(self._caller.call(_fetch(topic, partition, strategy, count, states, size_bytes, consumer, auto_commit)))

    def poll_ahead(
        self,
        topic: TopicName,
        partition: int,
        strategy: PollingStrategy,
        count: int,
        *,
        states: frozenset[int] | None = _AVAILABLE,
        size_bytes: int = MAX_BATCH_BYTES,
    ) -> PolledAhead:
        """Ask for messages and go on without waiting for them; arguments as for poll()."""
        return PolledAhead(self._caller.begin(_fetch(topic, partition, strategy, count, states, size_bytes)))

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = "", by: str = ""
    ) -> None:
        """Set the state of messages, and record why; see Messages.set_state(). Many go in several requests, by their offsets."""
        wanted = sorted(set(offsets))
        for begin in range(0, max(len(wanted), 1), MAX_STATE_OFFSETS):
            some = tuple(wanted[begin : begin + MAX_STATE_OFFSETS])
            self._caller.call(SetState(topic.stream, topic.topic, partition, some, state, reason, by))

    def states(self, topic: TopicName, partition: int) -> list[StateChange]:
        """Return every message of a partition that is not available, by offset."""
        found: list[StateChange] = []
        from_offset = 0
        while page := self._caller.call(ListStates(topic.stream, topic.topic, partition, from_offset)):
            found += [StateChange(each.offset, each.state, each.reason, each.by, each.changed_us) for each in page]
            from_offset = page[-1].offset + 1
        return found

    def wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        timeout_ms: float,
        *,
        member: Member | None = None,
        generation: int = 0,
    ) -> bool:
        """Wait until a partition has a message at or after an offset, or a member's group has changed."""
        wait_ms = min(max(math.ceil(timeout_ms), 0), _LONGEST_WAIT_MS)
        who = (None, 0, 0) if member is None else (member.group, member.id, max(generation, 0))
        try:
            return self._caller.call(WaitMessages(topic.stream, topic.topic, positions, wait_ms, *who), wait_ms=wait_ms).is_woken
        except ClosedError as error:
            if not _is_said_by_server(error):
                raise
            return True  # the server knows the member no more: its next report tells


def _is_said_by_server(error: HeadstreamError) -> bool:
    return error.status is not None


def _fetch(
    topic: TopicName,
    partition: int,
    strategy: PollingStrategy,
    count: int,
    states: frozenset[int] | None,
    size_bytes: int,
    consumer: Consumer | None = None,
    auto_commit: bool = False,
) -> FetchMessages:
    return FetchMessages(
        topic.stream,
        topic.topic,
        partition,
        strategy.kind,
        strategy.value,
        count,
        min(size_bytes, MAX_BATCH_BYTES),
        () if states == _AVAILABLE else _ALL_STATES if states is None else tuple(sorted(states)),
        0,
        None if consumer is None else ConsumerRef(consumer.kind, consumer.name),
        auto_commit,
    )


def _polled(found: FetchedMessages) -> Polled:
    chunks = (memoryview(found.messages),) if found.count else ()
    return Polled(found.partition, found.end_offset, found.next_offset, found.count, chunks, found.generation)
