"""DeliveryAudit: appends a row to a topic for each transition of a delivery or message state: author, transition, time, reason.

A separate thread appends the rows, so that a transition does not wait for its row and succeeds even if the row cannot be
appended. Rows that cannot be appended, because too many rows are queued or the topic rejects them, are counted as lost and
logged. The audit topic itself is not audited.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headstream.broker.broker import Broker
from headstream.broker.deliveries.transitions import GroupPlace
from headstream.core.codec.binary import encode_sent
from headstream.core.codec.json_text import encode_json
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.partitioning import partition_of
from headstream.core.model.topology import Limits, NewTopic
from headstream.core.model.transitions import Transition
from headstream.errors import HeadstreamError
from headstream.log.partition.offset_file_counts import NO_USER

_MAX_WAITING: Final = 100_000
"""Maximum number of rows that wait to be appended, about 50 MB: the rows of a few seconds if the disk stops."""

_MAX_BATCH: Final = 1000
_END_S: Final = 10.0
"""How long close() waits for the remaining rows, seconds."""

_LOG_EVERY_S: Final = 60.0
_log: Final = logging.getLogger("headstream.log")


class _Row(NamedTuple):
    time_us: int
    place: GroupPlace
    transition: Transition


class DeliveryAudit:
    """Appends rows to a topic until close().

    Args:
        topic: The audit topic, created if missing; HeadstreamError if it cannot be created.
        name_of_user: Returns a user's name by id; empty if unknown.
    """

    def __init__(self, broker: Broker, topic: TopicName, name_of_user: Callable[[int], str]) -> None:
        self._broker = broker
        self._topic = topic
        self._name_of_user = name_of_user
        self._waiting: queue.Queue[_Row | None] = queue.Queue(_MAX_WAITING)
        self._logged_s = -_LOG_EVERY_S
        self.lost_count = 0
        broker.topics.create(NewTopic(topic, 1, Limits.WIDE), if_not_exists=True)
        self._thread = threading.Thread(target=self._append_all, name="headstream-delivery-audit", daemon=True)
        self._thread.start()
        broker.transitions.audit = self

    def __call__(self, place: GroupPlace, transition: Transition) -> None:
        """Queue a transition; the transition's row is lost if the queue is full."""
        if place.topic == self._topic:
            return
        try:
            self._waiting.put_nowait(_Row(self._broker.backing.clock_us(), place, transition))
        except queue.Full:
            self.lost_count += 1

    def close(self) -> None:
        """Append the queued rows, for at most 10 seconds, and stop the thread."""
        self._broker.transitions.audit = None
        try:
            self._waiting.put(None, timeout=_END_S)
        except queue.Full:
            return
        self._thread.join(_END_S)

    def _append_all(self) -> None:
        is_open = True
        while is_open:
            found = [self._waiting.get()]
            while len(found) < _MAX_BATCH and not self._waiting.empty():
                found.append(self._waiting.get())
            rows = [row for row in found if row is not None]
            is_open = len(rows) == len(found)
            if rows:
                self._append(rows)

    def _append(self, rows: list[_Row]) -> None:
        """Append rows; all rows of one partition of a group are appended to the same partition, in order."""
        stored = 0
        try:
            count = self._broker.backing.topic(self._topic).partitions
            batches: dict[int, list[Message]] = {}
            for row in rows:
                message = self._message(row)
                assert message.key is not None
                batches.setdefault(partition_of(message.key, count), []).append(message)
            for partition, messages in batches.items():
                self._broker.messages.send(self._topic, partition, encode_sent(messages))
                stored += len(messages)
        except HeadstreamError as error:
            self.lost_count += len(rows) - stored
            now_s = self._broker.monotonic()
            if now_s - self._logged_s >= _LOG_EVERY_S:
                self._logged_s = now_s
                _log.warning("delivery audit rows were lost (%d so far): %s", self.lost_count, error)

    def _message(self, row: _Row) -> Message:
        place, found = row.place, row.transition
        user = "" if place.user_id == NO_USER else self._name_of_user(place.user_id)
        document: dict[str, Any] = {
            "time_us": row.time_us,
            "transition": found.kind.value,
            "topic": str(place.topic),
            "group": place.group or None,
            "partition": place.partition or None,
            "from_offset": found.from_offset if place.partition else None,
            "until_offset": found.until_offset if place.partition else None,
            "worker": found.worker,
            "user": user,
            "failures": found.failures,
            "delay_us": found.delay_us,
            "reason": found.reason,
            "error": found.error,
            "state": found.state or None,
        }
        named = [("transition", found.kind.value), ("topic", str(place.topic)), ("group", place.group)]
        headers = Headers([(name, value) for name, value in named if value])
        key = f"{place.topic}/{place.partition}/{place.group}".encode()[:255]
        return Message(payload=encode_json(document), headers=headers, key=key)
