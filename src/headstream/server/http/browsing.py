"""Messages for display: headers as strings in order, payloads truncated or decoded, and a search with limited cost."""

from __future__ import annotations

import binascii
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headstream.core.codec.binary import decode_polled
from headstream.core.codec.schema_ids import find_schema_id
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.message import ReceivedMessage, state_name
from headstream.core.model.polling import PollingKind
from headstream.core.wire.extensions.filters import FilteredMessages, FilterMessages
from headstream.core.wire.extensions.messages import FetchedMessages, FetchMessages
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import IDENTIFIER, Identifier
from headstream.core.wire.statuses import Status
from headstream.errors import DecodeError, LimitError
from headstream.server.http.replies import NOT_FOUND, Reply, json_reply

if TYPE_CHECKING:
    from headstream.server.http.routes import ViewRequest

_EVERY_STATE: Final = tuple(range(1, 256))
_SCANNED_BYTES: Final = 4 << 20
"""Maximum bytes that one request reads; the next request continues the search, so that a search can be cancelled."""

_SCANNED_COUNT: Final = 20_000
_KINDS: Final = {kind.name.lower(): kind for kind in PollingKind if kind is not PollingKind.NEXT}
_MOST: Final = (1 << 64) - 1
_SCHEMA_MARKS: Final = (b"\0", b"\xc3\x01")
"""First bytes of payloads that name their Avro schema: a registry's framing, and Avro's single-object encoding."""

_EXPLAINED_BYTES: Final = 1 << 20
"""Maximum size of a message to decode."""

_REPLY_BYTES: Final = 4 << 20
"""Maximum size of a reply, because a few bytes of Avro can become many bytes of JSON."""


def browse(request: ViewRequest) -> dict[str, Any]:
    """Return messages of a partition; DecodeError for an invalid parameter."""
    query = request.query
    kind = query.get("kind", "first")
    if kind not in _KINDS:
        raise DecodeError(f"kind must be one of {', '.join(_KINDS)}", 0, where="query.kind")
    count, payload_bytes = _number(query, "count", 50, 1, 500), _number(query, "payload_bytes", 1024, 0, 65_536)
    wanted = query.get("contains", "")
    if where := query.get("where", ""):
        if wanted:
            raise DecodeError("where and contains cannot be used together", 0, where="query")
        return _filter(request, where, _KINDS[kind], count, payload_bytes)
    found = _fetch(request, _KINDS[kind], _number(query, "value", 0), _SCANNED_COUNT if wanted else count)
    messages, next_offset = decode_polled(found.messages), found.next_offset
    scanned_count = len(messages)
    if wanted:
        matching = [message for message in messages if _contains(message, wanted)]
        if len(matching) > count:
            next_offset = matching[count - 1].offset + 1
            scanned_count = sum(message.offset < next_offset for message in messages)
        messages = matching[:count]
    return {
        "partition_id": found.partition,
        "end_offset": found.end_offset,
        "next_offset": next_offset,
        "scanned_count": scanned_count,
        "messages": [_to_json(message, payload_bytes) for message in messages],
    }


def _filter(request: ViewRequest, where: str, kind: PollingKind, count: int, payload_bytes: int) -> dict[str, Any]:
    """Return the messages that match a filter, in one bounded part of a partition."""
    stream, topic, partition = _place(request)
    start = _number(request.query, "value", 0)
    command = FilterMessages(stream, topic, partition, where, kind, start, count, _SCANNED_BYTES, _EVERY_STATE)
    command.validate()
    found: FilteredMessages = request.ask(command)
    return {
        "partition_id": found.partition,
        "end_offset": found.end_offset,
        "next_offset": found.next_offset,
        "scanned_count": found.scanned_count,
        "failed_count": found.failed_count,
        "messages": [_to_json(message, payload_bytes) for message in decode_polled(found.messages)],
    }


def download(request: ViewRequest) -> Reply:
    """Return a message's payload; 404 if the message does not exist or its payload is null. DecodeError for an invalid path."""
    message = find_message(request)
    if message is None or message.payload is None:
        return NOT_FOUND
    name = f'attachment; filename="partition-{request.path["partition_id"]}-offset-{request.path["offset"]}.bin"'
    headers = {"Content-Disposition": name, "X-Content-Type-Options": "nosniff"}
    return Reply(200, message.payload, "application/octet-stream", headers)


