"""Messages of a Kafka cluster: sends, polls and waits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Final

from headstream.client.transports.kafka.cluster import Cluster, offset_at
from headstream.client.transports.kafka.groups import KafkaGroups, KafkaOffsets
from headstream.client.transports.kafka.reader import PartitionReader
from headstream.client.transports.kafka.records import received_message
from headstream.client.transports.kafka.refusals import unsupported
from headstream.client.transports.kafka.sender import Sender
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.filter import Filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage, StateChange
from headstream.core.model.polling import OffsetOwner, PolledMessages, PollingKind, PollingStrategy
from headstream.core.model.producers import Appended, BatchNumber
from headstream.core.model.removals import Removal
from headstream.errors import HeaderError

_TIMEOUT_S: Final = 120.0
"""Default delivery timeout of a send, seconds."""
_WAIT_S: Final = 0.1
"""Interval at which a wait checks for changes of the group, seconds."""
_LAST_MS: Final = (1 << 62) - 1
"""A time after the times of all records, milliseconds."""
_SHARED_FETCH_MS: Final = 10
_OWN_FETCH_MS: Final = 200
"""Maximum wait of a broker for messages, milliseconds; shorter if each poll reads a different partition."""
_NEVER_COMMITTED: Final = PollingStrategy.first()


class KafkaMessages:
    """Message commands. `is_shared`: several callers poll, so each poll unassigns its partition afterwards."""

    def __init__(self, cluster: Cluster, offsets: KafkaOffsets, groups: KafkaGroups, *, is_shared: bool) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._groups = groups
        self._is_shared = is_shared
        self._reader = PartitionReader(cluster, _SHARED_FETCH_MS if is_shared else _OWN_FETCH_MS)
        self._sender = Sender(cluster)

    def send(self, topic: TopicName, partition: int, batch: BytesLike) -> int:
        return self.append(topic, partition, batch).offset

    def append(
        self,
        topic: TopicName,
        partition: int,
        batch: BytesLike,
        number: BatchNumber | None = None,
        *,
        retry_timeout_s: float | None = None,
    ) -> Appended:
        """Append a batch, numbered by librdkafka; return its positions. OutcomeUnknownError if messages may be stored."""
        return self._sender.append(topic, partition, batch, _TIMEOUT_S if retry_timeout_s is None else retry_timeout_s)

    def poll(self, topic: TopicName, partition: int, request: PollRequest) -> PolledMessages:
        """Return stored messages of a partition without waiting for new messages; a filter is applied in the client."""
        request.check(topic)
        consumer = request.consumer
        offset = self._start(topic, partition, request.start, request.count, consumer)
        try:
            polled = self._poll(topic, partition, offset, request)
        finally:
            if self._is_shared:
                self._reader.end_others(())
        if request.auto_commit and consumer is not None and (polled.count or polled.scanned_count):
            self._offsets.commit(topic, consumer, {partition: polled.next_offset})
        return polled

    def _poll(self, topic: TopicName, partition: int, offset: int, request: PollRequest) -> PolledMessages:
        count, states, where = request.count, request.states, request.where
        records, reached, end = self._reader.read(topic, partition, offset, is_complete=self._is_shared)
        name, next_offset, taken_bytes = str(topic), offset, 0
        found: list[ReceivedMessage] = []
        scanned = failed = 0
        while records and len(found) < count and (taken_bytes < request.size_bytes or not found):
            message = received_message(records[0], name, self._cluster.address.kafka_headers)
            is_wanted = states is None or message.state.value in states
            if where is not None and is_wanted:
                try:
                    is_wanted, is_failed = where.examine(message)
                except HeaderError as error:
                    if not scanned:
                        error.where = f"{topic}, partition {partition}"
                        raise
                    break
                scanned += 1
                failed += is_failed
            records.popleft()
            next_offset = message.offset + 1
            if is_wanted:
                found.append(message)
                taken_bytes += len(message.payload or b"")
        if not records and len(found) < count:
            next_offset = max(next_offset, reached)
        self._reader.set_position(topic, partition, next_offset)
        return PolledMessages(
            partition, max(end, 0), next_offset, len(found), (), scanned_count=scanned, failed_count=failed, messages=tuple(found)
        )

    def _start(
        self, topic: TopicName, partition: int, strategy: PollingStrategy, count: int, consumer: OffsetOwner | None
    ) -> int:
        if strategy.kind is PollingKind.OFFSET:
            return strategy.value
        if strategy.kind is PollingKind.NEXT and consumer is not None:
            committed = self._offsets.committed(topic, consumer).get(partition)
            if committed is not None:
                return committed
            strategy = _NEVER_COMMITTED
        first, end = self._reader.ends(topic, partition)
        if strategy.kind is PollingKind.LAST:
            return max(first, end - count)
        if strategy.kind is not PollingKind.TIMESTAMP:
            return first
        key = self._cluster.names.kafka_name(topic), partition
        time_ms = min(math.ceil(strategy.value / 1000), _LAST_MS)
        found = self._cluster.offsets([key], offset_at(time_ms))[key]
        return found if found >= 0 else end

    def prepare(self, topic: TopicName, positions: Mapping[int, int]) -> None:
        """Fetch a consumer's partitions concurrently, from `positions`, before the consumer polls each partition."""
        self._reader.prepare(topic, positions)

    def count_segments(self, topic: TopicName, where: Filter) -> None:
        """Return None, because brokers cannot skip segments."""

    def set_state(
        self, topic: TopicName, partition: int, offsets: Iterable[int], state: int, *, reason: str = "", by: str = ""
    ) -> None:
        """Raise UnsupportedError: Kafka cannot change a record."""
        raise unsupported(
            "Kafka cannot change a stored message or its state",
            "Send the message to a dead-letter topic, and commit the next offset",
        )

    def remove_marked(self, topic: TopicName, partition: int, reason: str) -> Removal:
        """Raise UnsupportedError: Kafka cannot remove a record."""
        raise unsupported(
            "Kafka cannot remove individual messages",
            "In a compacted topic, send a null payload for the key; in other topics, wait for the retention",
        )

    def states(self, topic: TopicName, partition: int) -> list[StateChange]:
        """Raise UnsupportedError: Kafka has no message states."""
        raise unsupported(
            "Kafka does not list messages by state", "poll(states=None) shows each message with the state with which it was sent"
        )

    def wait(
        self,
        topic: TopicName,
        positions: Mapping[int, int],
        timeout_ms: float,
        *,
        member: Member | None = None,
        generation: int = 0,
    ) -> bool:
        name, until_s = self._cluster.names.kafka_name(topic), time.monotonic() + timeout_ms / 1000
        keys = [(name, partition) for partition in positions]
        self._reader.end_others(keys)
        while not self._reader.has_records(keys):
            if member is not None and self._groups.has_changed(member, generation):
                return True
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            self._reader.wait(min(left_s, _WAIT_S))
        return True

    def close(self) -> None:
        """Close the librdkafka producer and consumer."""
        self._sender.close()
        self._reader.close()
