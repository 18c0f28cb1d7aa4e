"""Messages of a server: sends, polls and waits. A send is retried only if the retry cannot duplicate messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headstream.client.transports.remote.caller import Caller, Pending
from headstream.client.transports.remote.topology import RemoteTopics
from headstream.core.codec.binary import decode_sent
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.filter import Filter
from headstream.core.filters.poll_request import AVAILABLE_ONLY, PollRequest
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MAX_STATE_OFFSETS, StateChange
from headstream.core.model.polling import Polled, SegmentCounts
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
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from headstream.errors import ClosedError, NotFoundError, ServerError, ServerUnreachableError

_ALL_STATES: Final = tuple(range(1, 256))
_NO_SUCH_COMMAND: Final = (Status.INVALID_COMMAND, 404)
"""Statuses of an unknown command; over HTTP, of an unknown path."""
_RELEASE_S: Final = 1.0
"""Timeout of releasing a producer, seconds."""
_LONGEST_WAIT_MS: Final = 60_000
"""Maximum duration of one wait, milliseconds; longer waits use several requests."""


class PolledAhead:
    """A pending poll."""

    def __init__(self, pending: Pending[FetchedMessages] | Pending[FilteredMessages]) -> None:
        self._pending = pending

    def result(self) -> Polled:
        """Return the messages; see RemoteMessages.poll()."""
        return _polled(self._pending.result())

    def cancel(self) -> None:
        self._pending.cancel()


class RemoteMessages:
    """Message commands."""

    def __init__(self, caller: Caller, topics: RemoteTopics) -> None:
        self._caller = caller
        self._topics = topics
        self._unanswered: set[int] = set()
        """Ids of producers with a batch whose outcome is unknown; the batch can still reach the server."""

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch; return its first offset. OutcomeUnknownError if the connection broke and a retry is unsafe."""
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
        """Append a numbered batch exactly once, even if it is sent repeatedly; see Messages.append(). OutcomeUnknownError."""
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
        """Return a producer id; None if the server does not support numbered batches. The options contain the default timeout."""
        try:
            found = self._caller.call(InitProducer(), retry_timeout_s=retry_timeout_s)
        except (ServerError, NotFoundError) as error:
            if error.status in _NO_SUCH_COMMAND:
                return None
            raise
        return ProducerId(found.producer_id, found.epoch)

    def release_producer(self, topic: TopicName, producer_id: int) -> None:
        """Release a producer that sends no more messages to a topic; retried only for a short time.

        A producer with an unanswered attempt is not released but expires on the server. Otherwise, a delayed batch would belong
        to an unknown producer, and could be appended twice or after newer batches.
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

    def poll(self, topic: TopicName, partition: int, request: PollRequest) -> Polled:
        """Return stored messages of a partition without waiting; see Messages.poll()."""
        request.check(topic)
        return _polled(self._caller.call(_command(topic, partition, request)))

    def poll_ahead(self, topic: TopicName, partition: int, request: PollRequest) -> PolledAhead:
        """Send a poll and return a pending reply; for arguments see poll()."""
        return PolledAhead(self._caller.begin(_command(topic, partition, request)))

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = "", by: str = ""
    ) -> None:
        """Set the state of messages, with a reason; many offsets are sent in several requests. See Messages.set_state()."""
        wanted = sorted(set(offsets))
        for begin in range(0, max(len(wanted), 1), MAX_STATE_OFFSETS):
            some = tuple(wanted[begin : begin + MAX_STATE_OFFSETS])
            self._caller.call(SetState(topic.stream, topic.topic, partition, some, state, reason, by))

    def count_segments(self, topic: TopicName, where: Filter) -> SegmentCounts | None:
        """Return how much of a topic a filter reads; None if an older server reads the entire topic."""
        try:
            found = self._caller.call(CountSegments(topic.stream, topic.topic, where.text))
        except ServerError as error:
            if error.status in _NO_SUCH_COMMAND:
                return None
            raise
        return SegmentCounts(found.segments_count, found.skipped_count, found.size_bytes, found.skipped_bytes)

    def remove_marked(self, topic: TopicName, partition: int, reason: str) -> Removal:
        """Remove messages that were marked for deletion with a reason; see Messages.remove_marked()."""
        found = self._caller.call(RemoveMarked(topic.stream, topic.topic, partition, reason))
        return Removal(found.removed_count, found.removed_bytes, found.rewritten_count, found.left_count)

    def states(self, topic: TopicName, partition: int) -> list[StateChange]:
        """Return all messages of a partition whose state is not `available`, by offset."""
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
        wait_ms = min(max(math.ceil(timeout_ms), 0), _LONGEST_WAIT_MS)
        membership = (None, 0, 0) if member is None else (member.group, member.id, max(generation, 0))
        try:
            return self._caller.call(
                WaitMessages(topic.stream, topic.topic, positions, wait_ms, *membership), wait_ms=wait_ms
            ).is_woken
        except ClosedError as error:
            if error.status is None:
                raise
            return True  # the server has removed the member; the next report raises the error


def _command(topic: TopicName, partition: int, request: PollRequest) -> Command[Any]:
    start, where, states = request.start, request.where, _codes(request.states)
    size_bytes = min(request.size_bytes, MAX_BATCH_BYTES)
    consumer = None if request.consumer is None else ConsumerRef(request.consumer.kind, request.consumer.name)
    if where is None:
        wanted = start.kind, start.value, request.count, size_bytes, states, 0, consumer, request.auto_commit
        return FetchMessages(topic.stream, topic.topic, partition, *wanted)
    return FilterMessages(
        topic.stream,
        topic.topic,
        partition,
        where.text,
        start.kind,
        start.value,
        request.count,
        size_bytes,
        states,
        FailurePolicy[where.on_error.name],
        consumer,
        request.auto_commit,
        request.until_offset,
    )


def _codes(states: frozenset[int] | None) -> tuple[int, ...]:
    return () if states == AVAILABLE_ONLY else _ALL_STATES if states is None else tuple(sorted(states))


def _polled(found: FetchedMessages | FilteredMessages) -> Polled:
    chunks = (memoryview(found.messages),) if found.count else ()
    if isinstance(found, FilteredMessages):
        place = found.partition, found.end_offset, found.next_offset, found.count, chunks, found.generation
        return Polled(*place, found.scanned_count, found.failed_count)
    return Polled(found.partition, found.end_offset, found.next_offset, found.count, chunks, found.generation)
