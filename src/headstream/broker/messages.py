"""Messages: send, poll, wait, and their states."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headstream.broker.appends import Appends
from headstream.broker.backing import Backing
from headstream.broker.groups import Groups
from headstream.broker.states import select
from headstream.broker.waits import Wait
from headstream.codec.batch.scan import take
from headstream.errors import (
    CorruptLogError,
    CorruptSendError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
)
from headstream.model.groups import Member
from headstream.model.identifiers import TopicName
from headstream.model.message import MessageState, StateChange
from headstream.model.polling import Consumer, Polled, PollingKind, PollingStrategy, check_poll
from headstream.model.topology import MAX_BATCH_BYTES
from headstream.segments.follower import DEFAULT_CHUNK_BYTES, PartitionFollower

__all__ = ["Messages"]
_ATTEMPTS: Final = 5
"""Polls that retention or a purge takes the files from under, at most: they look again at what is there."""

_AVAILABLE: Final = frozenset({MessageState.AVAILABLE.value})


class Messages(Appends):
    """What can be done with messages."""

    def __init__(self, backing: Backing, groups: Groups) -> None:
        super().__init__(backing)
        self._groups = groups

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
        """Return messages of a partition as stored bytes; it does not wait for any.

        Args:
            topic: Stream and topic.
            partition: From 1.
            strategy: Where to begin; an offset that has been dropped stands for the first one that is there.
            count: The most messages, 1 or more.
            states: State codes to deliver, the others are stepped over; None delivers all.
            size_bytes: About the most bytes; one message comes whatever its size.
            consumer: Who polls: needed to begin at `next`, and to commit.
            auto_commit: Whether what is delivered is committed for the consumer at once.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            InvalidInputError: an argument is out of range, or the consumer is missing.
            CorruptSendError: the next messages are damaged; a poll from its until_offset goes on behind them.
        """
        check_poll(topic, strategy, count, size_bytes, consumer, auto_commit)
        log = self._backing.log
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            record = self._backing.partition(topic, partition)
            committed = None
            if consumer is not None and strategy.kind is PollingKind.NEXT:
                committed = log.offsets(record).committed(consumer, partition)
            written_end = log.written_end(record, partition) or None if log.is_writer else None
            next_exception = functools.partial(log.states.next_exception, record, partition)
            try:
                with log.reading(record, partition) as follower:
                    if attempts_left < _ATTEMPTS - 1:
                        follower.refresh()
                    start = _start(follower, strategy, committed, count, written_end)
                    place = partition, record.generation(partition)
                    polled = _read(follower, place, start, count, states, size_bytes, next_exception)
                break
            except (OffsetOutOfRangeError, PartitionNotFoundError):  # dropped, purged or deleted at this moment
                if not attempts_left:
                    raise
            except CorruptSendError as error:
                raise _with_place(error, topic, partition) from error
        if auto_commit and consumer is not None and polled.count:
            log.offsets(record).commit(consumer, partition, polled.next_offset, self._backing.clock_us())
        return polled

    def measure(self, topic: TopicName, partition: int, from_offset: int, until_offset: int, size_bytes: int) -> tuple[int, int]:
        """Return about how many stored bytes a range has, and where the last send ends that is within so many bytes.

        It asks the indexes alone. Where a damaged one cannot say, that is 0 bytes, and the partition's end.

        Args:
            topic: Stream and topic.
            partition: From 1.
            from_offset: The first one; dropped ones have no bytes.
            until_offset: One past the last one.
            size_bytes: How many bytes are to be found the end of: the first send's, where it is bigger.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
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

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = "", by: str = ""
    ) -> None:
        """Set the state of messages, and record why; it is durable when this returns.

        Args:
            topic: Stream and topic.
            partition: From 1.
            offsets: Which messages.
            state: A state code, 1 to 255.
            reason: Why.
            by: Who says so.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            OffsetOutOfRangeError: one of the messages is not there; nothing is changed.
            LogLockedError: another process is the writer.
        """
        log = self._backing.writable_log()
        record = self._backing.partition(topic, partition)
        log.partition(record, partition).sync()  # a state outlives a power cut, and so what it is the state of has to
        log.states.set(record, partition, offsets, StateChange(-1, state, reason, by, self._backing.clock_us()))

    def states(self, topic: TopicName, partition: int, from_offset: int = 0, count: int = -1) -> list[StateChange]:
        """Return the messages of a partition that are not available, by offset, with why, by whom and when.

        Args:
            topic: Stream and topic.
            partition: From 1.
            from_offset: The first offset that is looked at.
            count: The most messages; less than 0 is all.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
        """
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
        """Wait until a partition has a message at or after an offset, and return whether one has.

        Args:
            topic: Stream and topic.
            positions: Partition -> offset.
            timeout_ms: How long to wait at most.
            member: Who waits in a group: something new in its group ends the wait too,
            generation: the generation that it knows.
        """
        directories, is_there = self._look_for(topic, positions, member, generation)
        return self._backing.log.wait(directories, is_there, timeout_ms / 1000, self._backing.monotonic)

    def begin_wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        on_ring: Callable[[], None],
        *,
        member: Member | None = None,
        generation: int = 0,
    ) -> Wait:
        """Begin to wait without a thread; arguments as for wait().

        Args:
            topic: Stream and topic.
            positions: Partition -> offset.
            on_ring: See Wait.
            member: Who waits in a group.
            generation: The generation that it knows.
        """
        directories, is_there = self._look_for(topic, positions, member, generation)
        return Wait(self._backing.log.waiting, directories, lambda: is_there(directories), on_ring)

    def _look_for(
        self, topic: TopicName, positions: Mapping[int, int], member: Member | None, generation: int
    ) -> tuple[list[str], Callable[[Iterable[str]], bool]]:
        """Return the directories that a wait is about, and how to look whether there is something in some of them."""
        backing, log = self._backing, self._backing.log
        records = {partition: backing.partition(topic, partition) for partition in positions}
        places = {log.partition_directory(record, partition): partition for partition, record in records.items()}

        def end_offset(partition: int) -> int:
            written_end = log.written_end(records[partition], partition) if log.is_writer else 0
            if written_end:
                return written_end  # and no look at the files
            with log.reading(records[partition], partition) as follower:
                follower.refresh()
                return follower.end_offset

        def is_there(directories: Iterable[str]) -> bool:
            if member is not None and self._groups.has_changed(topic, member, generation):
                return True
            for partition in (places[directory] for directory in directories if directory in places):
                try:
                    if self._is_made_anew(records[partition], partition):
                        return True  # purged, or deleted and made again: the next poll tells
                    if end_offset(partition) != positions[partition]:
                        return True  # something is there, or the position never was: the next poll tells
                except (OffsetOutOfRangeError, PartitionNotFoundError):
                    return True  # dropped, purged or deleted just now: the next poll tells
            return False

        return ([*places] if member is None else [*places, log.groups_directory]), is_there


