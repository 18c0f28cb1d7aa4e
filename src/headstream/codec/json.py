"""Messages to and from the JSON transport of Iggy.

    sent      {"partitioning": {"kind": "balanced" | "partition_id" | "messages_key", "value": base64},
               "messages": [{"id": 0, "payload": base64, "headers": HEADERS}, ...]}
    polled    {"partition_id": 1, "current_offset": 1, "messages": [{"offset": 0, "state": "available",
               "timestamp": 1700000000000000, "id": 162, "checksum": 907060870, "headers": HEADERS, "payload": base64}, ...]}
    HEADERS   {"trace": {"kind": "string", "value": base64}, ...} or null

A header's value is the base64 of the bytes it has in the binary transport, whatever its kind; kinds and states go by
their names, those that have none as `unknown(n)`. Ids are integers of up to 128 bits, times microseconds since 1970 UTC.
Headers that are absent, null or {} are the same: none. An object has no order and no repeats: a repeated key is refused,
and the reserved headers `hs.key` and `hs.null` are what they are wherever they stand (they are written first).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headstream.codec.buffer import BytesLike
from headstream.codec.json_text import decode_json, encode_json
from headstream.errors import DecodeError, HeaderError, HeadstreamError, InvalidInputError
from headstream.model.header_values import HeaderKind, HeaderValue, parse_kind
from headstream.model.headers import Headers, check_key
from headstream.model.message import Message, parse_state, state_name
from headstream.model.partitioning import Partitioning, PartitioningKind
from headstream.model.reserved import KEY_HEADER, NULL_HEADER

__all__ = [
    "PolledMessages",
    "SentMessages",
    "decode_headers",
    "decode_message",
    "decode_polled",
    "decode_sent",
    "encode_headers",
    "encode_polled",
    "encode_sent",
]

_TRUE: Final = HeaderValue(HeaderKind.BOOL, b"\x01")
_MAX_ID: Final = (1 << 128) - 1
_MAX_U64: Final = (1 << 64) - 1
_MAX_U32: Final = (1 << 32) - 1
_INVALID_KEY: Final = 4018
_INVALID_NUMBER: Final = 82
_INVALID_VALUE_LENGTH: Final = 4028
"""By which number a server says that a key, a partition's number, or the value of a partitioning cannot be one."""


class SentMessages(NamedTuple):
    """What a client sends: messages, and which partition they go to."""

    partitioning: Partitioning
    messages: list[Message]


class PolledMessages(NamedTuple):
    """What a poll brings: messages, the partition they are from, and its newest offset."""

    partition: int
    current_offset: int
    messages: list[Message]


def encode_headers(headers: Headers, *, keep_last: bool = False) -> dict[str, Any] | None:
    """Return headers as the JSON transport has them, None for none.

    Args:
        headers: Without a repeated key, unless
        keep_last: only the last of those with one key is wanted, as Iggy's servers keep it.

    Raises:
        HeaderError: a key repeats, which a JSON object cannot hold, or a value is of a kind that only another dialect has.
    """
    spelled: dict[str, Any] = {}
    for key, value in headers.items():
        if key in spelled and not keep_last:
            raise HeaderError(
                f"the header {key!r} repeats, which a JSON object cannot hold",
                advice="Send it through the binary transport, or convert with on_loss='drop', which keeps the last",
            )
        if value.kind > 255:
            raise HeaderError(f"the JSON transport has no kind {value.kind_name}", where=f"header {key!r}")
        spelled[key] = {"kind": value.kind_name, "value": base64.b64encode(value.data).decode("ascii")}
    return spelled or None


def decode_headers(document: object, where: str = "headers") -> Headers:
    """Return the headers that a decoded JSON value spells; None and {} are none.

    Args:
        document: What stands after "headers".
        where: Its place in the document, for errors.

    Raises:
        DecodeError: it does not spell headers; the text names the place.
    """
    if document is None:
        return Headers()
    if not isinstance(document, dict):
        raise DecodeError(f"headers are an object or null, not {_name(document)}", 0, where=where)
    pairs = []
    for key, spelled in document.items():
        place = f"{where}[{key!r:.60}]"
        if not isinstance(spelled, dict) or not isinstance(spelled.get("kind"), str):
            raise DecodeError("a header is an object with a kind, by name, and a value", 0, where=place)
        data = _decode_base64(spelled.get("value"), f"{place}.value")
        try:
            value = HeaderValue(parse_kind(spelled["kind"].lower()), data)  # clients in Java write String
        except HeaderError as error:
            raise DecodeError(error.what, 0, where=place, advice=error.advice) from None
        try:
            pairs.append((check_key(key), value))
        except HeaderError as error:
            raise _refused(error, place, _INVALID_KEY) from None
    return Headers(pairs)


def encode_sent(messages: Iterable[Message], partitioning: Partitioning | None = None) -> bytes:
    """Return messages as a client sends them.

    Args:
        messages: Their id, key, headers and payload are written.
        partitioning: Which partition they go to; balanced if None.

    Raises:
        HeaderError: the headers of a message cannot be spelled.
    """
    where = partitioning if partitioning is not None else Partitioning.balanced()
    document = {
        "partitioning": {"kind": where.kind.name.lower(), "value": base64.b64encode(where.value).decode("ascii")},
        "messages": [{"id": message.id, **_spell_body(message)} for message in messages],
    }
    return encode_json(document)


