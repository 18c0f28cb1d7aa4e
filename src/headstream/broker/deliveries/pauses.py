"""Pauses: decides whether a group is paused, from the attempts that its members report (core/model/pauses.py)."""

from __future__ import annotations

import logging
from typing import Final

from headstream.broker.backing import Backing
from headstream.broker.deliveries.transitions import GroupPlace, Transitions
from headstream.broker.groups.group_registry import registry_of
from headstream.core.model.pauses import PauseRule
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.offset_file_counts import NO_USER
from headstream.log.partition.pause_state import PauseState, load_pause, store_pause

_log: Final = logging.getLogger("headstream.log")


class Pauses:
    """The pauses of groups; the caller holds the group's lock."""

    def __init__(self, backing: Backing, transitions: Transitions) -> None:
        self._backing = backing
        self._transitions = transitions
        self._registry = registry_of(backing.log)

    def state(self, record: TopicRecord, owner: OffsetOwner) -> PauseState:
        """Return the state of a group: from memory if the group has members in this process, else the stored state."""
        live = self._registry.group(record, owner.name)
        return self._load(record, owner) if live.pause is None else live.pause

    def _load(self, record: TopicRecord, owner: OffsetOwner) -> PauseState:
        return load_pause(self._backing.log.offsets(record).directory, self._backing.log.files, owner)

    def own_state(self, record: TopicRecord, owner: OffsetOwner) -> PauseState:
        """Return the state of a group for which this process reads, loaded once while the group has members; StorageError."""
        live = self._registry.group(record, owner.name)
        state = self.state(record, owner)
        if state.follow_clock(self._backing.clock_us()):
            self._store(record, owner, state)
        if not live.membership.is_empty:
            live.pause = state
        return state

    def left_us(self, record: TopicRecord, owner: OffsetOwner) -> int:
        """Return a group's remaining pause, microseconds; 1 if the group is on trial, so that new consumers notice; else 0."""
        state, now_us = self.state(record, owner), self._backing.clock_us()
        return 1 if state.is_on_trial(now_us) else state.left_us(now_us)

    def observe(
        self,
        record: TopicRecord,
        owner: OffsetOwner,
        rule: PauseRule | None,
        succeeded: int,
        failed: int,
        *,
        user_id: int = NO_USER,
    ) -> int:
        """Record attempts of a group; return the group's remaining pause, microseconds.

        Args:
            rule: Condition for a pause; None never pauses the group and records nothing.

        Raises:
            StorageError: the operating system reported a write error.
        """
        if rule is None:
            return 0
        state, now_us = self.own_state(record, owner), self._backing.clock_us()
        if not (succeeded or failed):
            return state.left_us(now_us)
        is_changed = state.record(rule, succeeded, failed, now_us)
        if failed or is_changed:  # successes are stored with the next failure
            self._store(record, owner, state)
        if is_changed:
            self._report_change(GroupPlace(record.name, owner.name, user_id=user_id), state)
        return state.left_us(now_us)

    def _store(self, record: TopicRecord, owner: OffsetOwner, state: PauseState) -> None:
        store_pause(self._backing.log.offsets(record).directory, self._backing.log.files, owner, state)

    def _report_change(self, place: GroupPlace, state: PauseState) -> None:
        if state.until_us:
            seen = state.snapshot()
            why = f"{seen.failed_count} of its last {seen.attempts_count} attempts failed"
            if state.until_us - state.pause_us > state.begun_us:
                why = "the trial message failed"
            _log.warning("group %r of %s is paused for %g s: %s", place.group, str(place.topic), state.pause_us / 1e6, why)
            change = Transition(TransitionKind.PAUSED, delay_us=state.pause_us)
        else:
            _log.warning("group %r of %s was resumed: the trial message succeeded", place.group, str(place.topic))
            change = Transition(TransitionKind.RESUMED)
        self._transitions.record(place, [change])
