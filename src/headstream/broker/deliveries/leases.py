"""Leases: leases messages of a group to workers that share the partitions, and records the workers' steps.

    lease    end expired leases -> complete an interrupted call -> grant -> journal -> offset
    settle   end expired leases -> apply -> journal -> dead letters -> offset

Each grant and each step is stored in the group's journal before the worker receives the response. Only the process that holds the
group's lock grants leases. A worker's request is validated by its token, so workers need neither a lock nor a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from headstream.broker.backing import Backing, check_generation
from headstream.broker.deliveries.dead_lettering import DeadLettering
from headstream.broker.deliveries.journals import OpenJournal, journals_of
from headstream.broker.deliveries.locked_partition import LockedPartition, scan_keys
from headstream.broker.deliveries.pauses import Pauses
from headstream.broker.deliveries.transitions import GroupPlace, Transitions
from headstream.broker.groups.groups import Groups
from headstream.broker.messages.messages import Messages
from headstream.broker.messages.offsets import BrokerOffsets
from headstream.core.model.deliveries import Delivery, RetryOrder
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import (
    MAX_LEASE_COUNT,
    Grant,
    LeaseChange,
    LeasedRange,
    LeaseRequest,
    SettledLeases,
    check_lease_us,
)
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.pauses import PauseRule
from headstream.core.model.polling import OffsetOwner
from headstream.errors import GroupInUseError, InvalidInputError, InvalidOptionError, OffsetOutOfRangeError
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.delivery_state import Lease
from headstream.log.partition.lease_table import LeaseOutcome, LeaseTable
from headstream.log.partition.offset_file_counts import NO_USER

_WAITING_US: Final = 50_000
"""Interval at which a worker requests messages that wait for earlier messages with their key, microseconds."""


class Leases:
    """Commands of workers that share partitions. Keys are read from the messages. Partitions are numbered from 1."""

    def __init__(
        self,
        backing: Backing,
        groups: Groups,
        messages: Messages,
        offsets: BrokerOffsets,
        dead_lettering: DeadLettering,
        pauses: Pauses,
        transitions: Transitions,
    ) -> None:
        self._backing = backing
        self._groups = groups
        self._messages = messages
        self._offsets = offsets
        self._dead_lettering = dead_lettering
        self._pauses = pauses
        self._transitions = transitions
        self._journals = journals_of(backing.log)

    def _steady_us(self) -> int:
        return int(self._backing.monotonic() * 1_000_000)

    def lease(self, topic: TopicName, member: Member, request: LeaseRequest, *, user_id: int = NO_USER) -> Grant:
        """Lease messages of the first partition that has available messages.

        Args:
            member: A member that joined the group with is_shared.
            user_id: The server's user; see OffsetStore.commit().

        Returns:
            The leased messages, or the partitions and the maximum time to wait.

        Raises:
            ClosedError: the member has left.
            TopicNotFoundError, PartitionNotFoundError: the topic or a partition does not exist.
            InvalidInputError: a message requested by offset is not deferred.
            InvalidOptionError: the request is out of range, or the dead-letter topic would drop copies.
            LogLockedError: a message must be dead-lettered and another process is the log's writer.
        """
        _check(request)
        while True:
            record = self._backing.topic(topic)
            try:
                return self._lease(record, member, request, user_id)
            except OffsetOutOfRangeError:
                if self._backing.topic(topic).number == record.number:
                    raise  # else the topic was purged during the call

    def _lease(self, record: TopicRecord, member: Member, request: LeaseRequest, user_id: int) -> Grant:
        ends: dict[int, int] = {}
        waits: list[int] = []
        partitions = request.partitions or range(1, record.partitions + 1)
        owner, rule = OffsetOwner.group(member.group), request.pause_rule
        with self._groups.leasing(record, member.group, member) as is_ours:
            for partition in partitions:
                self._backing.partition(record.name, partition)
                table = self._table_of(record, owner, partition) if is_ours else None
                if table is not None and (known := table.find(request.token)):  # a repeated request
                    return Grant(partition, known, record.generation(partition))
            if is_ours and rule is not None and not request.deferred and self._pauses.own_state(record, owner).until_us:
                wait_us = self._wait_of_pause(record, owner, request, user_id)
                if wait_us is not None:
                    return Grant(wait_us=wait_us, is_paused=True)
                request = replace(request, count=1)  # on trial
            for partition in partitions:
                end = self._end_of(record, partition)
                if not is_ours:
                    ends[partition] = end
                    continue
                found = self._journals.find(record, owner, partition)
                grant = self._lease_in(record, member, partition, found, request, end, user_id)
                if grant is not None:
                    return grant
                ends[partition] = end
                if rule is not None and (left_us := self._pauses.own_state(record, owner).left_us(self._backing.clock_us())):
                    return Grant(wait_us=left_us, is_paused=True)
                if found.table is not None:
                    next_us = found.table.next_us()
                    if next_us is not None:
                        waits.append(next_us)
                    if len(found.table.state.pending):  # another worker's step can release these messages
                        waits.append(self._steady_us() + _WAITING_US)
        wait_us = max(0, min(waits) - self._steady_us()) if waits else None
        return Grant(ends=ends, wait_us=wait_us)

    def _table_of(self, record: TopicRecord, owner: OffsetOwner, partition: int) -> LeaseTable | None:
        """Return the leases of a partition, read once per process; None if the group has not started the partition."""
        found = self._journals.find(record, owner, partition)
        if found.table is None:
            committed = self._backing.log.offsets(record).committed_at(owner, partition)
            if committed is not None:
                found.journal.load(committed, is_writer=True)
                found.refresh_table(committed[0], self._backing.clock_us(), self._steady_us())
        return found.table

    def _end_of(self, record: TopicRecord, partition: int) -> int:
        end = self._backing.log.written_end(record, partition) if self._backing.log.is_writer else 0
        if not end:
            with self._backing.log.reading(record, partition) as follower:
                follower.refresh()
                end = follower.end_offset
        return end

    def _lease_in(
        self,
        record: TopicRecord,
        member: Member,
        partition: int,
        found: OpenJournal,
        request: LeaseRequest,
        end: int,
        user_id: int,
    ) -> Grant | None:
        steady_us, now_us = self._steady_us(), self._backing.clock_us()
        if found.table is not None and found.idle == (end, request.order) and not request.deferred:
            next_us = found.table.next_us()
            if next_us is None or next_us > steady_us:
                return None
        owner = OffsetOwner.group(member.group)
        begin = request.starts.get(partition, 0)
        begin = begin if begin <= end else 0  # of the partition before a purge
        place = self._open(record, owner, partition, user_id, request.dead_letter, begin, request.pause_rule)
        place.open.idle = None
        self._pass_removed(place)
        if self._end_leases(place, now_us, steady_us) and not request.deferred:
            return None
        self._finish_interrupted(place)
        ranges, is_more = self._grant(place, request, end, now_us, steady_us)
        while is_more and not ranges:  # messages that waited for a message that was just dead-lettered
            ranges, is_more = self._grant(place, request, end, now_us, steady_us)
        if ranges:
            return Grant(partition, ranges, record.generation(partition))
        place.open.idle = end, request.order
        return None

    def _grant(
        self, place: LockedPartition, request: LeaseRequest, end: int, now_us: int, steady_us: int
    ) -> tuple[tuple[LeasedRange, ...], bool]:
        """Grant messages and store the grant; return the granted ranges, and whether messages failed permanently."""
        table = place.table
        if request.order is RetryOrder.KEY:
            scan_keys(place, self._messages, self._store, request.count, end)
        else:
            table.keys = None
        lease = Lease(request.token, request.worker, now_us, request.lease_us, OffsetRanges())
        if request.deferred:
            outcome, ranges = table.grant_deferred(request.deferred, lease, steady_us)
            if outcome.refused:
                offset, _, what = outcome.refused[0]
                where = f"{place.name}, partition {place.partition}"
                raise InvalidInputError(f"message {offset} is not deferred: the message {what}", where=where)
        else:
            outcome, ranges = table.grant(
                request.count, lease, attempts=request.attempts, end=end, steady_us=steady_us, now_us=now_us
            )
        if outcome.leased or outcome.failing:
            self._store(place, outcome)
        self._dead_letter(place, outcome.poisoned)
        self._commit(place)
        return ranges, bool(outcome.poisoned)

    def settle_leases(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[LeaseChange],
        *,
        dead_letter: TopicName | None = None,
        partition_generation: int | None = None,
        pause_rule: PauseRule | None = None,
        user_id: int = NO_USER,
    ) -> SettledLeases:
        """Record delivery steps of leased messages, and commit the offset of the first unfinished message.

        Args:
            changes: The steps; repeated steps have no effect.
            dead_letter: The topic for copies of poisoned messages.
            user_id: The server's user; see OffsetStore.commit().

        Returns:
            The steps refused because their lease has ended (all other steps are recorded), and the group's remaining pause.

        Raises:
            OffsetOutOfRangeError: the partition was purged or recreated meanwhile; nothing is recorded.
            GroupInUseError: another process has started to read for the group; nothing is recorded.
            InvalidOptionError: a message is poisoned and there is no dead-letter topic.
            LimitError: a copy exceeds the dead-letter topic's limits.
            LogLockedError: another process is the log's writer, so that a copy cannot be appended.
        """
        record = self._backing.partition(topic, partition)
        advice = "Nothing was recorded; the messages no longer exist"
        check_generation(record, partition, partition_generation, since="its messages were leased", advice=advice)
        with self._groups.leasing(record, group) as is_ours:
            if not is_ours:
                raise GroupInUseError(
                    f"another process now reads for group {group!r}", where=str(topic), advice="Stop this consumer"
                )
            steady_us, now_us = self._steady_us(), self._backing.clock_us()
            place = self._open(record, OffsetOwner.group(group), partition, user_id, dead_letter, None, pause_rule)
            place.open.idle = None
            self._end_leases(place, now_us, steady_us)
            outcome = place.table.apply_changes(changes, now_us, steady_us)
            self._store(place, outcome)
            self._dead_letter(place, outcome.poisoned)
            self._commit(place)
            paused_us = self._observe(place, outcome)
        return SettledLeases(outcome.refused, paused_us)

    # -- pauses -----------------------------------------------------------------------------------------------------

    def _observe(self, place: LockedPartition, outcome: LeaseOutcome) -> int:
        counts = outcome.succeeded_count, outcome.failed_count
        return self._pauses.observe(place.record, place.owner, place.pause_rule, *counts, user_id=place.user_id)

    def _wait_of_pause(self, record: TopicRecord, owner: OffsetOwner, request: LeaseRequest, user_id: int) -> int | None:
        """Return how long a worker must wait because the group is paused or its trial message is leased, or None."""
        state = self._pauses.own_state(record, owner)
        steady_us, now_us = self._steady_us(), self._backing.clock_us()
        if left_us := state.left_us(now_us):
            return left_us
        since_us, is_out = state.until_us, False
        for partition in range(1, record.partitions + 1):
            if self._table_of(record, owner, partition) is not None:
                place = self._open(record, owner, partition, user_id, request.dead_letter, None, request.pause_rule)
                self._end_leases(place, now_us, steady_us)  # one of the leases can be for the trial message
                leases = place.table.state.leases.values()
                is_out = is_out or any(len(each.offsets) and each.begun_us >= since_us for each in leases)
        return state.left_us(now_us) or (_WAITING_US if is_out else None)

    # -- shared helpers ---------------------------------------------------------------------------------------------

    def _open(
        self,
        record: TopicRecord,
        owner: OffsetOwner,
        partition: int,
        user_id: int,
        dead_letter: TopicName | None,
        begin: int | None,
        pause_rule: PauseRule | None,
    ) -> LockedPartition:
        store = self._backing.log.offsets(record)
        committed = store.committed_at(owner, partition)
        if committed is None:  # the group's offset file counts against the user's limit before another file is created
            self._offsets.commit_in(record, owner, partition, begin or 0, user_id)
            committed = begin or 0, 0
        found = self._journals.find(record, owner, partition)
        found.journal.load(committed, is_writer=True)
        table = found.refresh_table(committed[0], self._backing.clock_us(), self._steady_us())
        return LockedPartition(record, owner, partition, found, table, committed[0], user_id, dead_letter, pause_rule)

    def _store(self, place: LockedPartition, outcome: LeaseOutcome) -> None:
        place.open.journal.store(outcome.touched(), place.committed, self._backing.clock_us())
        where = GroupPlace(place.name, place.owner.name, place.partition, place.user_id)
        self._transitions.record(where, outcome.transitions)

    def _pass_removed(self, place: LockedPartition) -> None:
        """Mark messages that retention has removed as done, if a reader has noticed the removal."""
        with self._backing.log.reading(place.record, place.partition) as follower:
            first = follower.first_offset
        if first > place.committed:
            place.table.finish(0, first)
            place.table.state.begun_until = max(place.table.state.begun_until, first)

    def _end_leases(self, place: LockedPartition, now_us: int, steady_us: int) -> bool:
        """End expired leases; return whether this pauses the group."""
        outcome = place.table.end_leases(now_us, steady_us)
        if not outcome.ended:
            return False
        self._store(place, outcome)
        place.open.idle = None
        if place.pause_rule is not None:  # leases from before a pause do not decide its trial
            since_us, leases = self._pauses.own_state(place.record, place.owner).until_us, place.table.state.leases
            new = [until - begin for token, begin, until in outcome.ended if leases[token].begun_us >= since_us]
            outcome.failed_count = sum(new)
        return self._observe(place, outcome) > 0

    def _finish_interrupted(self, place: LockedPartition) -> None:
        """Complete moves to the dead-letter topic that a crash or an error has interrupted."""
        failing = place.table.state.failing
        left = [failing[offset] for offset in sorted(place.table.interrupted) if offset in failing]
        self._dead_letter(place, [each for each in left if place.dead_letter is not None or each.copied_to is not None])

    def _dead_letter(self, place: LockedPartition, poisoned: Iterable[Delivery]) -> None:
        for each in poisoned:
            where = place.record, place.owner, place.partition
            self._dead_lettering.move(*where, place.open.journal, each, place.dead_letter, place.user_id)
            place.table.finish(each.offset, each.offset + 1)

    def _commit(self, place: LockedPartition) -> None:
        base = place.table.state.first_open()
        if base != place.committed:
            self._offsets.commit_in(place.record, place.owner, place.partition, base, place.user_id)
        place.committed = place.open.base = base


def _check(request: LeaseRequest) -> None:
    check_lease_us(request.lease_us)
    if request.pause_rule is not None:
        request.pause_rule.check()
    if not 1 <= request.count <= MAX_LEASE_COUNT:
        raise InvalidOptionError(f"cannot lease {request.count} messages", advice=f"Lease 1 to {MAX_LEASE_COUNT} per call")
    if request.order is RetryOrder.PARTITION:
        raise InvalidOptionError(
            "workers that share the messages of a partition do not receive these messages in order",
            advice='Use order="key" or order="skip"',
        )
    if request.deferred and len(request.partitions) != 1:
        raise InvalidOptionError("a deferred message was requested without a partition", advice="Specify the partition")
