"""Encrypted connections whose handshake does not end: counted, bounded in time, and no obstacle to others."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headstream.core.wire.codes import Code
from headstream.server.config.http_settings import HttpSettings
from headstream.server.config.tcp_settings import TcpSettings
from headstream.server.network.acceptor import Acceptor
from headstream.server.network.addresses import Address
from headstream.server.network.admission import Admission
from headstream.server.network.tls import TlsFiles
from tests.support.server.certificates import write_certificate
from tests.support.server.served import Peer, Running, config_of, serving
from tests.support.waiting import wait_until

MOST = 8

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A certificate for localhost."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture
def running(files: TlsFiles, make_loop: MakeLoop) -> Iterator[Running]:
    """A server with room for a few encrypted connections."""
    config = config_of(
        tcp_tls=files,
        tcp=TcpSettings(max_connections=MOST),
        http_tls=files,
        http_address=Address("127.0.0.1", 0),
        http=HttpSettings(max_connections=MOST),
    )
    with serving(config, make_loop) as running:
        yield running


def listener_of(running: Running, transport: str) -> Acceptor:
    server: Any = running.server
    found = server._tcp._server if transport == "tcp" else server._http._listener
    assert isinstance(found, Acceptor)
    return found


def address_of(running: Running, transport: str) -> Address:
    address = running.server.tcp_address if transport == "tcp" else running.server.http_address
    assert address is not None
    return address


def encrypted(running: Running, files: TlsFiles) -> Peer:
    trusting = ssl.create_default_context(cafile=str(files.certificate))
    plain = socket.create_connection(running.address, 20)
    peer = Peer(trusting.wrap_socket(plain, server_hostname="localhost"))
    running.peers.append(peer)
    return peer


@pytest.mark.parametrize("transport", ["tcp", "http"])
def test_acceptor_holds_a_share_of_the_connections_when_clients_never_shake_hands(
    running: Running, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.server.network.acceptor.HANDSHAKE_S", 60.0)  # none ends by its time
    listener = listener_of(running, transport)
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address_of(running, transport), 20)) for _ in range(4 * MOST)]
        for each in silent[: -MOST // 4]:
            assert each.recv(1) == b"", "the newest ones stay, all others are closed"
        wait_until(lambda: listener.pending_count == MOST // 4)


def test_acceptor_serves_a_client_when_silent_ones_hold_all_handshakes(running: Running, files: TlsFiles) -> None:
    with ExitStack() as stack:
        for _ in range(2 * MOST):
            stack.enter_context(socket.create_connection(running.address, 20))
        peer = encrypted(running, files)
        assert peer.request(Code.PING) == (0, b"")


def test_acceptor_ends_a_handshake_when_its_time_is_up(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headstream.server.network.acceptor.HANDSHAKE_S", 0.05)
    with socket.create_connection(running.address, 20) as silent:
        assert silent.recv(1) == b""
    wait_until(lambda: listener_of(running, "tcp").pending_count == 0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_acceptor_refuses_more_connections_when_all_places_are_taken(running: Running, files: TlsFiles) -> None:
    server: Any = running.server
    peers = []
    for _ in range(MOST):
        peers.append(encrypted(running, files))
        peers[-1].log_in()
        wait_until(lambda: listener_of(running, "tcp").pending_count == 0)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        encrypted(running, files)
    assert server._tcp.traffic.refused_connections == 1
    peers[0].close()
    wait_until(lambda: len(server._tcp._connections) < MOST)
    assert encrypted(running, files).request(Code.PING) == (0, b"")


def test_acceptor_opens_a_connection_later_when_its_address_comes_too_fast(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(config_of(tcp=TcpSettings(max_connections=MOST)), make_loop) as running, running.peer() as user:
        acceptor, server = listener_of(running, "tcp"), running.server._tcp
        assert server is not None
        monkeypatch.setattr(acceptor._admission.rates, "delay_s", lambda address, now_s: 3600.0)
        waiting = [running.peer(is_logged_in=False) for _ in range(MOST)]
        wait_until(lambda: acceptor.pending_count == MOST // 4 and waiting[MOST - 3].is_closed())
        assert len(server._connections) == 1
        monkeypatch.setattr(acceptor._admission.rates, "delay_s", lambda address, now_s: 0.01)
        with running.peer() as newcomer:
            assert newcomer.request(Code.PING) == user.request(Code.PING) == (0, b"")


def test_acceptor_refuses_a_connection_when_it_had_to_wait_for_too_long(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(config_of(), make_loop) as running, running.peer() as user:
        assert running.server._tcp is not None
        monkeypatch.setattr(listener_of(running, "tcp")._admission.rates, "delay_s", lambda address, now_s: None)
        with running.peer(is_logged_in=False) as newcomer:
            assert newcomer.is_closed()
        assert user.request(Code.PING) == (0, b"")
        assert running.server._tcp.traffic.refused_connections == 1


def test_acceptor_sends_small_responses_at_once(make_loop: MakeLoop) -> None:
    with serving(config_of(), make_loop) as running, running.peer():
        assert running.server._tcp is not None
        (connection,) = running.server._tcp._connections
        sock = connection._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_close_closes_a_connection_that_was_accepted_just_before(make_loop: MakeLoop) -> None:
    """Its task is cancelled before it begins; a socket that nobody closes is a ResourceWarning, which fails the test."""

    async def accept_and_close() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        acceptor = Acceptor(listening, None, asyncio.Protocol, lambda: MOST, lambda: True, lambda: None, MOST, Admission())
        with socket.create_connection(listening.getsockname(), 20) as client:
            acceptor._accept()
            (task,) = acceptor._opening
            acceptor.close()
            await asyncio.wait([task])
            return client.recv(1)

    loop = make_loop()
    try:
        assert loop.run_until_complete(accept_and_close()) == b""
    finally:
        loop.close()
