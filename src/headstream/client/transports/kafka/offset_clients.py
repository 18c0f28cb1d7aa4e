"""Clients that read and commit a group's offsets without joining the group: one unsubscribed Kafka consumer per group.

The admin API also supports these requests. However, if a group's coordinator is unavailable, librdkafka keeps sending admin
requests to this coordinator, and can abort the process. A consumer looks for the new coordinator.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headstream.client.transports.kafka.cluster import Cluster
from headstream.client.transports.kafka.refusals import TRANSIENT, error_of, refused
from headstream.forks import keep_forever, register_for_forks

_MOST: Final = 16
"""Maximum number of clients, because each client has a connection to its group's coordinator."""
_ATTEMPT_S: Final = 2.0
"""Timeout of one attempt to read offsets, seconds."""


class OffsetClients:
    """The clients of one connection to a cluster; thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._consumers: OrderedDict[str, Any] = OrderedDict()
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: start without clients, because the threads of the parent's clients do not exist."""
        self._lock = threading.Lock()
        keep_forever(self._consumers)
        self._consumers = OrderedDict()

    def _consumer(self, group: str) -> Any:
        with self._lock:
            if group not in self._consumers:
                self._consumers[group] = self._cluster.make(
                    Consumer, group_id=group, enable_auto_commit=False, enable_auto_offset_store=False, auto_offset_reset="error"
                )
            self._consumers.move_to_end(group)
            if len(self._consumers) > _MOST:
                self._consumers.popitem(last=False)  # closed when the last call that uses it has ended
            return self._consumers[group]

    def committed(self, group: str, name: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return a group's committed offsets in partitions of a Kafka topic, or raise an error of the coordinator."""
        wanted = [TopicPartition(name, number) for number in numbers]
        found = self._repeat(group, lambda consumer: consumer.committed(wanted, timeout=_ATTEMPT_S))
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def commit(self, group: str, name: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a group; RebalancedError if the group has members, or an error of the coordinator."""
        wanted = [TopicPartition(name, number, offset) for number, offset in offsets.items()]
        self._repeat(group, lambda consumer: consumer.commit(offsets=wanted, asynchronous=False))

    def _repeat(self, group: str, call: Callable[[Any], list[TopicPartition]]) -> list[TopicPartition]:
        """Make a call with a group's consumer, with retries after transient errors; return the result."""
        until_s = time.monotonic() + self._cluster.timeout_s
        while True:
            self._cluster.check_interrupt()
            try:
                found = self._cluster.result(_run(call, self._consumer(group)))
                error = next((each.error for each in found if each.error is not None), None)
            except KafkaException as failed:
                error = error_of(failed)
            if error is None:
                return found
            self._cluster.raise_login()
            if error.code() not in TRANSIENT or time.monotonic() > until_s:
                raise refused(error, group) from None
            self._cluster.pause()

    def close(self) -> None:
        """Close the clients."""
        with self._lock:
            consumers, self._consumers = self._consumers, OrderedDict()
        for consumer in consumers.values():
            consumer.close()


def _run(call: Callable[[Any], list[TopicPartition]], consumer: Any) -> Future[list[TopicPartition]]:
    """Make a call in a separate thread, so that the caller can interrupt its wait."""
    future: Future[list[TopicPartition]] = Future()

    def run() -> None:
        try:
            future.set_result(call(consumer))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="headstream-kafka-offsets", daemon=True).start()
    return future
