"""Messages: sends, polls, waits, and message states."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from headstream.broker.backing import Backing
from headstream.broker.deliveries.journals import journals_of
from headstream.broker.deliveries.transitions import GroupPlace, Transitions
from headstream.broker.groups.groups import Groups
from headstream.broker.messages.offsets import BrokerOffsets
from headstream.broker.messages.page import Wanted, find_start, read_page
from headstream.broker.messages.waits import Wait
from headstream.core.codec.batch.stored.scan import take
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.filter import Filter, check_states
from headstream.core.filters.poll_request import AVAILABLE_ONLY, PollRequest
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, StateChange, state_name
from headstream.core.model.offset_ranges import ranges_of
from headstream.core.model.polling import ConsumerKind, OffsetOwner, Polled, PollingKind, PollingStrategy, SegmentCounts
from headstream.core.model.producers import Appended, BatchNumber, ProducerId, producer_id_of
from headstream.core.model.removals import Removal
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.errors import (
    CorruptLogError,
    CorruptSendError,
    HeaderError,
    LogError,
    NotFoundError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
)
from headstream.interceptors.batch_tracing import BatchTracing
from headstream.interceptors.trace_contexts import find_contexts
from headstream.log.catalog.catalog import Catalog, check_exists
from headstream.log.catalog.producer_numbers import ProducerNumbers
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.delivery_state import DeliveryState
from headstream.log.partition.offset_file_counts import NO_USER
from headstream.log.states import PartitionStates
from headstream.log.upkeep.marked_removal import MarkedRemoval

# GroupStates: the states of messages in a group: the stricter of a message's own state and its delivery state.
#
#     leased, delayed, deferred    at least unavailable
#     failed permanently           at least poisoned, as long as its history is kept: the newest 100 of a partition
#     pending, done                the message's own state
#
# Only polls that request states receive group states. A poll of available messages ignores delivery states: its
# offset is committed as a whole, so an omitted message would never be delivered again.

_STATE_AT: Final = 8
_AVAILABLE_BYTE: Final = MessageState.AVAILABLE.value
_UNAVAILABLE: Final = MessageState.UNAVAILABLE.value
_POISONED: Final = MessageState.POISONED.value
_KNOWN: Final = frozenset(state.value for state in MessageState)


def in_group(polled: Polled, state: DeliveryState, states: frozenset[int] | None) -> Polled:
    """Return a poll's result with the messages' states in a group; `states`: states to return, None for all."""
    given_up = {each.offset for each in state.given_up}
    parts: list[memoryview] = []
    count = 0
    for chunk in polled.chunks:
        shown, at = memoryview(bytearray(chunk)), 0
        while at < len(shown):
            end = take(shown, at, 1, len(shown))[0]
            offset, own = int.from_bytes(shown[at : at + _STATE_AT], "little"), shown[at + _STATE_AT]
            code = _POISONED if offset in given_up else _state_of(state, offset)
            shown[at + _STATE_AT] = code = max(own, code) if own in _KNOWN else own  # a greater code is stricter
            if states is None or code in states:
                parts.append(shown[at:end])
                count += 1
            at = end
    return replace(polled, chunks=tuple(parts), count=count)


def _state_of(state: DeliveryState, offset: int) -> int:
    each = state.failing.get(offset)
    if each is not None and each.reason:
        return _POISONED
    is_held = each is not None or any(offset in ranges for ranges in (state.leased, state.deferred, state.expired))
    return _UNAVAILABLE if is_held else _AVAILABLE_BYTE


_ATTEMPTS: Final = 5
"""Maximum retries of a poll after retention or a purge deleted its files."""


class Messages:
    """Message commands.

    Partitions are numbered from 1. Commands raise TopicNotFoundError or PartitionNotFoundError; commands that write raise
    LogLockedError if another process is the writer. `tracing`, if not None, records spans of appends.
    """

    def __init__(self, backing: Backing, groups: Groups, transitions: Transitions) -> None:
        self._backing = backing
        self.tracing: BatchTracing | None = None
        self._producer_numbers = ProducerNumbers(self._catalog, backing.clock_us)
        self._transitions = transitions
        self._groups = groups
        self._offsets = BrokerOffsets(backing)
        self._journals = journals_of(backing.log)
        self._counting = threading.Lock()
        self._scanned_count = self._failed_count = 0

    # -- appending ----------------------------------------------------------------------------------------------------

    def _catalog(self) -> Catalog:
        with self._backing.log.changing() as catalog:
            return catalog

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append and commit a batch to a partition; return the offset of the first message.

        If the topic deduplicates, messages whose ids occur among the newest messages of the partition are dropped and
        acknowledged. The result is then the offset of the first new message, or the next offset if no message is new.

        Args:
            batch: Encoded messages, contiguous, at most 64 MiB.

        Raises:
            LimitError: a message exceeds the topic's limits or lacks a required key; nothing was written.
            DecodeError: the bytes are not a valid batch; nothing was written.
        """
        return self.append(topic, partition, batch).offset

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = None,
        *,
        retry_timeout_s: float | None = None,
    ) -> Appended:
        """Append a batch to a partition like send(); return its position.

        Args:
            number: The batch's number; a batch with a stored number is not appended again. None disables the check.
            retry_timeout_s: Used by network transports; ignored here.

        Raises, in addition to send():
            SequenceError, ProducerFencedError: the batch does not follow the previous batch; nothing was written.
        """
        backing, log = self._backing, self._backing.writable_log()

        def append(record: TopicRecord) -> Appended:
            return log.append(record, partition, batch, backing.clock_us(), backing.entropy(16), number)

        if self.tracing is not None and (contexts := find_contexts(batch)):
            with self.tracing.append(topic, partition, contexts):
                return self._append_to_current(topic, partition, append)
        return self._append_to_current(topic, partition, append)

    def _append_to_current(self, topic: TopicName, partition: int, append: Callable[[TopicRecord], Appended]) -> Appended:
        log = self._backing.log
        while True:
            known = log.snapshot()
            record = self._backing.partition(topic, partition)
            try:
                appended = append(record)
                if log.snapshot() is not known:
                    check_exists(log.snapshot(), record, partition)
                return appended
            except (LogError, PartitionNotFoundError):
                if not self._is_made_anew(record, partition):
                    raise
            # A concurrent purge or delete of the partition removed the batch: append it again.

    def new_producer(self, user_id: int) -> ProducerId:
        """Return an unused producer id and its first epoch; only the user `user_id` can send with this id."""
        self._backing.writable_log()
        return ProducerId(producer_id_of(self._producer_numbers.take(), user_id), 0)

    def forget_producer(self, topic: TopicName, producer_id: int) -> None:
        """Remove a producer's state in all partitions of a topic, after the producer's last retry."""
        log, record = self._backing.writable_log(), self._backing.topic(topic)
        for number in range(1, record.partitions + 1):
            if log.writing_end(record, number) is not None:  # the state in an unopened partition expires
                log.partition(record, number).forget_producer(producer_id)

    def _is_made_anew(self, record: TopicRecord, partition: int) -> bool:
        """Return whether a partition was purged or recreated; raises an error if it does not exist."""
        now = self._backing.partition(record.name, partition)
        return now is not record and (now.number, now.generation(partition)) != (record.number, record.generation(partition))

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def filter_counts(self) -> tuple[int, int]:
        """The number of messages that filters have examined, and the number of messages for which a filter failed."""
        return self._scanned_count, self._failed_count

    def poll(self, topic: TopicName, partition: int, request: PollRequest, *, user_id: int = NO_USER) -> Polled:
        """Return messages of a partition as stored bytes, without waiting.

        Args:
            request: A poll with a filter examines SCAN_BYTES and returns the offset that it has reached. A group that requests
                states other than `available` receives the messages' states in the group; see GroupStates.

        Raises:
            ConsumersLimitError: the poll commits for a new consumer and the user has reached the consumer limit.
            InvalidInputError: an argument is out of range or the consumer is missing.
            CorruptSendError: the next messages are damaged; a poll from the error's until_offset skips them.
        """
        request.check(topic)
        where, consumer, states = request.where, request.consumer, request.states
        chosen = None if where is None else check_states(where, states)
        if consumer is not None and consumer.kind is ConsumerKind.GROUP and states != AVAILABLE_ONLY:
            wanted = Wanted(request.count, request.size_bytes, None, chosen, request.until_offset)
            polled = self._in_group(self._read(topic, partition, request.start, wanted, consumer), topic, consumer, states)
        else:
            wanted = Wanted(request.count, request.size_bytes, states, chosen, request.until_offset)
            polled = self._read(topic, partition, request.start, wanted, consumer)
        if where is not None:
            with self._counting:
                self._scanned_count += polled.scanned_count
                self._failed_count += polled.failed_count
        if request.auto_commit and consumer is not None and (polled.count or (where is not None and polled.scanned_count)):
            generations = {partition: polled.generation}
            with suppress(NotFoundError, OffsetOutOfRangeError):  # deleted or purged since the read, with the consumer's offset
                self._offsets.commit(topic, consumer, {partition: polled.next_offset}, generations=generations, user_id=user_id)
        return polled

    def _in_group(self, polled: Polled, topic: TopicName, group: OffsetOwner, states: frozenset[int] | None) -> Polled:
        """Return a poll's result with the messages' states in a group."""
        record = self._backing.partition(topic, polled.partition)
        with self._groups.locked(record, group.name):
            journal = self._journals.find(record, group, polled.partition).journal
            state = journal.load(self._backing.log.offsets(record).committed_at(group, polled.partition))
            return in_group(polled, state, states)

    def _read(
        self, topic: TopicName, partition: int, strategy: PollingStrategy, wanted: Wanted, consumer: OffsetOwner | None
    ) -> Polled:
        """Read a page; repeat the read if files were replaced or removed meanwhile."""
        log, count = self._backing.log, wanted.count
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            record = self._backing.partition(topic, partition)
            committed = None
            written_end = log.written_end(record, partition) or None if log.is_writer else None
            known = PartitionStates(log.states, record, partition)
            try:
                if consumer is not None and strategy.kind is PollingKind.NEXT:
                    committed = log.offsets(record).committed(consumer, partition)
                    if committed is None:  # a deletion or purge removes the committed offset before the messages
                        check_exists(log.snapshot(), record, partition)
                with log.reading(record, partition) as follower:
                    if attempts_left < _ATTEMPTS - 1:
                        follower.refresh()
                    start = find_start(follower, strategy, committed, count, written_end)
                    place = partition, record.generation(partition)
                    return read_page(follower, place, start, wanted, known)
            except (OffsetOutOfRangeError, PartitionNotFoundError):  # concurrently expired, purged or deleted
                if not attempts_left:
                    raise
            except CorruptLogError as error:
                if attempts_left and self._is_made_anew(record, partition):
                    continue  # files of a recreated partition were read by the index of the old partition
                if isinstance(error, CorruptSendError):
                    raise _with_place(error, topic, partition) from error
                raise
            except HeaderError as error:  # raised by the filter
                error.where = f"{topic}, partition {partition}"
                raise
        raise AssertionError("unreachable")

    def measure(self, topic: TopicName, partition: int, from_offset: int, until_offset: int, size_bytes: int) -> tuple[int, int]:
        """Return the estimated stored bytes of a range, and the end of the last send within `size_bytes`.

        Only indexes are read. For a damaged partition, the result is 0 bytes and the partition's end.

        Args:
            from_offset: The first offset; expired offsets count as 0 bytes.
            size_bytes: Maximum size up to the returned end; the first send is included even if it is larger.
        """
        record = self._backing.partition(topic, partition)
        with self._backing.log.reading(record, partition) as follower:
            follower.refresh()
            try:
                size = follower.size_between(from_offset, until_offset)
                if from_offset >= follower.end_offset:
                    return size, follower.end_offset
                return size, follower.offset_after(from_offset, size_bytes)
            except CorruptLogError:
                return 0, follower.end_offset

    def count_segments(self, topic: TopicName, where: Filter) -> SegmentCounts:
        """Return how much of a topic a filter reads, from indexes and summaries; PartitionNotFoundError if purged meanwhile."""
        record = self._backing.topic(topic)
        count = skipped_count = size_bytes = skipped_bytes = 0
        for number in range(1, record.partitions + 1):
            with self._backing.log.reading(record, number) as follower:
                follower.refresh()
                size_bytes += follower.size_bytes()
                count += len(follower.segment_offsets)
                for base in follower.segment_offsets:
                    skipped = follower.skip(base, where)
                    if skipped is not None:
                        skipped_count += 1
                        skipped_bytes += follower.size_between(base, skipped[0])
        return SegmentCounts(count, skipped_count, size_bytes, skipped_bytes)

    def set_state(
        self,
        topic: TopicName,
        partition: int,
        offsets: Iterable[int],
        state: int,
        *,
        reason: str = "",
        by: str = "",
        user_id: int = NO_USER,
    ) -> None:
        """Set the state of messages and record the reason; the change is durable when the method returns.

        Args:
            state: A state code, 1 to 255.

        Raises:
            OffsetOutOfRangeError: a message does not exist; nothing is changed.
        """
        log = self._backing.writable_log()
        record = self._backing.partition(topic, partition)
        log.partition(record, partition).sync()  # a state survives a power failure, so the message must survive too
        changed = list(offsets)
        log.states.set(record, partition, changed, StateChange(-1, state, reason, by, self._backing.clock_us()))
        found = [
            Transition(TransitionKind.STATE_SET, *each, by, reason=reason, state=state_name(state))
            for each in ranges_of(sorted(set(changed)))
        ]
        self._transitions.record(GroupPlace(topic, "", partition, user_id), found)
        if state == MessageState.MARKED_FOR_DELETION:
            log.upkeep.start_removal(self._backing.clock_us)

    def remove_marked(self, topic: TopicName, partition: int, reason: str) -> Removal:
        """Remove messages marked for deletion with a reason from the disk, in one group of segments.

        Raises:
            LegalHoldError: the topic is under legal hold; nothing is removed.
            CorruptLogError: a segment is damaged; its messages are kept.
        """
        log = self._backing.writable_log()
        record = self._backing.partition(topic, partition)
        return MarkedRemoval(log, self._backing.clock_us).remove_now(record, partition, reason, most_groups=1)

    def states(self, topic: TopicName, partition: int, from_offset: int = 0, count: int = -1) -> list[StateChange]:
        """Return up to `count` (negative: all) messages in other states than available, from an offset on."""
        record = self._backing.partition(topic, partition)
        return self._backing.log.states.changes(record, partition, from_offset, count)

    def wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        timeout_ms: float,
        *,
        member: Member | None = None,
        generation: int = 0,
    ) -> bool:
        """Wait until a partition has a message at or after an offset; return False after `timeout_ms`.

        Args:
            positions: Partition -> offset.
            member: The waiting group member, if any; a change of the member's group also ends the wait.
        """
        directories, is_there = self._look_for(topic, positions, member, generation)
        return self._backing.log.wait(directories, is_there, timeout_ms / 1000, self._backing.monotonic)

    def begin_wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        on_notify: Callable[[], None],
        *,
        member: Member | None = None,
        generation: int = 0,
    ) -> Wait:
        """Start a wait that blocks no thread; for the arguments, see wait(); for `on_notify`, see Wait."""
        directories, is_there = self._look_for(topic, positions, member, generation)
        return Wait(self._backing.log.waiting, directories, lambda: is_there(directories), on_notify)

    def _look_for(
        self, topic: TopicName, positions: Mapping[int, int], member: Member | None, generation: int
    ) -> tuple[list[str], Callable[[Iterable[str]], bool]]:
        """Return the directories that a wait watches, and a function that checks directories for messages."""
        backing, log = self._backing, self._backing.log
        records = {partition: backing.partition(topic, partition) for partition in positions}
        places = {log.partition_directory(record, partition): partition for partition, record in records.items()}

        def end_offset(partition: int) -> int:
            written_end = log.written_end(records[partition], partition) if log.is_writer else 0
            if written_end:
                return written_end  # without reading the files
            with log.reading(records[partition], partition) as follower:
                follower.refresh()
                return follower.end_offset

        def is_there(directories: Iterable[str]) -> bool:
            if member is not None and self._groups.has_changed(topic, member, generation):
                return True
            for partition in (places[directory] for directory in directories if directory in places):
                try:
                    if self._is_made_anew(records[partition], partition):
                        return True  # purged or recreated: the next poll reports it
                    if end_offset(partition) != positions[partition]:
                        return True  # a message exists, or the position is invalid: the next poll reports it
                except (OffsetOutOfRangeError, PartitionNotFoundError):
                    return True  # concurrently expired, purged or deleted: the next poll reports it
            return False

        return ([*places] if member is None else [*places, log.groups_directory]), is_there


def _with_place(error: CorruptSendError, topic: TopicName, partition: int) -> CorruptSendError:
    """Return the error for unreadable messages with the poll's topic and partition."""
    return CorruptSendError(
        f"messages of {topic}, partition {partition}, cannot be read: {error.what}",
        where=error.where,
        advice=error.advice,
        partition=partition,
        from_offset=error.from_offset,
        until_offset=error.until_offset,
    )
