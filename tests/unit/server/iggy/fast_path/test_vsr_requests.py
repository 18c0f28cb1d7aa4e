"""The compiled path for frames of protocol 0.11 gives the answers of the general path, and leaves it what it cannot answer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.core.wire.statuses import Status
from tests.support.messages.batches import header
from tests.support.server.served import Running, config_of, serving
from tests.support.server.vsr_peer import Answer, VsrPeer, batch, frame, request_frame, send_body

ORIGIN = 1_700_000_000_000_000
NAMES = b"\x02\x04shop\x02\x02eu"
TYPED = b"\x02" + header("attempt", 9, b"\x03")


def poll_body(offset: int, count: int, *, partition: int = 0, consumer: bytes = b"\x01\x01\x04\x01\x00\x00\x00") -> bytes:
    return consumer + NAMES + b"\x01" + struct.pack("<IBQIB", partition, 1, offset, count, 0)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A server with the topic shop/eu of 2 partitions."""
    with serving(config_of(data=str(tmp_path / "log"))) as running:
        with VsrPeer(running.address) as peer:
            assert peer.ask(128, b"\x04shop").status == 0
            assert peer.ask(132, b"\x02\x04shop\x02\x00\x00\x00\x02eu").status == 0
        yield running


def converse(running: Running) -> list[tuple[int, int, bytes]]:
    """Send and poll, and return the answers without the times of the server; each poll is of one send, and so of one batch."""
    sent = [frame(b"two teapots", TYPED, message_id=1), frame(b"b" * 300, message_id=2, offset=1, origin=7)]
    found: list[Answer] = []
    with VsrPeer(running.address) as peer:
        for partition in (0, 1, 1):
            found.append(peer.ask(160, send_body("shop", "eu", batch(sent, origin=ORIGIN), partition=partition, count=2)))
        found += [
            peer.read(100, poll_body(offset, count, partition=1)) for offset, count in ((0, 2), (2, 2), (1, 1), (3, 5), (9, 1))
        ]
        found += [
            peer.read(1),
            peer.read(100, poll_body(0, 1, partition=7)),
            peer.read(100, poll_body(0, 1, partition=0xFFFF_FFFF)),
            peer.ask(160, send_body("shop", "eu", batch(sent), partition=9)),
        ]
        wrong = bytearray(batch(sent))
        wrong[-1] ^= 1
        found.append(peer.ask(160, send_body("shop", "eu", bytes(wrong))))
        found.append(peer.read(100, poll_body(0, 4)))
    return [(each.status, each.eviction, each.header[128:176] + without_times(each.body)) for each in found]


def without_times(body: bytes) -> bytes:
    """Return a body without the times of its batches, which their checksums cover."""
    shown, at = bytearray(body), 16
    while at + 256 <= len(shown):
        shown[at + 16 : at + 24] = shown[at + 40 : at + 48] = bytes(8)
        at += int.from_bytes(shown[at + 32 : at + 40], "little")
    return bytes(shown)


def test_vsr_requests_are_answered_as_on_the_general_path(
    running: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick = converse(running)
    assert [status for status, _, _ in quick][:9] == [0] * 9
    assert quick[2][2][48:] == struct.pack("<4IQ", 1, 1, 1, 1, 2)
    assert [status for status, _, _ in quick][9:13] == [Status.PARTITION_NOT_FOUND] * 3 + [Status.INVALID_MESSAGE_CHECKSUM]
    monkeypatch.setenv("HEADSTREAM_FAST_PATH", "0")
    with serving(config_of(data=str(tmp_path / "general"))) as general:
        with VsrPeer(general.address) as peer:
            peer.ask(128, b"\x04shop")
            peer.ask(132, b"\x02\x04shop\x02\x00\x00\x00\x02eu")
        assert converse(general) == quick


def test_vsr_requests_need_no_general_path_when_they_are_small(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    general = "headstream.server.iggy.requests.responder.answer_request"
    with VsrPeer(running.address) as peer:
        body = send_body("shop", "eu", batch([frame(b"x", TYPED, message_id=1)], origin=ORIGIN))
        assert peer.ask(160, body).status == 0
        with monkeypatch.context() as patch:
            patch.setattr(general, None)
            for number in range(1, 20):  # the intake takes over on the way
                assert peer.ask(160, body).body == struct.pack("<4IQ", 1, 1, 1, 0, number)
            assert peer.read(1).status == 0
        assert peer.read(100, poll_body(0, 1)).status == 0  # finds the end of the partition
        monkeypatch.setattr(general, None)
        for number in range(1, 20):
            polled = peer.read(100, poll_body(number, 1)).body
            assert polled[:16] == struct.pack("<IQI", 0, 19, 1)
            assert polled[-5:] == b"\x01\x00\x00\x00\x03"


def test_vsr_requests_of_another_session_or_client_are_evicted(running: Running) -> None:
    body = send_body("shop", "eu", batch([frame(b"x")]))
    with VsrPeer(running.address) as peer:
        peer.session += 1
        assert peer.ask(160, body).eviction == 1
        peer.session -= 1
        peer.socket.sendall(request_frame(160, body, session=peer.session, number=1, client=b"\x09" * 16))
        assert peer.receive().eviction == 1
        assert peer.ask(160, body).status == 0
