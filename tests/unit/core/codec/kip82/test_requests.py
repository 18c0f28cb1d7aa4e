"""Produce and Fetch as KIP-82 proposed them, from bytes to bytes: through a log, and down to older clients."""

from __future__ import annotations

import struct
import zlib

import pytest

import headstream as hs
from headstream.core.codec.kip82 import (
    FETCH,
    PRODUCE,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    Kip82Message,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RequestHead,
    decode_request,
    decode_response,
    decode_set,
    down_convert_response,
    encode_request,
    encode_response,
    encode_set,
    from_message,
    to_message,
    wrap,
)

HEADERS = hs.Headers([("attempt", hs.int16(3)), ("source", "web"), ("source", "app"), ("paid", True), ("note", None)])
SENT_MS = 1_700_000_000_000


def produce(log: hs.Client, data: bytes) -> bytes:
    """Answer a Produce request: bytes in, bytes out."""
    head, request = decode_request(data)
    assert isinstance(request, ProduceRequest)
    results = []
    for topic, partition, message_set in request.partitions:
        base = log.topic(topic.replace(".", "/")).partitions[partition].end_offset
        with log.producer(topic.replace(".", "/")) as producer:
            for each in decode_set(message_set).messages:
                message = to_message(each)
                headers = message.headers
                if message.timestamp is not None:
                    headers = headers.with_(("hs.timestamp", hs.int64(message.timestamp)))
                producer.send(message.payload, key=message.key, headers=headers, id=message.id, partition=partition + 1)
        results.append(ProducedPartition(topic, partition, 0, base, -1 if head.api_version >= 2 else None))
    return encode_response(ProduceResponse(partitions=tuple(results), throttle_ms=0 if head.api_version else None), head)


def fetch(log: hs.Client, data: bytes) -> tuple[bytes, list[str]]:
    """Answer a Fetch request: bytes in, bytes out, and what was left out for an older client."""
    head, request = decode_request(data)
    assert isinstance(request, FetchRequest)
    parts = []
    for topic, partition, offset, _ in request.partitions:
        stored = []
        for message in log.poll(topic.replace(".", "/"), partition + 1, start=offset, count=1000):
            converted = from_message(message)
            headers = converted.headers.without("hs.timestamp").without("hs.id").without("hs.appended")
            time_ms = message.headers["hs.timestamp"].to_int() // 1000
            stored.append(
                Kip82Message(value=message.payload, key=message.key, headers=headers, offset=message.offset, timestamp_ms=time_ms)
            )
        end = log.topic(topic.replace(".", "/")).partitions[partition].end_offset
        parts.append(FetchedPartition(topic, partition, 0, end, encode_set(stored)))
    response = FetchResponse(partitions=tuple(parts))
    converted_response, lost = down_convert_response(response, head.api_version)
    return encode_response(converted_response, head), [text for _, _, _, text in lost]


def old_messages(data: bytes) -> list[tuple[int, int, int | None, bytes | None, bytes | None]]:
    """Read a message set as a client of 2015 does, which knows magic 0 and 1 alone: offset, magic, timestamp, key, value."""
    found, at = [], 0
    while at < len(data):
        offset, size, crc, magic, attributes = struct.unpack_from(">qiIbb", data, at)
        body = data[at + 16 : at + 12 + size]
        assert crc == zlib.crc32(body)
        assert magic in (0, 1)
        assert attributes == 0
        place, timestamp = at + 18, None
        if magic == 1:
            (timestamp,) = struct.unpack_from(">q", data, place)
            place += 8
        fields: list[bytes | None] = []
        for _ in range(2):
            (length,) = struct.unpack_from(">i", data, place)
            fields.append(None if length < 0 else data[place + 4 : place + 4 + length])
            place += 4 + max(length, 0)
        assert place == at + 12 + size
        found.append((offset, magic, timestamp, fields[0], fields[1]))
        at += 12 + size
    return found


@pytest.fixture
def log() -> hs.Client:
    client = hs.connect("memory://")
    client.create_topic("shop/orders", partitions=2, limits="wide")
    return client


def sent_set() -> bytes:
    messages = [
        Kip82Message(value=b"first", key=b"k", headers=HEADERS, offset=0, timestamp_ms=SENT_MS),
        Kip82Message(value=None, key=b"k", offset=1, timestamp_ms=SENT_MS + 1),
        Kip82Message(value=b"third", headers=hs.Headers({"n": hs.int64(1)}), offset=2, timestamp_ms=SENT_MS + 2),
    ]
    return encode_set([messages[0], *decode_set(encode_set([wrap(messages[1:])])).messages])


