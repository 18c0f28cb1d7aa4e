"""PartitionReader: reads Kafka partitions from given offsets, with one librdkafka consumer.

librdkafka prefetches in the background; PartitionReader buffers the fetched records by partition, in order. A poll that continues
the previous poll takes buffered records; a poll from another offset restarts the partition. If no record is buffered, the poll
first requests the end offset from the leader, so that it returns every message acknowledged before the poll. Not thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headstream.client.transports.kafka.cluster import END_OFFSET, Cluster
from headstream.client.transports.kafka.refusals import TRANSIENT, refused
from headstream.core.model.identifiers import TopicName
from headstream.errors import ClosedError, PartitionNotFoundError, ServerUnreachableError
from headstream.forks import keep_forever, register_for_forks

_SLICE_S: Final = 0.1
"""Interval at which waits check their deadline, seconds."""
_MOST_AT_ONCE: Final = 1000
"""Messages taken from librdkafka in one call."""
_QUEUED_KB: Final = 16_384
"""Maximum size of the messages that librdkafka prefetches, KiB."""
_UNUSED_GROUP: Final = "headstream-reader"
"""librdkafka requires a group id; a reader neither joins the group nor commits."""
_end_reached: Final[int] = KafkaError._PARTITION_EOF  # type: ignore[attr-defined,unused-ignore]
_no_such_offset: Final[frozenset[int]] = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # type: ignore[attr-defined,unused-ignore]
_NOT_FOUND_CODES: Final[frozenset[int]] = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,  # type: ignore[attr-defined,unused-ignore]
})  # fmt: skip


@dataclass(slots=True)
class _PartitionState:
    """State of an assigned partition.

    Args:
        position: Offset of the next poll.
        records: Buffered records, starting at `position`.
        end: The end offset that librdkafka has reached, or None.
        known_end: The end offset that the leader reported last.
        is_fresh: Whether prepare() has run since the last read().
    """

    position: int
    records: deque[Any] = field(default_factory=deque)
    end: int | None = None
    error: Any = None
    known_end: int = 0
    is_fresh: bool = False

    @property
    def reached(self) -> int:
        """The offset after the buffered records, or the end that librdkafka has reached if it is higher."""
        last = self.records[-1].offset() + 1 if self.records else self.position
        return last if self.end is None else max(last, self.end)


class PartitionReader:
    """Reads partitions of one cluster.

    Args:
        longest_fetch_ms: Maximum wait of a broker in a fetch, milliseconds; delays partitions assigned during the fetch.
    """

    def __init__(self, cluster: Cluster, longest_fetch_ms: int) -> None:
        self._cluster = cluster
        self._longest_fetch_ms = longest_fetch_ms
        self._lock = threading.Lock()
        self._is_closed = False
        self._consumer: Any = None
        self._partitions: dict[tuple[str, int], _PartitionState] = {}
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: use a new client, because the threads of the parent's client do not exist."""
        self._lock = threading.Lock()
        keep_forever(self._consumer)
        self._consumer, self._partitions = None, {}

    def _open(self) -> Any:
        if self._is_closed:
            raise ClosedError("the consumer is closed", advice="Create a new consumer with log.consumer()")
        if self._consumer is None:
            self._consumer = self._cluster.make(
                Consumer,
                group_id=_UNUSED_GROUP,
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                queued_max_messages_kbytes=_QUEUED_KB,
                fetch_wait_max_ms=self._longest_fetch_ms,
            )
        return self._consumer

    def has_records(self, partitions: Iterable[tuple[str, int]]) -> bool:
        """Return whether one of the given partitions has buffered records or an error."""
        found = (self._partitions.get(each) for each in partitions)
        return any(state is not None and (state.records or state.error is not None) for state in found)

    def ends(self, where: TopicName, partition: int) -> tuple[int, int]:
        """Return the first offset and the end offset of a partition; ServerUnreachableError if the partition has no leader."""
        key = self._cluster.names.kafka_name(where), partition
        self._check_exists(where, partition)
        firsts, ends = self._cluster.ends([key])
        return firsts[key], ends[key]

    def _check_exists(self, where: TopicName, partition: int) -> None:
        count = self._cluster.count_partitions(where)
        if partition not in range(count):
            raise PartitionNotFoundError(
                f"topic {str(where)!r} has no partition {partition}", advice=f"Use a partition from 0 to {count - 1}"
            )

    def prepare(self, where: TopicName, positions: Mapping[int, int]) -> None:
        """Assign partitions at `positions`; wait for a record or the ends of all partitions, so that read() sends no request."""
        name = self._cluster.names.kafka_name(where)
        wanted = {(name, partition): offset for partition, offset in positions.items()}
        new = []
        for key, offset in wanted.items():
            state = self._partitions.get(key)
            if state is None or state.position != offset:
                self.end(key)
                self._partitions[key] = _PartitionState(offset)
                new.append(TopicPartition(*key, offset))
        if new:
            self._open().incremental_assign(new)
        self._pump(0)
        if wanted and not self.has_records(wanted):
            self._await_ends(wanted, where)
        for key in wanted:
            self._partitions[key].is_fresh = True

    def _await_ends(self, keys: Iterable[tuple[str, int]], where: TopicName) -> None:
        """Request the end offsets of partitions; wait until the ends are reached or a record is buffered."""
        ends = self._cluster.offsets(keys, END_OFFSET)
        until_s = time.monotonic() + self._cluster.timeout_s
        awaited = [(self._partitions[key], ends[key]) for key in keys]
        while any(state.reached < end for state, end in awaited) and not self.has_records(keys):
            self._cluster.check_interrupt()
            self._pump(_SLICE_S)
            if time.monotonic() > until_s:
                raise ServerUnreachableError("the leaders did not send messages in time", where=str(where), advice="Try again")
        for state, end in awaited:
            state.known_end = end

    def read(self, where: TopicName, partition: int, offset: int, *, is_complete: bool) -> tuple[deque[Any], int, int]:
        """Return the records of a partition from an offset on; callers that remove records must call set_position().

        Args:
            offset: The first offset to read; if this offset was removed, reading starts at the first existing offset.
            is_complete: Whether to wait for all records that exist at the call, or only for one record.

        Returns:
            The records, the offset after the last returned or skipped record, and the partition's end offset.
        """
        key = self._cluster.names.kafka_name(where), partition
        state = self._partitions.get(key)
        if state is not None and state.position == offset and state.error is None and state.is_fresh:
            state.is_fresh = False
            if state.records or offset <= state.known_end:
                return state.records, state.reached, max(state.known_end, state.reached)
        first, end = self.ends(where, partition)
        begin = max(offset, first)
        if begin >= end:
            self.end(key)
            return deque(), offset if begin > end else begin, end
        if state is None or state.position != begin or state.error is not None:
            state = self._begin(key, begin)
        self._fill(key, state, where, end, is_complete)
        state.known_end = end
        return state.records, state.reached, max(end, state.reached)

    def _fill(self, key: tuple[str, int], state: _PartitionState, where: TopicName, end: int, is_complete: bool) -> None:
        """Wait until one record of a partition, or all records before an end offset, are buffered."""
        until_s = time.monotonic() + self._cluster.timeout_s
        while state.reached < end and (is_complete or not state.records):
            self._cluster.check_interrupt()
            self._pump(_SLICE_S)
            if state.error is not None:
                error, state.error = state.error, None
                if error.code() in _NOT_FOUND_CODES:
                    self.end(key)
                    self._check_exists(where, key[1])
                    return
                if error.code() in _no_such_offset:
                    self.end(key)
                    return
                if error.code() not in TRANSIENT:
                    raise refused(error, str(where), "the partition cannot be read")
            if time.monotonic() > until_s:
                raise ServerUnreachableError(
                    "the leader did not send messages in time", where=f"{where}, partition {key[1]}", advice="Try again"
                )

    def _begin(self, key: tuple[str, int], offset: int) -> _PartitionState:
        self.end(key)
        self._partitions[key] = state = _PartitionState(offset)
        self._open().incremental_assign([TopicPartition(*key, offset)])
        return state

    def end(self, key: tuple[str, int]) -> None:
        """Stop reading a partition."""
        if self._partitions.pop(key, None) is not None and self._consumer is not None:
            self._consumer.incremental_unassign([TopicPartition(*key)])

    def end_others(self, keys: Iterable[tuple[str, int]]) -> None:
        """Stop reading all other partitions."""
        for key in self._partitions.keys() - set(keys):
            self.end(key)

    def set_position(self, where: TopicName, partition: int, next_offset: int) -> None:
        """Set the offset up to which the caller has removed the records of a partition (numbered from 0)."""
        state = self._partitions.get((self._cluster.names.kafka_name(where), partition))
        if state is not None:
            state.position = next_offset

    def wait(self, timeout_s: float) -> None:
        """Wait for records of any partition, up to a timeout in seconds."""
        self._cluster.check_interrupt()
        self._pump(timeout_s)

    def _pump(self, timeout_s: float) -> None:
        """Buffer the records that librdkafka has fetched; wait for the first record up to a timeout, seconds."""
        if self._consumer is None or not self._partitions:
            if timeout_s > 0:
                time.sleep(timeout_s)
            return
        with self._lock:  # another thread can close the reader between two waits
            if self._is_closed:
                raise ClosedError("the consumer is closed", advice="Create a new consumer with log.consumer()")
            first = self._consumer.poll(timeout_s)
            rest = self._consumer.consume(_MOST_AT_ONCE, 0) if first is not None else ()
        if first is not None:
            self._take(first)
        for record in rest:
            self._take(record)

    def _take(self, record: Any) -> None:
        error, state = record.error(), self._partitions.get((record.topic(), record.partition()))
        if state is None:
            return  # a record of an unassigned partition, or a connection error: librdkafka reconnects
        if error is None:
            expected = state.records[-1].offset() + 1 if state.records else state.position
            if record.offset() >= expected:
                state.records.append(record)
                state.end = None
        elif error.code() == _end_reached:
            state.end = record.offset()
        else:
            state.error = error

    def close(self) -> None:
        """Close the librdkafka consumer."""
        self._is_closed = True
        with self._lock:
            consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
