"""Messages as JSON, one object per line, for import, export and --output json.

    {"topic": "shop/orders", "partition": 1, "key": base64 | null, "payload": base64 | null, "id": UUID,
     "headers": [{"key": "attempt", "kind": "uint8", "value": 3}, ...], "timestamp_us": 1690000000000000,
     "offset": 42, "state": "available", "checksum": 2144931076}

An id is written as a UUID, because many JSON readers round 128-bit numbers; numbers are also accepted. Input can omit any member:
a missing payload is a null payload, the log generates a missing id, and the key or the log determines a missing partition.
header_text describes the values of headers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from headstream.cli.shared.header_text import decode_base64, decode_header_value, encode_base64, encode_header_value
from headstream.cli.shared.message_format import encode_payload
from headstream.core.codec.json_text import decode_json, dump_json
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName, format_message_id, parse_message_id
from headstream.core.model.message import Message, parse_state, state_name
from headstream.errors import HeaderError, InvalidInputError

_HEADER_MEMBERS: Final = frozenset(("key", "kind", "value"))
_MAX_NUMBER: Final = 1 << 64


def encode_line(message: Message, payload_as: str | None = None) -> str:
    """Encode a message as one line of JSON without a newline; arguments as for encode_document()."""
    return dump_json(encode_document(message, payload_as))


def decode_line(line: bytes) -> Message:
    """Decode a message from one line of JSON in UTF-8; topic, partition, offset and timestamp are None if omitted.

    Raises:
        DecodeError: the line is not JSON.
        InvalidInputError: the line is not a message; the error names the invalid member.
    """
    return decode_document(decode_json(line))


def encode_document(message: Message, payload_as: str | None = None) -> dict[str, Any]:
    """Encode a message as a JSON object.

    Args:
        payload_as: The form of the payload, one of PAYLOAD_FORMS; None is base64. `json` embeds the payload, or writes null if it
            is not JSON. For any form but None, the object has a member `payload_as`, and import rejects it.
    """
    document = _encode_whole(message)
    if payload_as in (None, "base64"):
        return document
    payload: Any = None if message.payload is None else encode_payload(message.payload, payload_as)
    if payload_as == "json" and payload is not None:
        payload = decode_json(payload.encode(), decimals=True)
    return {**document, "payload": payload, "payload_as": payload_as}


def _encode_whole(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "key": None if message.key is None else encode_base64(message.key),
        "payload": None if message.payload is None else encode_base64(message.payload),
        "id": format_message_id(message.id),
        "headers": [
            {"key": key, "kind": value.kind_name, "value": encode_header_value(value)} for key, value in message.headers.items()
        ],
        "timestamp_us": message.timestamp,
        "offset": message.offset,
        "state": state_name(message.state),
        "checksum": message.checksum,
    }


def decode_document(document: object) -> Message:
    """Decode a message from a JSON object; InvalidInputError names the invalid member."""
    if not isinstance(document, dict):
        raise InvalidInputError("a line must contain one JSON object")
    members: dict[str, Any] = {"payload": None}
    for name, value in document.items():
        if name not in _MEMBERS:
            raise InvalidInputError(f"{name!r:.40} is not a known member", advice=f"Use one of {', '.join(_MEMBERS)}")
        if value is None and name != "headers":
            continue
        attribute, decode = _MEMBERS[name]
        try:
            members[attribute] = decode(value)
        except InvalidInputError as error:
            raise type(error)(error.what, where=f"member {name!r}", advice=error.advice) from None
    return Message(**members)


def _read_bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise InvalidInputError(f"expected a base64 string or null, not {value!r:.40}")
    try:
        return decode_base64(value)
    except HeaderError as error:
        raise InvalidInputError(error.what) from None


def _read_topic(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"expected a string, not {value!r:.40}")
    return _check_topic(value)


@functools.lru_cache(maxsize=1024)  # a file names few topics
def _check_topic(text: str) -> str:
    return str(TopicName.parse(text))


def _read_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MAX_NUMBER:
        raise InvalidInputError(f"expected a whole number that is at least 0, not {value!r:.40}")
    return value


def _read_id(value: Any) -> int:
    if isinstance(value, str):
        return parse_message_id(value)
    if type(value) is not int or not 0 <= value < 1 << 128:
        raise InvalidInputError(f"expected an unsigned 128-bit number, not {value!r:.40}")
    return value


def _read_state(value: Any) -> int:
    if not isinstance(value, str):
        raise InvalidInputError(f"expected a state's name, not {value!r:.40}")
    return parse_state(value)


def _read_headers(value: Any) -> Headers:
    if not isinstance(value, list):
        raise InvalidInputError('expected a list of {"key", "kind", "value"}')
    return Headers(_read_header(item, number) for number, item in enumerate(value, 1))


def _read_header(item: Any, number: int) -> tuple[str, Any]:
    if not isinstance(item, dict) or not {"key", "kind"} <= item.keys() <= _HEADER_MEMBERS:
        raise HeaderError(f'header {number} must be {{"key", "kind", "value"}}')
    key, kind = item["key"], item["kind"]
    if not isinstance(kind, str):
        raise HeaderError(f"the kind of the header {key!r} must be a name, not {kind!r:.40}")
    try:
        return key, decode_header_value(kind, item.get("value"))
    except HeaderError as error:
        raise HeaderError(f"header {key!r}: {error.what}", advice=error.advice) from None


_MEMBERS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "topic": ("topic", _read_topic),
    "partition": ("partition", _read_number),
    "key": ("key", _read_bytes),
    "payload": ("payload", _read_bytes),
    "id": ("id", _read_id),
    "headers": ("headers", _read_headers),
    "timestamp_us": ("timestamp", _read_number),
    "offset": ("offset", _read_number),
    "state": ("state", _read_state),
    "checksum": ("checksum", _read_number),
}
"""Member of a line -> attribute of a Message, and its reader."""
