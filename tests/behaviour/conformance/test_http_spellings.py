"""What HTTP spells: sends whose messages cannot be, told by their own status as over TCP, and words with capitals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headstream.core.model.partitioning import Partitioning
from tests.behaviour.conformance.scenes import build, send
from tests.support.server.peers import HttpPeer, Peer, TcpPeer

FIRST = {"kind": "partition_id", "value": "AQAAAA=="}
PLAIN = {"payload": "AA=="}
LONG = "A" * 344
"""Base64 of more bytes than a key, or the value of a header, may have."""


def with_header(key: str, value: str) -> dict[str, Any]:
    return {**PLAIN, "headers": {key: {"kind": "raw", "value": value}}}


@pytest.mark.parametrize(
    ("partitioning", "message", "number"),
    [
        ({"kind": "partition_id", "value": "AQA="}, PLAIN, 82),
        ({"kind": "partition_id", "value": ""}, PLAIN, 82),
        ({"kind": "messages_key", "value": ""}, PLAIN, 4028),
        ({"kind": "messages_key", "value": LONG}, PLAIN, 4028),
        ({"kind": "balanced", "value": "AA=="}, PLAIN, 4028),
        (FIRST, {"payload": ""}, 4024),
        (FIRST, with_header("", "AA=="), 4018),
        (FIRST, with_header("k" * 256, "AA=="), 4018),
        (FIRST, with_header("k", ""), 4019),
        (FIRST, with_header("k", LONG), 4019),
    ],
)
def test_a_send_is_refused_by_its_own_status_when_its_messages_cannot_be(
    root: TcpPeer, admins: dict[str, Peer], partitioning: dict[str, str], message: dict[str, Any], number: int
) -> None:
    build(root)
    peer = admins["http"]
    assert isinstance(peer, HttpPeer)
    body = json.dumps({"partitioning": partitioning, "messages": [PLAIN, message]}).encode()
    status, answer = peer.request("POST", "/streams/1/topics/1/messages", body)
    assert (status, json.loads(answer)["id"]) == (400, number)


@pytest.mark.parametrize(("spelled", "status"), [("none", 200), ("None", 200), ("GZIP", 200), ("zstd", 422), (1, 422)])
def test_a_compression_is_spelled_with_or_without_capitals(
    root: TcpPeer, admins: dict[str, Peer], spelled: str | int, status: int
) -> None:
    build(root)
    peer = admins["http"]
    assert isinstance(peer, HttpPeer)
    topic = {"name": "t", "partitions_count": 1, "compression_algorithm": spelled, "message_expiry": 0, "max_topic_size": 0}
    answered, body = peer.request("POST", "/streams/1/topics", json.dumps(topic).encode())
    assert answered == status
    if status == 200:
        assert json.loads(body)["compression_algorithm"] == str(spelled).lower()


def test_the_kind_of_a_header_is_spelled_with_or_without_capitals(root: TcpPeer, admins: dict[str, Peer]) -> None:
    build(root)
    peer = admins["http"]
    assert isinstance(peer, HttpPeer)
    headers = {key: {"kind": kind, "value": "AQ=="} for key, kind in (("a", "String"), ("b", "uint8"), ("c", "BOOL"))}
    body = json.dumps({"partitioning": FIRST, "messages": [{**PLAIN, "headers": headers}]}).encode()
    assert peer.request("POST", "/streams/1/topics/1/messages", body)[0] == 201
    _, answer = peer.request("GET", "/streams/1/topics/1/messages")
    kinds = {key: header["kind"] for key, header in json.loads(answer)["messages"][0]["headers"].items()}
    assert kinds == {"a": "string", "b": "uint8", "c": "bool"}


def test_a_poll_brings_what_json_can_hold_and_the_next_one_goes_on(root: TcpPeer, admins: dict[str, Peer]) -> None:
    build(root)
    peer = admins["http"]
    assert isinstance(peer, HttpPeer)
    send(root, [b"."] * 12_000)
    for _ in range(2):
        send(root, [bytes(1_000_000)] * 9, Partitioning.partition(2))

    def offsets(query: str) -> list[int]:
        status, answer = peer.request("GET", f"/streams/1/topics/1/messages?count=4294967295&{query}")
        assert status == 200
        return [message["offset"] for message in json.loads(answer)["messages"]]

    assert [offsets("kind=next&auto_commit=true") for _ in range(2)] == [list(range(10_000)), list(range(10_000, 12_000))]
    first = offsets("partition_id=2&kind=first")
    assert first == list(range(len(first)))
    assert 1 < len(first) < 12
    assert offsets(f"partition_id=2&value={len(first)}") == list(range(len(first), 18))
    fetched = {"partition_id": 1, "kind": "first", "count": 4294967295}
    status, answer = peer.request("POST", "/streams/1/topics/1/messages/fetch", json.dumps(fetched).encode())
    assert (status, len(json.loads(answer)["messages"]), json.loads(answer)["next_offset"]) == (200, 10_000, 10_000)
