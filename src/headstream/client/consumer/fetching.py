"""Fetching: chooses the next poll, the next message, and the offsets that can be committed. Sans-IO.

    fetching.next_polls()              the partitions to poll with their positions, in rotation
    fetching.feed(polled, messages)    adds a poll result
    fetching.deliver()                 returns the next message, transformed, for a loop body
    fetching.finish()                  marks the message as processed: its offset can be committed
    fetching.seek(partition, offset)   continues at the offset; the position is committed with the next message, or by release()
    fetching.hand_out(count)           returns several messages; release() marks them as done
    fetching.undeliver(messages)       puts the last messages back: the caller did not receive them
    fetching.committable()             returns partition -> offset to commit, once
    fetching.follow(assignment)        applies a group assignment: lost, releasable and new partitions

A committed offset is always the offset of the next message: one past the last finished message. Committing a
message also commits the skipped messages that follow it in the same poll.

Interceptors and decoders transform a message when it is delivered. If the transformation raises an error, the message stays first
in the buffer and is not committed. Each further call raises the error again until seek() skips the message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from headstream.core.model.groups import Assignment
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import Polled
from headstream.errors import OffsetOutOfRangeError

Transform: TypeAlias = Callable[[ReceivedMessage], ReceivedMessage | None]
"""A stored message -> the message to deliver, or None if it was sent to a dead-letter topic."""


class Transforming:
    """Applies interceptors and a decoder to each message, only once even if the message is put back and delivered again."""

    def __init__(self, transform: Transform) -> None:
        self._transform = transform
        self._put_back: dict[tuple[int, int], ReceivedMessage] = {}

    def __call__(self, message: ReceivedMessage) -> ReceivedMessage | None:
        """Return the message to deliver, or None if the transformation drops it."""
        if self._put_back and self._put_back.pop((message.partition, message.offset), None) is message:
            return message
        return self._transform(message)

    def put_back(self, message: ReceivedMessage) -> None:
        """Record that a buffered message is already transformed."""
        self._put_back[message.partition, message.offset] = message


class Fetching:
    """The positions and buffered messages of one consumer.

    Args:
        positions: Partition -> offset of the next message to poll.
    """

    def __init__(self, positions: Mapping[int, int], transform: Transform | None = None) -> None:
        self._transforming = None if transform is None else Transforming(transform)
        self._positions = dict(positions)
        self._buffer: deque[tuple[ReceivedMessage, int, int]] = deque()
        self._cycle: deque[int] = deque(self._positions)
        self._delivered: tuple[int, int] | None = None
        self._handed_out: dict[int, int] = {}
        self._handed_out_before: frozenset[int] = frozenset()
        self._done: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._pending_seeks: dict[int, int] = {}
        self._generations: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._unscanned: set[int] = set()
        self.scanned_count = self.failed_count = 0
        self._assignment = Assignment(-1)

    @property
    def positions(self) -> Mapping[int, int]:
        """Partition -> offset of the next message to poll."""
        return self._positions

    @property
    def generations(self) -> Mapping[int, int]:
        """Partition -> the partition's generation at its first poll; only partitions that were polled."""
        return self._generations

    @property
    def is_idle(self) -> bool:
        """Whether no message is in progress, no seek is pending, and all finished messages are committed."""
        return self._delivered is None and not self._handed_out and not self._done and not self._pending_seeks

    @property
    def is_empty(self) -> bool:
        """Whether all fetched messages have been delivered."""
        return not self._buffer

    @property
    def is_scanning(self) -> bool:
        """Whether a filter has found no message yet in a partition that is not completely examined."""
        return any(partition in self._unscanned for partition, _ in self.next_polls())

    @property
    def is_at_end(self) -> bool:
        """Whether the only partition is delivered up to the end that its last poll reported; False for several partitions."""
        return len(self._cycle) == 1 and not self._buffer and self._ends.get(self._cycle[0]) == self._positions[self._cycle[0]]

    def next_polls(self) -> Iterable[tuple[int, int]]:
        """Return all partitions with their positions, starting after the partition that was polled last."""
        return [(partition, self._positions[partition]) for partition in self._cycle if partition not in self._assignment.revoked]

    def expected(self) -> tuple[int, int] | None:
        """Return the next partition that is known to have more messages, with its position; None if there is none."""
        for partition, position in self.next_polls():
            if self._ends.get(partition, position) > position:
                return partition, position
        return None

    def check_generation(self, polled: Polled) -> None:
        """Raise OffsetOutOfRangeError if a partition was purged or recreated since its first poll."""
        partition = polled.partition
        if self._generations.setdefault(partition, polled.generation) != polled.generation:
            raise OffsetOutOfRangeError(
                f"partition {partition} was purged or recreated after offset {self._positions[partition]} was reached",
                advice="seek() to the offset at which to continue, for example seek(partition, 'first')",
            )

    def feed(self, polled: Polled, messages: Iterable[ReceivedMessage]) -> None:
        """Add the result of a poll.

        Raises:
            OffsetOutOfRangeError: the position is past the end of the partition; see also check_generation().
        """
        partition = polled.partition
        position = self._positions[partition]
        self.check_generation(polled)
        if position > polled.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {position} of partition {partition} was never written: the partition ends at {polled.end_offset}",
                advice="seek() to the offset at which to continue",
            )
        self._positions[partition] = polled.next_offset
        self._ends[partition] = polled.end_offset
        self.scanned_count += polled.scanned_count
        self.failed_count += polled.failed_count
        self._unscanned.discard(partition)
        came = [(message, partition, (message.offset or 0) + 1) for message in messages]
        if came:
            came[-1] = (came[-1][0], partition, polled.next_offset)
            self._buffer.extend(came)
            while self._cycle[-1] != partition:
                self._cycle.rotate(-1)
        elif polled.next_offset > position:
            if polled.scanned_count and polled.next_offset < polled.end_offset:
                self._unscanned.add(partition)
            self._step_over(partition, polled.next_offset)

    def _step_over(self, partition: int, next_offset: int) -> None:
        is_delivered = self._delivered is not None and self._delivered[0] == partition
        if is_delivered and self._delivered is not None and self._delivered[1] > self._handed_out.get(partition, 0):
            self._delivered = partition, next_offset
        elif partition in self._handed_out:
            self._handed_out[partition] = next_offset
        elif partition in self._pending_seeks:
            self._pending_seeks[partition] = next_offset
        else:
            self._done[partition] = next_offset

    def deliver(self) -> ReceivedMessage | None:
        """Return the next message or None; finish() marks it as done. Dropped messages are done immediately."""
        while self._buffer:
            stored, partition, next_offset = self._buffer[0]
            message = stored if self._transforming is None else self._transforming(stored)
            self._buffer.popleft()
            self._delivered = partition, next_offset
            if message is not None:
                return message
            self.finish()
        return None

    def finish(self) -> None:
        """Mark the last delivered message as done."""
        if self._delivered is not None:
            partition, next_offset = self._delivered
            self._done[partition] = max(next_offset, self._done.get(partition, 0))  # the next poll may have started there
            if self._handed_out.get(partition, next_offset + 1) <= next_offset:
                del self._handed_out[partition]
            self._delivered = None

    def apply_seeks(self) -> None:
        """Apply the pending seeks; called by iteration and commits."""
        if self._pending_seeks:
            self._done.update(self._pending_seeks)
            self._pending_seeks.clear()

    def hand_out(self, count: int, *, is_first: bool = False) -> list[ReceivedMessage]:
        """Return up to `count` messages; release() marks them as done.

        Args:
            is_first: False if the messages extend the result of the previous call.
        """
        if is_first:
            self._handed_out_before = frozenset(self._handed_out)
        messages: list[ReceivedMessage] = []
        while self._buffer and len(messages) < count:
            stored, partition, next_offset = self._buffer[0]
            try:
                message = stored if self._transforming is None else self._transforming(stored)
            except Exception:
                if messages:  # returned first: the next call raises the error again
                    break
                raise
            self._buffer.popleft()
            self._handed_out[partition] = next_offset
            if message is not None:
                messages.append(message)
        return messages

    def undeliver(self, messages: Iterable[ReceivedMessage]) -> None:
        """Put the messages of the last deliver(), or of all hand_out() calls of a poll, back at the front of the buffer, in
        order. Messages of partitions that are no longer read are dropped.
        """
        entries: list[tuple[ReceivedMessage, int, int]] = []
        next_offsets: dict[int, int] = {}
        delivered = self._delivered
        for message in reversed(list(messages)):
            partition = message.partition
            if partition not in next_offsets:
                next_offset = self._take_from_hand(partition, message.offset)
                if next_offset is None:
                    continue
                next_offsets[partition] = next_offset
            if self._transforming is not None:
                self._transforming.put_back(message)
            entries.append((message, partition, next_offsets[partition]))
            next_offsets[partition] = message.offset
        self._buffer.extendleft(entries)
        if delivered is not self._delivered:  # returned by deliver(): messages that hand_out() returned stay in progress
            return
        for partition in next_offsets.keys() & self._handed_out.keys():
            if partition in self._handed_out_before:
                self._handed_out[partition] = next_offsets[partition]
            else:
                del self._handed_out[partition]

    def _take_from_hand(self, partition: int, offset: int) -> int | None:
        """Return the offset to commit after the last delivered message of a partition; None if no message is in progress."""
        if self._delivered is not None and self._delivered[0] == partition and offset < self._delivered[1]:
            next_offset, self._delivered = self._delivered[1], None
            return next_offset
        return self._handed_out.get(partition)

    def release(self) -> None:
        """Mark all delivered messages as processed, and apply the pending seeks."""
        self.apply_seeks()
        self._done.update(self._handed_out)
        self._handed_out.clear()
        self.finish()

    def finish_up_to(self, partition: int, offset: int) -> bool:
        """Mark a message and all earlier messages of its partition as done; return whether the partition is still read.

        A pending seek of the partition becomes committable, too. Messages that are already committed stay committed.
        """
        if partition not in self._positions:
            return False
        next_offset = max(offset + 1, self._pending_seeks.pop(partition, 0))
        if next_offset > self._committed.get(partition, 0):
            self._done[partition] = max(next_offset, self._done.get(partition, 0))
        if self._handed_out.get(partition, offset + 2) <= offset + 1:
            del self._handed_out[partition]
        if self._delivered is not None and self._delivered[0] == partition and self._delivered[1] <= offset + 1:
            self._delivered = None
        return True

    def committable(self) -> dict[int, int]:
        """Return partition -> offset for all messages done since the last call; the caller commits these offsets."""
        done, self._done = self._done, {}
        self._committed.update(done)
        return done

    def put_back(self, offsets: Mapping[int, int]) -> None:
        """Add the offsets of a failed commit to the next commit, for partitions that are still read."""
        for partition, offset in offsets.items():
            if partition in self._positions:
                self._done.setdefault(partition, offset)

    def seek(self, partition: int, offset: int) -> None:
        """Continue at another offset in a partition; undelivered messages of the partition are dropped."""
        self._move(partition, offset)
        self._pending_seeks[partition] = offset

    def _move(self, partition: int, offset: int) -> None:
        self._buffer = deque(entry for entry in self._buffer if entry[1] != partition)
        self._positions[partition] = offset
        self._unscanned.discard(partition)
        self._generations.pop(partition, None)
        self._handed_out.pop(partition, None)
        self._done.pop(partition, None)
        self._committed.pop(partition, None)
        self._pending_seeks.pop(partition, None)
        if self._delivered is not None and self._delivered[0] == partition:
            self._delivered = None

    def follow(self, assignment: Assignment) -> tuple[list[int], list[int]]:
        """Apply a new assignment. Return revoked partitions to release (no message in progress), and new partitions for begin().

        Undelivered messages of a revoked partition are dropped: the partition's next owner fetches them again.
        """
        held = {**assignment.partitions, **assignment.revoked}
        before, self._assignment = self._assignment, assignment
        for partition in list(self._positions):
            if held.get(partition, assignment.generation + 1) > before.generation:  # another member can have owned it meanwhile
                self.end(partition)
        released = []
        for partition in sorted(assignment.revoked):
            dropped = next((entry[0].offset for entry in self._buffer if entry[1] == partition), None)
            if dropped is not None:
                self._buffer = deque(entry for entry in self._buffer if entry[1] != partition)
                self._positions[partition] = dropped
            if not self._is_in_hand(partition):
                self.end(partition)
                released.append(partition)
        return released, sorted(assignment.partitions - self._positions.keys())

    def forget(self) -> None:
        """End the membership; the next assignment treats every partition as new."""
        self._assignment = Assignment(-1)

    def begin(self, partition: int, offset: int) -> None:
        """Start reading a partition at an offset."""
        self._positions[partition] = offset
        self._cycle.append(partition)

    def _is_in_hand(self, partition: int) -> bool:
        is_delivered = self._delivered is not None and self._delivered[0] == partition
        return is_delivered or partition in self._handed_out or partition in self._done or partition in self._pending_seeks

    def end(self, partition: int) -> None:
        """Stop reading a partition."""
        if partition in self._positions:
            self._move(partition, 0)
            del self._positions[partition]
            self._cycle.remove(partition)
