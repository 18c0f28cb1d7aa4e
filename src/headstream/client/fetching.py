"""Fetching: what to poll next, which message is next, and what may be committed. Sans-IO.

    fetching.next_polls()              where to poll: each partition in turn, with its position
    fetching.feed(polled, messages)    what came of it
    fetching.deliver()                 the next message, to the body of a loop
    fetching.finish()                  the body is done with it: its offset may be committed
    fetching.seek(partition, offset)   go on elsewhere; the place itself is committed with what comes next, or by release()
    fetching.hand_out(count)           messages at once, to a caller who says by release() when they are done
    fetching.committable()             partition -> offset to commit, once
    fetching.follow(assignment)        a member of a group: what it loses, what it can give up, what it gets

An offset is always that of the next message: one past the last that is done. Messages that a poll stepped over belong
to the one before them: with it, the offset moves past them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from headstream.errors import OffsetOutOfRangeError
from headstream.model.groups import Assignment
from headstream.model.message import ReceivedMessage
from headstream.model.polling import Polled

__all__ = ["Fetching"]


class Fetching:
    """The positions of one consumer.

    Args:
        positions: Partition -> offset of the next message to poll.
    """

    def __init__(self, positions: Mapping[int, int]) -> None:
        self._positions = dict(positions)
        self._buffer: deque[tuple[ReceivedMessage, int, int]] = deque()
        self._turn: deque[int] = deque(self._positions)
        self._delivered: tuple[int, int] | None = None
        self._handed_out: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._sought: dict[int, int] = {}
        self._generations: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._assignment = Assignment(-1)

    @property
    def positions(self) -> Mapping[int, int]:
        """Partition -> offset of the next message to poll."""
        return self._positions

    @property
    def generations(self) -> Mapping[int, int]:
        """Partition -> the generation that its position belongs to, where it has been polled."""
        return self._generations

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in hand: delivered, handed out or sought, and not done or not committed."""
        return self._delivered is None and not self._handed_out and not self._done and not self._sought

    @property
    def is_empty(self) -> bool:
        """Whether everything that came has been delivered."""
        return not self._buffer

    def next_polls(self) -> Iterable[tuple[int, int]]:
        """Return each partition with its position, beginning after the one that was fed last."""
        return [(partition, self._positions[partition]) for partition in self._turn if partition not in self._assignment.revoked]

    def expected(self) -> tuple[int, int] | None:
        """Return the partition whose turn is next and that has more, with its position, as far as is known; or None."""
        for partition, position in self.next_polls():
            if self._ends.get(partition, position) > position:
                return partition, position
        return None

    def feed(self, polled: Polled, messages: Iterable[ReceivedMessage]) -> None:
        """Take in what a poll brought.

        Args:
            polled: The poll's result.
            messages: The messages in it.

        Raises:
            OffsetOutOfRangeError: the position is behind the end, nothing was ever written there; or the partition is not
                the one that was polled before.
        """
        partition = polled.partition
        position = self._positions[partition]
        if self._generations.setdefault(partition, polled.generation) != polled.generation:
            raise OffsetOutOfRangeError(
                f"partition {partition} has been purged or made anew since offset {position} was reached",
                advice="seek() to where to go on, as in seek(partition, 'first')",
            )
        if position > polled.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {position} of partition {partition} was never written: the partition ends at {polled.end_offset}",
                advice="seek() to where to go on",
            )
        self._positions[partition] = polled.next_offset
        self._ends[partition] = polled.end_offset
        came = [(message, partition, (message.offset or 0) + 1) for message in messages]
        if came:
            came[-1] = (came[-1][0], partition, polled.next_offset)
            self._buffer.extend(came)
            while self._turn[-1] != partition:
                self._turn.rotate(-1)
        elif polled.next_offset > position:
            self._step_over(partition, polled.next_offset)

    def _step_over(self, partition: int, next_offset: int) -> None:
        if self._delivered is not None and self._delivered[0] == partition:
            self._delivered = partition, next_offset
        elif partition in self._handed_out:
            self._handed_out[partition] = next_offset
        elif partition in self._sought:
            self._sought[partition] = next_offset
        else:
            self._done[partition] = next_offset

    def deliver(self) -> ReceivedMessage | None:
        """Return the next message, or None where there is none; finish() says when it is done."""
        if not self._buffer:
            return None
        message, partition, next_offset = self._buffer.popleft()
        self._delivered = partition, next_offset
        return message

    def finish(self) -> None:
        """Take note that the message delivered last is done."""
        if self._delivered is not None:
            partition, next_offset = self._delivered
            self._done[partition] = next_offset
            self._delivered = None

    def settle_seeks(self) -> None:
        """Take note that the places sought are where the consumer goes on from, by iteration or by a commit."""
        if self._sought:
            self._done.update(self._sought)
            self._sought.clear()

    def hand_out(self, count: int) -> list[ReceivedMessage]:
        """Return up to so many messages; release() says when they are done."""
        messages: list[ReceivedMessage] = []
        while self._buffer and len(messages) < count:
            message, partition, next_offset = self._buffer.popleft()
            self._handed_out[partition] = next_offset
            messages.append(message)
        return messages

    def release(self) -> None:
        """Take note that everything delivered or handed out is done, and that what was sought is where it goes on."""
        self.settle_seeks()
        self._done.update(self._handed_out)
        self._handed_out.clear()
        self.finish()

    def finish_up_to(self, partition: int, offset: int) -> bool:
        """Take note that a message is done, with all before it in its partition, and return whether that is read still."""
        if partition not in self._positions:
            return False
        self._done[partition] = offset + 1
        if self._handed_out.get(partition, offset + 2) <= offset + 1:
            del self._handed_out[partition]
        if self._delivered is not None and self._delivered[0] == partition and self._delivered[1] <= offset + 1:
            self._delivered = None
        return True

    def committable(self) -> dict[int, int]:
        """Return partition -> offset of what is done since the last time; the caller commits it."""
        done, self._done = self._done, {}
        return done

    def seek(self, partition: int, offset: int) -> None:
        """Go on from another offset in a partition; what was not yet delivered of it is dropped."""
        self._move(partition, offset)
        self._sought[partition] = offset

    def _move(self, partition: int, offset: int) -> None:
        self._buffer = deque(entry for entry in self._buffer if entry[1] != partition)
        self._positions[partition] = offset
        self._generations.pop(partition, None)
        self._handed_out.pop(partition, None)
        self._done.pop(partition, None)
        self._sought.pop(partition, None)
        if self._delivered is not None and self._delivered[0] == partition:
            self._delivered = None

    def follow(self, assignment: Assignment) -> tuple[list[int], list[int]]:
        """Take note of what a member of a group has now.

        What was fetched and not delivered of a partition that is to be given up is dropped: its next owner gets it.

        Args:
            assignment: What it has.

        Returns:
            The partitions that it can give up, nothing of them being in hand; and those that are new, for begin().
        """
        held = {**assignment.partitions, **assignment.revoked}
        before, self._assignment = self._assignment, assignment
        for partition in list(self._positions):
            if held.get(partition, assignment.generation + 1) > before.generation:  # another may have had it meanwhile
                self._end(partition)
        released = []
        for partition in sorted(assignment.revoked):
            self._buffer = deque(entry for entry in self._buffer if entry[1] != partition)
            if not self._is_in_hand(partition):
                self._end(partition)
                released.append(partition)
        return released, sorted(assignment.partitions - self._positions.keys())

    def forget(self) -> None:
        """Take note that its membership has ended: whatever it is told that it has now, it has anew."""
        self._assignment = Assignment(-1)

    def begin(self, partition: int, offset: int) -> None:
        """Read a partition too, from an offset on."""
        self._positions[partition] = offset
        self._turn.append(partition)

    def _is_in_hand(self, partition: int) -> bool:
        is_delivered = self._delivered is not None and self._delivered[0] == partition
        return is_delivered or partition in self._handed_out or partition in self._done or partition in self._sought

    def _end(self, partition: int) -> None:
        if partition in self._positions:
            self._move(partition, 0)
            del self._positions[partition]
            self._turn.remove(partition)