def _with_place(error: CorruptSendError, topic: TopicName, partition: int) -> CorruptSendError:
    """Return the error of messages that cannot be read, in the words of who polls."""
    return CorruptSendError(
        f"messages of {topic}, partition {partition}, cannot be read: {error.what}",
        where=error.where,
        advice=error.advice,
        partition=partition,
        from_offset=error.from_offset,
        until_offset=error.until_offset,
    )


def _start(
    follower: PartitionFollower, strategy: PollingStrategy, committed: int | None, count: int, written_end: int | None
) -> int:
    """Return the offset that a poll begins at; what the follower knows needs no look at the files.

    That is all there is where it knows what the writer, if that is this process, has written last.
    """
    offset = strategy.value if strategy.kind is PollingKind.OFFSET else committed
    if offset is not None:
        is_known = offset <= follower.end_offset - count or follower.end_offset == written_end
        if not (follower.first_offset <= offset and is_known):
            follower.refresh()
    else:
        follower.refresh()
        if strategy.kind is PollingKind.TIMESTAMP:
            offset = follower.offset_of(strategy.value)
        elif strategy.kind is PollingKind.LAST:
            offset = follower.find_last(count)
        else:
            offset = follower.first_offset
    return max(offset, follower.first_offset)


def _read(
    follower: PartitionFollower,
    place: tuple[int, int],
    start: int,
    count: int,
    states: frozenset[int] | None,
    size_bytes: int,
    next_exception: Callable[[int], int | None],
) -> Polled:
    """Read on from an offset of a place (partition, generation) until there are as many messages as wanted, or no more.

    Only where a message may not be available are states looked at; see log/states.py for why that is asked twice.
    """
    chunks: list[memoryview] = []
    found, rest, offset, end = 0, size_bytes, start, follower.end_offset
    wants_available = states is None or MessageState.AVAILABLE in states
    has_exceptions = next_exception(0) is not None
    if has_exceptions:
        follower.refresh()  # what was set aside in a segment that has been compacted since stands in its new files alone
    while found < count and offset < end and rest > 0:
        before = next_exception(offset) if has_exceptions else None
        if not wants_available:
            offset = end if before is None else min(before, end)
            if offset == end:
                break
        until, size = min(end, offset + count - found), min(rest, DEFAULT_CHUNK_BYTES)
        try:
            if has_exceptions:
                chunk, reached = follower.read_chunk(offset, until, size)
            else:
                chunk, reached = follower.ahead.read_chunk(follower, offset, until, size)
        except CorruptSendError:
            if not found:
                raise
            break  # what is before it is delivered, and the next poll begins with it
        has_exceptions = next_exception(0) is not None
        if has_exceptions:
            follower.ahead.forget()
        after = next_exception(offset) if has_exceptions else None
        is_mixed = any(first is not None and first < reached for first in (before, after))
        there = take(chunk, 0, len(chunk), len(chunk))[1] if follower.may_miss(offset) else reached - offset
        parts, selected = select(chunk, there, states if is_mixed or not wants_available else None)
        chunks += parts
        found += selected
        rest -= sum(map(len, parts))
        offset = reached
    partition, generation = place
    return Polled(partition, end, offset, found, tuple(chunks), generation)
