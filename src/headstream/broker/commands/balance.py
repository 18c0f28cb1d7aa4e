"""Balance: the partition of a send that leaves the choice to the server."""

from __future__ import annotations

import threading

from headstream.log.catalog.catalog import TopicRecord

__all__ = ["Balance"]


class Balance:
    """The next partition of each topic, round robin: one send, one partition; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[int, int], int] = {}

    def turn(self, topic: TopicRecord) -> int:
        """Return the next partition without advancing."""
        turn = self._turns.get((topic.stream_number, topic.id), 1)
        return turn if turn <= topic.partitions else 1

    def next(self, topic: TopicRecord) -> int:
        """Return the next partition and advance: from 1 to the last, then 1 again."""
        with self._lock:
            partition = self.turn(topic)
            self._turns[topic.stream_number, topic.id] = partition + 1
        return partition

    def forget(self, stream_number: int, topic_id: int | None = None) -> None:
        """Reset a topic of this id, or all topics of a stream, after a deletion."""
        with self._lock:
            for key in [key for key in self._turns if key[0] == stream_number and topic_id in (None, key[1])]:
                del self._turns[key]
