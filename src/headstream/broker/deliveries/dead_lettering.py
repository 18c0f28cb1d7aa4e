"""DeadLettering: moves a permanently failed message to the dead-letter topic, exactly once, even if a process is killed.

    1. the journal records the copy's partition and the partition's end offset
    2. the copy is appended and synced
    3. the journal records that the message is done

Each step is stored before the next step starts. After a crash, the step is repeated. If a copy is found after the recorded end
offset, the message is not copied again; otherwise the move restarts with the current dead-letter topic, because the previous
topic may have been deleted or may reject the copy.
"""

from __future__ import annotations

from dataclasses import replace

from headstream.broker.backing import Backing
from headstream.broker.deliveries.dead_letters import DeadLetterCopies
from headstream.broker.deliveries.transitions import GroupPlace, Transitions
from headstream.core.model.deliveries import DeadLetterReason, Delivery
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.errors import InvalidOptionError
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.delivery_journal import DeliveryJournal, Touched
from headstream.log.partition.offset_file_counts import NO_USER


class DeadLettering:
    """Moves messages to dead-letter topics."""

    def __init__(self, backing: Backing, copies: DeadLetterCopies, transitions: Transitions) -> None:
        self._backing = backing
        self._copies = copies
        self._transitions = transitions

    def move(
        self,
        record: TopicRecord,
        owner: OffsetOwner,
        partition: int,
        journal: DeliveryJournal,
        delivery: Delivery,
        dead_letter: TopicName | None,
        user_id: int = NO_USER,
    ) -> None:
        """Copy a poisoned message to the dead-letter topic, once, and record that the message is done.

        Args:
            journal: The group's journal, locked.
            dead_letter: The topic for the copy; None for the recorded topic, if it still exists.
            user_id: The server's user who sends the request.

        Raises:
            InvalidOptionError: there is no dead-letter topic, or the topic would drop copies.
            LimitError: the copy exceeds the dead-letter topic's limits.
        """
        offset, state = delivery.offset, journal.state
        message = self._copies.find(record.name, partition, offset)
        if message is not None and not self._copies.is_dead_letter(message):  # a dead letter is never copied again
            letter = self._copies.find_copy(record.name, partition, owner, delivery)
            if letter is None:
                target = self._target_of(record.name, partition, delivery, dead_letter)
                delivery = replace(delivery, copied_to=self._copies.place(target, message, partition))
                state.failing[offset] = delivery
                self._backing.log.partition(record, partition).sync()  # the journal refers only to messages on the disk
                journal.store(Touched(failing=(offset,)), state.base, self._backing.clock_us(), durably=True)
                letter = self._copies.copy(record.name, partition, owner, message, delivery)
            self._copies.sync(delivery)
            assert delivery.copied_to is not None
            delivery = replace(delivery, copied_to=(*delivery.copied_to[:2], letter))
        state.finish(offset, offset + 1)
        state.poisoned_count += 1
        state.give_up(delivery)
        journal.store(Touched(done=((offset, offset + 1),), given_up=(delivery,)), state.base, self._backing.clock_us())
        self._transitions.record(GroupPlace(record.name, owner.name, partition, user_id), [_given_up(delivery)])

    def _target_of(self, topic: TopicName, partition: int, delivery: Delivery, dead_letter: TopicName | None) -> TopicName:
        if dead_letter is not None:
            return dead_letter
        if delivery.copied_to is not None and self._copies.has_topic(delivery.copied_to[0]):
            return TopicName.parse(delivery.copied_to[0])
        raise InvalidOptionError(
            f"message {delivery.offset} has failed permanently, but no dead-letter topic is set",
            where=f"{topic}, partition {partition}",
            advice='Set a topic, for example log.consumer(…, dead_letter="shop/orders.dead")',
        )


def _given_up(each: Delivery) -> Transition:
    kind = TransitionKind.REJECTED if each.reason == DeadLetterReason.REJECTED else TransitionKind.POISONED
    worker = each.attempts[-1].worker if each.attempts else ""
    return Transition(kind, each.offset, each.offset + 1, worker, each.failures, 0, each.reason, each.last_error)
