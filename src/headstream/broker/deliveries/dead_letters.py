"""DeadLetterCopies: copies a group's permanently failed messages to dead-letter topics, with origin and delivery history.

Payload, key, id and header bytes are unchanged. Added headers: hs.origin.topic, .partition, .offset, .timestamp and .group;
hs.reason (the last error), hs.reason_code (core/model/deliveries.py), hs.attempts, hs.first_error, hs.first_failed,
hs.last_failed.
"""

from __future__ import annotations

from typing import Final

from headstream.broker.backing import Backing
from headstream.broker.messages.messages import Messages
from headstream.core.codec.binary import decode_headers, decode_polled, encode_sent
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.constructors import int32, int64
from headstream.core.model.deliveries import Delivery
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, MessageState, ReceivedMessage
from headstream.core.model.partitioning import partition_of
from headstream.core.model.polling import OffsetOwner, PollingStrategy
from headstream.core.model.reserved import (
    ATTEMPTS_HEADER,
    FIRST_ERROR_HEADER,
    FIRST_FAILED_HEADER,
    LAST_FAILED_HEADER,
    ORIGIN_PREFIX,
    REASON_CODE_HEADER,
    REASON_HEADER,
)
from headstream.core.model.topology import check_dead_letter_options
from headstream.errors import NotFoundError

_PAGE: Final = 1000
_TOPIC: Final = f"{ORIGIN_PREFIX}topic"
_PARTITION: Final = f"{ORIGIN_PREFIX}partition"
_OFFSET: Final = f"{ORIGIN_PREFIX}offset"
_TIMESTAMP: Final = f"{ORIGIN_PREFIX}timestamp"
_GROUP: Final = f"{ORIGIN_PREFIX}group"


class DeadLetterCopies:
    """Creates copies, each exactly once."""

    def __init__(self, backing: Backing, messages: Messages) -> None:
        self._backing = backing
        self._messages = messages

    def find(self, topic: TopicName, partition: int, offset: int) -> ReceivedMessage | None:
        """Return a message; None if it has expired or is marked for deletion."""
        polled = self._messages.poll(topic, partition, PollRequest(PollingStrategy.offset(offset), 1, states=None))
        for chunk in polled.chunks:
            for message in decode_polled(chunk, topic=str(topic), partition=partition):
                is_there = message.offset == offset and message.state != MessageState.MARKED_FOR_DELETION
                return message if is_there else None
        return None

    def is_dead_letter(self, message: Message) -> bool:
        """Return whether a message is already a dead letter."""
        return _OFFSET in message.headers or _TOPIC in message.headers

    def has_topic(self, name: str) -> bool:
        """Return whether a topic exists."""
        topic = TopicName.parse(name)
        stream = self._backing.log.snapshot().get(topic.stream)
        return stream is not None and topic.topic in stream.topics

    def place(self, dead_letter: TopicName, message: Message, partition: int) -> tuple[str, int, int]:
        """Return the place for a copy: the topic, a partition (by key, else the original's number), and the partition's end."""
        log = self._backing.writable_log()
        record = self._backing.topic(dead_letter)
        check_dead_letter_options(str(dead_letter), record.options)
        number = (partition - 1) % record.partitions + 1 if message.key is None else partition_of(message.key, record.partitions)
        return str(dead_letter), number, log.partition(record, number).end_offset

    def copy(self, topic: TopicName, partition: int, owner: OffsetOwner, message: ReceivedMessage, delivery: Delivery) -> int:
        """Append a copy; return its offset. The caller must then call sync().

        Args:
            delivery: The message's delivery history and the place of the copy.

        Raises:
            LimitError: the copy exceeds the dead-letter topic's limits.
        """
        assert delivery.copied_to is not None
        target, number, _ = delivery.copied_to
        history = Headers(
            [
                (_TOPIC, str(topic)),
                (_PARTITION, int32(partition)),
                (_OFFSET, int64(message.offset)),
                (_TIMESTAMP, int64(message.timestamp)),
                (_GROUP, owner.name),
                (REASON_HEADER, delivery.last_error or delivery.reason),
                (REASON_CODE_HEADER, delivery.reason),
                (ATTEMPTS_HEADER, int32(delivery.failures)),
                (FIRST_ERROR_HEADER, delivery.first_error or delivery.reason),
                (FIRST_FAILED_HEADER, int64(delivery.first_failed_us)),
                (LAST_FAILED_HEADER, int64(delivery.failed_us)),
            ]
        )
        headers = decode_headers(message.headers.as_bytes() + history.as_bytes())
        letter = Message(payload=message.payload, headers=headers, key=message.key, id=message.id)
        return self._messages.send(TopicName.parse(target), number, encode_sent([letter]))

    def sync(self, delivery: Delivery) -> None:
        """Sync the partition that contains the copy of a message."""
        assert delivery.copied_to is not None
        target, number, _ = delivery.copied_to
        self._backing.writable_log().partition(self._backing.partition(TopicName.parse(target), number), number).sync()

    def find_copy(self, topic: TopicName, partition: int, owner: OffsetOwner, delivery: Delivery) -> int | None:
        """Return the offset of a copy that an interrupted move has appended to the place recorded in `delivery`, or None."""
        if delivery.copied_to is None:
            return None
        target, number, at = delivery.copied_to
        name, origin = (
            TopicName.parse(target),
            {_TOPIC: str(topic), _PARTITION: partition, _OFFSET: delivery.offset, _GROUP: owner.name},
        )
        try:
            record = self._backing.partition(name, number)
        except NotFoundError:  # deleted, or recreated with fewer partitions
            return None
        until = self._backing.writable_log().partition(record, number).end_offset
        at = at if at <= until else 0  # the topic was purged or recreated
        while at < until:
            polled = self._messages.poll(name, number, PollRequest(PollingStrategy.offset(at), _PAGE, states=None))
            for chunk in polled.chunks:
                for message in decode_polled(chunk, topic=target, partition=number):
                    if all(message.headers.get(key) == value for key, value in origin.items()):
                        return message.offset
            if polled.next_offset <= at:
                return None
            at = polled.next_offset
        return None
