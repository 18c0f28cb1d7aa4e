"""Senders: the producers behind Client.send(), kept for the next message to the same topic."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headstream.client.producer import Producer
from headstream.client.receipts import Receipt
from headstream.errors import ClosedError, HeadstreamError
from headstream.model.identifiers import TopicName

__all__ = ["Senders"]

_MOST_TOPICS: Final = 16
"""Each has a thread: so many topics that were sent to last keep theirs."""

_FRESH_S: Final = 30.0
"""After so long a topic is looked up again: it may have more partitions, other limits or options."""


class Senders:
    """Producers by topic; any thread.

    Args:
        make: Makes one.
    """

    def __init__(self, make: Callable[[TopicName], Producer]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._known: OrderedDict[TopicName, tuple[Producer, float]] = OrderedDict()

    def send(self, topic: TopicName, send: Callable[[Producer], Receipt]) -> Receipt:
        """Have a message sent by the producer of a topic.

        Args:
            topic: The topic.
            send: Sends it.
        """
        while True:
            producer = self._find(topic)
            try:
                return send(producer)
            except ClosedError:  # by another thread, which had an error, or needed its place
                self._drop(topic, producer)
            except HeadstreamError:
                self._drop(topic, producer)
                raise

    def _find(self, topic: TopicName) -> Producer:
        now_s = time.monotonic()
        old: list[Producer] = []
        try:
            with self._lock:
                known = self._known.get(topic)
                if known is not None and now_s - known[1] < _FRESH_S:
                    self._known.move_to_end(topic)
                    return known[0]
                if known is not None:
                    old.append(self._known.pop(topic)[0])
                while len(self._known) >= _MOST_TOPICS:
                    old.append(self._known.popitem(last=False)[1][0])
                producer = self._make(topic)
                self._known[topic] = producer, now_s
                return producer
        finally:
            for each in old:
                each.close_soon()

    def _drop(self, topic: TopicName, producer: Producer) -> None:
        """Keep a producer no longer: the topic may have changed."""
        with self._lock:
            if self._known.get(topic, (None, 0.0))[0] is producer:
                del self._known[topic]
        producer.close_soon()
