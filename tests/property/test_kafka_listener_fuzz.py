"""The listener for Kafka's clients against bytes that no client sends: it answers or closes, and serves others all the while."""

from __future__ import annotations

import random
import socket
import struct
import time
from contextlib import suppress

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import APIS
from tests.support.messages.kafka_records import Record, make_batch, make_records
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

_ROUNDS = 300
_SOAK_S = 300


def _frame(api: int, version: int, body: bytes, *, correlation: int = 1) -> bytes:
    known = APIS.get(api)
    tags = b"\0" if known is not None and known.request.is_flexible(version) else b""
    data = struct.pack(">hhih", api, version, correlation, 1) + b"c" + tags + body
    return struct.pack(">i", len(data)) + data


def _receive(peer: socket.socket) -> bytes | None:
    """Return the next response, None where the connection is closed."""
    with suppress(OSError):
        head = peer.recv(4, socket.MSG_WAITALL)
        if len(head) == 4:
            return peer.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
    return None


def _log_in(listener: KafkaListener) -> socket.socket:
    host, port = listener.bootstrap_servers.rsplit(":", 1)
    peer = socket.create_connection((host, int(port)), timeout=60)
    mechanism = struct.pack(">h", 5) + b"PLAIN"
    credentials = b"\0iggy\0iggy"
    peer.sendall(_frame(17, 1, mechanism))
    assert _receive(peer) is not None
    peer.sendall(_frame(36, 0, struct.pack(">i", len(credentials)) + credentials))
    answer = _receive(peer)
    assert answer is not None
    assert answer[4:6] == b"\0\0"
    return peer


def _requests() -> list[bytes]:
    """Return a request of each API and version, as whole frames."""
    batch = make_batch(make_records([Record(b"k", b"v" * 50, [(b"a", b"1")])]), 1)
    found = []
    for key, api in APIS.items():
        for version in range(api.first_version, api.last_version + 1):
            values = {"topic_data": [{"name": "shop.orders", "partition_data": [{"index": 0, "records": [batch]}]}], "acks": 1}
            values |= {"timeout_ms": 1000, "max_wait_ms": 1, "session_epoch": -1, "session_timeout_ms": 5000, "group_id": "g"}
            body = b"".join(bytes(piece) for piece in api.request.encode(version, values))
            found.append(_frame(key, version, body))
    return found


def _attack(listener: KafkaListener, chance: random.Random, requests: list[bytes]) -> None:
    whole = bytearray(chance.choice(requests))
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(4, len(whole))
        what = chance.randrange(4)
        if what == 0:
            whole[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif what == 1:
            whole[at:at] = bytes(chance.choices((0, 1, 0xFF, 65), k=chance.randrange(1, 9)))
        elif what == 2:
            del whole[at : at + chance.randrange(1, 5)]
        else:
            whole[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"))
        if len(whole) < 6:
            whole += bytes(6)
    if chance.random() < 0.9:
        whole[:4] = struct.pack(">i", len(whole) - 4)
    with _log_in(listener) as peer:
        peer.settimeout(0.05)
        with suppress(OSError):
            peer.sendall(whole)
            _receive(peer)


@pytest.fixture
def attacked() -> object:
    with kafka_listener() as listener:
        listener.broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE))
        yield listener


def _is_served(listener: KafkaListener) -> bool:
    with _log_in(listener) as peer:
        peer.sendall(_frame(18, 0, b""))
        answer = _receive(peer)
        return answer is not None and answer[4:6] == b"\0\0"


def test_the_listener_serves_others_when_requests_are_changed_at_random(attacked: KafkaListener) -> None:
    chance, requests = random.Random(7), _requests()
    for _ in range(_ROUNDS):
        _attack(attacked, chance, requests)
    assert _is_served(attacked)


@pytest.mark.soak
def test_the_listener_serves_others_when_requests_are_changed_for_minutes(attacked: KafkaListener) -> None:
    seed = time.time_ns()
    chance, requests = random.Random(seed), _requests()
    until_s = time.monotonic() + _SOAK_S
    while time.monotonic() < until_s:
        for _ in range(100):
            _attack(attacked, chance, requests)
        assert _is_served(attacked), f"seed {seed}"


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", -1),
        struct.pack(">i", (1 << 31) - 1),
        struct.pack(">i", 5000) + bytes(5000),
        _frame(3, 9, b"\xff\xff\xff\xff\x0f"),
        _frame(3, 1, struct.pack(">i", -1)),
        _frame(99, 0, b""),
        _frame(0, 9, b""),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_the_listener_closes_when_an_unauthenticated_client_says_what_only_users_may_say(
    attacked: KafkaListener, frame: bytes
) -> None:
    host, port = attacked.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as peer:
        peer.sendall(frame)
        assert _receive(peer) is None
    assert _is_served(attacked)


def test_the_listener_tells_its_versions_when_a_client_asks_in_one_that_is_too_new(attacked: KafkaListener) -> None:
    with _log_in(attacked) as peer:
        peer.sendall(_frame(18, 99, b"", correlation=77))
        assert _receive(peer) == struct.pack(">ihihhh", 77, 35, 1, 18, 0, 3)


def test_every_api_answers_in_every_version_when_its_request_is_empty(attacked: KafkaListener) -> None:
    answered = 0
    for frame in _requests():
        with _log_in(attacked) as peer:
            peer.sendall(frame)
            assert _receive(peer) is not None, frame[4:8]
            answered += 1
    assert answered > 100
