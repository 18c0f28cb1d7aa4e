"""Converts messages to Iggy's JSON transport and back.

    sent      {"partitioning": {"kind": "balanced" | "partition_id" | "messages_key", "value": base64},
               "messages": [{"id": 0, "payload": base64, "headers": HEADERS}, ...]}
    polled    {"partition_id": 1, "current_offset": 1, "messages": [{"offset": 0, "state": "available",
               "timestamp": 1700000000000000, "id": 162, "checksum": 907060870, "headers": HEADERS, "payload": base64}, ...]}
    HEADERS   {"trace": {"kind": "string", "value": base64}, ...} or null

A header's value is, for every kind, the base64 of its bytes in the binary transport. Kinds and states are names, or `unknown(n)`.
Ids are integers of up to 128 bits; times are microseconds since 1970 UTC. Headers that are absent, null or {} mean no headers. A
JSON object has neither order nor repeats, so a repeated key is an error, and the reserved headers `hs.key` and `hs.null` have
their meaning in any position (they are written first).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.model.header_block import check_key
from headstream.core.model.header_values import HeaderKind, HeaderValue, parse_kind
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, parse_state, state_name
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.reserved import KEY_HEADER, NULL_HEADER
from headstream.errors import DecodeError, HeaderError, HeadstreamError, InvalidInputError

_TRUE: Final = HeaderValue(HeaderKind.BOOL, b"\x01")
_MAX_ID: Final = (1 << 128) - 1
_MAX_U64: Final = (1 << 64) - 1
_MAX_U32: Final = (1 << 32) - 1
_INVALID_KEY: Final = 4018
_INVALID_NUMBER: Final = 82
_INVALID_VALUE_LENGTH: Final = 4028
"""Iggy's statuses for an invalid key, an invalid partition number, and a partitioning value with the wrong length."""


class JsonSend(NamedTuple):
    """The messages of a send, and their partitioning."""

    partitioning: Partitioning
    messages: list[Message]


class JsonPoll(NamedTuple):
    """The messages of a poll response, their partition, and the partition's newest offset."""

    partition: int
    current_offset: int
    messages: list[Message]


def encode_headers(headers: Headers, *, keep_last: bool = False) -> dict[str, Any] | None:
    """Encode headers as a JSON object; None if there are no headers.

    Raises:
        HeaderError: a key repeats, which JSON objects do not allow, or a value's kind exists only in another dialect.
    """
    json_value: dict[str, Any] = {}
    for key, value in headers.items():
        if key in json_value and not keep_last:
            raise HeaderError(
                f"the header {key!r} occurs more than once, which a JSON object cannot represent",
                advice="Use the binary transport, or convert with on_loss='drop', which keeps the last value",
            )
        if value.kind > 255:
            raise HeaderError(f"the JSON transport does not support the kind {value.kind_name}", where=f"header {key!r}")
        json_value[key] = {"kind": value.kind_name, "value": base64.b64encode(value.data).decode("ascii")}
    return json_value or None


def decode_headers(document: object, where: str = "headers") -> Headers:
    """Decode headers from a JSON object, null or {}. `where` is the path of the headers in the document, for error messages."""
    if document is None:
        return Headers()
    if not isinstance(document, dict):
        raise DecodeError(f"headers must be an object or null, not {_name(document)}", 0, where=where)
    pairs = []
    for key, json_value in document.items():
        place = f"{where}[{key!r:.60}]"
        if not isinstance(json_value, dict) or not isinstance(json_value.get("kind"), str):
            raise DecodeError("a header must be an object with kind and value", 0, where=place)
        data = _decode_base64(json_value.get("value"), f"{place}.value")
        try:
            value = HeaderValue(parse_kind(json_value["kind"].lower()), data)  # Java clients write `String`
        except HeaderError as error:
            raise DecodeError(error.what, 0, where=place, advice=error.advice) from None
        try:
            pairs.append((check_key(key), value))
        except HeaderError as error:
            raise _error_with_status(error, place, _INVALID_KEY) from None
    return Headers(pairs)


