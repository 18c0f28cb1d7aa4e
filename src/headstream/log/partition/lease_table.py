"""LeaseTable: grants and ends leases of a group in one partition, applies workers' steps. No I/O; times are arguments.

    now_us      microseconds since 1970 UTC: stored and shown to users
    steady_us   microseconds of a monotonic clock: determines the end of leases and delays while the process runs

A lease that is read from a file lasts until its stored end, and at most for its full duration. A message whose lease has ended is
leased individually the next time, so that no other message is affected if the worker crashes again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from headstream.core.model.deliveries import MAX_FAILING, MAX_PENDING_RANGES, DeadLetterReason, Delivery
from headstream.core.model.leases import MAX_LEASE_US, SKIPPED, LeaseChange, LeasedRange, LeaseRefusal, LeaseStep
from headstream.core.model.offset_ranges import OffsetRanges, ranges_of
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.log.partition.delivery_journal import Touched
from headstream.log.partition.delivery_state import DeliveryState, Lease, record_failure, retried

# LeaseKeys: the first unfinished message of each key, for which later messages of the key wait. Sans-IO.


# LeaseOutcome: the effects of a lease change, for the journal, the dead letter, the worker and the counters.


@dataclass(slots=True)
class LeaseOutcome:
    """Effects of a change, for the journal, counters and audit rows.

    `settled` and `ended` contain a token and a range: messages that a worker settled, and messages whose lease has expired.
    `extended` contains tokens and messages with extended leases, `poisoned` the messages to dead-letter.
    """

    waits: list[tuple[int, int]] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)
    leased: list[int] = field(default_factory=list)
    settled: list[tuple[int, int, int]] = field(default_factory=list)
    ended: list[tuple[int, int, int]] = field(default_factory=list)
    deferred: list[tuple[int, int]] = field(default_factory=list)
    extended: list[tuple[int, int]] = field(default_factory=list)
    poisoned: list[Delivery] = field(default_factory=list)
    refused: list[LeaseRefusal] = field(default_factory=list)
    succeeded_count: int = 0
    failed_count: int = 0
    transitions: list[Transition] = field(default_factory=list)

    def touched(self) -> Touched:
        """Return the affected parts of the state, for the journal."""
        return Touched(
            waits=tuple(self.waits),
            failing=tuple(self.failing),
            leased=tuple(self.leased),
            settled=tuple(self.settled),
            ended=tuple(self.ended),
            deferred=tuple(self.deferred),
            extended=tuple(self.extended),
        )


class LeaseKeys:
    """A group's open messages in one partition, by key; not thread-safe. A message without a key never waits."""

    def __init__(self) -> None:
        self._queues: dict[bytes, deque[int]] = {}
        self._keys: dict[int, bytes] = {}
        self._ready: list[int] = []

    def add(self, offset: int, key: bytes | None) -> bool:
        """Add an unfinished message after earlier messages of its key; return whether the message can be leased now."""
        if key is not None:
            queue = self._queues.setdefault(key, deque())
            queue.append(offset)
            self._keys[offset] = key
            if len(queue) > 1:
                return False
        heapq.heappush(self._ready, offset)
        return True

    def finish(self, from_offset: int, until_offset: int) -> None:
        """Record that messages are done or deferred, so that the next message of each key no longer waits."""
        if until_offset - from_offset > len(self._keys):
            offsets = sorted(offset for offset in self._keys if from_offset <= offset < until_offset)
        else:
            offsets = [offset for offset in range(from_offset, until_offset) if offset in self._keys]
        for offset in offsets:
            key = self._keys.pop(offset)
            queue = self._queues[key]
            if queue[0] != offset:  # leased by a worker without order
                queue.remove(offset)
                continue
            queue.popleft()
            if queue:
                heapq.heappush(self._ready, queue[0])
            else:
                del self._queues[key]

    def release(self, from_offset: int, until_offset: int) -> None:
        """Record that messages can be leased again."""
        for offset in range(from_offset, until_offset):
            heapq.heappush(self._ready, offset)

    def take(self, count: int, pending: OffsetRanges) -> list[int]:
        """Return at most `count` messages that can be leased and do not wait for another message, in ascending order."""
        taken: list[int] = []
        while self._ready and len(taken) < count:
            offset = heapq.heappop(self._ready)
            key = self._keys.get(offset)
            is_first = key is None or self._queues[key][0] == offset
            if is_first and offset in pending and offset not in taken[-1:]:
                taken.append(offset)
        return taken


