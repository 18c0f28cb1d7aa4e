"""Sender: one idempotent librdkafka producer per Headstream producer.

The messages of a batch are enqueued in librdkafka singly, then flushed. librdkafka numbers messages, so that retries after broken
connections and leader changes store each message once and in order. The delivery timeout of librdkafka is disabled; messages are
purged after their batch's timeout. A message that was never sent is not stored; the outcome of a message that was sent and not
acknowledged is unknown. The librdkafka producer is then discarded; the next batch creates another producer.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from headstream.client.transports.kafka.cluster import Cluster
from headstream.client.transports.kafka.records import headers_of, time_of
from headstream.client.transports.kafka.refusals import error_of, refused
from headstream.core.codec.binary import decode_sent
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.producers import Appended
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import (
    HeadstreamError,
    LimitError,
    OutcomeUnknownError,
    PartitionNotFoundError,
    ServerUnreachableError,
    TopicNotFoundError,
)
from headstream.forks import keep_forever, register_for_forks

_SLICE_S: Final = 0.1
"""Interval at which a wait for acknowledgements checks the timeout, seconds."""
_PURGE_S: Final = 5.0
"""Timeout of the delivery reports of purged messages, seconds."""
_LINGER_MS: Final = 60_000
"""Linger, milliseconds: longer than enqueueing a batch takes, so that flush() sends the batch in as few requests as possible."""
_NEW_TOPIC_MS: Final = 5000
"""Time for which messages of an unknown topic wait for its creation, milliseconds; afterwards, the messages fail."""
_UNSENT: Final = frozenset({KafkaError._PURGE_QUEUE})  # type: ignore[attr-defined,unused-ignore]
_UNANSWERED: Final = frozenset(
    {KafkaError._PURGE_INFLIGHT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT}
)  # type: ignore[attr-defined,unused-ignore]


_FORGOTTEN: Final = KafkaError._DESTROY  # type: ignore[attr-defined,unused-ignore]
"""The code with which librdkafka discards the unsent messages of a partition whose topic was deleted."""


class _EnqueuedBatch:
    """The delivery reports of a batch's messages."""

    def __init__(self, count: int) -> None:
        self.positions: list[tuple[int, int] | None] = [None] * count
        self.errors: list[Any] = []
        self.left = 0

    def record_outcome(self, number: int, error: Any, record: Any) -> None:
        """Record the outcome of a message from librdkafka's delivery report."""
        self.left -= 1
        if error is not None:
            self.errors.append(error)
        else:
            self.positions[number] = record.offset(), 1000 * record.timestamp()[1]


class Sender:
    """Sends the batches of one producer; not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer: Any = None
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: use a new producer, because the threads of the parent's producer do not exist."""
        keep_forever(self._producer)
        self._producer = None

    def append(self, topic: TopicName, partition: int, batch: BytesLike, timeout_s: float) -> Appended:
        """Send a batch; return its messages' positions (partition from 0). OutcomeUnknownError if messages may be stored."""
        messages, until_s = decode_sent(batch), time.monotonic() + timeout_s
        enqueued = _EnqueuedBatch(len(messages))
        try:
            self._enqueue(topic, partition, messages, enqueued, until_s)
            while enqueued.left and time.monotonic() < until_s:
                self._producer.flush(min(_SLICE_S, max(until_s - time.monotonic(), 0)))
            if enqueued.left:
                self._purge(enqueued)
        except BaseException:
            self.close()
            raise
        if enqueued.errors:
            raise self._failure(topic, enqueued)
        positions = tuple(position for position in enqueued.positions if position is not None)
        return Appended(positions[0][0], positions[0][1], len(positions), positions=positions)

    def _enqueue(
        self, topic: TopicName, partition: int, messages: Sequence[Message], enqueued: _EnqueuedBatch, until_s: float
    ) -> None:
        if self._producer is None:
            self._producer = self._cluster.make(
                Producer,
                enable_idempotence=True,
                acks="all",
                linger_ms=_LINGER_MS,
                message_timeout_ms=0,
                topic_metadata_propagation_max_ms=_NEW_TOPIC_MS,
                message_max_bytes=MAX_BATCH_BYTES + (1 << 20),
                queue_buffering_max_kbytes=(2 * MAX_BATCH_BYTES) >> 10,
            )
        convention = self._cluster.address.kafka_headers or "headstream"
        name, now_ms, produce = self._cluster.names.kafka_name(topic), time.time_ns() // 1_000_000, self._producer.produce
        all_headers = [headers_of(message, convention, str(topic)) for message in messages]  # before any message is sent
        for number, (message, headers) in enumerate(zip(messages, all_headers, strict=True)):
            report, time_ms = functools.partial(enqueued.record_outcome, number), time_of(message, now_ms)
            while True:
                try:
                    produce(name, message.payload, message.key, partition, on_delivery=report, timestamp=time_ms, headers=headers)
                    enqueued.left += 1
                    break
                except BufferError:
                    if time.monotonic() > until_s:
                        raise ServerUnreachableError(
                            "the messages could not be sent within delivery_timeout_ms", where=str(topic)
                        ) from None
                    self._producer.flush(_SLICE_S)
                except KafkaException as error:
                    if enqueued.left or any(enqueued.positions):
                        self._purge(enqueued)
                        enqueued.errors.insert(0, error_of(error))
                        raise self._failure(topic, enqueued) from None
                    raise refused(error, str(topic), "the messages are not stored") from None

    def _purge(self, enqueued: _EnqueuedBatch) -> None:
        """Purge unacknowledged messages, so that librdkafka reports the unsent messages, and discard the librdkafka producer."""
        self._producer.purge()
        until_s = time.monotonic() + _PURGE_S
        while enqueued.left and time.monotonic() < until_s:
            self._producer.poll(_SLICE_S)
        if enqueued.left:
            enqueued.errors.append(KafkaError(KafkaError._PURGE_INFLIGHT))  # type: ignore[attr-defined,unused-ignore]
        self.close()

    def _failure(self, topic: TopicName, enqueued: _EnqueuedBatch) -> HeadstreamError:
        """Return the error of a batch if not all of its messages are stored."""
        codes = {error.code() for error in enqueued.errors}
        first = enqueued.errors[0]
        if any(error.fatal() for error in enqueued.errors):
            self.close()
        stored = sum(position is not None for position in enqueued.positions)
        if stored or codes & _UNANSWERED:
            return OutcomeUnknownError(
                f"the brokers acknowledged {stored} of {len(enqueued.positions)} messages within delivery_timeout_ms: "
                f"{first.str()}",
                where=str(topic),
                advice="Check whether the messages are stored before sending them again",
            )
        if codes <= _UNSENT:
            return ServerUnreachableError(
                "the messages could not be sent within delivery_timeout_ms: the partition's leader did not answer",
                where=str(topic),
                advice="Send the messages again, or raise delivery_timeout_ms",
            )
        error = refused(first, str(topic), "the messages are not stored")
        if isinstance(error, (TopicNotFoundError, PartitionNotFoundError)) or codes == {_FORGOTTEN}:
            self.close()  # librdkafka caches that the topic was missing
            try:
                count = self._cluster.count_partitions(topic)
            except TopicNotFoundError as missing:
                return missing
            return PartitionNotFoundError(
                f"topic {str(topic)!r} does not have the requested partition", advice=f"Use a partition from 0 to {count - 1}"
            )
        if isinstance(error, LimitError):
            error.advice = "Raise the topic's max.message.bytes, or send smaller messages or smaller batches (batch_bytes)"
        return error

    def close(self) -> None:
        """Discard the librdkafka producer; the next batch creates another producer."""
        self._producer = None
