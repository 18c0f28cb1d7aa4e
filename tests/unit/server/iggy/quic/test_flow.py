"""Unit tests of headstream.server.iggy.quic.flow."""

from __future__ import annotations

import os

import pytest

from tests.support.server.served import Running
from tests.support.waiting import wait_until
from tests.unit.server.iggy.quic.test_server import PING, RawQuic, address_of, quic_of, running

__all__ = ["running"]  # fixtures


def test_quic_holds_a_window_when_an_unauthenticated_client_leaves_gaps(running: Running) -> None:
    with RawQuic(address_of(running)) as client:
        client.request(PING)
        sender = client._quic._get_or_create_stream_for_send(client._quic.get_next_available_stream_id())
        sender.sender.write(bytes(30_000))
        sender.sender._pending.subtract(0, 29_000)  # only the end of it is sent
        client.send()
        client.request(PING)
        [server] = quic_of(running)._clients
        connection = server._connection
        buffers = [len(stream.receiver._buffer) for stream in connection._streams.values()]
        assert max(buffers) == 30_000
        assert connection._local_max_data.value <= connection._local_max_data.used + connection.window_bytes
        assert all(stream.max_stream_data_local <= 30_000 + 32_768 for stream in connection._streams.values())


def test_quic_drops_datagrams_of_unauthenticated_clients_when_too_many_wait(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.server.iggy.quic.server._MOST_WAITING", 5)
    quic = quic_of(running)
    address = ("127.0.0.1", 1)

    async def flood() -> int:
        quic._quota._left, quic._quota._is_scheduled = 0, True
        for number in range(20):
            quic._take(bytes([0xC0, 0, 0, 0, 1, 8, *bytes(7), number, 8, *bytes(8), 0, 0x44, 0x90]) + bytes(1300), address)
        for _ in range(20):
            quic._take(os.urandom(1), address)  # no datagram of QUIC
        waiting = quic._waiting
        quic._quota._begin_round()
        return waiting

    assert running.run(flood()) == 5
    wait_until(lambda: quic._waiting == 0)