def decode_sent(data: BytesLike) -> SentMessages:
    """Return what a client sent.

    Args:
        data: The whole document, UTF-8.

    Raises:
        DecodeError: it is not JSON, or not messages; the text names the place.
    """
    document = _decode_object(data)
    spelled = document.get("partitioning")
    if not isinstance(spelled, dict):
        raise DecodeError("partitioning is an object with kind and value", 0, where="partitioning")
    names = {kind.name.lower(): kind for kind in PartitioningKind}
    kind = spelled.get("kind")
    if not isinstance(kind, str) or kind not in names:
        raise DecodeError(f"a kind of partitioning is one of {', '.join(names)}, not {kind!r:.40}", 0, where="partitioning.kind")
    try:
        partitioning = Partitioning(names[kind], _decode_base64(spelled.get("value", ""), "partitioning.value"))
    except InvalidInputError as error:
        is_number = names[kind] is PartitioningKind.PARTITION_ID
        raise _refused(error, "partitioning.value", _INVALID_NUMBER if is_number else _INVALID_VALUE_LENGTH) from None
    messages = []
    for number, item in enumerate(_messages_of(document)):
        where = f"messages[{number}]"
        key, headers, payload = _read_body(item, where)
        message_id = _read_number(item, "id", _MAX_ID, where, default=0)
        messages.append(Message(payload=payload, headers=headers, key=key, id=message_id))
    return SentMessages(partitioning, messages)


def encode_polled(messages: Iterable[Message], partition: int, current_offset: int, *, keep_last: bool = False) -> bytes:
    """Return messages as a poll's reply has them.

    Args:
        messages: With offset and timestamp; the checksum is written as it is.
        partition: The partition they are from.
        current_offset: Its newest offset.
        keep_last: Whether of headers that have one key the last is written, as Iggy's servers do, instead of none at all.

    Raises:
        InvalidInputError: a message has no offset or timestamp.
        HeaderError: the headers of a message cannot be spelled.
    """
    spelled = []
    for message in messages:
        if message.offset is None or message.timestamp is None:
            raise InvalidInputError("a message without offset and timestamp was not polled", advice="Use encode_sent()")
        spelled.append(
            {
                "offset": message.offset,
                "state": state_name(message.state),
                "timestamp": message.timestamp,
                "id": message.id,
                "checksum": message.checksum,
                **_spell_body(message, keep_last=keep_last),
            }
        )
    return encode_json({"partition_id": partition, "current_offset": current_offset, "messages": spelled})


def decode_polled(data: BytesLike, *, topic: str | None = None) -> PolledMessages:
    """Return what a poll brought.

    Args:
        data: The whole document, UTF-8.
        topic: `stream/topic`, given to every message.

    Raises:
        DecodeError: it is not JSON, or not messages; the text names the place.
    """
    document = _decode_object(data)
    partition = _read_number(document, "partition_id", _MAX_U32, "")
    current_offset = _read_number(document, "current_offset", _MAX_U64, "")
    messages = [
        decode_message(item, topic=topic, partition=partition, where=f"messages[{number}]")
        for number, item in enumerate(_messages_of(document))
    ]
    return PolledMessages(partition, current_offset, messages)


def decode_message(
    document: object, *, topic: str | None = None, partition: int | None = None, where: str = "message"
) -> Message:
    """Return the polled message that one decoded JSON object spells.

    Args:
        document: The object.
        topic: `stream/topic`, given to the message.
        partition: Given to the message.
        where: Its place in the document, for errors.

    Raises:
        DecodeError: it does not spell one; the text names the place.
    """
    if not isinstance(document, dict):
        raise DecodeError(f"a message is an object, not {_name(document)}", 0, where=where)
    key, headers, payload = _read_body(document, where)
    state = document.get("state")
    if not isinstance(state, str):
        raise DecodeError(f"a state is a name, not {_name(state)}", 0, where=f"{where}.state")
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


def _spell_body(message: Message, *, keep_last: bool = False) -> dict[str, Any]:
    names = message.headers.keys()
    for name, field in ((KEY_HEADER, "key="), (NULL_HEADER, "payload=None")):
        if name in names and not keep_last:
            raise HeaderError(f"the header {name!r} is reserved: an object has no first place for it", advice=f"Give {field}")
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
    """Return key, headers and payload."""
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
        raise DecodeError(f"messages in JSON are one object, not {_name(document)}", 0)
    return document


def _messages_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    messages = document.get("messages")
    if not isinstance(messages, list):
        raise DecodeError(f"messages are a list, not {_name(messages)}", 0, where="messages")
    for number, item in enumerate(messages):
        if not isinstance(item, dict):
            raise DecodeError(f"a message is an object, not {_name(item)}", 0, where=f"messages[{number}]")
    return messages


def _read_number(document: dict[str, Any], name: str, most: int, where: str, default: int | None = None) -> int:
    value = document.get(name, default)
    if value is None:
        value = default
    if type(value) is not int or not 0 <= value <= most:
        place = f"{where}.{name}" if where else name
        raise DecodeError(f"{name} is an unsigned {most.bit_length()}-bit number, not {value!r:.50}", 0, where=place)
    return value


def _decode_base64(text: object, where: str) -> bytes:
    if not isinstance(text, str):
        raise DecodeError(f"bytes are base64 text, not {_name(text)}", 0, where=where)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DecodeError("bytes that are not base64", 0, where=where) from None


def _refused(error: HeadstreamError, where: str, status: int) -> DecodeError:
    """Return the error for what is spelled as it should be, but cannot be; a server tells it by its number."""
    refused = DecodeError(error.what, 0, where=where, advice=error.advice)
    refused.status = status
    return refused


def _name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a bool", type(None): "null"}
    return names.get(type(value), "a number")
