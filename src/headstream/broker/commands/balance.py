"""Balance: which partition a send goes to that leaves it to the server."""

from __future__ import annotations

import threading

from headstream.log.catalog import TopicRecord

__all__ = ["Balance"]


class Balance:
    """Whose turn it is in each topic: one send, one partition; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[int, int], int] = {}

    def turn(self, topic: TopicRecord) -> int:
        """Return the partition that is next, which stays next."""
        turn = self._turns.get((topic.stream_number, topic.id), 1)
        return turn if turn <= topic.partitions else 1

    def next(self, topic: TopicRecord) -> int:
        """Return the partition of a send that is to be balanced; from 1, and 1 again behind the last."""
        with self._lock:
            partition = self.turn(topic)
            self._turns[topic.stream_number, topic.id] = partition + 1
        return partition

    def forget(self, stream_number: int, topic_id: int | None = None) -> None:
        """Begin anew with a topic of this id, or with all of a stream: they were deleted."""
        with self._lock:
            for key in [key for key in self._turns if key[0] == stream_number and topic_id in (None, key[1])]:
                del self._turns[key]
