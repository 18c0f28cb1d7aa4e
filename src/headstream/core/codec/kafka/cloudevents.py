"""Headers in the binary mode of the Kafka binding of CloudEvents 1.0: strings with the name `ce_` followed by a-z and 0-9.

    message's header                    Kafka's header
    type, or ce_type                    ce_type; likewise every name of a-z and 0-9
    datacontenttype, or content-type    content-type
    another name                        the same name; it is not an attribute of the event

An event has the attributes id, source and type. A missing id, source or time is filled with the message's id, topic or
time; specversion is 1.0. hs.kinds then lists the attributes that are headers of the message.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Collection
from typing import Final

from headstream.core.codec.kafka.kinds import encode_value
from headstream.core.codec.kafka.record import KafkaHeader
from headstream.core.codec.kafka.values import Pair, raw_or_null, read_text
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import Message
from headstream.errors import HeaderError

EVENT_MARK: Final = "ce_specversion"
_PREFIX: Final = "ce_"
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+")
_CONTENT_TYPE: Final = "content-type"
_FILLED: Final = ("ce_id", "ce_source", "ce_time", EVENT_MARK)


def is_event_header(key: str) -> bool:
    """Return whether a header of an event is a string in this convention."""
    return key.startswith(_PREFIX) or key == _CONTENT_TYPE


def event_key(key: str) -> str:
    """Return the key that a message's header has in an event."""
    if key in (_CONTENT_TYPE, "datacontenttype"):
        return _CONTENT_TYPE
    name = key.removeprefix(_PREFIX)
    return _PREFIX + name if _ATTRIBUTE.fullmatch(name) else key


def encode_event(message: Message) -> tuple[list[KafkaHeader], set[str]]:
    """Return the Kafka headers of a message, and the keys that hs.kinds must list because attributes are filled in."""
    headers: dict[str, bytes | None] = {}
    keys = message.headers.keys()
    for key, value in message.headers.items():
        name = event_key(key)
        if name in headers:
            raise HeaderError(f"the header {key!r} is repeated, which cloudevents cannot represent", advice="Send one header")
        headers[name] = _event_text(key, value) if is_event_header(name) else encode_value(value)
    filled = {
        "ce_id": format_message_id(message.id).encode() if message.id else None,
        "ce_source": message.topic.encode() if message.topic else None,
        "ce_time": None if message.timestamp is None else _event_time(message.timestamp),
        EVENT_MARK: b"1.0",
    }
    added = {name: text for name, text in filled.items() if name not in headers and text is not None}
    headers |= added
    for name in ("id", "source", "type"):
        if not headers.get(_PREFIX + name):
            raise HeaderError(f"CloudEvents requires the attribute {name}", advice=f"Add the header {name!r} to the message")
    return list(headers.items()), {key for key in keys if event_key(key) in _FILLED} if added else set()


def rename_event_headers(headers: list[KafkaHeader], listed: Collection[str]) -> list[KafkaHeader]:
    """Return headers with the names that they had in the message, without filled-in headers."""
    names = {key: key for key in listed} | {event_key(key): key for key in listed if event_key(key) != key}
    return [(names.get(key, key), data) for key, data in headers if key in names or key not in _FILLED]


def decode_event(headers: list[KafkaHeader]) -> list[Pair]:
    """Return the typed headers of an event, whose attributes are strings."""
    is_event = any(key == EVENT_MARK for key, _ in headers)
    return [
        (key, read_text(data) if data is not None and is_event and is_event_header(key) else raw_or_null(data))
        for key, data in headers
    ]


def event_raw(data: bytes) -> bytes:
    """Decode an attribute whose text is base64."""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return data


def _event_text(key: str, value: HeaderValue) -> bytes | None:
    """Return the canonical text of a value in CloudEvents' types, whose integers have 32 bits."""
    plain = value.value
    if isinstance(plain, bytes) and value.kind == HeaderKind.RAW:
        return base64.b64encode(plain)
    if isinstance(plain, (bytes, type(None), float)) or (isinstance(plain, int) and not -(1 << 31) <= plain < 1 << 31):
        raise HeaderError(
            f"CloudEvents has no type for this {value.kind_name} value", where=repr(key), advice="Pass the value as a string"
        )
    return encode_value(value)


def _event_time(time_us: int) -> bytes:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=time_us)
    return moment.isoformat().replace("+00:00", "Z").encode()
