"""Track: the state of one partition in a consumer that retries messages. Sans-IO; times are monotonic seconds.

begun_until  one past the last message taken from the fetched messages
open         messages before begun_until that are not done: delivered, delayed, or waiting for a failing message
reported     open messages that the log has recorded; their completion must also be recorded
known        messages that the group had not finished when the consumer started and that are not yet fetched
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headstream.core.model.deliveries import DeliveryChange, DeliveryStep, RetryOrder
from headstream.core.model.offset_ranges import OffsetRanges


@dataclass(slots=True)
class OpenMessage:
    """A message that is not done.

    Args:
        in_hand: Whether the message was delivered to the user.
        is_begun: Whether the log has recorded the start of the attempt.
    """

    key: bytes | None = None
    failures: int = 0
    in_hand: bool = False
    is_begun: bool = False


@dataclass(slots=True)
class Known:
    """A group's unfinished messages of a partition when a consumer starts.

    Args:
        begun_until: All messages before this offset are done, except `pending` and `failing`.
        pending: Offsets of messages that have not failed.
        failing: Offset -> number of failures, and the earliest time of the next attempt.
    """

    begun_until: int = 0
    pending: OffsetRanges = field(default_factory=OffsetRanges)
    failing: dict[int, tuple[int, float]] = field(default_factory=dict)


class Track:
    """One partition.

    Args:
        position: Offset of the first message.
        order: Which messages wait for a failing message.
    """

    def __init__(self, position: int, known: Known, order: RetryOrder) -> None:
        self.begun_until = position
        self.known = known
        self.open: dict[int, OpenMessage] = {}
        self.is_first = True
        self.is_sought = False
        self._order = order
        self._reported = OffsetRanges(known.pending)
        for offset in known.failing:
            self._reported.add(offset, offset + 1)
        self._unrecorded: set[int] = set()
        self._finished: list[int] = []
        self._passed = OffsetRanges()
        self._done_until = known.begun_until
        self._committed = position
        self._failing: dict[bytes | None, set[int]] = {}
        self._waiting: dict[bytes | None, list[int]] = {}

    @property
    def base(self) -> int:
        """The first offset that this consumer does not know to be done."""
        return min(self.open) if self.open else self.begun_until

    @property
    def is_blocked(self) -> bool:
        """Whether the partition delivers no message until a failing message is done."""
        return self._order is RetryOrder.PARTITION and bool(self._failing)

    def take(self, offset: int, key: bytes | None, next_offset: int) -> float | None:
        """Take a fetched message; return the time at which it can be delivered (0: now), or None if it is done or must wait."""
        self._pass(offset)
        self.begun_until = offset + 1
        self._pass(next_offset)
        failures, due_s = self.known.failing.pop(offset, (0, 0.0))
        if not failures and offset < self.known.begun_until and offset not in self.known.pending:
            return None
        self.open[offset] = OpenMessage(key, failures)
        if offset not in self._reported:
            self._unrecorded.add(offset)
        if failures:
            self._failing.setdefault(self._group_of(key), set()).add(offset)
            return due_s
        return None if self.wait(offset) else 0.0

    def wait(self, offset: int) -> bool:
        """Make a message wait if it must follow an earlier failing message; return whether it waits."""
        key = self.open[offset].key
        if self._order is RetryOrder.SKIP or (self._order is RetryOrder.KEY and key is None):
            return False
        if any(other < offset for other in self._failing.get(self._group_of(key), ())):
            self._waiting.setdefault(self._group_of(key), []).append(offset)
            return True
        return False

    def fail(self, offset: int, failures: int) -> None:
        """Record a failure that is stored in the log."""
        message = self.open[offset]
        message.failures, message.in_hand, message.is_begun = failures, False, False
        self._failing.setdefault(self._group_of(message.key), set()).add(offset)
        self.mark_reported(offset)

    def mark_reported(self, offset: int) -> None:
        """Record that an open message is stored in the log."""
        self._unrecorded.discard(offset)
        self._reported.add(offset, offset + 1)

    def finish(self, offset: int, *, is_reported: bool = False) -> list[int]:
        """Mark a message as done (`is_reported`: also in the log); return the offsets that waited only for this message."""
        message = self.open.pop(offset, None)
        if message is None:
            return []
        self._unrecorded.discard(offset)
        self._done_until = max(self._done_until, offset + 1)
        if offset in self._reported:
            self._reported.remove(offset, offset + 1)
            if not is_reported:
                self._finished.append(offset)
        group = self._group_of(message.key)
        failing = self._failing.get(group, set())
        if offset not in failing:
            return []
        failing.discard(offset)
        if not failing:
            del self._failing[group]
        first, waiting = min(failing, default=self.begun_until), self._waiting.pop(group, [])
        if len(failing) and waiting:
            self._waiting[group] = [each for each in waiting if each > first]
        return sorted(each for each in waiting if each <= first and each in self.open)

    def pass_over(self, next_offset: int) -> None:
        """Record that messages before an offset were skipped."""
        self._pass(next_offset)
        self._done_until = max(self._done_until, next_offset)

    def _pass(self, next_offset: int) -> None:
        """Advance to an offset; unfinished messages before it are done, because they are hidden, removed, or filtered out."""
        for each in self._reported.within(self.begun_until, next_offset):
            self._reported.remove(*each)
            self._passed.add(*each)
        self.begun_until = max(self.begun_until, next_offset)

    def plain_commit(self) -> int | None:
        """Return the offset whose commit records all steps; None if other steps must also be recorded."""
        base = self.base
        is_plain = not (self.is_sought or self._finished or len(self._passed) or len(self._reported)) and self._done_until <= base
        return base if is_plain and self.begun_until >= self.known.begun_until else None

    @property
    def is_settled(self) -> bool:
        """Whether all steps are recorded in the log."""
        plain = self.plain_commit()
        if plain is not None:
            return plain <= self._committed
        return not (self.is_sought or self._finished or len(self._passed)) and self._done_until <= self._committed

    def changes(self, extra: Iterable[DeliveryChange] = ()) -> tuple[int, list[DeliveryChange]]:
        """Return `begun_until`, all steps not recorded in the log, and the `extra` steps; the caller must then call settled()."""
        steps = list(extra)
        begun_until = max(self._done_until, *(step.until_offset for step in steps), 0)
        begin = [DeliveryChange(DeliveryStep.SOUGHT, self._committed, self._committed + 1)] if self.is_sought else []
        finished = OffsetRanges([*self._passed, *((at, at + 1) for at in self._finished)])
        done = [DeliveryChange(DeliveryStep.DONE, *each) for each in finished]
        named = {step.from_offset for step in steps}
        waits = OffsetRanges((at, at + 1) for at in self._unrecorded if at < begun_until and at not in named)
        pending = [DeliveryChange(DeliveryStep.PENDING, *each) for each in waits]
        return begun_until, [*begin, *done, *pending, *steps]

    def settled(self, begun_until: int) -> None:
        """Record that the log has stored all steps before an offset: the begun_until of changes(), or a committed offset."""
        self.is_sought = False
        self._finished.clear()
        self._passed = OffsetRanges()
        for offset in [offset for offset in self._unrecorded if offset < begun_until]:
            self.mark_reported(offset)
        self._committed = max(self._committed, begun_until)

    def committed(self, offset: int) -> None:
        """Record a plain commit."""
        self._committed = offset

    def seek(self, offset: int) -> None:
        """Restart at an offset after the log has recorded the seek."""
        self.__init__(offset, Known(), self._order)  # type: ignore[misc]
        self.is_sought = True

    def _group_of(self, key: bytes | None) -> bytes | None:
        return key if self._order is RetryOrder.KEY else None
