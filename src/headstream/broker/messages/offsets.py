"""Offsets: committed offsets of consumers and groups."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headstream.broker.backing import Backing, check_generation
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.errors import StorageError
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.partition.offset_file_counts import NO_USER


class BrokerOffsets:
    """Commands for committed offsets. A committed offset is one past the last finished message."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def committed(self, topic: TopicName, consumer: OffsetOwner) -> dict[int, int]:
        """Return the committed offsets by partition; TopicNotFoundError if the topic does not exist."""
        record = self._backing.topic(topic)
        return self._backing.log.offsets(record).all_committed(consumer, range(1, record.partitions + 1))

    def commit(
        self,
        topic: TopicName,
        consumer: OffsetOwner,
        offsets: Mapping[int, int],
        *,
        generations: Mapping[int, int] = MappingProxyType({}),
        user_id: int = NO_USER,
    ) -> None:
        """Commit the offsets of a consumer of any process.

        Args:
            offsets: Partition -> offset of the next message.
            generations: Partition -> the partition's generation when its messages were polled, if known.

        Raises:
            ConsumersLimitError: the consumer is new and the user has reached the limit of consumers.
            OffsetOutOfRangeError: a partition was purged or recreated meanwhile; nothing is committed in this partition.
        """
        now_us = self._backing.clock_us()
        for number, offset in offsets.items():
            record = self._backing.partition(topic, number)
            generation = generations.get(number, record.generation(number))
            self._check(record, number, offset, generation)
            try:
                self._backing.log.offsets(record).commit(consumer, number, offset, now_us, user_id)
            except StorageError:  # the files of a topic disappear while another thread or process deletes the topic
                self._check(self._backing.partition(topic, number), number, offset, generation)
                raise

    def _check(self, record: TopicRecord, number: int, offset: int, generation: int) -> None:
        advice = "Nothing was committed; seek() to the offset at which to continue"
        check_generation(record, number, generation, since=f"offset {offset} was reached", advice=advice)


def limit_consumers(log: Log, most: int) -> None:
    """Limit the consumers and groups per user and topic; reads the log's offset files, about 10 us per file."""
    for stream in log.snapshot().values():
        for topic in stream.topics.values():
            log.offsets(topic).count_files()
    log.open_offsets.counts.most = most
