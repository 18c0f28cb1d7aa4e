"""Offsets: how far consumers and groups have come."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headstream.broker.backing import Backing
from headstream.errors import OffsetOutOfRangeError
from headstream.model.identifiers import TopicName
from headstream.model.polling import Consumer

__all__ = ["Offsets"]


class Offsets:
    """What can be done with committed offsets. One is always that of the next message: one past the last that is done."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def committed(self, topic: TopicName, consumer: Consumer) -> dict[int, int]:
        """Return the committed offset of each partition that has one; TopicNotFoundError where there is no such topic."""
        record = self._backing.topic(topic)
        store = self._backing.log.offsets(record)
        found = {number: store.committed(consumer, number) for number in range(1, record.partitions + 1)}
        return {number: offset for number, offset in found.items() if offset is not None}

    def commit(
        self,
        topic: TopicName,
        consumer: Consumer,
        offsets: Mapping[int, int],
        *,
        generations: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Commit where a consumer goes on, from this process or any other.

        Args:
            topic: Stream and topic.
            consumer: Whose offsets they are.
            offsets: Partition -> offset of the next message.
            generations: Partition -> the generation it was polled from, where that is known.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            OffsetOutOfRangeError: a partition has been purged or made anew since; nothing of it is committed.
        """
        now_us = self._backing.clock_us()
        for number, offset in offsets.items():
            record = self._backing.partition(topic, number)
            now = record.generation(number)
            if generations.get(number, now) != now:
                raise OffsetOutOfRangeError(
                    f"partition {number} of {str(topic)!r} has been purged or made anew since offset {offset} was reached",
                    advice="Nothing is committed there: seek() to where to go on",
                )
            self._backing.log.offsets(record).commit(consumer, number, offset, now_us)
