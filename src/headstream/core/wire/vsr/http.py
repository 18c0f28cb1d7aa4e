"""The JSON of Iggy's HTTP API since server 0.9, where it differs from records.py and codec/json.py.

partitions    numbered from 0 in paths, queries, bodies and replies
consumers     `consumer_id` instead of `id`
messages      sent {"id", "payload", "user_headers"}, polled {"header": {"id", "offset", ...}, "payload", "user_headers"}
user_headers  [{"key": FIELD, "value": FIELD}, ...] with FIELD = {"kind": name, "value": base64}
options       {"durability": "persisted", ...}, in requests that create or change an object
sent          {"confirmations": [{"stream_id", "topic_id", "partition_id", "base_offset"}]}
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from headstream.core.codec.batch.iggy_batches import encode_batches
from headstream.core.codec.buffer import BytesLike, Reader
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.model.header_values import KIND_NAMES
from headstream.core.wire.commands.groups import GroupDetails
from headstream.core.wire.commands.messages import AppendedBatch, PolledMessages, SendMessages
from headstream.core.wire.commands.offsets import StoredOffset
from headstream.core.wire.commands.system import Stats
from headstream.core.wire.commands.topics import CreateTopic, TopicDetails, UpdateTopic
from headstream.core.wire.fields import fields_of
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.layouts import REQUESTS
from headstream.core.wire.vsr.options import read_options
from headstream.errors import DecodeError

_ABSENT_SETTINGS: Final = {"compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0}
_FRAME: Final = struct.Struct("<Q16s4I8x")
_BATCH: Final = struct.Struct("<8x4Q8xI204x")


def decode_request(kind: type[Command[Any]], path: Mapping[str, str], query: Mapping[str, str], body: BytesLike) -> Command[Any]:
    """Decode a request; errors as in Command.from_json() and read_options()."""
    document = decode_json(bytes(body)) if body else None
    given = document if isinstance(document, dict) else {}
    if isinstance(document, dict):
        document = _older_body(kind, document)
    command: Any = kind.from_json(_older_texts(path), _older_texts(query), document)
    if kind is UpdateTopic:
        absent = [each.name for each in fields_of(kind)[2:-1] if given.get(each.json_name) is None]
        command = replace(command, **dict.fromkeys(absent))
    elif isinstance(command, SendMessages):
        command = replace(command, is_from_zero=True)
    known = REQUESTS[kind].options if kind in REQUESTS else None
    changed: Command[Any] = command if known is None else replace(command, **read_options(given.get("options"), known))
    return changed


def encode_reply(command: Command[Any], value: Any) -> bytes:
    """Encode a reply as the body of a response."""
    if isinstance(value, AppendedBatch):
        place = {"stream_id": value.stream_id, "topic_id": value.topic_id, "partition_id": value.partition - 1}
        return encode_json({"confirmations": [{**place, "base_offset": value.base_offset}]})
    if isinstance(value, PolledMessages):
        partition = value.partition - 1
        messages = list(_messages(value, partition))
        shown = {"partition_id": partition, "current_offset": value.current_offset, "count": len(messages)}
        return encode_json({**shown, "messages": messages})
    document = type(command).reply_to_json(value)
    if isinstance(value, TopicDetails):
        for each in document["partitions"]:
            each["id"] -= 1
    elif isinstance(value, GroupDetails):
        for each in document["members"]:
            each["partitions"] = [number - 1 for number in each["partitions"]]
    elif isinstance(value, StoredOffset):
        document["partition_id"] -= 1
    elif isinstance(value, Stats):
        document["threads_count"] = value.threads_count
        document |= {"free_disk_space": value.free_disk_bytes, "total_disk_space": value.total_disk_bytes}
    return b"" if document is None else encode_json(document)


def _older_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """Convert the parameters of a path or query to the names and numbers of the older form."""
    found = {"id" if name == "consumer_id" else name: text for name, text in texts.items()}
    number = found.get("partition_id", "")
    if number.isascii() and number.isdecimal() and len(number) <= 10:
        found["partition_id"] = str(int(number) + 1)
    return found


def _older_body(kind: type[Command[Any]], document: dict[str, Any]) -> dict[str, Any]:
    if kind is SendMessages:
        return _older_send(document)
    found = {"id" if name == "consumer_id" else name: value for name, value in document.items() if value is not None}
    number = found.get("partition_id")
    if type(number) is int and number >= 0:  # in the older form, 0 means no partition
        found["partition_id"] = number + 1
    return _ABSENT_SETTINGS | found if kind in (CreateTopic, UpdateTopic) else found


def _older_send(document: dict[str, Any]) -> dict[str, Any]:
    partitioning, messages = document.get("partitioning"), document.get("messages")
    if isinstance(partitioning, dict) and partitioning.get("kind") == "partition_id":
        number = _decode_base64(partitioning.get("value"))
        if len(number) == 4:
            following = min(int.from_bytes(number, "little") + 1, 0xFFFF_FFFF)
            partitioning = partitioning | {"value": base64.b64encode(following.to_bytes(4, "little")).decode()}
    if isinstance(messages, list):
        messages = [
            each | {"headers": _older_headers(each.get("user_headers"), number)} if isinstance(each, dict) else each
            for number, each in enumerate(messages)
        ]
    return document | {"partitioning": partitioning, "messages": messages}


def _older_headers(headers: Any, number: int) -> dict[str, Any] | None:
    """Convert the headers of a sent message to an object in the older form."""
    if headers is None:
        return None
    place, found = f"body.messages[{number}].user_headers", dict[str, Any]()
    if not isinstance(headers, list):
        raise DecodeError("user_headers must be a list of objects with key and value", 0, where=place)
    for entry in headers:
        key = entry.get("key") if isinstance(entry, dict) else None
        if not isinstance(key, dict):
            raise DecodeError("a header must be an object with key and value", 0, where=place)
        error = DecodeError("a header key must be of kind string, valid UTF-8, and unique in a message", 0, where=place)
        error.status = Status.INVALID_HEADER_KIND
        try:
            text = _decode_base64(key.get("value")).decode()
        except UnicodeDecodeError:
            raise error from None
        if key.get("kind") != "string" or text in found:
            raise error
        found[text] = entry.get("value")
    return found


def _decode_base64(text: Any) -> bytes:
    """Decode base64; return no bytes for invalid text, so that the decoder of the older form reports the error."""
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, binascii.Error, ValueError):
        return b""


def _messages(polled: PolledMessages, partition: int) -> Iterator[dict[str, Any]]:
    """Yield the messages of a poll, with the checksums and times that a TCP client receives."""
    batches = memoryview(encode_batches(polled.messages, polled.count, partition)) if polled.count else memoryview(b"")
    at = 0
    while at < len(batches):
        base, base_us, origin_us, size, _ = _BATCH.unpack_from(batches, at)
        end, at = at + size, at + _BATCH.size
        while at < end:
            checksum, number, offset, origin, headers_bytes, payload_bytes = _FRAME.unpack_from(batches, at)
            at += _FRAME.size
            payload, at = batches[at : at + payload_bytes], at + payload_bytes
            headers, at = Reader(batches[at : at + headers_bytes]), at + headers_bytes
            times = {"timestamp": base_us, "origin_timestamp": origin_us + origin}
            sizes = {"user_headers_length": headers_bytes, "payload_length": payload_bytes, "reserved": 0}
            place = {"checksum": checksum, "id": int.from_bytes(number, "little"), "offset": base + offset}
            texts = {"payload": base64.b64encode(payload).decode(), "user_headers": list(_user_headers(headers))}
            yield {"header": {**place, **times, **sizes}, **texts}


def _user_headers(reader: Reader) -> Iterator[dict[str, Any]]:
    while reader.remaining:
        yield {"key": _field(reader), "value": _field(reader)}


def _field(reader: Reader) -> dict[str, str]:
    kind = reader.pull_u8("a header kind")
    data = reader.pull_bytes(reader.pull_u32("a header's length"), "a header")
    return {"kind": KIND_NAMES.get(kind, f"unknown({kind})"), "value": base64.b64encode(data).decode()}