def find_message(request: ViewRequest) -> ReceivedMessage | None:
    """Return the message that a path names; None if the message does not exist. DecodeError if the path is invalid."""
    offset = _number(request.path, "offset", 0)
    found = decode_polled(_fetch(request, PollingKind.OFFSET, offset, 1).messages)
    return found[0] if found and found[0].offset == offset else None


def explain_message(request: ViewRequest) -> Reply:
    """Return a decoded message; 404 if the message does not exist or its payload is null.

    A Replicate message requires the right to read the server, as pipeline reports do. Other payloads must name their Avro
    schemas, and require only the right to read the message.
    """
    message = find_message(request)
    if message is None or message.payload is None:
        return NOT_FOUND
    payload = message.payload
    schema_id = find_schema_id(payload, message.headers)
    names_schema = request.pipelines.explain_avro is not None and (schema_id is not None or payload.startswith(_SCHEMA_MARKS))
    if not names_schema:
        request.check_server_right()
    explain = request.pipelines.explain_avro if names_schema else request.pipelines.explain
    if explain is None:
        raise refusal(
            Status.FEATURE_UNAVAILABLE, "no Replicate pipeline is registered", advice="Start with --pipeline CHECKPOINT"
        )
    by = "a library of Avro" if names_schema else "`headstream replicate inspect FILE --zone CHECKPOINT/zone`"
    advice = f"Save the message, and decode it with {by}"
    if len(payload) > _EXPLAINED_BYTES:
        raise LimitError(f"a message of {len(payload)} bytes exceeds the limit of {_EXPLAINED_BYTES} bytes", advice=advice)
    in_header = names_schema and schema_id is not None and schema_id.begin == 0
    frame = schema_id.to_bytes() if in_header and schema_id is not None else b""
    reply = json_reply({**explain(frame + payload), "size_bytes": len(payload)})
    if len(reply.body) > _REPLY_BYTES:
        raise LimitError(f"the decoded message must have at most {_REPLY_BYTES} bytes, not {len(reply.body)}", advice=advice)
    return reply


def _fetch(request: ViewRequest, kind: PollingKind, value: int, count: int) -> FetchedMessages:
    stream, topic, partition = _place(request)
    fetched: FetchedMessages = request.ask(
        FetchMessages(stream, topic, partition, kind, value, count, size_bytes=_SCANNED_BYTES, states=_EVERY_STATE)
    )
    return fetched


def _place(request: ViewRequest) -> tuple[Identifier, Identifier, int]:
    stream, topic = _identifier(request, "stream_id"), _identifier(request, "topic_id")
    return stream, topic, _number(request.path, "partition_id", 1, 0, (1 << 32) - 1)


def _identifier(request: ViewRequest, name: str) -> Identifier:
    return IDENTIFIER.from_url_text(request.path[name], f"path.{name}")


def _number(given: Mapping[str, str], name: str, default: int, least: int = 0, most: int = _MOST) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and least <= int(text) <= most):
        raise DecodeError(f"{name} must be a whole number from {least} to {most}", 0, where=name)
    return int(text)


def _to_json(message: ReceivedMessage, most_bytes: int) -> dict[str, Any]:
    return {
        "offset": message.offset,
        "timestamp_us": message.timestamp,
        "id": str(uuid.UUID(bytes=message.id.to_bytes(16, "little"))),
        "state": state_name(message.state),
        "checksum": f"{message.checksum:08x}",
        "is_intact": message.verify(),
        "key": _cut(message.key, most_bytes),
        "headers": [_header(key, value, most_bytes) for key, value in message.headers.items()],
        "payload": _cut(message.payload, most_bytes),
    }


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _cut(data: bytes | None, most_bytes: int) -> dict[str, Any] | None:
    return None if data is None else {"size_bytes": len(data), "base64": _base64(data[:most_bytes])}


def _header(key: str, value: HeaderValue, most_bytes: int) -> dict[str, Any]:
    text = _text(value)
    most = max(most_bytes, 64)
    return {"key": key, "kind": value.kind_name, "value": text[:most], "size_bytes": len(value.data), "is_cut": len(text) > most}


def _text(value: HeaderValue) -> str:
    """Return a header's value as a string: numbers in decimal, bytes as base64, null as an empty string."""
    plain = value.value
    if plain is None:
        return ""
    if isinstance(plain, bytes):
        return _base64(plain)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, str):
        return plain.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be encoded
    return str(plain)


def _contains(message: ReceivedMessage, text: str) -> bool:
    data = text.encode("utf-8", "replace")
    if (message.payload is not None and data in message.payload) or (message.key is not None and data in message.key):
        return True
    return any(text in key or text in _text(value) for key, value in message.headers.items())
