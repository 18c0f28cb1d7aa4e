"""Offsets: committed offsets of consumers and groups."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headstream.broker.backing import Backing, check_generation
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.errors import PartitionNotFoundError, StorageError
from headstream.log.catalog.catalog import check_exists
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
        """Commit a consumer's offsets; the consumer can be in any process.

        Args:
            offsets: Partition -> offset of the next message.
            generations: Partition -> the partition's generation when its messages were polled, if known.

        Raises:
            ConsumersLimitError: the consumer is new and the user has reached the consumer limit.
            OffsetOutOfRangeError: a partition was purged or recreated meanwhile; nothing is committed in this partition.
        """
        now_us, log = self._backing.clock_us(), self._backing.log
        for number, offset in offsets.items():
            known, record = log.snapshot() if log.is_writer else None, self._backing.partition(topic, number)
            generation = generations.get(number, record.generation(number))
            self._check(record, number, offset, generation)
            store = log.offsets(record)
            try:
                store.commit(consumer, number, offset, now_us, user_id)
                if known is not None and log.snapshot() is not known:
                    check_exists(log.snapshot(), record, number)
            except (StorageError, PartitionNotFoundError):  # deleted, purged or recreated by another thread or process
                if store.committed_at(consumer, number) == (offset, now_us):
                    store.forget(consumer, number)  # a recreated partition uses the same offset directory
                self._check(self._backing.partition(topic, number), number, offset, generation)
                raise

    def commit_in(self, record: TopicRecord, consumer: OffsetOwner, partition: int, offset: int, user_id: int) -> None:
        """Commit one offset like commit(), unless the partition was purged or recreated since its topic's record was read."""
        generations = {partition: record.generation(partition)}
        self.commit(record.name, consumer, {partition: offset}, generations=generations, user_id=user_id)

    def forget(self, record: TopicRecord, consumer: OffsetOwner, partition: int) -> None:
        """Delete a consumer's offset in a partition; TopicNotFoundError, OffsetOutOfRangeError if deleted or purged meanwhile."""
        with self._backing.naming_deletions(record):
            self._backing.log.offsets(record).forget(consumer, partition)

    def _check(self, record: TopicRecord, number: int, offset: int, generation: int) -> None:
        advice = "Nothing was committed; seek() to the offset at which to continue"
        check_generation(record, number, generation, since=f"offset {offset} was reached", advice=advice)


def limit_consumers(log: Log, most: int) -> None:
    """Limit the consumers and groups per user and topic; reads the log's offset files, about 10 us per file."""
    for stream in log.snapshot().values():
        for topic in stream.topics.values():
            log.offsets(topic).count_files()
    log.open_offsets.counts.most = most
