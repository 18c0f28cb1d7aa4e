"""The original suite's scenarios about messages: headers, payloads, limits, and what streams and topics count."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.wire.commands.messages import FlushMessages, SendMessages
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, GetStream, ListStreams, PurgeStream
from headstream.core.wire.commands.topics import DeleteTopic, GetTopic, PurgeTopic
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import STREAM, build, create_topic, poll, polled, send
from tests.support.server.peers import HttpPeer, Peer, TcpPeer, refused

HEADERS = Headers(
    {
        "key_1": HeaderValue(HeaderKind.STRING, b"Value 1"),
        "key 2": HeaderValue(HeaderKind.BOOL, b"\1"),
        "key-3": HeaderValue(HeaderKind.UINT64, (123456).to_bytes(8, "little")),
    }
)
EVERY_KIND = Headers({kind.name.lower(): HeaderValue(kind, bytes(range(1, size + 1))) for kind, size in (
    (HeaderKind.RAW, 3), (HeaderKind.STRING, 5), (HeaderKind.BOOL, 1),
    (HeaderKind.INT8, 1), (HeaderKind.INT16, 2), (HeaderKind.INT32, 4), (HeaderKind.INT64, 8), (HeaderKind.INT128, 16),
    (HeaderKind.UINT8, 1), (HeaderKind.UINT16, 2), (HeaderKind.UINT32, 4), (HeaderKind.UINT64, 8), (HeaderKind.UINT128, 16),
    (HeaderKind.FLOAT32, 4), (HeaderKind.FLOAT64, 8),
)})  # fmt: skip
MEGABYTE = 1_000_000


def kinds_of(message: Message) -> dict[str, tuple[HeaderKind | int, bytes]]:
    return {key: (value.kind, value.data) for key, value in message.headers.items()}


def test_a_thousand_messages_keep_ids_payloads_and_typed_headers(peer: Peer) -> None:
    build(peer)
    sent = [Message(payload=b"message %d" % number, id=number, headers=HEADERS) for number in range(1, 1001)]
    send(peer, sent)
    messages = polled(poll(peer))
    assert [(message.id, message.payload) for message in messages] == [(message.id, message.payload) for message in sent]
    assert all(kinds_of(message) == kinds_of(sent[0]) for message in messages)


def test_every_kind_of_header_arrives_as_it_was_sent(peer: Peer) -> None:
    build(peer)
    send(peer, [Message(payload=b"all", headers=EVERY_KIND)])
    [message] = polled(poll(peer))
    assert kinds_of(message) == kinds_of(Message(payload=b"all", headers=EVERY_KIND))


def counted(peer: Peer, stream: int) -> tuple[int, int]:
    found = peer.ask(GetStream(stream))
    assert found is not None
    assert (found.size_bytes, found.messages_count) == (
        sum(topic.size_bytes for topic in found.topics),
        sum(topic.messages_count for topic in found.topics),
    )
    return found.size_bytes, found.messages_count


def test_streams_and_topics_count_exactly_what_was_appended(peer: Peer) -> None:
    one = 117, 117 * (45 + 57)
    for stream in (1, 2):
        peer.ask(CreateStream(stream, f"stream-{stream}"))
        for topic in (1, 2):
            peer.ask(create_topic(stream, f"topic-{topic}", id=topic))
            for times in (1, 2):
                send(peer, [b"x" * 57] * 117, stream=stream, topic=topic)
                found = peer.ask(GetTopic(stream, topic))
                assert found is not None
                assert (found.messages_count, found.size_bytes) == (times * one[0], times * one[1])
        assert counted(peer, stream) == (4 * one[1], 4 * one[0])
    peer.ask(DeleteTopic(1, 1))
    assert (counted(peer, 1), counted(peer, 2)) == ((2 * one[1], 2 * one[0]), (4 * one[1], 4 * one[0]))
    peer.ask(PurgeTopic(1, 2))
    assert (counted(peer, 1), counted(peer, 2)) == ((0, 0), (4 * one[1], 4 * one[0]))
    peer.ask(PurgeStream(2))
    assert counted(peer, 2) == (0, 0)
    peer.ask(DeleteStream(1))
    assert [stream.id for stream in peer.ask(ListStreams())] == [2]


def chunks(size: int) -> Headers:
    """Return headers whose values have so many bytes in all, 255 at most each."""
    sizes = [255] * (size // 255) + ([size % 255] if size % 255 else [])
    return Headers({f"header-{number}": HeaderValue(HeaderKind.RAW, b"h" * length) for number, length in enumerate(sizes)})


def test_messages_up_to_the_limits_are_taken_and_larger_ones_refused(root: TcpPeer) -> None:
    build(root)
    taken = [(1, 0), (MEGABYTE, 0), (10 * MEGABYTE, 0), (10 * MEGABYTE, 1), (10 * MEGABYTE, 1000), (10 * MEGABYTE, 100_000)]
    refusals = [
        ((0, 0), Status.INVALID_MESSAGES_COUNT),
        ((1, 100_001), Status.TOO_BIG_HEADERS_PAYLOAD),
        ((10 * MEGABYTE + 1, 0), Status.TOO_BIG_MESSAGE_PAYLOAD),
    ]
    for payload, headers in taken:
        send(root, [Message(payload=b"p" * payload, headers=chunks(headers))])
    for (payload, headers), status in refusals:
        messages = [Message(payload=b"p" * payload, headers=chunks(headers))] if payload else []
        assert refused(root, SendMessages(1, 1, Partitioning.partition(1), encode_sent(messages))) == status
    stored = polled(poll(root, count=12))
    assert [(len(m.payload or b""), sum(len(value.data) for value in m.headers.values())) for m in stored] == taken
    assert all(message.verify() for message in stored)


def test_the_limits_hold_for_all_messages_of_a_send_together(root: TcpPeer) -> None:
    build(root)
    halves = encode_sent([Message(payload=b"p" * (5 * MEGABYTE)), Message(payload=b"p" * (5 * MEGABYTE + 1))])
    assert refused(root, SendMessages(1, 1, Partitioning.balanced(), halves)) == Status.TOO_BIG_MESSAGE_PAYLOAD
    assert poll(root).count == 0


def test_a_message_without_a_payload_is_refused(root: TcpPeer) -> None:
    build(root)
    bare = encode_sent([Message(payload=b"x")])[:-5] + bytes(4)
    assert refused(root, SendMessages(1, 1, Partitioning.partition(1), bare)) == Status.INVALID_COMMAND
    mixed = encode_sent([Message(payload=b"good")]) + bare
    assert refused(root, SendMessages(1, 1, Partitioning.partition(1), mixed)) == Status.INVALID_COMMAND
    assert poll(root).count == 0


@pytest.mark.parametrize("fsync", [True, False])
def test_flushed_messages_are_polled_again(peer: Peer, fsync: bool) -> None:
    build(peer)
    send(peer, [b"hello"])
    peer.ask(FlushMessages(1, 1, 1, fsync))
    peer.ask(FlushMessages(STREAM, 1, 2, fsync))
    assert refused(peer, FlushMessages(1, 1, 9, fsync)) == Status.PARTITION_NOT_FOUND
    assert poll(peer).count == 1


def test_a_flush_over_http_may_be_spelled_as_the_original_client_does(root: TcpPeer, guest: Peer) -> None:
    if not isinstance(guest, HttpPeer):
        pytest.skip("a spelling of HTTP")
    build(root)
    guest.login()
    assert guest.request("GET", "/streams/1/topics/1/messages/flush/1/fsync=true") == (200, b"")


def test_headers_that_json_cannot_hold_stop_nobody(root: TcpPeer, admins: dict[str, Peer]) -> None:
    build(root)
    oddly: list[list[tuple[str, int | str | bytes | bool]]] = [
        [("k", 1), ("x", 2), ("k", "last")],
        [("x", 1), ("hs.key", b"not in the first place")],
        [("hs.null", True), ("hs.null", False)],
    ]
    for pairs in oddly:
        block = Headers(pairs).as_bytes()
        root.ask(SendMessages(1, 1, Partitioning.partition(1), struct.pack("<16xI", len(block)) + block + b"\1\0\0\0p"))
    assert [message.headers.items() for message in polled(poll(root))] == [Headers(pairs).items() for pairs in oddly]
    peer = admins["http"]
    assert isinstance(peer, HttpPeer)
    status, body = peer.request("GET", "/streams/1/topics/1/messages")
    assert status == 200
    for message, pairs in zip(json.loads(body)["messages"], oddly, strict=True):
        last = dict(Headers(pairs).items())
        kept = {key: (value["kind"], base64.b64decode(value["value"])) for key, value in message["headers"].items()}
        assert kept == {key: (value.kind_name, value.data) for key, value in last.items()}