def encode_sent(messages: Iterable[Message], partitioning: Partitioning | None = None) -> bytes:
    """Encode messages as a send, with balanced partitioning by default; HeaderError if JSON cannot represent the headers."""
    where = partitioning if partitioning is not None else Partitioning.balanced()
    document = {
        "partitioning": {"kind": where.kind.name.lower(), "value": base64.b64encode(where.value).decode("ascii")},
        "messages": [{"id": message.id, **_body_to_json(message)} for message in messages],
    }
    return encode_json(document)


def decode_sent(data: BytesLike) -> JsonSend:
    """Decode a send from a complete document in UTF-8; DecodeError names the path of a fault."""
    document = _decode_object(data)
    json_value = document.get("partitioning")
    if not isinstance(json_value, dict):
        raise DecodeError("partitioning must be an object with kind and value", 0, where="partitioning")
    names = {kind.name.lower(): kind for kind in PartitioningKind}
    kind = json_value.get("kind")
    if not isinstance(kind, str) or kind not in names:
        raise DecodeError(f"the kind must be one of {', '.join(names)}, not {kind!r:.40}", 0, where="partitioning.kind")
    try:
        partitioning = Partitioning(names[kind], _decode_base64(json_value.get("value", ""), "partitioning.value"))
    except InvalidInputError as error:
        is_number = names[kind] is PartitioningKind.PARTITION_ID
        raise _error_with_status(error, "partitioning.value", _INVALID_NUMBER if is_number else _INVALID_VALUE_LENGTH) from None
    messages = []
    for number, item in enumerate(_messages_of(document)):
        where = f"messages[{number}]"
        key, headers, payload = _read_body(item, where)
        message_id = _read_number(item, "id", _MAX_ID, where, default=0)
        messages.append(Message(payload=payload, headers=headers, key=key, id=message_id))
    return JsonSend(partitioning, messages)


def encode_polled(messages: Iterable[Message], partition: int, current_offset: int, *, keep_last: bool = False) -> bytes:
    """Encode messages as a poll response.

    Args:
        keep_last: Whether to write only the last header of each key, as Iggy servers do, instead of raising HeaderError.

    Raises:
        InvalidInputError: a message's offset or timestamp is missing or out of range.
        HeaderError: JSON cannot represent the headers of a message.
    """
    json_value = []
    for message in messages:
        if message.offset is None or message.timestamp is None:
            raise InvalidInputError("the message has no offset or no timestamp, so it was not polled", advice="Use encode_sent()")
        offset, timestamp, checksum = message.offset, message.timestamp, message.checksum
        if not (0 <= offset <= _MAX_U64 and 0 <= timestamp <= _MAX_U64 and 0 <= checksum <= _MAX_U32):
            raise InvalidInputError(f"offset {offset}, timestamp {timestamp} or checksum {checksum} is out of range")
        json_value.append(
            {
                "offset": offset,
                "state": state_name(message.state),
                "timestamp": timestamp,
                "id": message.id,
                "checksum": checksum,
                **_body_to_json(message, keep_last=keep_last),
            }
        )
    return encode_json({"partition_id": partition, "current_offset": current_offset, "messages": json_value})


def decode_polled(data: BytesLike, *, topic: str | None = None) -> JsonPoll:
    """Decode a poll response from a complete document in UTF-8; DecodeError names the path of a fault."""
    document = _decode_object(data)
    partition = _read_number(document, "partition_id", _MAX_U32, "")
    current_offset = _read_number(document, "current_offset", _MAX_U64, "")
    messages = [
        decode_message(item, topic=topic, partition=partition, where=f"messages[{number}]")
        for number, item in enumerate(_messages_of(document))
    ]
    return JsonPoll(partition, current_offset, messages)


