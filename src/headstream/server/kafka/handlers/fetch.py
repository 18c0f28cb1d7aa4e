"""Fetch: stored messages of partitions as record batches, waiting until enough bytes are available.

Messages that are not available are passed over, as by every other context; a batch reaches over the offsets that it passes, so
that a client's position moves on. A batch is made of what one poll brings, whatever batches it came in, not compressed. There
are no sessions: each fetch names all its partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.broker.messages.waits import Wait
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.polling import Polled, PollingStrategy
from headstream.errors import HeadstreamError, OffsetOutOfRangeError, PartitionNotFoundError
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.handlers.record_batches import LEADER_EPOCH, make_batch
from headstream.server.kafka.handlers.topic_names import find_place
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError, fault_of
from headstream.server.reporting.redaction import redact
from headstream.server.reporting.storage_errors import STORAGE_ERRORS

__all__ = ["Fetch", "check_epoch", "find_bounds"]

_LEAST_BYTES: Final = 16 << 10
"""While memory is scarce, the first partition with messages still returns this many bytes."""
_MOST_MESSAGES: Final = 1 << 20
_STORED_SHARE: Final = 1.25
"""About the ratio of a stored message's size to its record's: the read limit is larger by it."""
_MOST_DELTA: Final = (1 << 31) - 1


@dataclass(slots=True)
class _FetchedPartition:
    """One partition of a fetch: topic, number, offset and limits."""

    topic: str
    index: int
    place: FoundTopic | None
    wanted: dict[str, Any]
    refusal: HeadstreamError | None


class Fetch:
    """One fetch; it is read again whenever more messages could be available."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._size = 0
        self._is_final = False
        self._parts = [self._find(topic["topic"], wanted) for topic in call.request["topics"] for wanted in topic["partitions"]]

    @property
    def max_wait_s(self) -> float:
        """How long to wait for enough bytes."""
        return float(max(self._call.request["max_wait_ms"], 0)) / 1000

    @property
    def is_enough(self) -> bool:
        """Whether the last read returned enough bytes, or an error."""
        return self._is_final or self._size >= max(self._call.request["min_bytes"], 0) or not self._parts

    @property
    def is_patient(self) -> bool:
        """Whether the fetch waits for more than one byte: then not each new message triggers a recheck."""
        return bool(self._call.request["min_bytes"] > 1)

    def _find(self, name: str, wanted: dict[str, Any]) -> _FetchedPartition:
        index = wanted["partition"]
        try:
            place = find_place(self._call, name, Rights.poll)
            if not 0 <= index < place.topic.partitions:
                raise PartitionNotFoundError(f"the topic {name!r} has no partition {index}")
            check_epoch(wanted.get("current_leader_epoch", -1))
        except HeadstreamError as error:
            return _FetchedPartition(name, index, None, wanted, error)
        return _FetchedPartition(name, index, place, wanted, None)

    def read(self) -> Reply:
        """Return the response as it is now."""
        request = self._call.request
        if request.get("session_id", 0) or request.get("session_epoch", -1) > 0:
            self._is_final = True
            return {"error_code": _SESSION_NOT_FOUND, "session_id": 0, "responses": []}
        self._size = 0
        left, topics = min(request["max_bytes"], self._room_bytes()), dict[str, list[dict[str, Any]]]()
        for part in self._parts:
            answer, size = self._answer(part, left)
            left -= size
            self._size += size
            topics.setdefault(part.topic, []).append(answer)
        return {"session_id": 0, "responses": [{"topic": name, "partitions": answers} for name, answers in topics.items()]}

    def _room_bytes(self) -> int:
        budget = self._call.context.budget
        return max(min(self._call.context.dispatcher.poll_bytes, budget.room_bytes // 4), _LEAST_BYTES)

    def _answer(self, part: _FetchedPartition, left: int) -> tuple[dict[str, Any], int]:
        """Return a partition of the response, and the size of its records."""
        try:
            if part.place is None:
                raise part.refusal or HeadstreamError("the partition was not found")
            return self._read(part, part.place, left)
        except HeadstreamError as error:
            self._is_final = True
            fault = fault_of(error)
            STORAGE_ERRORS.log_once(error, fault)
            redact(error, self._call.context.dispatcher.broker.backing.log)
            refused = {"partition_index": part.index, "error_code": fault, "high_watermark": -1, "records": []}
            return refused, 0

    def _read(self, part: _FetchedPartition, place: FoundTopic, left: int) -> tuple[dict[str, Any], int]:
        wanted, number = part.wanted, part.index + 1
        offset: int = wanted["fetch_offset"]
        first, end = find_bounds(self._call, place, number)
        if not first <= offset <= end:
            raise OffsetOutOfRangeError(f"offset {offset} is not from {first} to {end}")
        answer: dict[str, Any] = {"partition_index": part.index, "log_start_offset": first, "aborted_transactions": None}
        records: list[BytesLike] = []
        if offset < end and (left > 0 or not self._size):
            most = min(wanted["partition_max_bytes"], left)
            polled = self._poll(place, number, offset, max(int(most * _STORED_SHARE), 1))
            first, end = self._check_again(place, number, offset, end, polled)
            if polled.next_offset > offset:
                last = min(polled.next_offset - 1, offset + _MOST_DELTA)
                convention = place.topic.options.kafka_headers or "headstream"
                records.append(make_batch(polled.chunks, offset, last, str(place.topic.name), convention))
        answer |= {"high_watermark": end, "last_stable_offset": end, "records": records}
        return answer, sum(map(len, records))

    def _poll(self, place: FoundTopic, number: int, offset: int, size_bytes: int) -> Polled:
        messages = self._call.context.dispatcher.broker.messages
        return messages.poll(
            place.topic.name, number, PollRequest(PollingStrategy.offset(offset), _MOST_MESSAGES, size_bytes=size_bytes)
        )

    def _check_again(self, place: FoundTopic, number: int, offset: int, end: int, polled: Polled) -> tuple[int, int]:
        """Reject an offset that was dropped during the read: the client decides where it continues."""
        first, end_now = find_bounds(self._call, place, number)
        if offset < first or polled.generation != place.topic.generation(number):
            raise OffsetOutOfRangeError(f"offset {offset} has been dropped")
        return first, max(end, end_now, polled.end_offset)

    def begin_wait(self, on_ring: Callable[[], None]) -> Wait:
        """Wait until a partition has messages after the requested offset.

        Args:
            on_ring: Called on any thread when messages could be available.

        Raises:
            HeadstreamError: a topic or partition is gone.
        """
        log = self._call.context.dispatcher.broker.backing.log
        directories = [
            log.partition_directory(part.place.topic, part.index + 1) for part in self._parts if part.place is not None
        ]
        return Wait(log.waiting, directories, lambda: True, on_ring)


_SESSION_NOT_FOUND: Final = 70


def find_bounds(call: Call, place: FoundTopic, number: int) -> tuple[int, int]:
    """Return the log start offset of a partition and its end.

    Args:
        number: The partition, from 1.

    Raises:
        PartitionNotFoundError: it is gone.
    """
    log = call.context.dispatcher.broker.backing.log
    written_end, first = log.written_end(place.topic, number), log.start_offset(place.topic, number)
    with log.reading(place.topic, number) as follower:
        if not written_end or follower.end_offset != written_end:
            follower.refresh()
        return first, max(follower.end_offset, written_end)


def check_epoch(epoch: int) -> None:
    """Reject the epoch of another leader; -1 means unknown.

    Raises:
        ProtocolError: it is another one.
    """
    if epoch not in (-1, LEADER_EPOCH):
        fault = ErrorCode.FENCED_LEADER_EPOCH if epoch < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise ProtocolError(fault, f"the leader is in epoch {LEADER_EPOCH}, not {epoch}")
