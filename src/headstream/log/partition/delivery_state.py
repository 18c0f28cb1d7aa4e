"""DeliveryState: what a group has not finished in one partition, and how steps change it. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headstream.errors import LimitError
from headstream.model.deliveries import (
    MAX_FAILING,
    MAX_PENDING_RANGES,
    Delivery,
    DeliveryChange,
    DeliveryStep,
    PartitionDeliveries,
    cut_error,
)
from headstream.model.offset_ranges import OffsetRanges

__all__ = ["DeliveryState"]


class DeliveryState:
    """The unfinished messages of one group in one partition.

    Attributes:
        base: The committed offset when the state was stored last. A smaller one that was committed later is a rewind; one that
            was committed earlier is what a power cut left, and changes nothing.
        stored_us: When the state was stored last, microseconds since 1970 UTC.
        frontier: One past the last message that was begun.
        pending: The waiting messages.
        failing: The messages that failed or were begun, by offset.
        poisoned_count: How many messages went into the dead letter.
    """

    def __init__(self) -> None:
        self.base = self.stored_us = self.frontier = self.poisoned_count = 0
        self.pending = OffsetRanges()
        self.failing: dict[int, Delivery] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the committed offset says everything."""
        return not self.failing and not len(self.pending)

    def settle_base(self, committed: int, committed_us: int) -> bool:
        """Apply the committed offset: what is before it is done; return whether it was set back, which begins anew.

        Args:
            committed: The offset, 0 without one.
            committed_us: When it was committed, 0 without one.
        """
        is_rewound = committed < self.base and committed_us > self.stored_us
        if is_rewound:
            self.begin(committed)
        self.frontier = max(self.frontier, committed)
        self.pending.remove(0, committed)
        for offset in [offset for offset in self.failing if offset < committed]:
            del self.failing[offset]
        return is_rewound

    def begin(self, offset: int) -> None:
        """Forget everything: the group begins at an offset."""
        self.pending = OffsetRanges()
        self.failing.clear()
        self.base = self.frontier = offset

    def first_open(self) -> int:
        """Return the first offset that is not done."""
        candidates = [self.frontier, *self.failing]
        if self.pending.first is not None:
            candidates.append(self.pending.first)
        return min(candidates)

    def apply(self, changes: Iterable[DeliveryChange], now_us: int) -> list[Delivery]:
        """Apply steps, except that a poisoned message only gets its reason; return these messages.

        Args:
            changes: The steps.
            now_us: The time, microseconds since 1970 UTC.

        Raises:
            LimitError: too many messages are unfinished.
        """
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
                changed = _failed(known, change, now_us)
            else:
                changed = known  # a repeated request
            if change.step is DeliveryStep.POISONED:
                changed = replace(changed, reason=known.reason or change.reason)
                poisoned.append(changed)
            self.pending.remove(offset, offset + 1)
            self.failing[offset] = changed
            if not changed.failures and not changed.is_begun:  # released before its first failure
                del self.failing[offset]
                self.pending.add(offset, offset + 1)
        self._check()
        return poisoned

    def wait(self, from_offset: int, until_offset: int) -> None:
        """Record that messages wait; those that fail stay as they are."""
        self.pending.add(from_offset, until_offset)
        for offset in self.failing:
            self.pending.remove(offset, offset + 1)

    def finish(self, from_offset: int, until_offset: int) -> None:
        """Record that messages are done."""
        self.pending.remove(from_offset, until_offset)
        if until_offset - from_offset > len(self.failing):
            for offset in [offset for offset in self.failing if from_offset <= offset < until_offset]:
                del self.failing[offset]
        else:
            for offset in range(from_offset, until_offset):
                self.failing.pop(offset, None)

    def _check(self) -> None:
        if len(self.failing) > MAX_FAILING or len(self.pending) > MAX_PENDING_RANGES:
            raise LimitError(
                f"{len(self.failing)} messages of the partition fail, and {len(self.pending)} ranges wait for them",
                advice=f"A group has at most {MAX_FAILING} and {MAX_PENDING_RANGES}: acknowledge or reject some first",
            )

    def snapshot(self, base: int | None, now_us: int) -> PartitionDeliveries:
        """Return the state as a value.

        Args:
            base: The committed offset.
            now_us: The time, microseconds since 1970 UTC.
        """
        failing = tuple(self.failing[offset] for offset in sorted(self.failing))
        return PartitionDeliveries(base, self.frontier, tuple(self.pending), failing, now_us, self.poisoned_count)


def _failed(known: Delivery, change: DeliveryChange, now_us: int) -> Delivery:
    error = cut_error(change.error)
    return replace(
        known,
        failures=change.failures,
        is_begun=False,
        failed_us=now_us,
        first_failed_us=known.first_failed_us or now_us,
        delay_us=change.delay_us,
        first_error=known.first_error if known.failures else error,
        last_error=error,
    )
