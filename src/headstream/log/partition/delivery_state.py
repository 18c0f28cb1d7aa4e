"""DeliveryState: a group's unfinished messages in one partition, and the effects of delivery steps. No I/O; time is an argument.

A message before `begun_until` is done, unless it is in `pending`, `expired`, `deferred`, `failing` or the offsets of a lease. A
leased or deferred message that has failed before is also in `failing`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from headstream.core.model.deliveries import (
    MAX_ATTEMPT_BYTES,
    MAX_FAILING,
    MAX_KEPT_ATTEMPTS,
    MAX_PENDING_RANGES,
    Attempt,
    Delivery,
    DeliveryChange,
    DeliveryStep,
    PartitionDeliveries,
    cut_error,
)
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.errors import LimitError

MAX_GIVEN_UP: Final = 100
"""Maximum number of dead-lettered messages, the newest, whose histories are kept. Their copies are in the dead-letter topic."""


@dataclass(slots=True)
class Lease:
    """Messages that were leased together.

    Args:
        begun_us: Start time, microseconds since 1970 UTC.
        offsets: The messages that are still leased.
        settled: The messages that the worker has settled, so that a repeated request has no effect.
        extended: Message -> end of its extended lease, microseconds since 1970 UTC.
    """

    token: int
    worker: str
    begun_us: int
    lease_us: int
    offsets: OffsetRanges
    settled: OffsetRanges = field(default_factory=OffsetRanges)
    extended: dict[int, int] = field(default_factory=dict)

    @property
    def until_us(self) -> int:
        """End time of the lease, microseconds since 1970 UTC."""
        return self.begun_us + self.lease_us


class DeliveryState:
    """The unfinished messages of one group in one partition.

    Attributes:
        base: The committed offset when the state was last stored. A smaller offset that was committed later is a rewind; a
            smaller offset that was committed earlier is left over from a power failure and is ignored.
        begun_until: One past the last message whose processing was started.
        poisoned_count: Number of dead-lettered messages.
        given_up: The newest dead-lettered messages, oldest first.
        expired: Messages whose first lease has ended: one attempt is counted, and the messages can be leased again.
        deferred: Messages that are only leased if requested by offset.
        leased: The leased messages of all leases.
        leases: Leases by token, in the order of their start, including the newest ended leases.
    """

    def __init__(self) -> None:
        self.base = self.stored_us = self.begun_until = self.poisoned_count = 0
        self.pending = OffsetRanges()
        self.failing: dict[int, Delivery] = {}
        self.given_up: deque[Delivery] = deque(maxlen=MAX_GIVEN_UP)
        self.expired = OffsetRanges()
        self.deferred = OffsetRanges()
        self.leased = OffsetRanges()
        self.leases: dict[int, Lease] = {}

    @property
    def _waiting(self) -> tuple[OffsetRanges, ...]:
        return self.pending, self.expired, self.deferred

    @property
    def is_empty(self) -> bool:
        """Whether the committed offset describes the state completely."""
        return not (self.failing or self.leases or self.given_up) and not any(map(len, self._waiting))

    @property
    def ranges_count(self) -> int:
        """The number of ranges in the state."""
        return sum(map(len, self._waiting)) + len(self.leased)

    def apply_committed(self, committed: int, committed_us: int) -> bool:
        """Mark messages before the committed offset as done; return whether the offset was set back, which restarts the group."""
        is_rewound = committed < self.base and committed_us > self.stored_us
        if is_rewound:
            self.begin(committed)
        self.begun_until = max(self.begun_until, committed)
        if self.first_open() < committed:
            self.finish(0, committed)
        return is_rewound

    def begin(self, offset: int) -> None:
        """Clear the state: the group starts at an offset."""
        stored_us, count = self.stored_us, self.poisoned_count
        self.__init__()  # type: ignore[misc]
        self.base = self.begun_until = offset
        self.stored_us, self.poisoned_count = stored_us, count

    def first_open(self) -> int:
        """Return the first offset that is not done."""
        candidates = [self.begun_until, *self.failing]
        for ranges in (*self._waiting, self.leased):
            if ranges.first is not None:
                candidates.append(ranges.first)
        return min(candidates)

    def open_within(self, from_offset: int, until_offset: int) -> list[tuple[int, int]]:
        """Return the unfinished parts of a range."""
        found = OffsetRanges((offset, offset + 1) for offset in self.failing_within(from_offset, until_offset))
        for ranges in (*self._waiting, self.leased):
            for each in ranges.within(from_offset, until_offset):
                found.add(*each)
        if self.begun_until < until_offset:
            found.add(max(self.begun_until, from_offset), until_offset)
        return list(found)

    def apply(self, changes: Iterable[DeliveryChange], now_us: int, worker: str = "") -> list[Delivery]:
        """Apply steps; return the poisoned messages, which the caller must dead-letter. LimitError if too many are unfinished."""
        poisoned: list[Delivery] = []
        for change in changes:
            offset = change.from_offset
            if change.step is DeliveryStep.SOUGHT:
                self.begin(offset)
                continue
            if change.step is DeliveryStep.DONE:
                self.finish(offset, change.until_offset)
                continue
            if change.step is DeliveryStep.PENDING:
                self.wait(offset, change.until_offset)
                continue
            known = self.failing.get(offset, Delivery(offset))
            if change.step is DeliveryStep.RELEASED:
                changed = replace(known, is_begun=False)
            elif change.step is DeliveryStep.BEGUN:
                changed = replace(known, is_begun=True)
            elif change.failures > known.failures or not known.failures:
                changed = record_failure(known, change.failures, change.error, change.delay_us, now_us, worker)
            else:
                changed = known  # a repeated request
            if change.step is DeliveryStep.POISONED:
                changed = replace(changed, reason=known.reason or change.reason)
                poisoned.append(changed)
            self.fail(changed)
            if not changed.failures and not changed.is_begun:  # released before its first failure
                del self.failing[offset]
                self.pending.add(offset, offset + 1)
        self._check()
        return poisoned

    def fail(self, changed: Delivery) -> None:
        """Record a message that failed or whose attempt was started."""
        offset = changed.offset
        self.pending.remove(offset, offset + 1)
        self.expired.remove(offset, offset + 1)
        self.failing[offset] = changed

    def give_up(self, each: Delivery) -> None:
        """Store the history of a dead-lettered message; a repeated call has no effect."""
        if all(known.offset != each.offset for known in self.given_up):
            self.given_up.append(each)

    def wait(self, from_offset: int, until_offset: int) -> None:
        """Record that messages wait; failing messages stay unchanged."""
        self.pending.add(from_offset, until_offset)
        for offset in self.failing_within(from_offset, until_offset):
            self.pending.remove(offset, offset + 1)

    def failing_within(self, from_offset: int, until_offset: int) -> list[int]:
        """Return the failed messages of a range."""
        if until_offset - from_offset > len(self.failing):
            return sorted(offset for offset in self.failing if from_offset <= offset < until_offset)
        return [offset for offset in range(from_offset, until_offset) if offset in self.failing]

    def finish(self, from_offset: int, until_offset: int) -> None:
        """Record that messages are done."""
        for ranges in self._waiting:
            ranges.remove(from_offset, until_offset)
        for offset in self.failing_within(from_offset, until_offset):
            del self.failing[offset]
        if self.leased.within(from_offset, until_offset):  # a consumer that does not lease has taken over the group
            self.leased.remove(from_offset, until_offset)
            for lease in self.leases.values():
                lease.offsets.remove(from_offset, until_offset)

    # -- leases ---------------------------------------------------------------------------------------------------

    def grant(self, lease: Lease) -> None:
        """Record a lease; messages that failed before keep their failures."""
        for from_offset, until_offset in lease.offsets:
            for ranges in self._waiting:
                ranges.remove(from_offset, until_offset)
            self.leased.add(from_offset, until_offset)
        self.leases[lease.token] = lease

    def finish_leased(self, token: int, from_offset: int, until_offset: int) -> None:
        """Record that a worker has reported leased messages as done."""
        self._give_back(token, from_offset, until_offset)
        self.leases[token].settled.add(from_offset, until_offset)
        self.finish(from_offset, until_offset)

    def expire(self, token: int, from_offset: int, until_offset: int) -> None:
        """Record that a lease of messages has ended; messages that failed before keep their failures."""
        self._give_back(token, from_offset, until_offset)
        self.expired.add(from_offset, until_offset)
        for offset in self.failing_within(from_offset, until_offset):
            self.expired.remove(offset, offset + 1)

    def _give_back(self, token: int, from_offset: int, until_offset: int) -> None:
        lease = self.leases[token]
        lease.offsets.remove(from_offset, until_offset)
        self.leased.remove(from_offset, until_offset)
        if lease.extended:
            for offset in [offset for offset in lease.extended if from_offset <= offset < until_offset]:
                del lease.extended[offset]

    def _check(self) -> None:
        if len(self.failing) > MAX_FAILING or len(self.pending) > MAX_PENDING_RANGES:
            raise LimitError(
                f"{len(self.failing)} messages of the partition are failing and {len(self.pending)} ranges are pending",
                advice=f"Acknowledge or reject some messages first; the limits are {MAX_FAILING} and {MAX_PENDING_RANGES}",
            )

    def snapshot(self, base: int | None, now_us: int) -> PartitionDeliveries:
        """Return the state for a consumer that does not lease; leased and deferred messages appear as waiting."""
        failing = tuple(self.failing[offset] for offset in sorted(self.failing))
        pending = self.pending
        if len(self.expired) or len(self.deferred) or len(self.leased):
            pending = OffsetRanges(each for ranges in (*self._waiting, self.leased) for each in ranges)
            for offset in self.failing:
                pending.remove(offset, offset + 1)
        return PartitionDeliveries(base, self.begun_until, tuple(pending), failing, now_us, self.poisoned_count)


def record_failure(
    known: Delivery, failures: int, error: str, delay_us: int, now_us: int, worker: str = "", begun_us: int = 0
) -> Delivery:
    """Return a message's state after a failure; `begun_us` is the time of its lease, 0 if unknown."""
    error = cut_error(error)
    cut = (cut_error(text, MAX_ATTEMPT_BYTES) for text in (worker, error))
    return replace(
        known,
        failures=failures,
        is_begun=False,
        failed_us=now_us,
        first_failed_us=known.first_failed_us or now_us,
        delay_us=delay_us,
        first_error=known.first_error if known.failures else error,
        last_error=error,
        attempts=(*known.attempts, Attempt(failures, now_us, begun_us, *cut))[-MAX_KEPT_ATTEMPTS:],
    )


def retried(each: Delivery, worker: str) -> Transition:
    """Return the transition of a message that failed and is retried."""
    place = each.offset, each.offset + 1
    return Transition(TransitionKind.RETRIED, *place, worker, each.failures, each.delay_us, "", each.last_error)
