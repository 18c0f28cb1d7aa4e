"""Senders: caches the producers of Client.send() for the next message to the same topic."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headstream.client.producer.producer import Producer
from headstream.client.producer.receipts import Delivered, Receipt
from headstream.core.model.identifiers import TopicName
from headstream.errors import ClosedError, HeadstreamError, PartitionNotFoundError
from headstream.forks import register_for_forks

_MOST_TOPICS: Final = 16
"""Maximum cached producers, since each has a thread; the least recently used producer is evicted."""

_FRESH_S: Final = 30.0
"""Maximum age of a topic's metadata, seconds, because partitions, limits and options can change."""


class Senders:
    """Producers by topic; thread-safe."""

    def __init__(self, make: Callable[[TopicName], Producer]) -> None:
        self._make = make
        register_for_forks(self)
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: start without producers, which belong to the parent process."""
        self._lock = threading.Lock()
        self._known: OrderedDict[TopicName, tuple[Producer, float]] = OrderedDict()

    def send(self, topic: TopicName, send: Callable[[Producer], Receipt]) -> Delivered:
        """Call `send` with the topic's producer; return the position of the stored message."""
        began_s = time.monotonic()
        while True:
            producer, made_s = self._find(topic)
            try:
                try:
                    receipt = send(producer)
                except ClosedError:  # closed by another thread, after an error or by eviction
                    self._drop(topic, producer)
                    continue
                return receipt.result()
            except HeadstreamError as error:
                self._drop(topic, producer)
                # Such a message is not stored; the partitions can have changed since the producer was made.
                if not isinstance(error, PartitionNotFoundError) or made_s >= began_s:
                    raise

    def _find(self, topic: TopicName) -> tuple[Producer, float]:
        now_s = time.monotonic()
        old: list[Producer] = []
        try:
            with self._lock:
                known = self._known.get(topic)
                if known is not None and now_s - known[1] < _FRESH_S:
                    self._known.move_to_end(topic)
                    return known
                if known is not None:
                    old.append(self._known.pop(topic)[0])
                while len(self._known) >= _MOST_TOPICS:
                    old.append(self._known.popitem(last=False)[1][0])
                producer = self._make(topic)
                self._known[topic] = producer, now_s
                return producer, now_s
        finally:
            for each in old:
                each.close_soon()

    def _drop(self, topic: TopicName, producer: Producer) -> None:
        """Evict a producer whose topic metadata can be outdated."""
        with self._lock:
            if self._known.get(topic, (None, 0.0))[0] is producer:
                del self._known[topic]
        producer.close_soon()
