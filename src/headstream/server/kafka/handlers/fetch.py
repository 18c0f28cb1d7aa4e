"""Fetch: returns stored messages of partitions as record batches; waits until enough bytes are available.

    Fetch with all partitions                 FetchSession(...)        all partitions are read and answered
    Fetch with the changes since the last     session.update(...)      partitions that changed in the log or the request are read

Messages whose state is not `available` are skipped; a batch includes the skipped offsets, so that a client's position advances. A
batch contains the uncompressed result of one poll, regardless of the batches that producers sent.

A session (KIP-227) keeps the partitions of a connection between fetches and is notified of appends. The time of a fetch therefore
depends on the number of partitions with new messages, not on the number of all partitions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.broker.commands.topic_lookup import FoundTopic
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

_LEAST_BYTES: Final = 16 << 10
"""While memory is scarce, the first partition with messages still returns this many bytes."""
_MOST_MESSAGES: Final = 1 << 20
_STORED_SHARE: Final = 1.25
"""Approximate ratio of the size of a stored message to the size of its record, by which the read limit is multiplied."""
_MOST_DELTA: Final = (1 << 31) - 1
_MOST_EPOCH: Final = (1 << 31) - 1
_MOST_PARTITIONS: Final = 10_000
"""Maximum partitions of a session; a client with more partitions lists all partitions in each fetch."""
_NO_BOUNDS: Final = (-1, -1)


@dataclass(slots=True, eq=False)
class _FetchedPartition:
    """One partition of a fetch; `shown` contains the log start offset and the end that the client last received."""

    topic: str
    index: int
    offset: int
    epoch: int
    most_bytes: int
    place: FoundTopic | None = None
    refusal: HeadstreamError | None = None
    directory: str = ""
    shown: tuple[int, int] = _NO_BOUNDS


class FetchSession:
    """The partitions that a connection fetches, for one or several fetches; one thread at a time reads.

    Args:
        on_notify: Called on any thread when messages may be available; at most once until the next read.
    """

    def __init__(self, call: Call, on_notify: Callable[[], None]) -> None:
        self._call = call
        self._on_notify = on_notify
        self._waiting = call.context.dispatcher.broker.backing.log.waiting
        self._known_by: tuple[object, object] = None, None
        self._parts: dict[tuple[str, int], _FetchedPartition] = {}
        self._by_directory: dict[str, tuple[str, int]] = {}
        self._pending: dict[tuple[str, int], None] = {}  # partitions to read, in order; any thread adds partitions
        self._reported: list[tuple[_FetchedPartition, tuple[int, int], bool]] = []
        self._is_notified = self._is_final = False
        self._is_full = True
        self._size = 0
        self.id = 0
        self.epoch = 0
        self.request = call.request
        self._add(call.request["topics"])
        self._find_again()
        if call.request.get("session_epoch", -1) == 0 and 0 < len(self._parts) <= _MOST_PARTITIONS:
            self.id = secrets.randbelow(_MOST_EPOCH) + 1

    @property
    def max_wait_s(self) -> float:
        """Maximum wait for enough bytes, seconds."""
        return float(max(self.request["max_wait_ms"], 0)) / 1000

    @property
    def is_enough(self) -> bool:
        """Whether the last read returned enough bytes or an error."""
        return self._is_final or self._size >= max(self.request["min_bytes"], 0) or not self._parts

    @property
    def waits_for_bytes(self) -> bool:
        """Whether the fetch waits for more than one byte, so that not every new message triggers a read."""
        return bool(self.request["min_bytes"] > 1)

    @property
    def reads(self) -> int:
        """Number of partitions in the next read."""
        return len(self._parts if self._is_full else self._pending)

    # -- partitions ------------------------------------------------------------------------------------------

    def update(self, call: Call) -> bool:
        """Apply the next fetch, which lists changes; return False if the session would have too many partitions."""
        self._call, self.request, self._is_full = call, call.request, False
        for topic in call.request["forgotten_topics_data"]:
            for index in topic["partitions"]:
                self._forget((topic["topic"], index))
        self._add(call.request["topics"])
        lookup = call.context.dispatcher.lookup
        if self._known_by[0] is not lookup.snapshot() or self._known_by[1] is not call.rights:
            self._find_again()
        return len(self._parts) <= _MOST_PARTITIONS

    def _add(self, topics: Iterable[dict[str, Any]]) -> None:
        for topic in topics:
            for wanted in topic["partitions"]:
                key = topic["topic"], wanted["partition"]
                limits = wanted["fetch_offset"], wanted.get("current_leader_epoch", -1), wanted["partition_max_bytes"]
                part = self._parts.get(key)
                if part is None:
                    part = self._parts[key] = _FetchedPartition(*key, *limits)
                    if self.id:
                        self._find(key, part)
                else:
                    part.offset, part.epoch, part.most_bytes = limits
                self._pending[key] = None

    def _find_again(self) -> None:
        """Look up all partitions again, because topics or permissions have changed."""
        self._known_by = self._call.context.dispatcher.lookup.snapshot(), self._call.rights
        for key, part in self._parts.items():
            self._find(key, part)
            self._pending[key] = None

    def _find(self, key: tuple[str, int], part: _FetchedPartition) -> None:
        log = self._call.context.dispatcher.broker.backing.log
        directory = ""
        try:
            place = find_place(self._call, part.topic, Rights.poll)
            if not 0 <= part.index < place.topic.partitions:
                raise PartitionNotFoundError(f"the topic {part.topic!r} has no partition {part.index}")
            directory = log.partition_directory(place.topic, part.index + 1)
            part.place, part.refusal = place, None
        except HeadstreamError as error:
            part.place, part.refusal = None, error
        if directory != part.directory:
            self._unwatch(part)
            part.directory = directory
            if directory:
                self._by_directory[directory] = key
                self._waiting.add((directory,), self)

    def _forget(self, key: tuple[str, int]) -> None:
        part = self._parts.pop(key, None)
        self._pending.pop(key, None)
        if part is not None:
            self._unwatch(part)

    def _unwatch(self, part: _FetchedPartition) -> None:
        if part.directory:
            self._waiting.remove((part.directory,), self)
            self._by_directory.pop(part.directory, None)

    def close(self) -> None:
        """End the session."""
        self._waiting.remove(tuple(self._by_directory), self)
        self._by_directory.clear()

    def notify(self, directory: str) -> None:
        """Record that a partition may have new messages."""
        key = self._by_directory.get(directory)
        if key is not None:
            self._pending[key] = None
        if not self._is_notified:
            self._is_notified = True
            self._on_notify()

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self) -> Reply:
        """Return the current response: all partitions for the first fetch, later the partitions with changes."""
        self._is_notified = False  # before reading, so that an append during the read notifies again
        self._size, self._is_final = 0, False
        self._reported.clear()
        left, topics = min(self.request["max_bytes"], self._free_bytes()), dict[str, list[dict[str, Any]]]()
        for key in tuple(self._parts if self._is_full else self._pending):
            part = self._parts.get(key)
            self._pending.pop(key, None)
            if part is None:
                continue
            if not self._is_full and left <= 0 and self._size:
                self._pending[key] = None
                continue
            answer, bounds, size = self._answer(part, left)
            if self._is_full or size or answer.get("error_code") or bounds != part.shown:
                topics.setdefault(part.topic, []).append(answer)
                self._reported.append((part, bounds, size > 0))
                self._pending[key] = None  # until a later fetch finds nothing new
            left -= size
            self._size += size
        return {"session_id": self.id, "responses": [{"topic": name, "partitions": answers} for name, answers in topics.items()]}

    def finish(self) -> None:
        """Record that the result of the last read is sent; partitions that returned messages come last in the next read."""
        self.epoch = self.epoch + 1 if self.epoch < _MOST_EPOCH else 1
        for part, bounds, has_records in self._reported:
            part.shown = bounds
            if has_records:
                key = part.topic, part.index
                self._pending.pop(key, None)
                self._pending[key] = None
        self._reported.clear()

    def _free_bytes(self) -> int:
        budget = self._call.context.budget
        return max(min(self._call.context.dispatcher.poll_bytes, budget.free_bytes // 4), _LEAST_BYTES)

    def _answer(self, part: _FetchedPartition, left: int) -> tuple[dict[str, Any], tuple[int, int], int]:
        """Return a partition for the response, the partition's bounds, and the size of the records."""
        try:
            if part.place is None:
                raise part.refusal or HeadstreamError("the partition was not found")
            check_epoch(part.epoch)
            return self._read(part, part.place, left)
        except HeadstreamError as error:
            self._is_final = True
            fault = fault_of(error)
            STORAGE_ERRORS.log_once(error, fault)
            redact(error, self._call.context.dispatcher.broker.backing.log)
            refused = {"partition_index": part.index, "error_code": fault, "high_watermark": -1, "records": []}
            return refused, _NO_BOUNDS, 0

    def _read(self, part: _FetchedPartition, place: FoundTopic, left: int) -> tuple[dict[str, Any], tuple[int, int], int]:
        offset, number = part.offset, part.index + 1
        first, end = find_bounds(self._call, place, number)
        if not first <= offset <= end:
            raise OffsetOutOfRangeError(f"the offset must be {first} to {end}, not {offset}")
        records: list[BytesLike] = []
        if offset < end and (left > 0 or not self._size):
            most = min(part.most_bytes, left)
            polled = self._poll(place, number, offset, max(int(most * _STORED_SHARE), 1))
            first, end = self._check_again(place, number, offset, end, polled)
            if polled.next_offset > offset:
                last = min(polled.next_offset - 1, offset + _MOST_DELTA)
                convention = place.topic.options.kafka_headers or "headstream"
                records.append(make_batch(polled.chunks, offset, last, str(place.topic.name), convention))
        answer = {
            "partition_index": part.index,
            "log_start_offset": first,
            "aborted_transactions": None,
            "high_watermark": end,
            "last_stable_offset": end,
            "records": records,
        }
        return answer, (first, end), sum(map(len, records))

    def _poll(self, place: FoundTopic, number: int, offset: int, size_bytes: int) -> Polled:
        messages = self._call.context.dispatcher.broker.messages
        return messages.poll(
            place.topic.name, number, PollRequest(PollingStrategy.offset(offset), _MOST_MESSAGES, size_bytes=size_bytes)
        )

    def _check_again(self, place: FoundTopic, number: int, offset: int, end: int, polled: Polled) -> tuple[int, int]:
        """Raise an error for an offset that was removed during the read; the client decides where to continue."""
        first, end_now = find_bounds(self._call, place, number)
        if offset < first or polled.generation != place.topic.generation(number):
            raise OffsetOutOfRangeError(f"offset {offset} was removed")
        return first, max(end, end_now, polled.end_offset)