def test_what_was_produced_in_version_4_is_fetched_in_version_4_with_its_typed_headers(log: hs.Client) -> None:
    request = ProduceRequest(partitions=(ProducePartition("shop.orders", 1, sent_set()),))
    answer = produce(log, encode_request(request, RequestHead(4, 21, "new")))
    assert decode_response(answer, PRODUCE, 4) == (
        21,
        ProduceResponse(partitions=(ProducedPartition("shop.orders", 1, 0, 0, -1),)),
    )
    frame = encode_request(FetchRequest(partitions=(FetchPartition("shop.orders", 1, 0, 1 << 20),)), RequestHead(4, 22, "new"))
    data, lost = fetch(log, frame)
    correlation_id, response = decode_response(data, FETCH, 4)
    assert isinstance(response, FetchResponse)
    assert (correlation_id, lost) == (22, [])
    (part,) = response.partitions
    assert part.high_watermark == 3
    first, second, third = decode_set(part.message_set).messages
    assert (first.headers, first.key, first.value, first.timestamp_ms) == (HEADERS, b"k", b"first", SENT_MS)
    assert (second.value, second.offset) == (None, 1)
    assert third.headers["n"].kind_name == "int64"


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_an_older_client_fetches_the_same_messages_without_headers(log: hs.Client, version: int, magic: int) -> None:
    request = ProduceRequest(partitions=(ProducePartition("shop.orders", 0, sent_set()),))
    produce(log, encode_request(request, RequestHead(4)))
    places = (FetchPartition("shop.orders", 0, 1, 1 << 20), FetchPartition("shop.orders", 0, 0, 1 << 20))
    asked = FetchRequest(partitions=places, max_bytes=1 << 20 if version >= 3 else None)
    data, lost = fetch(log, encode_request(asked, RequestHead(version, 5, "old")))
    # What follows reads bytes as an older client does, with nothing of this package.
    size, correlation_id = struct.unpack_from(">ii", data)
    assert (size, correlation_id) == (len(data) - 4, 5)
    at = 8 + (4 if version else 0)
    topics, name_size = struct.unpack_from(">ih", data, at)
    assert (topics, data[at + 6 : at + 6 + name_size]) == (1, b"shop.orders")
    at += 6 + name_size + 4
    sets = []
    for _ in places:
        partition, error, high_watermark, set_size = struct.unpack_from(">ihqi", data, at)
        assert (partition, error, high_watermark) == (0, 0, 3)
        sets.append(old_messages(data[at + 18 : at + 18 + set_size]))
        at += 18 + set_size
    assert at == len(data)
    times = [SENT_MS, SENT_MS + 1, SENT_MS + 2] if magic else [None] * 3
    expected = [(0, magic, times[0], b"k", b"first"), (1, magic, times[1], b"k", None), (2, magic, times[2], None, b"third")]
    assert sets == [expected[1:], expected]
    assert "header 'attempt' (int16)" in lost
    assert ("timestamp 1700000000000 ms" in lost) == (magic == 0)


def test_an_older_producer_is_read_too(log: hs.Client) -> None:
    for version, magic in ((0, 0), (1, 0), (2, 1)):
        time_ms = SENT_MS if magic else None
        data = encode_set([Kip82Message(value=b"old", key=b"k", timestamp_ms=time_ms, magic=magic)])
        request = ProduceRequest(partitions=(ProducePartition("shop.orders", 0, data),))
        answer = produce(log, encode_request(request, RequestHead(version, version)))
        correlation_id, response = decode_response(answer, PRODUCE, version)
        assert (correlation_id, response.partitions[0].error) == (version, 0)
    assert [message.payload for message in log.poll("shop/orders", 1)] == [b"old"] * 3


def test_a_frame_is_not_written_with_fields_that_its_version_has_not() -> None:
    with pytest.raises(hs.InvalidInputError, match="max_bytes"):
        encode_request(FetchRequest(partitions=()), RequestHead(2))
    with pytest.raises(hs.InvalidInputError, match="throttle_ms"):
        encode_response(FetchResponse(partitions=(), throttle_ms=None), RequestHead(4))
    with pytest.raises(hs.InvalidInputError, match="Use Produce 0, 1, 2, 4"):
        encode_request(ProduceRequest(partitions=()), RequestHead(3))
    with pytest.raises(hs.InvalidInputError, match="out of range"):
        encode_request(ProduceRequest(partitions=(), acks=1 << 20), RequestHead(4))


def test_the_version_4_of_today_is_not_taken_for_the_proposed_one() -> None:
    transactional = struct.pack(">hhi", 0, 4, 1) + b"\xff\xff" + b"\xff\xff" + struct.pack(">hii", -1, 1000, 0)
    with pytest.raises(hs.DecodeError):
        decode_request(struct.pack(">i", len(transactional)) + transactional)