_WHOLE: Final = -1
"""Used instead of a message's offset: the end of the entire lease."""

_MAX_ENDED: Final = 1000
"""Maximum number of ended leases that are kept: repeated requests have no effect, and late requests are refused with a reason."""

_MAX_POISONED: Final = 100
"""Maximum number of messages that one grant dead-letters, because each message is copied."""

_LEAST_REPEATED: Final = 2


class LeaseTable:
    """The leases of one group in one partition; not thread-safe.

    Attributes:
        keys: The open messages by key; None if no order is required.
        interrupted: Messages whose dead letters are not stored yet.
    """

    def __init__(self, state: DeliveryState, now_us: int, steady_us: int) -> None:
        self.state = state
        self.keys: LeaseKeys | None = None
        self._ends: list[tuple[int, int, int]] = []
        self._end_of: dict[tuple[int, int], int] = {}
        self._due: list[tuple[int, int]] = []
        self._due_of: dict[int, int] = {}
        self._expired: deque[tuple[int, int, str, int]] = deque(maxlen=_MAX_ENDED)
        self._prune_at = 2 * _MAX_ENDED
        self.interrupted = {each.offset for each in state.failing.values() if each.reason}
        for lease in state.leases.values():
            if len(lease.offsets):
                self._set_end(lease.token, _WHOLE, steady_us + min(max(lease.until_us - now_us, 0), lease.lease_us))
                for offset, until_us in lease.extended.items():
                    self._set_end(lease.token, offset, steady_us + min(max(until_us - now_us, 0), MAX_LEASE_US))
        for each in state.failing.values():
            if each.offset not in state.leased and each.offset not in state.deferred:
                self._set_due(each.offset, steady_us + each.left_us(now_us))

    def _set_end(self, token: int, offset: int, end_us: int) -> None:
        self._end_of[token, offset] = end_us
        heapq.heappush(self._ends, (end_us, token, offset))

    def _set_due(self, offset: int, due_us: int) -> None:
        self._due_of[offset] = due_us
        heapq.heappush(self._due, (due_us, offset))

    def next_us(self) -> int | None:
        """Return the end of the next lease or delay, in monotonic microseconds; None if there is none."""
        while self._ends and self._end_of.get(self._ends[0][1:]) != self._ends[0][0]:
            heapq.heappop(self._ends)
        while self._due and self._due_of.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return min((each[0][0] for each in (self._ends, self._due) if each), default=None)

    def find(self, token: int) -> tuple[LeasedRange, ...]:
        """Return the ranges leased with a token."""
        lease = self.state.leases.get(token)
        return () if lease is None else tuple(self._describe_ranges(lease.offsets))

    # -- ends -----------------------------------------------------------------------------------------------------

    def end_leases(self, now_us: int, steady_us: int) -> LeaseOutcome:
        """End expired leases; each counts as a failed attempt."""
        outcome, state = LeaseOutcome(), self.state
        while self._ends and self._ends[0][0] <= steady_us:
            end_us, token, offset = heapq.heappop(self._ends)
            if self._end_of.get((token, offset)) != end_us:
                continue
            del self._end_of[token, offset]
            lease = state.leases.get(token)
            for begin, until in [] if lease is None else _ending(lease, offset):
                for each in state.failing_within(begin, until):
                    history = state.failing[each]
                    failed = record_failure(history, history.failures + 1, _ended(lease), 0, now_us, *_worker_of(lease))
                    state.failing[each] = failed
                    self._set_due(each, steady_us)
                    outcome.failing.append(each)
                state.expire(token, begin, until)
                outcome.ended.append((token, begin, until))
                outcome.failed_count += until - begin
                outcome.transitions.append(Transition(TransitionKind.EXPIRED, begin, until, _worker_of(lease)[0]))
                self._expired.append((begin, until, *_worker_of(lease)))
        return outcome

    # -- grants ---------------------------------------------------------------------------------------------------

    @property
    def can_begin(self) -> bool:
        """Whether new messages can be leased; False if too many messages are unfinished."""
        return len(self.state.failing) < MAX_FAILING // 2 and self.state.ranges_count < MAX_PENDING_RANGES // 2

    def grant(
        self, count: int, lease: Lease, *, attempts: int | None, end: int, steady_us: int, now_us: int
    ) -> tuple[LeaseOutcome, tuple[LeasedRange, ...]]:
        """Lease one message that failed before, or else waiting messages and messages from `begun_until` on.

        Args:
            attempts: Number of attempts after which a message fails permanently; None: no limit.
            end: End offset of the partition; with `keys`, only messages before `begun_until` are leased.
        """
        outcome, state = LeaseOutcome(), self.state
        offset = self._take_repeated(outcome, attempts, now_us, steady_us)
        if offset is not None:
            lease.offsets.add(offset, offset + 1)
        elif self.keys is not None:
            for begin, until in ranges_of(self.keys.take(count, state.pending)):
                lease.offsets.add(begin, until)
        else:
            self._take_new(count, lease.offsets, end)
        if len(lease.offsets):
            self._grant(lease, steady_us)
            self._note_lease(outcome, lease)
        return outcome, tuple(self._describe_ranges(lease.offsets))

    def grant_deferred(
        self, offsets: Iterable[int], lease: Lease, steady_us: int
    ) -> tuple[LeaseOutcome, tuple[LeasedRange, ...]]:
        """Lease deferred messages; other offsets are refused in the outcome."""
        outcome = LeaseOutcome()
        for offset in sorted(set(offsets)):
            if offset in self.state.deferred:
                lease.offsets.add(offset, offset + 1)
            else:
                outcome.refused.append(LeaseRefusal(offset, offset + 1, self.describe(offset)))
        if len(lease.offsets) and not outcome.refused:
            self._grant(lease, steady_us)
            self._note_lease(outcome, lease)
        return outcome, tuple(self._describe_ranges(lease.offsets))

    @staticmethod
    def _note_lease(outcome: LeaseOutcome, lease: Lease) -> None:
        outcome.leased.append(lease.token)
        for begin, until in lease.offsets:
            outcome.transitions.append(Transition(TransitionKind.LEASED, begin, until, lease.worker, delay_us=lease.lease_us))

    def _last_of(self, offset: int) -> tuple[str, int]:
        """Return the worker whose lease of a message ended, and the start of the lease, if known in this process."""
        known = ((worker, us) for begin, until, worker, us in reversed(self._expired) if begin <= offset < until)
        return next(known, ("", 0))

    def _grant(self, lease: Lease, steady_us: int) -> None:
        self.state.grant(lease)
        for begin, until in lease.offsets:
            self.state.begun_until = max(self.state.begun_until, until)
            for each in self.state.failing_within(begin, until):
                self._due_of.pop(each, None)
        self._set_end(lease.token, _WHOLE, steady_us + lease.lease_us)
        self._prune()

    def _take_repeated(self, outcome: LeaseOutcome, attempts: int | None, now_us: int, steady_us: int) -> int | None:
        state = self.state
        while len(outcome.poisoned) < _MAX_POISONED:
            if self._due and self._due[0][0] <= steady_us:
                due_us, offset = heapq.heappop(self._due)
                each = state.failing.get(offset)
                if self._due_of.get(offset) != due_us:
                    continue
                del self._due_of[offset]
                if each is None or each.reason:
                    continue
                if each.is_begun:  # by a consumer that does not lease, and that was killed
                    each = record_failure(each, each.failures + 1, "the consumer ended", 0, now_us)
                    outcome.failing.append(offset)
            elif state.expired.first is not None and len(state.failing) < MAX_FAILING:
                offset = state.expired.first
                last_worker = self._last_of(offset)
                each = record_failure(Delivery(offset), 1, "the lease expired", 0, now_us, *last_worker)
                outcome.failing.append(offset)
            else:
                return None
            state.fail(each)
            if attempts is None or each.failures < attempts:
                return offset
            state.failing[offset] = each = replace(each, reason=DeadLetterReason.MAX_ATTEMPTS.value)
            outcome.failing.append(offset)
            self._poison(outcome, each)
        return None

    def _poison(self, outcome: LeaseOutcome, each: Delivery) -> None:
        outcome.poisoned.append(each)
        self.interrupted.add(each.offset)

    def _take_new(self, count: int, into: OffsetRanges, end: int) -> None:
        state = self.state
        for begin, until in state.pending:
            if count <= 0:
                return
            until = min(until, begin + count)
            into.add(begin, until)
            count -= until - begin
        if count > 0 and state.begun_until < end and self.can_begin:
            into.add(state.begun_until, min(state.begun_until + count, end))

    def _describe_ranges(self, offsets: OffsetRanges) -> Iterable[LeasedRange]:
        for begin, until in offsets:
            at = begin
            for each in self.state.failing_within(begin, until):
                if at < each:
                    yield LeasedRange(at, each)
                yield LeasedRange(each, each + 1, self.state.failing[each].failures)
                at = each + 1
            if at < until:
                yield LeasedRange(at, until)

    def _prune(self) -> None:
        leases = self.state.leases
        if len(leases) >= self._prune_at:
            ended = [token for token, lease in leases.items() if not len(lease.offsets)]
            for token in ended[:-_MAX_ENDED]:
                del leases[token]
            self._prune_at = len(leases) + _MAX_ENDED
            self._ends = [each for each in self._ends if self._end_of.get(each[1:]) == each[0]]
            heapq.heapify(self._ends)

    # -- workers' steps -----------------------------------------------------------------------------------------

    def apply_changes(self, changes: Iterable[LeaseChange], now_us: int, steady_us: int) -> LeaseOutcome:
        """Apply workers' steps; the caller must dead-letter the poisoned messages."""
        outcome = LeaseOutcome()
        for change in changes:
            lease = self.state.leases.get(change.token)
            left = OffsetRanges([(change.from_offset, change.until_offset)])
            if lease is not None:
                before = lease.settled.within(change.from_offset, change.until_offset)
                for begin, until in lease.offsets.within(change.from_offset, change.until_offset):
                    left.remove(begin, until)
                    self._apply(outcome, lease, change, begin, until, now_us, steady_us)
                for begin, until in before:
                    if change.step is not LeaseStep.EXTENDED:  # a repeated request
                        left.remove(begin, until)
                        again = self.state.failing.get(begin)
                        if change.step is LeaseStep.POISONED and again is not None and again.reason:
                            outcome.poisoned.append(again)
            for begin, until in left:
                why = "the lease is unknown" if lease is None else "the lease was revoked"
                if lease is not None and lease.until_us <= now_us:
                    why = f"the lease ended at {_clock(lease.until_us)}"
                outcome.refused.append(LeaseRefusal(begin, until, f"{why}; the message {self.describe(begin)}"))
        return outcome

    def _apply(
        self, outcome: LeaseOutcome, lease: Lease, change: LeaseChange, begin: int, until: int, now_us: int, steady_us: int
    ) -> None:
        state = self.state
        if change.step is LeaseStep.EXTENDED:
            for offset in range(begin, until):
                lease.extended[offset] = now_us + change.delay_us
                self._set_end(lease.token, offset, steady_us + change.delay_us)
                outcome.extended.append((lease.token, offset))
            outcome.transitions.append(Transition(TransitionKind.EXTENDED, begin, until, lease.worker, delay_us=change.delay_us))
            return
        histories = {offset: state.failing[offset] for offset in state.failing_within(begin, until)}
        for offset in [offset for offset in lease.extended if begin <= offset < until]:
            self._end_of.pop((lease.token, offset), None)
        state.finish_leased(lease.token, begin, until)
        outcome.settled.append((lease.token, begin, until))
        if not len(lease.offsets):
            self._end_of.pop((lease.token, _WHOLE), None)
        if change.step is LeaseStep.DONE:
            if change.reason != SKIPPED:
                outcome.succeeded_count += until - begin
            reason = change.reason if change.reason == SKIPPED else ""
            outcome.transitions.append(Transition(TransitionKind.ACKED, begin, until, lease.worker, reason=reason))
        elif change.step in (LeaseStep.RELEASED, LeaseStep.DEFERRED):
            self._put_back(outcome, change.step, histories, begin, until, steady_us)
            kind = TransitionKind.RELEASED if change.step is LeaseStep.RELEASED else TransitionKind.DEFERRED
            outcome.transitions.append(Transition(kind, begin, until, lease.worker))
        else:
            outcome.failed_count += 1
            known = histories.get(begin, Delivery(begin))
            changed = record_failure(known, known.failures + 1, change.error, change.delay_us, now_us, *_worker_of(lease))
            if change.step is LeaseStep.POISONED:
                changed = replace(changed, reason=change.reason)
                self._poison(outcome, changed)
            else:
                self._set_due(begin, steady_us + change.delay_us)
                outcome.transitions.append(retried(changed, lease.worker))
            state.fail(changed)
            outcome.failing.append(begin)
            return
        if self.keys is not None and change.step is not LeaseStep.RELEASED:
            self.keys.finish(begin, until)

    def _put_back(
        self, outcome: LeaseOutcome, step: LeaseStep, histories: dict[int, Delivery], begin: int, until: int, steady_us: int
    ) -> None:
        state = self.state
        state.failing.update(histories)
        outcome.failing += histories
        if step is LeaseStep.DEFERRED:
            state.deferred.add(begin, until)
            outcome.deferred.append((begin, until))
            return
        state.wait(begin, until)
        outcome.waits += state.pending.within(begin, until)
        for offset in histories:
            self._set_due(offset, steady_us)
        if self.keys is not None:
            self.keys.release(begin, until)

    def finish(self, from_offset: int, until_offset: int) -> None:
        """Record that messages are done without a worker's report, because they were removed or dead-lettered."""
        self.state.finish(from_offset, until_offset)
        self.interrupted = {offset for offset in self.interrupted if not from_offset <= offset < until_offset}
        if self.keys is not None:
            self.keys.finish(from_offset, until_offset)

    # -- for users -----------------------------------------------------------------------------------------------

    def describe(self, offset: int) -> str:
        """Return a message's status as text that completes a sentence."""
        state, each = self.state, self.state.failing.get(offset)
        if offset in state.leased:
            lease = next(lease for lease in state.leases.values() if offset in lease.offsets)
            return f"is leased to {lease.worker or 'another worker'} until {_clock(lease.extended.get(offset, lease.until_us))}"
        if offset in state.deferred:
            return "is deferred"
        if each is not None:
            return "has failed permanently" if each.reason else f"waits for attempt {each.failures + 1}"
        if offset in state.expired:
            return f"waits for attempt {_LEAST_REPEATED}"
        return "waits for its first attempt" if offset >= state.begun_until or offset in state.pending else "is done"


def _ending(lease: Lease, offset: int) -> list[tuple[int, int]]:
    """Return the messages whose lease ends: one message with an extended lease, or all messages without extension."""
    if offset != _WHOLE:
        return lease.offsets.within(offset, offset + 1)
    left = OffsetRanges(lease.offsets)
    for extended in lease.extended:
        left.remove(extended, extended + 1)
    return list(left)


def _worker_of(lease: Lease | None) -> tuple[str, int]:
    return ("", 0) if lease is None else (lease.worker, lease.begun_us)


def _ended(lease: Lease | None) -> str:
    worker = "the worker" if lease is None or not lease.worker else lease.worker
    return f"the lease of {worker} expired"


def _clock(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
