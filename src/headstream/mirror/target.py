"""TargetTopic: one topic of a mirror's destination, with a producer, the already copied messages, and their states."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headstream.client.producer.forwarding import ForwardingProducer
from headstream.client.producer.receipts import Receipt
from headstream.core.model.constructors import int64
from headstream.core.model.message import MessageState, ReceivedMessage
from headstream.core.model.reserved import TIMESTAMP_HEADER
from headstream.core.model.topology import Topic
from headstream.errors import NotFoundError
from headstream.mirror.hops import Hop, newest_hop, with_hop
from headstream.mirror.plan import create_like

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.client.consumer.consumer import Consumer

# OffsetRuns stores runs of consecutive offsets, so it needs little memory if messages are copied in order.


class OffsetRuns:
    """A set of offsets."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, offset: int) -> None:
        """Add an offset."""
        index = bisect_right(self._begins, offset) - 1
        if index >= 0 and offset < self._ends[index]:
            return
        joins_left = index >= 0 and self._ends[index] == offset
        joins_right = index + 1 < len(self._begins) and self._begins[index + 1] == offset + 1
        if joins_left and joins_right:
            self._ends[index] = self._ends.pop(index + 1)
            del self._begins[index + 1]
        elif joins_left:
            self._ends[index] = offset + 1
        elif joins_right:
            self._begins[index + 1] = offset
        else:
            self._begins.insert(index + 1, offset)
            self._ends.insert(index + 1, offset + 1)

    @property
    def end(self) -> int:
        """One past the greatest offset; 0 if the set is empty."""
        return self._ends[-1] if self._ends else 0

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._begins, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def __len__(self) -> int:
        return len(self._begins)


_LINGER_MS: Final = 100
"""Batches are sent when they are full, or at a checkpoint."""
_SCAN_COUNT: Final = 1000
_REASON: Final = "mirrored in this state"
_AUTHOR: Final = "headstream mirror"


class TargetTopic:
    """One topic of the destination.

    At each checkpoint the mirror commits the end offsets of the destination's partitions under its own name. After a kill,
    messages copied since the last checkpoint are read back from these offsets, and identified by their header hs.mirror.

    Args:
        name: `stream/topic` in the destination; the topic is created if missing.
        like: The first source topic that is copied to this topic; determines the options of a new topic.
        committer: The name under which the mirror commits offsets.
        from_first: Whether to read back the entire topic, because the source has no committed offsets of the mirror.
        has_state: Returns whether a source message is in a state other than available.
    """

    def __init__(
        self,
        target: Client,
        name: str,
        like: Topic,
        source: str,
        committer: str,
        *,
        from_first: bool,
        has_state: Callable[[Hop], bool],
    ) -> None:
        self._log = target
        self.name = name
        try:
            topic = target.topic(name)
        except NotFoundError:
            topic = create_like(target, like, name)
        self._numbers = [partition.number for partition in topic.partitions]
        self._there: dict[tuple[str, int, int], OffsetRuns] = {}
        self._places: dict[Hop, tuple[int, int]] = {}
        self._states: list[tuple[Receipt, int]] = []
        self._source = source
        self._has_state = has_state
        self._marks: Consumer = target.consumer(name, name=committer, states=None, timeout_ms=0)
        self._read_back(from_first=from_first)
        self._producer: ForwardingProducer = target.forwarding_producer(name, linger_ms=_LINGER_MS)

    def _read_back(self, *, from_first: bool) -> None:
        """Record the source messages that already exist in the topic."""
        if from_first:
            for number in self._numbers:
                self._marks.seek(number, "first")
        while messages := self._marks.poll(_SCAN_COUNT):
            for message in messages:
                hop = newest_hop(message.headers)
                if hop is not None and hop.log == self._source:
                    self._there.setdefault((hop.topic, hop.partition, hop.generation), OffsetRuns()).add(hop.offset)
                    if message.state == MessageState.AVAILABLE and self._has_state(hop):
                        self._places[hop] = message.partition, message.offset

    def has(self, hop: Hop) -> bool:
        """Return whether a source message already exists in the topic."""
        runs = self._there.get((hop.topic, hop.partition, hop.generation))
        return runs is not None and hop.offset in runs

    def send(self, message: ReceivedMessage, hop: Hop, source_numbers: list[int]) -> None:
        """Send a message as stored in the source; `source_numbers` are the partitions of the source topic."""
        headers = message.headers
        if TIMESTAMP_HEADER not in headers:
            headers = headers.with_((TIMESTAMP_HEADER, int64(message.timestamp)))
        is_same = len(source_numbers) == len(self._numbers)
        receipt = self._producer.send(
            message.payload,
            key=message.key,
            headers=with_hop(headers, hop),
            id=message.id,
            partition=self._numbers[source_numbers.index(message.partition)] if is_same else None,
        )
        if message.state != MessageState.AVAILABLE:
            self._states.append((receipt, int(message.state)))

    def restore_state(self, message: ReceivedMessage, hop: Hop) -> None:
        """Set the state of a message that already exists in the topic, because a killed mirror may not have set the state."""
        place = self._places.get(hop)
        if place is not None:
            self._log.set_state(self.name, place[0], place[1], int(message.state), reason=_REASON, by=_AUTHOR)

    def flush(self) -> None:
        """Wait until all sent messages are stored, then set their states."""
        self._producer.flush()
        wanted: dict[tuple[int, int], list[int]] = {}
        for receipt, state in self._states:
            if receipt.offset is not None:
                wanted.setdefault((receipt.partition, state), []).append(receipt.offset)
        for (partition, state), offsets in wanted.items():
            self._log.set_state(self.name, partition, offsets, state, reason=_REASON, by=_AUTHOR)
        self._states.clear()

    def commit(self, is_passed: Callable[[tuple[str, int, int], int], bool]) -> None:
        """Commit the topic's end offsets; call this after the source's offsets are committed.

        The end offsets are not committed while a message that was read back is after the source's committed offsets, because the
        next run must find this message again.

        Args:
            is_passed: Returns whether the source has committed a partition (topic, number, generation) up to an offset.
        """
        if not all(is_passed(place, runs.end) for place, runs in self._there.items()):
            return
        for number in self._numbers:
            self._marks.seek(number, "last")
        self._marks.commit()
        self._there.clear()
        self._places.clear()

    def close(self) -> None:
        """Close the producer and the consumer."""
        try:
            self._producer.close()
        finally:
            self._marks.close(commit=False)
