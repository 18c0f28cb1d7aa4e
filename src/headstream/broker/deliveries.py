"""Deliveries: what groups have not finished, and the way of a message that fails into the dead letter.

    FAILED     the journal says so, and the offset does not pass the message
    POISONED   1. the journal says where the copy goes, and that partition's end   2. the copy is appended and synced
               3. the journal says that the message is done   4. the group's offset passes it

Each step is stored before the next one begins. What a crash leaves is repeated by the next settle() with POISONED: if the
copy is found after that end, it is not made again.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from headstream.broker.backing import Backing
from headstream.broker.dead_letters import DeadLetterCopies
from headstream.broker.groups import Groups
from headstream.broker.offsets import BrokerOffsets
from headstream.errors import InvalidOptionError, OffsetOutOfRangeError
from headstream.log.catalog.catalog import TopicRecord
from headstream.log.log import Log
from headstream.log.partition.delivery_journal import DeliveryJournal, Touched
from headstream.log.partition.offset_file_counts import NO_USER
from headstream.model.deliveries import Delivery, DeliveryChange, DeliveryStep, PartitionDeliveries
from headstream.model.groups import Member
from headstream.model.identifiers import TopicName
from headstream.model.polling import OffsetOwner

__all__ = ["Deliveries"]

_MAX_OPEN: Final = 1024
"""Journals in memory; another one is read from its file."""


class Deliveries:
    """Commands for the unfinished messages of groups.

    Args:
        backing: The log.
        groups: Its groups, whose members own partitions.
        offsets: The committed offsets.
        copies: Makes the copies in dead-letter topics.
    """

    def __init__(self, backing: Backing, groups: Groups, offsets: BrokerOffsets, copies: DeadLetterCopies) -> None:
        self._backing = backing
        self._groups = groups
        self._offsets = offsets
        self._copies = copies
        self._journals = _OPEN.setdefault(backing.log, _OpenJournals(backing.log))

    def unfinished(self, topic: TopicName, group: str, partition: int) -> PartitionDeliveries:
        """Return what a group has not finished in a partition.

        Args:
            topic: Stream and topic.
            group: The group's name.
            partition: From 1.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
        """
        owner = OffsetOwner.group(group)
        record = self._backing.partition(topic, partition)
        with self._groups.locked(record, group):
            committed = self._backing.log.offsets(record).committed_at(owner, partition)
            state = self._journals.find(record, owner, partition).load(committed)
            return state.snapshot(None if committed is None else committed[0], self._backing.clock_us())

    def settle(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[DeliveryChange],
        *,
        frontier: int,
        member: Member | None = None,
        generation: int = 0,
        partition_generation: int | None = None,
        dead_letter: TopicName | None = None,
        is_resting: bool = False,
        user_id: int = NO_USER,
    ) -> int:
        """Record steps of messages, and commit the offset of the first one that is not done.

        Args:
            topic: Stream and topic.
            group: The group's name.
            partition: From 1.
            changes: The steps; repeating them changes nothing.
            frontier: One past the last message that the group has begun: what is before it and neither fails nor waits is done.
            member: The member that owns the partition; None for a consumer of partitions of its own.
            generation: The generation of the member's last report.
            partition_generation: The generation of the partition that was polled, if known.
            dead_letter: Where poisoned messages are copied to.
            is_resting: As for Groups.report().
            user_id: The server's user, see OffsetStore.commit().

        Returns:
            The generation of the group, 0 without a member.

        Raises:
            RebalancedError: the member lost the partition; nothing is recorded.
            OffsetOutOfRangeError: the partition was purged or recreated since; nothing is recorded.
            LimitError: too many messages are unfinished, or a copy does not fit into the dead-letter topic.
            InvalidOptionError: a message is poisoned, and there is no dead-letter topic.
            LogLockedError: another process is the log's writer: a copy cannot be appended.
        """
        owner, steps = OffsetOwner.group(group), list(changes)
        record = self._backing.partition(topic, partition)
        if partition_generation not in (None, record.generation(partition)):
            raise OffsetOutOfRangeError(
                f"partition {partition} of {str(topic)!r} has been purged or recreated since",
                advice="Nothing was recorded: seek() to the offset to continue at",
            )
        with self._groups.fenced(record, group, member, partition, generation, is_resting=is_resting) as now:
            store = self._backing.log.offsets(record)
            committed = store.committed_at(owner, partition)
            if committed is None:  # the group's file of offsets counts against the user's limit before another one is made
                begin = min([frontier, *(step.from_offset for step in steps)])
                self._offsets.commit(topic, owner, {partition: begin}, user_id=user_id)
                committed = begin, 0
            journal = self._journals.find(record, owner, partition)
            state = journal.load(committed, is_writer=True)
            poisoned = state.apply(steps, self._backing.clock_us())
            state.frontier = max(state.frontier, frontier)
            if any(step.step is DeliveryStep.SOUGHT for step in steps):
                journal.forget()
            journal.store(_touched_by(steps), committed[0], self._backing.clock_us())
            for delivery in poisoned:
                self._bury(record, owner, partition, journal, delivery, dead_letter)
            base = state.first_open()
            if base != committed[0]:
                self._offsets.commit(topic, owner, {partition: base}, user_id=user_id)
        return now

    def _bury(
        self,
        record: TopicRecord,
        owner: OffsetOwner,
        partition: int,
        journal: DeliveryJournal,
        delivery: Delivery,
        dead_letter: TopicName | None,
    ) -> None:
        """Copy a poisoned message into the dead letter, once, and record that it is done."""
        offset, state = delivery.offset, journal.state
        message = self._copies.find(record.name, partition, offset)
        if message is not None and not self._copies.is_letter(message):  # a dead letter is never copied again
            is_repeat = delivery.copied_to is not None and self._copies.has_topic(delivery.copied_to[0])
            if not is_repeat:
                if dead_letter is None:
                    raise InvalidOptionError(
                        f"message {offset} is given up, and there is no dead-letter topic",
                        where=f"{record.name}, partition {partition}",
                        advice='Name one, as in log.consumer(…, dead_letter="shop/orders.dead")',
                    )
                delivery = replace(delivery, copied_to=self._copies.place(dead_letter, message, partition))
                state.failing[offset] = delivery
                self._backing.log.partition(record, partition).sync()  # a journal on the disk knows no message that is not
                journal.store(Touched(failing=(offset,)), state.base, self._backing.clock_us(), durably=True)
            self._copies.copy(record.name, partition, owner, message, delivery, may_exist=is_repeat)
        state.finish(offset, offset + 1)
        state.poisoned_count += 1
        journal.store(Touched(done=((offset, offset + 1),)), state.base, self._backing.clock_us())


class _OpenJournals:
    """The most recently used journals of one log, shared by all who opened it; any thread."""

    def __init__(self, log: Log) -> None:
        self._log = weakref.ref(log)
        self._lock = threading.Lock()
        self._journals: OrderedDict[tuple[str, OffsetOwner, int, int], DeliveryJournal] = OrderedDict()

    def find(self, record: TopicRecord, owner: OffsetOwner, partition: int) -> DeliveryJournal:
        """Return a journal."""
        log = self._log()
        assert log is not None
        key = record.identity, owner, partition, record.generation(partition)
        with self._lock:
            journal = self._journals.get(key)
            if journal is None:
                journal = self._journals[key] = DeliveryJournal(log.offsets(record).directory, log.files, *key[1:])
                if len(self._journals) > _MAX_OPEN:
                    self._journals.popitem(last=False)
            self._journals.move_to_end(key)
            return journal


_OPEN: Final[weakref.WeakKeyDictionary[Log, _OpenJournals]] = weakref.WeakKeyDictionary()


def _touched_by(steps: Iterable[DeliveryChange]) -> Touched:
    """Return what steps touch."""
    waits, done, failing = [], [], []
    for step in steps:
        if step.step is DeliveryStep.DONE:
            done.append((step.from_offset, step.until_offset))
        elif step.step is DeliveryStep.PENDING:
            waits.append((step.from_offset, step.until_offset))
        elif step.step is not DeliveryStep.SOUGHT:
            failing.append(step.from_offset)
    return Touched(tuple(waits), tuple(done), tuple(failing))
