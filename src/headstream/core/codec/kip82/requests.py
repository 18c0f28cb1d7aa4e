"""Requests and responses of Produce and Fetch in version 4 as proposed by KIP-82, and in older versions, big-endian.

    frame             size i32 | request or response
    request           api_key i16 (0 Produce, 1 Fetch) | api_version i16 | correlation_id i32 | client_id string
    response          correlation_id i32
    Produce request   acks i16 | timeout_ms i32 | [topic string | [partition i32 | set_size i32 | set]]
    Produce response  [topic string | [partition i32 | error i16 | base_offset i64 | timestamp i64 (from 2)]]
                      | throttle_ms i32 (from 1)
    Fetch request     replica_id i32 | max_wait_ms i32 | min_bytes i32 | max_bytes i32 (from 3)
                      | [topic string | [partition i32 | offset i64 | max_bytes i32]]
    Fetch response    throttle_ms i32 (from 1)
                      | [topic string | [partition i32 | error i16 | high_watermark i64 | set_size i32 | set]]

    string            length i16 | UTF-8; -1 is null (client_id only)
    [...]             count i32 | elements
    set               contiguous messages (sets.py), of magic 0 in Produce 0 and 1 and Fetch 0 and 1, of magic 1 at most in
                      Produce 2 and Fetch 2 and 3, of magic 2 at most in 4

In the proposal, these requests and responses have version 4, with the fields of the newest versions at that time (Produce 2 and
Fetch 3 of Kafka 0.10.1) and messages of magic 2. Kafka's current version 4 differs: Produce has a transactional id, Fetch has an
isolation level, and magic 2 is the record batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from headstream.core.codec.buffer import BytesLike, Reader
from headstream.core.codec.kip82.request_values import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RequestHead,
)
from headstream.errors import DecodeError, InvalidInputError

PRODUCE: Final = 0
FETCH: Final = 1
_MAGICS: Final = {PRODUCE: {0: 0, 1: 0, 2: 1, 4: 2}, FETCH: {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}}
_T = TypeVar("_T")


_Request: TypeAlias = ProduceRequest | FetchRequest
_Response: TypeAlias = ProduceResponse | FetchResponse


def magic_of(api_key: int, api_version: int) -> int:
    """Return the newest message format of a version of PRODUCE or FETCH; InvalidInputError if the version does not exist."""
    magic = _MAGICS.get(api_key, {}).get(api_version)
    if magic is None:
        raise InvalidInputError(f"API {api_key} has no version {api_version}", advice="Use Produce 0, 1, 2, 4 or Fetch 0 to 4")
    return magic


# -- writing ----------------------------------------------------------------------------------------------------------


def encode_request(request: ProduceRequest | FetchRequest, head: RequestHead = RequestHead()) -> bytes:  # noqa: B008
    """Encode a request as a frame; InvalidInputError if the version does not exist or lacks a field of the request."""
    api_key = PRODUCE if isinstance(request, ProduceRequest) else FETCH
    magic_of(api_key, head.api_version)
    parts = [_pack("hhi", api_key, head.api_version, head.correlation_id), _string(head.client_id)]
    if isinstance(request, ProduceRequest):
        parts.append(_pack("hi", request.acks, request.timeout_ms))
        parts += _by_topic(request.partitions, lambda each: _pack("i", each.partition) + _set(each.message_set))
    else:
        parts.append(_pack("iii", request.replica_id, request.max_wait_ms, request.min_bytes))
        parts.append(_optional("i", request.max_bytes, "max_bytes", head.api_version >= 3))
        parts += _by_topic(request.partitions, lambda each: _pack("iqi", each.partition, each.offset, each.max_bytes))
    return _frame(parts)


def encode_response(response: ProduceResponse | FetchResponse, head: RequestHead) -> bytes:
    """Encode a response as a frame; InvalidInputError if the version does not exist or lacks a field of the response."""
    version = head.api_version
    magic_of(PRODUCE if isinstance(response, ProduceResponse) else FETCH, version)
    throttle = _optional("i", response.throttle_ms, "throttle_ms", version >= 1)
    if isinstance(response, ProduceResponse):
        body = _by_topic(
            response.partitions,
            lambda each: (
                _pack("ihq", each.partition, each.error, each.base_offset)
                + _optional("q", each.timestamp_ms, "timestamp_ms", version >= 2)
            ),
        )
        return _frame([_pack("i", head.correlation_id), *body, throttle])
    fetched = _by_topic(
        response.partitions, lambda each: _pack("ihq", each.partition, each.error, each.high_watermark) + _set(each.message_set)
    )
    return _frame([_pack("i", head.correlation_id), throttle, *fetched])


def _pack(form: str, *values: int) -> bytes:
    try:
        return struct.pack(f">{form}", *values)
    except struct.error:
        raise InvalidInputError(f"a number is out of range: {', '.join(map(str, values))}") from None


def _optional(form: str, value: int | None, name: str, is_there: bool) -> bytes:
    if (value is not None) != is_there:
        raise InvalidInputError(f"{name} must be {'a number' if is_there else 'None'} in this version, not {value}")
    return b"" if value is None else _pack(form, value)


def _string(text: str | None) -> bytes:
    if text is None:
        return _pack("h", -1)
    data = text.encode()
    return _pack("h", len(data)) + data


def _set(data: bytes) -> bytes:
    return _pack("i", len(data)) + data


def _frame(parts: Iterable[bytes]) -> bytes:
    return _set(b"".join(parts))


def _by_topic(partitions: tuple[Any, ...], encode: Callable[[Any], bytes]) -> list[bytes]:
    """Return an array of topics; each topic has an array of its consecutive partitions."""
    topics: list[tuple[str, list[bytes]]] = []
    for each in partitions:
        if not topics or topics[-1][0] != each.topic:
            topics.append((each.topic, []))
        topics[-1][1].append(encode(each))
    parts = [_pack("i", len(topics))]
    for topic, encoded in topics:
        parts += (_string(topic), _pack("i", len(encoded)), *encoded)
    return parts


# -- reading ----------------------------------------------------------------------------------------------------------


def decode_request(data: BytesLike) -> tuple[RequestHead, ProduceRequest | FetchRequest]:
    """Decode the header and the request of a complete frame; message sets remain encoded."""
    reader = _open(data)
    api_key, version, correlation_id = reader.pull_struct(struct.Struct(">hhi"), "a request header")
    if version not in _MAGICS.get(api_key, {}):
        raise DecodeError(f"API {api_key} in version {version} is not a Produce or Fetch request of KIP-82", 4)
    head = RequestHead(version, correlation_id, _pull_string(reader, "the client id", is_nullable=True))
    request: _Request
    if api_key == PRODUCE:
        acks, timeout_ms = reader.pull_struct(struct.Struct(">hi"), "acks and timeout")
        sets = _pull_topics(
            reader, 8, lambda topic: ProducePartition(topic, _pull(reader, "i", "a partition"), _pull_set(reader))
        )
        request = ProduceRequest(partitions=sets, acks=acks, timeout_ms=timeout_ms)
    else:
        replica_id, max_wait_ms, min_bytes = reader.pull_struct(struct.Struct(">iii"), "the limits of a fetch")
        max_bytes = _pull(reader, "i", "max_bytes") if version >= 3 else None
        places = _pull_topics(
            reader, 16, lambda topic: FetchPartition(topic, *reader.pull_struct(struct.Struct(">iqi"), "a partition to fetch"))
        )
        request = FetchRequest(
            partitions=places, replica_id=replica_id, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes
        )
    reader.pull_end("a request")
    return head, request


def decode_response(data: BytesLike, api_key: int, api_version: int) -> tuple[int, ProduceResponse | FetchResponse]:
    """Decode the correlation id and the response of a complete frame; message sets remain encoded."""
    magic_of(api_key, api_version)
    reader = _open(data)
    correlation_id = _pull(reader, "i", "the correlation id")
    response: _Response
    if api_key == PRODUCE:
        form = struct.Struct(">ihqq" if api_version >= 2 else ">ihq")

        def pull_produced(topic: str) -> ProducedPartition:
            partition, error, base_offset, *times = reader.pull_struct(form, "a partition result")
            return ProducedPartition(topic, partition, error, base_offset, times[0] if times else None)

        produced = _pull_topics(reader, form.size, pull_produced)
        response = ProduceResponse(partitions=produced, throttle_ms=_pull_throttle(reader, api_version))
    else:
        throttle_ms = _pull_throttle(reader, api_version)
        head = struct.Struct(">ihq")

        def pull_fetched(topic: str) -> FetchedPartition:
            partition, error, high_watermark = reader.pull_struct(head, "a fetched partition")
            return FetchedPartition(topic, partition, error, high_watermark, _pull_set(reader))

        fetched = _pull_topics(reader, head.size + 4, pull_fetched)
        response = FetchResponse(partitions=fetched, throttle_ms=throttle_ms)
    reader.pull_end("a response")
    return correlation_id, response


def _open(data: BytesLike) -> Reader:
    reader = Reader(data)
    size = _pull(reader, "i", "the frame size")
    if size != reader.remaining:
        raise DecodeError("the frame size does not match its length field", 0, max(size, 0), reader.remaining)
    return reader


def _pull(reader: Reader, form: str, subject: str) -> int:
    number: int = reader.pull_struct(struct.Struct(f">{form}"), subject)[0]
    return number


def _pull_throttle(reader: Reader, version: int) -> int | None:
    return _pull(reader, "i", "throttle_ms") if version >= 1 else None


def _pull_string(reader: Reader, subject: str, *, is_nullable: bool = False) -> str | None:
    at = reader.at
    size = _pull(reader, "h", f"the length of {subject}")
    if size == -1 and is_nullable:
        return None
    if size < 0:
        raise DecodeError(f"{subject} has the invalid length {size}", at)
    return reader.pull_text(size, subject)


def _pull_set(reader: Reader) -> bytes:
    at = reader.at
    size = _pull(reader, "i", "the message set size")
    if size < 0:
        raise DecodeError(f"a message set has the invalid size {size}", at)
    return reader.pull_bytes(size, "a message set")


def _pull_topics(reader: Reader, least_bytes: int, pull: Callable[[str], _T]) -> tuple[_T, ...]:
    """Return the partitions of all topics; reject an element count that exceeds the remaining bytes."""
    found: list[_T] = []
    for _ in range(_pull_count(reader, 6, "topics")):
        topic = _pull_string(reader, "a topic") or ""
        for _ in range(_pull_count(reader, least_bytes, "partitions")):
            found.append(pull(topic))
    return tuple(found)


def _pull_count(reader: Reader, least_bytes: int, subject: str) -> int:
    at = reader.at
    count = _pull(reader, "i", f"the number of {subject}")
    if not 0 <= count <= reader.remaining // least_bytes:
        raise DecodeError(f"{count} {subject}", at, max(count, 0) * least_bytes, reader.remaining)
    return count
