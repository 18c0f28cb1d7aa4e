"""The whole server, put together: how its parts share what the process has."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest

from headstream.broker.settings import ServerSettings
from headstream.core.wire.codes import Code
from headstream.core.wire.frames import encode_request
from headstream.server import app
from headstream.server.app import ServerApp
from headstream.server.config.config import ServerConfig
from headstream.server.network.addresses import Address

ANY_PORT = Address("127.0.0.1", 0)
METHODS = (b"POST", b"GET ", b"PUT ", b"OPTIONS")
"""What the first bytes of a browser's requests are."""


def count_served(address: Address, request: bytes, count: int) -> int:
    """Return how many of some connections are open and answered, once all of them were accepted or closed.

    The first round waits until the server has seen each connection: a new one may close an older one that has not logged in, also
    one that was answered. The second round counts those that are left.
    """
    with ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection((address.host, address.port), 20)) for _ in range(count)]
        for peer in peers:
            is_answered(peer, request)
        return sum(is_answered(peer, request) for peer in peers)


def is_answered(peer: socket.socket, request: bytes) -> bool:
    """Return whether a request is answered, and not met by a closed connection."""
    try:
        peer.sendall(request)
        return bool(peer.recv(1000))
    except ConnectionError:
        return False


def test_connections_leave_files_to_the_log_when_few_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "max_open_files", lambda: 32)
    config = ServerConfig(data=None, tcp_address=ANY_PORT, http_address=ANY_PORT, settings=ServerSettings(password_rounds=4))

    async def run() -> tuple[int, int]:
        async with ServerApp(config) as server:
            assert server.tcp_address is not None
            assert server.http_address is not None
            over_tcp = await asyncio.to_thread(count_served, server.tcp_address, encode_request(Code.PING), 20)
            head = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
            return over_tcp, await asyncio.to_thread(count_served, server.http_address, head, 20)

    assert asyncio.run(asyncio.wait_for(run(), 60)) == (8, 8)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_server_warns_of_plain_tcp_and_of_the_default_password_when_other_machines_reach_it(
    caplog: pytest.LogCaptureFixture, is_allowed: bool
) -> None:
    settings = ServerSettings(password_rounds=4, root_password="iggy" if is_allowed else "another")
    anywhere = Address("0.0.0.0", 0)
    config = ServerConfig(
        data=None,
        tcp_address=anywhere,
        http_address=None,
        quic_address=anywhere,
        kafka_address=anywhere,
        settings=settings,
        allow_default_password=is_allowed,
    )

    async def run() -> None:
        async with ServerApp(config):
            pass

    with caplog.at_level("WARNING", "headstream"):
        asyncio.run(asyncio.wait_for(run(), 60))
    password = "other machines can log in with the default password"
    plain = "passwords and messages are not encrypted (no TLS)"
    wanted = [(password, "tcp"), (plain, "tcp"), (password, "quic"), (password, "kafka"), (plain, "kafka")]
    wanted = wanted if is_allowed else [(plain, "tcp"), (plain, "kafka")]
    records = [each for each in caplog.records if each.name == "headstream.server"]  # not that of a new QUIC certificate
    found = [(each.message, each.__dict__["fields"].get("transport")) for each in records]
    assert [each for each in found if each[0] != "connection limit lowered"] == wanted


def test_a_form_of_a_web_page_ends_the_connection_when_it_comes_to_another_protocols_port() -> None:
    config = ServerConfig(
        data=None, tcp_address=ANY_PORT, http_address=None, kafka_address=ANY_PORT, settings=ServerSettings(password_rounds=4)
    )
    form = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\n" + encode_request(
        Code.PING
    )

    def send(address: Address, head: bytes) -> bytes:
        with socket.create_connection((address.host, address.port), 20) as peer:
            peer.sendall(head)
            return b"".join(iter(lambda: peer.recv(1000), b""))  # until the server closes

    async def run() -> list[bytes]:
        async with ServerApp(config) as server:
            assert server.tcp_address is not None
            assert server.kafka_address is not None
            places = [
                (address, method + form[4:]) for address in (server.tcp_address, server.kafka_address) for method in METHODS
            ]
            return [await asyncio.to_thread(send, *place) for place in places]

    replies = asyncio.run(asyncio.wait_for(run(), 60))
    assert replies == [replies[0]] * len(METHODS) + [b""] * len(METHODS)  # one refusal and no pong after it
    assert len(replies[0]) == 8
