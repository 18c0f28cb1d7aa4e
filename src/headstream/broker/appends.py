"""Appends: what is sent, once or again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headstream.broker.backing import Backing
from headstream.codec.buffer import BytesLike
from headstream.errors import LogError
from headstream.log.catalog import Catalog, TopicRecord
from headstream.log.producer_numbers import ProducerNumbers
from headstream.model.identifiers import TopicName
from headstream.model.producers import Appended, BatchNumber, ProducerId, producer_id_of

__all__ = ["Appends"]

_T = TypeVar("_T")


class Appends:
    """What can be done with messages that are not there yet.

    Args:
        backing: Where they go.
    """

    def __init__(self, backing: Backing) -> None:
        self._backing = backing
        self._producer_numbers = ProducerNumbers(self._catalog, backing.clock_us)

    def _catalog(self) -> Catalog:
        with self._backing.log.changing() as catalog:
            return catalog

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch to a partition and return the offset of its first message; it is committed then.

        A topic may look for repeats: a message is passed over then, as if it had been appended, whose id one of the newest
        messages of the partition has. The offset is that of the first message that is new, or what the next one gets.

        Args:
            topic: Stream and topic.
            partition: From 1.
            batch: Messages as sent, back to back, at most 64 MiB.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: there is no such place.
            LimitError: a message is beyond the topic's limits, or has no key where one is needed; nothing was written.
            DecodeError: the bytes are no batch; nothing was written.
            LogLockedError: another process is the writer.
        """
        backing = self._backing
        append = backing.writable_log().append
        return self._append(
            topic, partition, lambda record: append(record, partition, batch, backing.clock_us(), backing.entropy(16))
        )

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = None,
        *,
        patience_s: float | None = None,
    ) -> Appended:
        """Append a batch to a partition as send() does, and return where it is.

        Args:
            topic: Stream and topic.
            partition: From 1.
            batch: Messages as sent, back to back, at most 64 MiB.
            number: The batch's number: if it was appended before, it is not appended again. None numbers nothing.
            patience_s: For clients of a server: here nothing is waited for.

        Raises, beside what send() does:
            SequenceError, ProducerFencedError: the batch does not follow the one before it; nothing was written.
        """
        backing = self._backing
        append = backing.writable_log().append_numbered
        return self._append(
            topic, partition, lambda record: append(record, partition, batch, backing.clock_us(), backing.entropy(16), number)
        )

    def _append(self, topic: TopicName, partition: int, append: Callable[[TopicRecord], _T]) -> _T:
        log = self._backing.log
        while True:
            known = log.snapshot()
            record = self._backing.partition(topic, partition)
            try:
                appended = append(record)
            except LogError:
                if self._is_there(record, partition) or not self._is_made_anew(record, partition):
                    raise
            else:
                if log.snapshot() is known or self._is_there(record, partition) or not self._is_made_anew(record, partition):
                    return appended
            # What was appended to a partition that was just being purged or deleted is gone with it: send it again.

    def new_producer(self, user_id: int) -> ProducerId:
        """Return an id that no producer has had, and the epoch that it begins with.

        Args:
            user_id: Who alone may send with it.

        Raises:
            LogLockedError: another process is the writer.
        """
        self._backing.writable_log()
        return ProducerId(producer_id_of(self._producer_numbers.take(), user_id), 0)

    def forget_producer(self, topic: TopicName, producer_id: int) -> None:
        """Forget a producer in all partitions of a topic: it repeats nothing there any more.

        Args:
            topic: Stream and topic.
            producer_id: Its id.

        Raises:
            TopicNotFoundError: there is no such topic.
        """
        log, record = self._backing.writable_log(), self._backing.topic(topic)
        for number in range(1, record.partitions + 1):
            if log.writing_end(record, number) is not None:  # one that was not opened since is forgotten by its age
                log.partition(record, number).forget_producer(producer_id)

    def _is_there(self, record: TopicRecord, partition: int) -> bool:
        """Return whether a partition is still what it was, whatever its topic and stream are called by now."""
        topics = (topic for stream in self._backing.log.snapshot().values() for topic in stream.topics.values())
        now = next((topic for topic in topics if topic.number == record.number), None)
        return now is not None and partition <= now.partitions and now.generation(partition) == record.generation(partition)

    def _is_made_anew(self, record: TopicRecord, partition: int) -> bool:
        """Return whether a partition has been purged or deleted and made again; raises where it is no more."""
        now = self._backing.partition(record.name, partition)
        return now is not record and (now.number, now.generation(partition)) != (record.number, record.generation(partition))
