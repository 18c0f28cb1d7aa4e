"""Deliveries: records unfinished messages that partition owners report; for workers that share partitions, see leases.py.

FAILED     the journal records the failure, and the committed offset stays before the message
POISONED   the message is moved to the dead-letter topic (dead_lettering.py); then the group's offset moves past the message
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from headstream.broker.backing import Backing, check_generation
from headstream.broker.deliveries.dead_lettering import DeadLettering
from headstream.broker.deliveries.journals import journals_of
from headstream.broker.deliveries.pauses import Pauses
from headstream.broker.deliveries.transitions import GroupPlace, Transitions
from headstream.broker.groups.groups import Groups
from headstream.broker.messages.offsets import BrokerOffsets
from headstream.core.model.deliveries import DeliveryChange, DeliveryStep, PartitionDeliveries, Settled, SettleRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.log.partition.delivery_journal import Touched
from headstream.log.partition.delivery_state import DeliveryState, retried
from headstream.log.partition.offset_file_counts import NO_USER

_FAILURES: Final = frozenset((DeliveryStep.FAILED, DeliveryStep.POISONED))


class Deliveries:
    """Commands for the unfinished messages of groups; partitions are numbered from 1."""

    def __init__(
        self,
        backing: Backing,
        groups: Groups,
        offsets: BrokerOffsets,
        dead_lettering: DeadLettering,
        pauses: Pauses,
        transitions: Transitions,
    ) -> None:
        self._backing = backing
        self._groups = groups
        self._offsets = offsets
        self._dead_lettering = dead_lettering
        self._pauses = pauses
        self._transitions = transitions
        self._journals = journals_of(backing.log)

    def unfinished(self, topic: TopicName, group: str, partition: int) -> PartitionDeliveries:
        """Return a group's unfinished messages in a partition; TopicNotFoundError, PartitionNotFoundError."""
        owner = OffsetOwner.group(group)
        record = self._backing.partition(topic, partition)
        with self._groups.locked(record, group):
            committed = self._backing.log.offsets(record).committed_at(owner, partition)
            state = self._journals.find(record, owner, partition).journal.load(committed)
            found = state.snapshot(None if committed is None else committed[0], self._backing.clock_us())
            return replace(found, paused_us=self._pauses.left_us(record, owner))

    def settle_deliveries(
        self, topic: TopicName, group: str, partition: int, request: SettleRequest, *, user_id: int = NO_USER
    ) -> Settled:
        """Record delivery steps of messages, and commit the offset of the first unfinished message.

        Args:
            user_id: The server's user; see OffsetStore.commit().

        Returns:
            The generation of the group (0 if there is no member) and the remaining pause of the group.

        Raises:
            RebalancedError: the member lost the partition; nothing is recorded.
            OffsetOutOfRangeError: the partition was purged or recreated meanwhile; nothing is recorded.
            LimitError: too many messages are unfinished, or a copy exceeds the dead-letter topic's limits.
            InvalidOptionError: a message is poisoned and there is no dead-letter topic.
            LogLockedError: another process is the log's writer, so that a copy cannot be appended.
        """
        owner, steps = OffsetOwner.group(group), list(request.changes)
        record = self._backing.partition(topic, partition)
        advice = "Nothing was recorded; seek() to the offset at which to continue"
        check_generation(record, partition, request.partition_generation, since="the message was read", advice=advice)
        with self._groups.fenced(
            record, group, request.member, partition, request.generation, is_resting=request.is_resting
        ) as now:
            committed = self._backing.log.offsets(record).committed_at(owner, partition)
            if committed is None:  # the group's offset file counts against the user's limit before another file is created
                committed = min([request.begun_until, *(step.from_offset for step in steps)]), 0
                self._offsets.commit_in(record, owner, partition, committed[0], user_id)
            journal = self._journals.find(record, owner, partition).journal
            state = journal.load(committed, is_writer=True)
            found = _Found(state, steps)
            poisoned = state.apply(steps, self._backing.clock_us(), request.worker)
            state.begun_until = max(state.begun_until, request.begun_until)
            base = state.first_open()
            if base < committed[0]:  # before the journal is stored: a smaller offset that is committed later restarts the group
                self._offsets.commit_in(record, owner, partition, base, user_id)
                committed = base, 0
            if found.is_sought:
                journal.forget()
            journal.store(_touched_by(steps), committed[0], self._backing.clock_us())
            self._transitions.record(GroupPlace(topic, group, partition, user_id), found.transitions(request.worker))
            for delivery in poisoned:
                self._dead_lettering.move(record, owner, partition, journal, delivery, request.dead_letter, user_id)
            base = state.first_open()
            if base != committed[0]:
                self._offsets.commit_in(record, owner, partition, base, user_id)
            counts = request.succeeded, found.failed_count
            paused_us = self._pauses.observe(record, owner, request.pause_rule, *counts, user_id=user_id)
        return Settled(now, paused_us)


class _Found:
    """The changes made by delivery steps; `state` is the state before the steps are applied."""

    def __init__(self, state: DeliveryState, steps: Iterable[DeliveryChange]) -> None:
        self._state = state
        self._begun_until = state.begun_until
        self._done: list[tuple[int, int]] = []
        self._failed: list[int] = []
        self.failed_count = 0
        self.is_sought = False
        for step in steps:
            known = state.failing.get(step.from_offset)
            if step.step is DeliveryStep.SOUGHT:
                self.is_sought = True
            elif step.step is DeliveryStep.DONE:
                self._done += state.open_within(step.from_offset, step.until_offset)
            elif step.step in _FAILURES and (known is None or known.failures < step.failures):  # not a repeated request
                self.failed_count += 1
                self._failed += [step.from_offset] * (step.step is DeliveryStep.FAILED)

    def transitions(self, worker: str) -> Iterator[Transition]:
        """Yield the transitions of applied steps; if a step restarts the group, no message is reported as finished."""
        done = OffsetRanges([] if self.is_sought else self._done)
        if self._begun_until < self._state.begun_until and not self.is_sought:
            done.add(self._begun_until, self._state.begun_until)
            for each in self._state.open_within(self._begun_until, self._state.begun_until):
                done.remove(*each)
        for each in done:
            yield Transition(TransitionKind.ACKED, *each, worker)
        for offset in self._failed:
            yield retried(self._state.failing[offset], worker)


def _touched_by(steps: Iterable[DeliveryChange]) -> Touched:
    """Return the offsets that steps change."""
    waits, done, failing = [], [], []
    for step in steps:
        if step.step is DeliveryStep.DONE:
            done.append((step.from_offset, step.until_offset))
        elif step.step is DeliveryStep.PENDING:
            waits.append((step.from_offset, step.until_offset))
        elif step.step is not DeliveryStep.SOUGHT:
            failing.append(step.from_offset)
    return Touched(tuple(waits), tuple(done), tuple(failing))
