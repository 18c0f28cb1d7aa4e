"""Converts messages to confluent-kafka records and back.

A record's timestamp is the sender's hs.timestamp, else the time of sending. As in the server's Kafka
listener (core/codec/batch/kafka/batches.py), an hs.timestamp of whole milliseconds is not written as a header as well.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from headstream.core.codec.kafka import KafkaHeader, KafkaRecord, decode_record, find_losses
from headstream.core.codec.kafka.conventions import Convention, encode_headers, encode_texts
from headstream.core.model.header_values import HeaderKind
from headstream.core.model.headers import NO_HEADERS, Headers
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import Message, MessageState, ReceivedMessage, stored_message
from headstream.core.model.reserved import ID_HEADER, TIMESTAMP_HEADER

_NO_TIME: Final = 0
"""confluent-kafka's type of a missing timestamp."""
_SAFE_KEY_CHARACTERS: Final = 63
"""A header key of up to this number of characters has at most 255 bytes."""
_log: Final = logging.getLogger("headstream.kafka")
_AVAILABLE: Final = MessageState.AVAILABLE.value


def time_of(message: Message, now_ms: int) -> int:
    """Return the timestamp of a message's record, milliseconds since 1970 UTC; `now_ms` if the message has no timestamp."""
    if message.headers:
        for name, value in message.headers.items():
            if name == TIMESTAMP_HEADER and value.kind == HeaderKind.INT64:
                plain = value.value
                if isinstance(plain, int) and plain >= 0:
                    return plain // 1000
    return now_ms


def headers_of(message: Message, convention: Convention = "headstream", topic: str = "") -> list[KafkaHeader] | None:
    """Return the headers of a message's record or None; `topic` is the default event source. HeaderError if unsupported."""
    if not message.headers and not message.id and convention != "cloudevents":
        return None
    pairs = list(message.headers.items())
    if pairs and pairs[0][0] == TIMESTAMP_HEADER and pairs[0][1].kind == HeaderKind.INT64:
        plain = pairs[0][1].value
        if isinstance(plain, int) and plain >= 0 and plain % 1000 == 0:
            pairs = pairs[1:]
    if convention == "headstream":
        headers = encode_texts(pairs)
    else:
        headers = encode_headers(Message(payload=None, headers=Headers(pairs), id=message.id, topic=topic or None), convention)
    if message.id:
        headers.append((ID_HEADER, format_message_id(message.id).encode()))
    return headers


def received_message(record: Any, topic: str, convention: Convention | None = None) -> ReceivedMessage:
    """Convert an error-free confluent-kafka Message; a convention of None uses the convention marked in the record."""
    headers = record.headers()
    kind, time_ms = record.timestamp()
    time_us = 0 if kind == _NO_TIME else 1000 * time_ms
    if not headers:
        return stored_message(
            record.value(), NO_HEADERS, record.key(), 0, record.offset(), time_us, _AVAILABLE, -1, (topic, record.partition())
        )
    found = _decode(record, headers, time_us, convention)
    return stored_message(
        found.payload,
        found.headers,
        found.key,
        found.id,
        record.offset(),
        time_us if found.timestamp is None else found.timestamp,
        int(found.state),
        found.checksum,
        (topic, record.partition()),
    )


def _decode(record: Any, headers: list[KafkaHeader], time_us: int, convention: Convention | None) -> Message:
    plain = KafkaRecord(value=record.value(), key=record.key(), headers=tuple(headers), timestamp_ms=time_us // 1000)
    if any(not name or len(name) > _SAFE_KEY_CHARACTERS for name, _ in headers):
        place = f"{record.topic()}, partition {record.partition()}, offset {record.offset()}"
        for loss in find_losses(plain):
            _log.warning("%s: the header is dropped (%s)", loss, place)
    return decode_record(plain, on_loss="drop", convention=convention)