def open_session(call: Call, before: FetchSession | None, on_notify: Callable[[], None]) -> FetchSession:
    """Return the session that a fetch continues, or a new session; ProtocolError if the id or epoch is wrong."""
    number, epoch = call.request.get("session_id", 0), call.request.get("session_epoch", -1)
    if epoch <= 0:
        if before is not None:
            before.close()
        return FetchSession(call, on_notify)
    if before is None or before.id != number:
        raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the fetch session does not belong to this connection")
    if before.epoch != epoch:
        raise ProtocolError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"the fetch session is in epoch {before.epoch}")
    if not before.update(call):
        raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"a session must have at most {_MOST_PARTITIONS} partitions")
    return before


def find_bounds(call: Call, place: FoundTopic, number: int) -> tuple[int, int]:
    """Return the log start offset and the end of a partition (from 1); PartitionNotFoundError if it no longer exists."""
    log = call.context.dispatcher.broker.backing.log
    written_end, first = log.written_end(place.topic, number), log.start_offset(place.topic, number)
    with log.reading(place.topic, number) as follower:
        if not written_end or follower.end_offset != written_end:
            follower.refresh()
        return first, max(follower.end_offset, written_end)


def check_epoch(epoch: int) -> None:
    """Raise ProtocolError for the epoch of a different leader; -1 means unknown."""
    if epoch not in (-1, LEADER_EPOCH):
        fault = ErrorCode.FENCED_LEADER_EPOCH if epoch < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise ProtocolError(fault, f"the leader is in epoch {LEADER_EPOCH}, not {epoch}")
