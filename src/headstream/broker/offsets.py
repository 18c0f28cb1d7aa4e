"""Offsets: how far consumers and groups have come."""

from __future__ import annotations

from collections.abc import Mapping

from headstream.broker.backing import Backing
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

    def commit(self, topic: TopicName, consumer: Consumer, offsets: Mapping[int, int]) -> None:
        """Commit where a consumer goes on, from this process or any other.

        Args:
            topic: Stream and topic.
            consumer: Whose offsets they are.
            offsets: Partition -> offset of the next message.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
        """
        now_us = self._backing.clock_us()
        for number, offset in offsets.items():
            record = self._backing.partition(topic, number)
            self._backing.log.offsets(record).commit(consumer, number, offset, now_us)
