"""RetryingFetching: chooses the next message while failed messages wait for another attempt. Sans-IO; monotonic seconds.

fetching.due(now_s)                            the next message to fetch again, after its delay or after another message
fetching.put_again(partition, offset, message) adds a message that was fetched again
fetching.deliver() / hand_out(count)           as in Fetching; refetched messages come first
fetching.broken                                the message that could not be decoded, after a deliver() or hand_out()
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from headstream.client.consumer.fetching import Fetching, Transform
from headstream.client.consumer.retrying.track import Known, Track
from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.message import ReceivedMessage, set_attempt

MAX_OPEN: Final = 5_000
"""Maximum open messages of a partition, half of the log's limit; above it, the partition is not fetched."""


class Broken(NamedTuple):
    """A message that could not be transformed for delivery."""

    stored: ReceivedMessage
    partition: int
    error: Exception


class RetryingFetching(Fetching):
    """Positions and messages of one consumer that retries messages.

    Args:
        order: Which messages wait for a failing message.
        load: Returns a group's unfinished messages of a partition.

    Attributes:
        broken: The message that could not be decoded, or None.
        succeeded_count: Number of successful attempts not yet reported to the log.
    """

    def __init__(
        self,
        order: RetryOrder,
        transform: Transform | None,
        load: Callable[[int], Known],
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__({}, transform)
        self._order = order
        self._load = load
        self._is_paused = is_paused
        self.succeeded_count = 0
        self._again: deque[tuple[ReceivedMessage, int]] = deque()
        self._due: list[tuple[float, int, int]] = []
        self._asked: tuple[float, int, int] | None = None
        self._current: tuple[int, int] | None = None
        self._touched: set[int] = set()
        self.broken: Broken | None = None
        self.tracks: dict[int, Track] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no message is in progress and all steps are recorded in the log."""
        return not (self.has_in_hand or self._pending_seeks) and all(track.is_settled for track in self.tracks.values())

    @property
    def has_in_hand(self) -> bool:
        """Whether a loop or a poll has delivered a message that is not settled."""
        return self._current is not None or bool(self._handed_out)

    @property
    def is_empty(self) -> bool:
        """Whether all fetched messages have been delivered or no fetched message can be delivered yet."""
        return (not self._again and not self._buffer) or self._is_paused()

    @property
    def is_at_end(self) -> bool:
        """Whether all existing messages are delivered; see Fetching.is_at_end."""
        return not self._again and super().is_at_end

    @property
    def current(self) -> tuple[int, int] | None:
        """Partition and offset of the message that the loop body processes, or None."""
        return self._current

    @property
    def next_due_s(self) -> float | None:
        """The time of the next retry, or None; messages of revoked partitions are not retried."""
        revoked = self._assignment.revoked
        return min((due_s for due_s, partition, _ in self._due if partition not in revoked), default=None)

    def next_polls(self) -> list[tuple[int, int]]:
        """Return partitions to poll, with positions; omits blocked partitions and partitions with too many open messages."""
        return [
            (partition, position)
            for partition, position in super().next_polls()
            if not self.tracks[partition].is_blocked and len(self.tracks[partition].open) < MAX_OPEN
        ]

    # -- retries ------------------------------------------------------------------------------------------------

    def due(self, now_s: float) -> tuple[int, int] | None:
        """Return partition and offset of a message to fetch again, or None; the caller then calls put_again()."""
        revoked: list[tuple[float, int, int]] = []
        found = None
        while found is None and self._due and self._due[0][0] <= now_s:
            entry = heapq.heappop(self._due)
            _, partition, offset = entry
            track = self.tracks.get(partition)
            message = None if track is None else track.open.get(offset)
            if message is None or message.in_hand:
                continue
            if partition in self._assignment.revoked:
                revoked.append(entry)
            else:
                found = entry
        for entry in (*revoked, *(() if found is None else (found,))):
            heapq.heappush(self._due, entry)
        self._asked = found
        return None if found is None else found[1:]

    def put_again(self, partition: int, offset: int, message: ReceivedMessage | None) -> None:
        """Add a message that was fetched again; None means that the message was removed and is done."""
        if self._asked in self._due:
            self._due.remove(self._asked)
            heapq.heapify(self._due)
        if message is None:
            self.finish_one(partition, offset)
        else:
            self._again.append((message, partition))

    def fail(self, partition: int, offset: int, failures: int, due_s: float) -> None:
        """Record a failure: the message is retried at `due_s`; if it blocks the partition, buffered messages are dropped."""
        self._drop_from_hand(partition, offset)
        track = self.tracks[partition]
        track.fail(offset, failures)
        heapq.heappush(self._due, (due_s, partition, offset))
        self._take_back(partition)

    def _take_back(self, partition: int) -> None:
        """Drop the buffered messages of a blocked partition; they are fetched again later."""
        track = self.tracks[partition]
        if track.is_blocked:
            self._buffer = deque(entry for entry in self._buffer if entry[1] != partition)
            self._positions[partition] = track.begun_until

    def finish_one(self, partition: int, offset: int, *, is_reported: bool = False) -> None:
        """Record that a message is done; messages that waited for this message become due."""
        track = self.tracks.get(partition)
        opened = None if track is None else track.open.get(offset)
        if opened is not None and opened.in_hand and not is_reported:
            self.succeeded_count += 1
        self._drop_from_hand(partition, offset)
        if track is not None:
            self._touched.add(partition)
            for waiting in track.finish(offset, is_reported=is_reported):
                heapq.heappush(self._due, (0.0, partition, waiting))

    def _drop_from_hand(self, partition: int, offset: int) -> None:
        if self._current == (partition, offset):
            self._current = None
        track = self.tracks.get(partition)
        message = None if track is None else track.open.get(offset)
        if message is not None:
            message.in_hand = False
        if partition in self._handed_out and not self._in_hand(partition):
            del self._handed_out[partition]

    def _in_hand(self, partition: int) -> list[int]:
        track = self.tracks.get(partition)
        return [] if track is None else [offset for offset, message in track.open.items() if message.in_hand]

    # -- delivery --------------------------------------------------------------------------------------------------

    def deliver(self) -> ReceivedMessage | None:
        """Return the next message or None; if None, `broken` can be a message that could not be transformed."""
        message = self._take()
        if message is not None:
            self._current = message.partition, message.offset
        return message

    def hand_out(self, count: int, *, is_first: bool = False) -> list[ReceivedMessage]:
        """Return at most `count` messages, up to the first message that cannot be transformed."""
        messages: list[ReceivedMessage] = []
        while len(messages) < count and (message := self._take()) is not None:
            self._handed_out[message.partition] = self.tracks[message.partition].begun_until
            messages.append(message)
        return messages

    def undeliver(self, messages: Iterable[ReceivedMessage]) -> None:
        """Put delivered messages back at the front of the buffer; messages that are not in progress are dropped."""
        back: list[tuple[ReceivedMessage, int]] = []
        for message in messages:
            track = self.tracks.get(message.partition)
            opened = None if track is None else track.open.get(message.offset)
            if opened is not None and opened.in_hand:
                self._drop_from_hand(message.partition, message.offset)
                if self._transforming is not None:
                    self._transforming.put_back(message)
                back.append((message, message.partition))
        self._again.extendleft(reversed(back))

    def put_back_broken(self) -> None:
        """Put the message that could not be transformed back at the front of the buffer."""
        if self.broken is not None:
            self._again.appendleft((self.broken.stored, self.broken.partition))
            self.broken = None

    def _take(self) -> ReceivedMessage | None:
        if self._is_paused():
            return None
        while self._again:
            stored, partition = self._again.popleft()
            track = self.tracks.get(partition)
            if track is not None and stored.offset in track.open and not track.wait(stored.offset):
                message = self._hand(track, partition, stored)
                if message is not None or self.broken is not None:
                    return message
        while self._buffer:
            stored, partition, next_offset = self._buffer.popleft()
            track = self.tracks[partition]
            due_s = track.take(stored.offset, stored.key, next_offset)
            if due_s:
                heapq.heappush(self._due, (due_s, partition, stored.offset))
                self._take_back(partition)
            elif due_s is None:
                self._touched.add(partition)  # done in an earlier session, perhaps without its commit
            else:
                message = self._hand(track, partition, stored)
                if message is not None or self.broken is not None:
                    return message
        return None

    def _hand(self, track: Track, partition: int, stored: ReceivedMessage) -> ReceivedMessage | None:
        offset = stored.offset
        try:
            message = stored if self._transforming is None else self._transforming(stored)
        except Exception as error:
            self.broken = Broken(stored, partition, error)
            return None
        if message is None:
            self.finish_one(partition, offset)
            return None
        opened = track.open[offset]
        opened.in_hand = True
        set_attempt(message, opened.failures + 1)
        return message

    def _step_over(self, partition: int, next_offset: int) -> None:
        self.tracks[partition].pass_over(next_offset)
        self._touched.add(partition)

    # -- progress ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Mark the last delivered message as done."""
        if self._current is not None:
            self.finish_one(*self._current)

    def apply_seeks(self) -> None:
        """Apply the pending seeks."""
        for partition, offset in self._pending_seeks.items():
            self.tracks[partition].seek(offset)
            self._touched.add(partition)
        self._pending_seeks.clear()

    def release(self) -> None:
        """Mark all delivered messages as processed, and apply the pending seeks."""
        self.apply_seeks()
        self.finish()
        for partition in list(self._handed_out):
            for offset in self._in_hand(partition):
                self.finish_one(partition, offset)

    def finish_up_to(self, partition: int, offset: int) -> bool:
        """Mark a partition's delivered messages up to an offset as done; return whether the partition is still read."""
        if partition not in self._positions:
            return False
        for other in self._in_hand(partition):
            if other <= offset:
                self.finish_one(partition, other)
        return True

    # -- partitions ---------------------------------------------------------------------------------------------------

    def _move(self, partition: int, offset: int) -> None:
        super()._move(partition, offset)
        self._again = deque(entry for entry in self._again if entry[1] != partition)
        self._due = [entry for entry in self._due if entry[1] != partition]
        heapq.heapify(self._due)
        if self._current is not None and self._current[0] == partition:
            self._current = None
        if partition in self.tracks:
            self.tracks[partition] = Track(offset, Known(), self._order)

    def begin(self, partition: int, offset: int) -> None:
        """Start reading a partition at an offset."""
        self.tracks[partition] = Track(offset, self._load(partition), self._order)
        super().begin(partition, offset)

    def _is_in_hand(self, partition: int) -> bool:
        is_current = self._current is not None and self._current[0] == partition
        track = self.tracks.get(partition)
        is_settled = track is None or track.is_settled
        return is_current or partition in self._handed_out or partition in self._pending_seeks or not is_settled

    def end(self, partition: int) -> None:
        """Stop reading a partition."""
        super().end(partition)
        self.tracks.pop(partition, None)

    def open_partitions(self) -> list[int]:
        """Return the partitions with steps that are not recorded in the log."""
        is_open = {partition for partition in self._touched if partition in self.tracks and not self.tracks[partition].is_settled}
        self._touched = set(is_open)
        return sorted(is_open)
