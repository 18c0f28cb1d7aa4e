"""Messages of a server: sends, retried only if that cannot duplicate messages, polls, and waits that the server times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from headstream.client.transports.remote.caller import Caller, Pending
from headstream.client.transports.remote.topology import RemoteTopics
from headstream.core.codec.binary import decode_sent
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.filter import Filter
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MAX_STATE_OFFSETS, MessageState, StateChange
from headstream.core.model.polling import OffsetOwner, Polled, PollingStrategy, SegmentCounts, check_poll
from headstream.core.model.producers import Appended, BatchNumber, ProducerId
from headstream.core.model.removals import Removal
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.filters import CountSegments, FailurePolicy, FilteredMessages, FilterMessages
from headstream.core.wire.extensions.messages import (
    AppendMessages,
    FetchedMessages,
    FetchMessages,
    ListStates,
    RemoveMarked,
    SetState,
    WaitMessages,
)
from headstream.core.wire.extensions.producers import AppendNumbered, InitProducer, ReleaseProducer
from headstream.core.wire.statuses import Status
from headstream.errors import ClosedError, HeadstreamError, NotFoundError, ServerError, ServerUnreachableError

__all__ = ["PolledAhead", "RemoteMessages"]

_AVAILABLE: Final = frozenset({MessageState.AVAILABLE.value})
_ALL_STATES: Final = tuple(range(1, 256))
_NO_SUCH_COMMAND: Final = (Status.INVALID_COMMAND, 404)
"""Statuses of an unknown command; over HTTP, of an unknown path."""
_RELEASE_S: Final = 1.0
"""Timeout of releasing a producer."""
_LONGEST_WAIT_MS: Final = 60_000
"""Maximum of one wait; longer ones are repeated."""


class PolledAhead:
    """A pending poll."""

    def __init__(self, pending: Pending[FetchedMessages] | Pending[FilteredMessages]) -> None:
        self._pending = pending

    def result(self) -> Polled:
        """Return the messages; as RemoteMessages.poll()."""
        return _polled(self._pending.result())

    def cancel(self) -> None:
        """Cancel it."""
        self._pending.cancel()


class RemoteMessages:
    """Message commands."""

    def __init__(self, caller: Caller, topics: RemoteTopics) -> None:
        self._caller = caller
        self._topics = topics
        self._unanswered: set[int] = set()
        """Ids of producers with a batch whose outcome is unknown: it can still reach the server."""

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch to a partition and return the offset of its first message; see Messages.send().

        Raises:
            OutcomeUnknownError: the connection broke before the response, and the topic does not deduplicate by id.
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
        retry_timeout_s: float | None = None,
    ) -> Appended:
        """Append a numbered batch, once however often it is sent; arguments as for Appends.append().

        Args:
            retry_timeout_s: Total time of all attempts, seconds; None uses the options' value.

        Raises:
            OutcomeUnknownError: the outcome is unknown.
        """
        if number is None:
            return Appended(self.send(topic, partition, batch), None, -1)
        command = AppendNumbered(topic.stream, topic.topic, partition, *number, batch)
        producer_id = number.producer_id
        try:
            found = self._caller.call(command, retry_timeout_s=retry_timeout_s, on_lost=lambda: self._unanswered.add(producer_id))
        except BaseException:  # also an interrupt while the server handled the batch
            self._unanswered.add(producer_id)
            raise
        return Appended(found.offset, found.timestamp_us, found.count, found.is_repeat)

    def init_producer(self, *, retry_timeout_s: float | None = None) -> ProducerId | None:
        """Return a producer id, or None from a server without numbered batches.

        Args:
            retry_timeout_s: Total time of all attempts, seconds; None uses the options' value.
        """
        try:
            found = self._caller.call(InitProducer(), retry_timeout_s=retry_timeout_s)
        except (ServerError, NotFoundError) as error:
            if error.status in _NO_SUCH_COMMAND:
                return None
            raise
        return ProducerId(found.producer_id, found.epoch)

    def release_producer(self, topic: TopicName, producer_id: int) -> None:
        """Release a producer that sends nothing more to a topic; retried for a short time only.

        A producer with an unanswered attempt is kept until the server expires it: a batch that arrives late would otherwise come
        from an unknown producer, and be appended again, or after newer ones.
        """
        if producer_id in self._unanswered:
            self._unanswered.discard(producer_id)
            return
        self._caller.call(ReleaseProducer(topic.stream, topic.topic, producer_id), retry_timeout_s=_RELEASE_S)

    def _finds_repeats(self, topic: TopicName, batch: BytesLike) -> bool:
        """Return whether a topic deduplicates by id; False if the server cannot be reached."""
        try:
            remembered = self._topics.get(topic).deduplication_count
        except ServerUnreachableError:  # the caller reports the unknown outcome of the send
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
        consumer: OffsetOwner | None = None,
        auto_commit: bool = False,
        where: Filter | None = None,
        until_offset: int = 0,
    ) -> Polled:
        """Return stored messages of a partition without waiting; see Messages.poll()."""
        check_poll(topic, strategy, count, size_bytes, consumer, auto_commit, is_filtered=where is not None)
        if where is not None:
            command = _filter(topic, partition, strategy, count, states, size_bytes, where, consumer, auto_commit, until_offset)
            return _polled(self._caller.call(command))
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
        where: Filter | None = None,
        until_offset: int = 0,
    ) -> PolledAhead:
        """Send a poll and return without its reply; arguments as for poll()."""
        if where is not None:
            command = _filter(topic, partition, strategy, count, states, size_bytes, where, until_offset=until_offset)
            return PolledAhead(self._caller.begin(command))
        return PolledAhead(self._caller.begin(_fetch(topic, partition, strategy, count, states, size_bytes)))

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = "", by: str = ""
    ) -> None:
        """Set the state of messages, with a reason; see Messages.set_state(). Many offsets are sent in several requests."""
        wanted = sorted(set(offsets))
        for begin in range(0, max(len(wanted), 1), MAX_STATE_OFFSETS):
            some = tuple(wanted[begin : begin + MAX_STATE_OFFSETS])
            self._caller.call(SetState(topic.stream, topic.topic, partition, some, state, reason, by))

    def count_segments(self, topic: TopicName, where: Filter) -> SegmentCounts | None:
        """Return how much of a topic a filter reads; None from an older server, which reads all."""
        try:
            found = self._caller.call(CountSegments(topic.stream, topic.topic, where.text))
        except ServerError as error:
            if error.status in _NO_SUCH_COMMAND:
                return None
            raise
        return SegmentCounts(found.segments_count, found.skipped_count, found.size_bytes, found.skipped_bytes)

    def remove_marked(self, topic: TopicName, partition: int, reason: str) -> Removal:
        """Remove the messages that were marked for deletion with a reason; see Messages.remove_marked()."""
        found = self._caller.call(RemoveMarked(topic.stream, topic.topic, partition, reason))
        return Removal(found.removed_count, found.removed_bytes, found.rewritten_count, found.left_count)

    def states(self, topic: TopicName, partition: int) -> list[StateChange]:
        """Return every message of a partition in another state than `available`, by offset."""
        found: list[StateChange] = []
        from_offset = 0
        while page := self._caller.call(ListStates(topic.stream, topic.topic, partition, from_offset)):
            found += [StateChange(**each.values()) for each in page]
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
            return True  # the server has removed the member: its next report raises


def _is_said_by_server(error: HeadstreamError) -> bool:
    return error.status is not None


def _fetch(
    topic: TopicName,
    partition: int,
    strategy: PollingStrategy,
    count: int,
    states: frozenset[int] | None,
    size_bytes: int,
    consumer: OffsetOwner | None = None,
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
        _codes(states),
        0,
        None if consumer is None else ConsumerRef(consumer.kind, consumer.name),
        auto_commit,
    )


def _filter(
    topic: TopicName,
    partition: int,
    strategy: PollingStrategy,
    count: int,
    states: frozenset[int] | None,
    size_bytes: int,
    where: Filter,
    consumer: OffsetOwner | None = None,
    auto_commit: bool = False,
    until_offset: int = 0,
) -> FilterMessages:
    return FilterMessages(
        topic.stream,
        topic.topic,
        partition,
        where.text,
        strategy.kind,
        strategy.value,
        count,
        min(size_bytes, MAX_BATCH_BYTES),
        _codes(states),
        FailurePolicy[where.on_error.name],
        None if consumer is None else ConsumerRef(consumer.kind, consumer.name),
        auto_commit,
        until_offset,
    )


def _codes(states: frozenset[int] | None) -> tuple[int, ...]:
    return () if states == _AVAILABLE else _ALL_STATES if states is None else tuple(sorted(states))


def _polled(found: FetchedMessages | FilteredMessages) -> Polled:
    chunks = (memoryview(found.messages),) if found.count else ()
    if isinstance(found, FilteredMessages):
        place = found.partition, found.end_offset, found.next_offset, found.count, chunks, found.generation
        return Polled(*place, found.scanned_count, found.failed_count)
    return Polled(found.partition, found.end_offset, found.next_offset, found.count, chunks, found.generation)