def decode_message(
    document: object, *, topic: str | None = None, partition: int | None = None, where: str = "message"
) -> Message:
    """Convert a decoded JSON object to a polled message; `where` is the object's path in the document, for error messages."""
    if not isinstance(document, dict):
        raise DecodeError(f"a message must be an object, not {_name(document)}", 0, where=where)
    key, headers, payload = _read_body(document, where)
    state = document.get("state")
    if not isinstance(state, str):
        raise DecodeError(f"a state must be a name, not {_name(state)}", 0, where=f"{where}.state")
    try:
        code = parse_state(state)
    except InvalidInputError as error:
        raise DecodeError(error.what, 0, where=f"{where}.state", advice=error.advice) from None
    return Message(
        payload=payload,
        headers=headers,
        key=key,
        id=_read_number(document, "id", _MAX_ID, where),
        offset=_read_number(document, "offset", _MAX_U64, where),
        timestamp=_read_number(document, "timestamp", _MAX_U64, where),
        state=code,
        checksum=_read_number(document, "checksum", _MAX_U32, where),
        topic=topic,
        partition=partition,
    )


def _body_to_json(message: Message, *, keep_last: bool = False) -> dict[str, Any]:
    names = message.headers.keys()
    for name, field in ((KEY_HEADER, "key="), (NULL_HEADER, "payload=None")):
        if name in names and not keep_last:
            raise HeaderError(f"the header {name!r} is reserved in JSON", advice=f"Pass {field} instead")
    reserved: list[tuple[str, HeaderValue]] = []
    if message.key is not None:
        reserved.append((KEY_HEADER, HeaderValue(HeaderKind.RAW, message.key)))
    if message.payload is None:
        reserved.append((NULL_HEADER, _TRUE))
    headers = Headers([*reserved, *message.headers.items()]) if reserved else message.headers
    return {
        "headers": encode_headers(headers, keep_last=keep_last),
        "payload": base64.b64encode(message.payload or b"").decode("ascii"),
    }


def _read_body(document: dict[str, Any], where: str) -> tuple[bytes | None, Headers, bytes | None]:
    payload: bytes | None = _decode_base64(document.get("payload"), f"{where}.payload")
    headers = decode_headers(document.get("headers"), f"{where}.headers")
    key = headers.get(KEY_HEADER)
    if key is not None and key.kind == HeaderKind.RAW:
        headers = headers.without(KEY_HEADER)
    else:
        key = None
    null = headers.get(NULL_HEADER)
    if not payload and null is not None and null.kind == HeaderKind.BOOL and null.data == _TRUE.data:
        headers, payload = headers.without(NULL_HEADER), None
    return None if key is None else key.data, headers, payload


def _decode_object(data: BytesLike) -> dict[str, Any]:
    document = decode_json(bytes(data))
    if not isinstance(document, dict):
        raise DecodeError(f"messages in JSON must be one object, not {_name(document)}", 0)
    return document


def _messages_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    messages = document.get("messages")
    if not isinstance(messages, list):
        raise DecodeError(f"messages must be a list, not {_name(messages)}", 0, where="messages")
    for number, item in enumerate(messages):
        if not isinstance(item, dict):
            raise DecodeError(f"a message must be an object, not {_name(item)}", 0, where=f"messages[{number}]")
    return messages


def _read_number(document: dict[str, Any], name: str, most: int, where: str, default: int | None = None) -> int:
    value = document.get(name, default)
    if value is None:
        value = default
    if type(value) is not int or not 0 <= value <= most:
        place = f"{where}.{name}" if where else name
        raise DecodeError(f"{name} must be an unsigned {most.bit_length()}-bit number, not {value!r:.50}", 0, where=place)
    return value


def _decode_base64(text: object, where: str) -> bytes:
    if not isinstance(text, str):
        raise DecodeError(f"bytes must be a base64 string, not {_name(text)}", 0, where=where)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DecodeError("the bytes are not valid base64", 0, where=where) from None


def _error_with_status(error: HeadstreamError, where: str, status: int) -> DecodeError:
    """Return the error for a well-formed but invalid value, with Iggy's status code."""
    invalid = DecodeError(error.what, 0, where=where, advice=error.advice)
    invalid.status = status
    return invalid


def _name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a bool", type(None): "null"}
    return names.get(type(value), "a number")
