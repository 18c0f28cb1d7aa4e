"""Converts messages to Kafka records and back. Fields that Kafka does not have become headers at the end of a record:

    hs.kinds      the kinds of the headers (kinds.py)                if any kind is neither raw nor null
    hs.id         the message's id as a UUID                         if the message has an id
    hs.state      available, poisoned, unknown(7) ...                if the message is not available
    hs.appended   the log's time, microseconds since 1970 UTC        if the time is not a full millisecond
    hs.checksum   the message's CRC-32 of its payload                if the checksum does not match the payload

All these values are strings. Null and empty keys and payloads are preserved. Kafka provides offset and partition. A reserved
header with an invalid value is kept as a raw header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from headstream.core.codec.kafka.conventions import Convention, decode_headers, encode_headers
from headstream.core.codec.kafka.record import KafkaRecord, read_record
from headstream.core.codec.kafka.topic_names import from_kafka_topic, to_kafka_topic
from headstream.core.model.header_block import MAX_KEY_BYTES
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import format_message_id, parse_message_id
from headstream.core.model.message import Message, MessageState, parse_state, state_name
from headstream.core.model.reserved import APPENDED_HEADER, CHECKSUM_HEADER, ID_HEADER, STATE_HEADER, is_reserved
from headstream.errors import HeaderError, InvalidInputError

_RESERVED_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], int]]]] = {
    ID_HEADER: ("id", parse_message_id),
    STATE_HEADER: ("state", parse_state),
    APPENDED_HEADER: ("timestamp", int),
    CHECKSUM_HEADER: ("checksum", int),
}


def encode_record(message: Message, *, convention: Convention = "headstream") -> KafkaRecord:
    """Convert a message to a Kafka record.

    Args:
        convention: The format of typed values, one of conventions.py.

    Raises:
        HeaderError: the convention cannot represent a header, or a header is reserved.
        InvalidInputError: the topic name is invalid in Kafka.
    """
    for key in message.headers.keys():  # noqa: SIM118
        if is_reserved(key):
            raise HeaderError(f"the header {key!r} is reserved", advice="Names that begin with 'hs.' are Headstream's own")
    headers = encode_headers(message, convention)
    timestamp = message.timestamp
    if message.id:
        headers.append((ID_HEADER, format_message_id(message.id).encode()))
    if message.state != MessageState.AVAILABLE:
        headers.append((STATE_HEADER, state_name(message.state).encode()))
    if timestamp is not None and timestamp % 1000:
        headers.append((APPENDED_HEADER, str(timestamp).encode()))
    if not message.verify():
        headers.append((CHECKSUM_HEADER, str(message.checksum).encode()))
    return KafkaRecord(
        value=message.payload,
        key=message.key,
        headers=tuple(headers),
        timestamp_ms=None if timestamp is None else timestamp // 1000,
        topic=None if message.topic is None else to_kafka_topic(message.topic),
    )


def decode_record(source: Any, *, on_loss: Literal["error", "drop"] = "error", convention: Convention | None = None) -> Message:
    """Convert a Kafka record to a message.

    Args:
        source: A KafkaRecord, or the object of a Kafka client (read_record()).
        on_loss: What to do with headers that a message cannot have; find_losses() lists them.
        convention: The format of typed values; by default the format that a product's marker indicates, otherwise Headstream's.

    Raises:
        HeaderError: a message cannot have one of the record's headers.
        InvalidInputError: the object is not a record.
    """
    record = read_record(source)
    losses = find_losses(record)
    if losses and on_loss == "error":
        raise HeaderError(losses[0], where=_where(record), advice='Omit such headers with on_loss="drop"')
    given = record.headers if not losses else tuple(header for header in record.headers if _key_fault(header[0]) is None)
    reserved: dict[str, Any] = {}
    plain = [(key, data) for key, data in given if key not in _RESERVED_FIELDS or not _take(reserved, key, data)]
    pairs = decode_headers(plain, convention)
    time = None if record.timestamp_ms is None else record.timestamp_ms * 1000
    if "timestamp" in reserved and (time is None or reserved["timestamp"] // 1000 != record.timestamp_ms):
        del reserved["timestamp"]  # the time of the original record, of which this record is a copy
    return Message(
        payload=record.value,
        key=record.key,
        headers=Headers(pairs),
        offset=record.offset,
        topic=None if record.topic is None else from_kafka_topic(record.topic),
        partition=record.partition,
        **{"timestamp": time, **reserved},
    )


def find_losses(source: Any) -> list[str]:
    """Return one sentence per header of a Kafka record that a message cannot have; empty if nothing would be lost."""
    return [fault for key, _ in read_record(source).headers if (fault := _key_fault(key)) is not None]


def _key_fault(key: str) -> str | None:
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return f"UTF-8 cannot encode the header key {key!r:.60}"
    if size == 0:
        return "a header has an empty key"
    return f"the header key {key!r:.60} has {size} bytes, more than {MAX_KEY_BYTES}" if size > MAX_KEY_BYTES else None


def _take(reserved: dict[str, Any], key: str, value: bytes | None) -> bool:
    """Record the value of a reserved header; return whether the value is valid and the header is the first with its name."""
    name, read = _RESERVED_FIELDS[key]
    if value is None or name in reserved:
        return False
    try:
        number = read(value.decode("ascii"))
    except (InvalidInputError, ValueError):
        return False
    if number < 0 or (name == "checksum" and number >> 32) or (name == "timestamp" and number >> 63):
        return False
    reserved[name] = number
    return True


def _where(record: KafkaRecord) -> str | None:
    return None if record.topic is None else f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
