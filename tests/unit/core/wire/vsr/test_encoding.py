"""The bytes of protocol 0.11: the vectors of its description, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from headstream.core.model.topology import Fsync
from headstream.core.wire.codes import Code
from headstream.core.wire.commands import groups, messages, offsets, sessions, streams, system, tokens, topics
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.encoding import VSR
from headstream.core.wire.vsr.frames import Eviction, RequestHeader, encode_eviction, encode_reply_head, scan_requests
from headstream.errors import DecodeError, HeadstreamError
from tests.support.messages.batches import header, stored
from tests.support.server.vsr_peer import CLIENT, batch, frame, login_body, request_frame, send_body
from tests.unit.core.codec.batch.test_iggy_batches import ORIGIN, VECTOR_BATCH, VECTOR_POLLED

SHOP, ORDERS = b"\x02\x04shop", b"\x02\x06orders"
LOGIN = bytes.fromhex("002c0000 08727573742d73646b 06302e31312e30 0469676779 0469676779 00000000")
LOGIN_SUM = bytes.fromhex("95803f2a3c20de8f")


def option(key: str, kind: int, value: bytes) -> bytes:
    return b"\x02" + header(key, kind, value)


def decode(code: int, body: bytes) -> Command[Any]:
    return VSR.decode(code, memoryview(bytes(256) + body))


def test_scan_requests_returns_the_login_of_the_vector() -> None:
    vector = (
        bytes(48) + b"\x22\x01" + bytes(10) + b"\x05" + bytes(67) + CLIENT + LOGIN_SUM + bytes(24) + b"\x01" + bytes(79) + LOGIN
    )
    assert request_frame(1, login_body()) == vector
    found = scan_requests(memoryview(vector), 0, len(vector), 1 << 20)
    assert found.frames == [(Code.LOGIN, 0, len(vector))]
    request = RequestHeader.decode(memoryview(vector))
    assert request.matches(memoryview(LOGIN))
    assert not request.matches(memoryview(LOGIN[:-1]))
    reply = encode_reply_head(request, 0, 26, 1)
    head = bytes(48) + b"\x1a\x01" + bytes(10) + b"\x08" + bytes(67) + LOGIN_SUM + bytes(24) + CLIENT
    assert reply == head + struct.pack("<QQ", 1, 1) + bytes(16) + b"\x01" + bytes(47)


def test_scan_requests_waits_for_a_whole_frame_and_ends_behind_bytes_that_are_none() -> None:
    ping = request_frame(2, b"", code=1)
    both = memoryview(ping + ping)
    for end in range(256, 512):
        assert scan_requests(both, 0, end, 1 << 20).frames == [(Code.PING, 0, 256)]
    for at, value in ((48, 0), (60, 4), (128, 0)):
        changed = bytearray(ping)
        changed[at : at + 16 if at == 128 else at + 2] = bytes([value]) * (16 if at == 128 else 2)
        assert [code for code, _, _ in scan_requests(memoryview(changed), 0, 256, 1 << 20).frames] == [-1]
    long = bytearray(ping)
    long[48:52] = struct.pack("<I", 1 << 30)
    assert scan_requests(memoryview(long), 0, 256, 1 << 20).is_too_long


@pytest.mark.parametrize(
    ("operation", "code", "expected"), [(128, 0, 202), (2, 606, 606), (2, 202, 0), (2, 10_000, 0), (64, 0, 0), (4, 0, 0)]
)
def test_scan_requests_finds_the_command_of_an_operation(operation: int, code: int, expected: int) -> None:
    data = memoryview(request_frame(operation, b"", code=code))
    assert scan_requests(data, 0, 256, 1 << 20).frames == [(expected, 0, 256)]


def test_encode_eviction_returns_the_vector() -> None:
    vector = bytes(48) + b"\x00\x01" + bytes(10) + b"\x0d" + bytes(67) + CLIENT + b"\x00\x2c\x00\x00" * 2 + bytes(103) + b"\x0e"
    assert encode_eviction(CLIENT, Eviction.INCOMPATIBLE_PROTOCOL) == vector


def test_decode_returns_the_logins() -> None:
    assert decode(Code.LOGIN, LOGIN) == sessions.Login("iggy", "iggy")
    assert decode(Code.LOGIN, LOGIN[:-9] + bytes(4)) == tokens.LoginWithToken("iggy")
    for end in range(len(LOGIN)):
        with pytest.raises(DecodeError):
            decode(Code.LOGIN, LOGIN[:end] if end != len(LOGIN) - 5 else LOGIN[:1])
    with pytest.raises(HeadstreamError) as refused:
        decode(Code.LOGIN, login_body(version=12 << 10))
    assert refused.value.status == Status.INCOMPATIBLE_PROTOCOL


def test_decode_returns_the_commands_of_the_vectors() -> None:
    assert decode(Code.CREATE_STREAM, b"\x04shop") == streams.CreateStream(0, "shop")
    minute = option("message_expiry", 12, struct.pack("<Q", 60_000_000))
    topic = decode(Code.CREATE_TOPIC, SHOP + b"\x02\x00\x00\x00\x06orders" + minute)
    assert isinstance(topic, topics.CreateTopic)
    assert (topic.name, topic.partitions_count, topic.message_expiry, topic.fsync) == ("orders", 2, 60_000_000, None)
    poll = decode(
        Code.POLL_MESSAGES,
        b"\x01\x01\x04\x01\x00\x00\x00" + SHOP + ORDERS + b"\x01" + bytes(4) + b"\x01" + bytes(8) + b"\x0a" + bytes(4),
    )
    assert isinstance(poll, messages.PollMessages)
    assert (poll.stream, poll.partition, poll.count, poll.must_own) == ("shop", 1, 10, True)
    store = decode(Code.STORE_OFFSET, b"\x02\x02\x07billing" + SHOP + ORDERS + b"\x01" + bytes(4) + struct.pack("<QB", 5, 1))
    assert isinstance(store, offsets.StoreOffset)
    assert (store.partition, store.offset) == (1, 5)
    send = decode(
        Code.SEND_MESSAGES, b"\x18\x00\x00\x00" + SHOP + ORDERS + b"\x02\x04" + bytes(4) + b"\x01\x00\x00\x00" + VECTOR_BATCH
    )
    assert isinstance(send, messages.SendMessages)
    assert send.partitioning.value == b"\x01\x00\x00\x00"


def test_encode_returns_the_replies_of_the_vectors() -> None:
    def reply(kind: type[Command[Any]], value: object) -> bytes:
        command = kind.__new__(kind)
        return b"".join(bytes(piece) for piece in VSR.encode_reply(command, value))

    assert reply(sessions.Login, sessions.LoggedIn(0)) == bytes(8)
    node = system.ClusterNode("a", "127.0.0.1", 8090, http_port=3000)
    cluster = b"\x09\x00\x00\x00headstrm1\x01\x00\x00\x00\x01\x00\x00\x00a\x09\x00\x00\x00127.0.0.1"
    assert reply(system.GetCluster, system.Cluster("headstrm1", (node,))) == cluster + struct.pack(
        "<4H2B", 8090, 0, 3000, 0, 0, 0
    )
    assert reply(messages.SendMessages, messages.AppendedBatch(0, 0, 1, 0)) == b"\x01" + bytes(23)
    assert reply(groups.SyncGroup, groups.GroupAssignment(3, (1, 2))) == struct.pack("<Q3I", 3, 2, 0, 1)
    assert reply(groups.SyncGroup, None) == b""
    assert reply(groups.JoinGroup, None) == bytes(4)
    head = messages.PolledMessages(1, 0, 1, b"")
    time_us = int.from_bytes(VECTOR_POLLED[16:24], "little")
    headers = header("hs.timestamp", 7, struct.pack("<q", ORIGIN)) + header("attempt", 9, b"\x03")
    chunk = memoryview(stored(b"two teapots", headers, timestamp_us=time_us))
    assert b"".join(VSR.encode_polled(head, (chunk,))) == bytes(12) + b"\x01\x00\x00\x00" + VECTOR_POLLED
    assert VSR.encode_polled(messages.PolledMessages(0, 0, 0, b""), ()) == [b"\xff\xff\xff\xff" + bytes(12)]
    assert isinstance(offsets.StoredOffset(1, 9, 5), offsets.StoredOffset)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (option("message_expiry", 2, b"unlimited"), {"message_expiry": topics.NEVER}),
        (option("message_expiry", 2, b"7 days"), {"message_expiry": 7 * 86_400_000_000}),
        (option("max_topic_size", 2, b"10 GB"), {"max_topic_size": 10_000_000_000}),
        (option("durability", 2, b"persisted"), {"fsync": Fsync.ALWAYS}),
        (option("segment_size", 12, bytes(8)) + option("preallocate_segments", 3, b"\x01"), {}),
    ],
)
def test_decode_reads_the_options_of_a_topic(options: bytes, expected: dict[str, object]) -> None:
    topic = decode(Code.CREATE_TOPIC, SHOP + b"\x02\x00\x00\x00\x06orders" + options)
    assert {name: getattr(topic, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (option("colour", 2, b"red"), Status.UNSUPPORTED_OPTION),
        (option("message_expiry", 2, b"soon"), Status.INVALID_OPTION),
        (option("durability", 2, b"maybe"), Status.INVALID_OPTION),
        (option("consumer_offset_durability", 2, b"persisted"), Status.INVALID_OPTION),
        (option("compression_algorithm", 2, b"zip"), Status.INVALID_OPTION),
        (option("preallocate_segments", 9, b"\x01"), Status.INVALID_OPTION),
        (option("preallocate_segments", 3, b"\x02"), Status.INVALID_OPTION),
        (option("message_expiry", 12, b"\x01" * 9), Status.INVALID_OPTION),
        (option("max_topic_size", 13, b"\xff" * 16), Status.INVALID_OPTION),
        (bytes(100_001), Status.OPTIONS_TOO_LARGE),
        (option("segment_size", 12, bytes(8)) * 2, None),
        (b"\x01" + header("segment_size", 12, bytes(8)), None),
    ],
)
def test_decode_refuses_an_option_that_cannot_be_served(options: bytes, status: Status | None) -> None:
    with pytest.raises(HeadstreamError) as refused:
        decode(Code.CREATE_TOPIC, SHOP + b"\x02\x00\x00\x00\x06orders" + options)
    assert refused.value.status == status


def test_decode_leaves_settings_of_a_topic_that_a_change_does_not_name() -> None:
    topic = decode(Code.UPDATE_TOPIC, SHOP + ORDERS + b"\x03new" + option("max_topic_size", 2, b"unlimited"))
    assert topic == topics.UpdateTopic("shop", "orders", None, None, topics.NEVER, None, "new")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (batch([frame(b"x", b"\x04" + header("k", 9, b"\x03"))]), Status.INVALID_HEADER_KIND),
        (VECTOR_BATCH[:40] + b"\x00" + VECTOR_BATCH[41:], Status.INVALID_BATCH_CHECKSUM),
        (batch([frame(b"")]), Status.EMPTY_MESSAGE_PAYLOAD),
    ],
)
def test_decode_refuses_a_batch_with_the_protocols_status(sent: bytes, status: Status) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(Code.SEND_MESSAGES, send_body("shop", "orders", sent))
    assert refused.value.status == status
