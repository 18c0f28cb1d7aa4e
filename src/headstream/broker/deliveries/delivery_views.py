"""DeliveryViews: the unfinished messages of groups, for users and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from headstream.broker.backing import Backing
from headstream.broker.deliveries.journals import journals_of
from headstream.broker.deliveries.pauses import Pauses
from headstream.broker.groups.groups import Groups
from headstream.broker.messages.messages import Messages
from headstream.core.model.deliveries import Delivery
from headstream.core.model.delivery_views import DeliveryCounts, DeliveryStatus, GroupDeliveries, MessageStory
from headstream.core.model.groups import GroupPartition
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.errors import NotFoundError, OffsetOutOfRangeError
from headstream.log.catalog.catalog import topics_of
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.delivery_state import DeliveryState


class GroupAges(NamedTuple):
    """The ages of a group's unfinished messages, for metrics.

    Args:
        is_paused: Whether the group is paused or on trial.
        oldest_leased_us: Start of the oldest lease, microseconds since 1970 UTC, or None.
        oldest_poisoned_us: Time of the oldest permanent failure with an open dead letter, microseconds since 1970 UTC, or None.
    """

    topic: TopicName
    group: str
    is_paused: bool
    oldest_leased_us: int | None
    oldest_poisoned_us: int | None


class DeliveryViews:
    """Reads the journals of groups. Raises TopicNotFoundError, GroupNotFoundError, PartitionNotFoundError."""

    def __init__(self, backing: Backing, groups: Groups, messages: Messages, pauses: Pauses) -> None:
        self._backing = backing
        self._groups = groups
        self._messages = messages
        self._pauses = pauses
        self._journals = journals_of(backing.log)

    def group(self, topic: TopicName, group: str) -> GroupDeliveries:
        """Count a group's unfinished messages."""
        found, record, owner = self._groups.get(topic, group), self._backing.topic(topic), OffsetOwner.group(group)
        with self._groups.locked(record, group):
            pause = self._pauses.state(record, owner).snapshot()
            counts = tuple(self._count(record, owner, each) for each in found.partitions)
        return GroupDeliveries(self._backing.clock_us(), pause, counts)

    def _count(self, record: TopicRecord, owner: OffsetOwner, place: GroupPartition) -> DeliveryCounts:
        state = self._load(record, owner, place.number)
        failing = state.failing.values()
        begun = [each for each in failing if each.is_begun]
        delayed = [each for each in failing if not each.is_begun and each.offset not in state.leased]
        new = max(place.end_offset - max(state.begun_until, place.first_offset), 0)
        letters = list(self._count_open_dead_letters(state))
        return DeliveryCounts(
            place.number,
            state.pending.count + new,
            state.leased.count + len(begun),
            sum(each.offset not in state.deferred for each in delayed) + state.expired.count,
            state.deferred.count,
            state.poisoned_count,
            len(letters),
            _oldest_leased(state),
            letters[0].failed_us if letters else None,
        )

    def _load(self, record: TopicRecord, owner: OffsetOwner, partition: int) -> DeliveryState:
        journal = self._journals.find(record, owner, partition).journal
        return journal.load(self._backing.log.offsets(record).committed_at(owner, partition))

    def _count_open_dead_letters(self, state: DeliveryState) -> Iterator[Delivery]:
        """Yield messages, oldest first, with a kept history and a dead letter that is neither redriven nor discarded."""
        for each in state.given_up:
            if each.copied_to is None:
                continue
            topic, partition, offset = each.copied_to
            with suppress(NotFoundError):  # the topic was deleted
                record = self._backing.partition(TopicName.parse(topic), partition)
                with self._backing.log.reading(record, partition) as follower:
                    is_there = offset >= follower.first_offset
                changed = self._messages.states(record.name, partition, offset, 1) if is_there else ()
                if is_there and not any(change.offset == offset for change in changed):
                    yield each

    def message(self, topic: TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return a group's delivery history of one message; OffsetOutOfRangeError if the message never existed."""
        record, owner = self._backing.partition(topic, partition), OffsetOwner.group(group)
        place = self._groups.get(topic, group).partitions[partition - 1]
        if offset >= place.end_offset:
            raise OffsetOutOfRangeError(
                f"partition {partition} of {str(topic)!r} has no message {offset}",
                advice=f"The partition ends at offset {place.end_offset}",
            )
        with self._groups.locked(record, group):
            state = self._load(record, owner, partition)
            return _describe(state, partition, offset, self._backing.clock_us())

    def ages(self) -> Iterator[GroupAges]:
        """Yield the groups with journals in memory: recently used groups; initially, all groups of the log."""
        records = {record.identity: record for record in topics_of(self._backing.log.snapshot())}
        self._journals.open_stored(records.values())
        found: dict[tuple[str, OffsetOwner], list[int]] = {}
        for identity, owner, partition in self._journals.in_memory():
            found.setdefault((identity, owner), []).append(partition)
        for (identity, owner), partitions in sorted(found.items(), key=lambda item: (item[0][0], item[0][1].name)):
            record = records.get(identity)
            if record is None:
                continue
            with self._groups.locked(record, owner.name):
                found_ages = self._ages_of(record, owner, partitions)
            yield found_ages

    def _ages_of(self, record: TopicRecord, owner: OffsetOwner, partitions: Iterable[int]) -> GroupAges:
        leased, poisoned = list[int](), list[int]()
        for partition in partitions:
            state = self._load(record, owner, partition)
            oldest = _oldest_leased(state)
            leased += [] if oldest is None else [oldest]
            letter = next(self._count_open_dead_letters(state), None)
            poisoned += [] if letter is None else [letter.failed_us]
        is_paused = bool(self._pauses.state(record, owner).until_us)
        return GroupAges(record.name, owner.name, is_paused, min(leased, default=None), min(poisoned, default=None))


def _oldest_leased(state: DeliveryState) -> int | None:
    return min((lease.begun_us for lease in state.leases.values() if len(lease.offsets)), default=None)


def _describe(state: DeliveryState, partition: int, offset: int, now_us: int) -> MessageStory:
    given_up = next((each for each in state.given_up if each.offset == offset), None)
    each = state.failing.get(offset) or given_up
    lease = next((lease for lease in state.leases.values() if offset in lease.offsets), None)
    status, next_us = DeliveryStatus.DONE, None
    if lease is not None or (each is not None and each.is_begun):
        status = DeliveryStatus.LEASED
    elif offset in state.deferred:
        status = DeliveryStatus.DEFERRED
    elif each is not None and (each is given_up or each.reason):
        status = DeliveryStatus.POISONED
    elif each is not None:
        status, next_us = DeliveryStatus.DELAYED, now_us + each.left_us(now_us)
    elif offset in state.expired:
        status, next_us = DeliveryStatus.DELAYED, now_us
    elif offset >= state.begun_until or offset in state.pending:
        status = DeliveryStatus.PENDING
    return MessageStory(
        partition,
        offset,
        status,
        *((1 if offset in state.expired else 0, ()) if each is None else (each.failures, each.attempts)),
        worker="" if lease is None else lease.worker,
        leased_us=None if lease is None else lease.begun_us,
        lease_until_us=None if lease is None else lease.extended.get(offset, lease.until_us),
        next_attempt_us=next_us,
        first_failed_us=None if each is None or not each.failures else each.first_failed_us,
        first_error="" if each is None else each.first_error,
        reason="" if each is None else each.reason,
        letter=None if each is not given_up or given_up is None else given_up.copied_to,
    )
