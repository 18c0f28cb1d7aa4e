"""Appends: store sent batches, and detect retried ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headstream.broker.backing import Backing
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.identifiers import TopicName
from headstream.core.model.producers import Appended, BatchNumber, ProducerId, producer_id_of
from headstream.errors import LogError
from headstream.interceptors.batch_tracing import BatchTracing
from headstream.interceptors.trace_contexts import find_contexts
from headstream.log.catalog.catalog import Catalog, TopicRecord, find_topic
from headstream.log.catalog.producer_numbers import ProducerNumbers

__all__ = ["Appends"]

_T = TypeVar("_T")


class Appends:
    """Commands that append messages.

    Args:
        backing: The log to append to.
    """

    def __init__(self, backing: Backing) -> None:
        self._backing = backing
        self.tracing: BatchTracing | None = None
        """Makes spans of appends, in the traces of their messages; None makes none."""
        self._producer_numbers = ProducerNumbers(self._catalog, backing.clock_us)

    def _catalog(self) -> Catalog:
        with self._backing.log.changing() as catalog:
            return catalog

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        """Append a batch to a partition and return the offset of its first message; it is committed then.

        If the topic deduplicates, a message whose id occurs among the newest messages of the partition is dropped and
        acknowledged. The returned offset is that of the first new message, or else the next offset.

        Args:
            topic: Stream and topic.
            partition: From 1.
            batch: Messages as sent, back to back, at most 64 MiB.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            LimitError: a message exceeds the topic's limits or lacks a required key; nothing was written.
            DecodeError: the bytes are not a valid batch; nothing was written.
            LogLockedError: another process is the writer.
        """
        backing = self._backing
        append = backing.writable_log().append
        return self._append(
            topic, partition, batch, lambda record: append(record, partition, batch, backing.clock_us(), backing.entropy(16))
        )

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = None,
        *,
        retry_timeout_s: float | None = None,
    ) -> Appended:
        """Append a batch to a partition as send() does, and return its position.

        Args:
            topic: Stream and topic.
            partition: From 1.
            batch: Messages as sent, back to back, at most 64 MiB.
            number: The batch's number; a batch with a known number is not appended again. None disables the check.
            retry_timeout_s: Used by network transports; ignored here.

        Raises, in addition to send():
            SequenceError, ProducerFencedError: the batch does not follow the one before it; nothing was written.
        """
        backing = self._backing
        append = backing.writable_log().append_numbered
        return self._append(
            topic,
            partition,
            batch,
            lambda record: append(record, partition, batch, backing.clock_us(), backing.entropy(16), number),
        )

    def _append(self, topic: TopicName, partition: int, batch: BytesLike, append: Callable[[TopicRecord], _T]) -> _T:
        if self.tracing is not None and (contexts := find_contexts(batch)):
            with self.tracing.append(topic, partition, contexts):
                return self._append_to_current(topic, partition, append)
        return self._append_to_current(topic, partition, append)

    def _append_to_current(self, topic: TopicName, partition: int, append: Callable[[TopicRecord], _T]) -> _T:
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
            # A concurrent purge or delete of the partition removed the batch: append it again.

    def new_producer(self, user_id: int) -> ProducerId:
        """Return an unused producer id and its first epoch.

        Args:
            user_id: The only user allowed to send with it.

        Raises:
            LogLockedError: another process is the writer.
        """
        self._backing.writable_log()
        return ProducerId(producer_id_of(self._producer_numbers.take(), user_id), 0)

    def forget_producer(self, topic: TopicName, producer_id: int) -> None:
        """Drop a producer's state in all partitions of a topic, after its last retry.

        Args:
            topic: Stream and topic.

        Raises:
            TopicNotFoundError: the topic does not exist.
        """
        log, record = self._backing.writable_log(), self._backing.topic(topic)
        for number in range(1, record.partitions + 1):
            if log.writing_end(record, number) is not None:  # the state in an unopened partition expires
                log.partition(record, number).forget_producer(producer_id)

    def _is_there(self, record: TopicRecord, partition: int) -> bool:
        """Return whether a partition still exists, even under a renamed topic or stream."""
        now = find_topic(self._backing.log.snapshot(), record.number)
        return now is not None and partition <= now.partitions and now.generation(partition) == record.generation(partition)

    def _is_made_anew(self, record: TopicRecord, partition: int) -> bool:
        """Return whether a partition has been purged or recreated; raises if it does not exist."""
        now = self._backing.partition(record.name, partition)
        return now is not record and (now.number, now.generation(partition)) != (record.number, record.generation(partition))
