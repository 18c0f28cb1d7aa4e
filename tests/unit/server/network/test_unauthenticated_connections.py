"""Connections without a login make room for new ones when all places are taken, whatever the transport."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any, Final

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.frames import encode_request
from headstream.server.config.http_settings import HttpSettings
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.server.config.tcp_settings import TcpSettings
from headstream.server.network.addresses import Address
from headstream.server.network.tls import TlsFiles
from headstream.server.network.unauthenticated_connections import UnauthenticatedConnections
from tests.support.server.certificates import write_certificate
from tests.support.server.served import Running, config_of, serving
from tests.support.waiting import wait_until

MOST: Final = 4
"""The connections of each listener: a quarter of them may be in the TLS handshake."""
FREE: Final = Address("127.0.0.1", 0)


class Client:
    """One connection, whose requests and responses are those of its transport."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(address, 20)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")

    def close(self) -> None:
        self._socket.close()

    def is_closed(self) -> bool:
        """Return whether the server has closed it, or does so now."""
        try:
            return self._socket.recv(1) == b""
        except (ConnectionError, ssl.SSLError):
            return True

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def ask(self) -> None:
        """Ask for what needs no login, and read the response."""
        raise NotImplementedError

    def log_in(self) -> None:
        """Log in, and read the response."""
        raise NotImplementedError


class TcpClient(Client):
    def _exchange(self, request: bytes) -> None:
        self._socket.sendall(request)
        status, length = struct.unpack("<II", self.receive(8))
        self.receive(length)
        assert status == 0

    def ask(self) -> None:
        self._exchange(encode_request(Code.PING))

    def log_in(self) -> None:
        self._exchange(encode_request(Code.LOGIN, Login("iggy", "iggy").encode()))


class HttpClient(Client):
    def _exchange(self, method: str, path: str, body: bytes = b"", token: str = "") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if token:
            head += f"Authorization: Bearer {token}\r\n"
        self._socket.sendall(f"{head}\r\n".encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive(1)
        assert answer.startswith(b"HTTP/1.1 200 ")
        lengths = [line.split(b":")[1] for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        return self.receive(int(lengths[0]))

    def ask(self) -> None:
        self._exchange("GET", "/ping")

    def log_in(self) -> None:
        reply = json.loads(self._exchange("POST", "/users/login", b'{"username": "iggy", "password": "iggy"}'))
        self._exchange("GET", "/streams", token=reply["access_token"]["token"])


class KafkaClient(Client):
    def _exchange(self, api: int, version: int, body: bytes = b"") -> bytes:
        frame = struct.pack(">hhih", api, version, 7, 1) + b"c" + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self.receive(4))
        return self.receive(size)

    def ask(self) -> None:
        assert self._exchange(18, 0)[4:6] == b"\0\0"  # ApiVersions

    def log_in(self) -> None:
        assert self._exchange(17, 1, struct.pack(">h", 5) + b"PLAIN")[4:6] == b"\0\0"
        token = b"\0iggy\0iggy"
        assert self._exchange(36, 1, struct.pack(">i", len(token)) + token)[4:6] == b"\0\0"


KINDS: Final[dict[str, tuple[type[Client], bool]]] = {
    "tcp": (TcpClient, False),
    "tcp with tls": (TcpClient, True),
    "http": (HttpClient, False),
    "http with tls": (HttpClient, True),
    "kafka": (KafkaClient, False),
    "kafka with tls": (KafkaClient, True),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A certificate for localhost."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "localhost")


class Door:
    """A server of one kind, with room for MOST connections, and its clients."""

    def __init__(self, running: Running, kind: str, files: TlsFiles, stack: ExitStack) -> None:
        self._make, is_encrypted = KINDS[kind]
        name = kind.split()[0]
        server: Any = running.server
        self._listener = {"tcp": server._tcp, "http": server._http, "kafka": server._kafka}[name]
        self._address = getattr(server, f"{name}_address")
        self._tls = ssl.create_default_context(cafile=str(files.certificate)) if is_encrypted else None
        self._stack = stack

    @property
    def traffic(self) -> Any:
        return self._listener._traffic if hasattr(self._listener, "_traffic") else self._listener.traffic

    def client(self) -> Client:
        return self._stack.enter_context(closing(self._make(self._address, self._tls)))

    def silent(self) -> socket.socket:
        """Return a connection that sends nothing, not even the first bytes of a handshake."""
        return self._stack.enter_context(socket.create_connection(self._address, 20))


@pytest.fixture(params=KINDS)
def door(request: pytest.FixtureRequest, files: TlsFiles, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[Door]:
    tls = files if KINDS[request.param][1] else None
    name = request.param.split()[0]
    settings = {"tcp": TcpSettings, "http": HttpSettings, "kafka": KafkaSettings}[name]
    places = {f"{name}_address": FREE, f"{name}_tls": tls, name: settings(max_connections=MOST)}
    with serving(config_of(**places), make_loop) as running, ExitStack() as stack:
        yield Door(running, request.param, files, stack)


def test_a_login_finds_a_place_when_silent_connections_have_them_all(door: Door) -> None:
    strangers = [door.client() for _ in range(MOST)]
    for stranger in strangers:
        with suppress(ConnectionError, ssl.SSLError):  # a pending handshake counts too, so one may have made room already
            stranger.ask()
    users = []
    for _ in range(MOST):
        users.append(door.client())
        users[-1].log_in()
    assert all(stranger.is_closed() for stranger in strangers)
    for user in users:
        user.ask()
    assert door.traffic.refused_connections == 0


def test_a_login_finds_a_place_when_connections_that_say_nothing_come_all_the_time(door: Door) -> None:
    users = []
    for _ in range(MOST - 1):
        for _ in range(2 * MOST):
            door.silent()
        users.append(door.client())
        users[-1].log_in()
    for user in users:
        user.ask()


def test_a_connection_is_refused_when_users_have_all_places(door: Door) -> None:
    users = []
    for _ in range(MOST):
        users.append(door.client())
        users[-1].log_in()
        wait_until(lambda: door.traffic.connections == len(users))
    with pytest.raises((ConnectionError, ssl.SSLError)):
        door.client().ask()
    for user in users:
        user.ask()
    assert door.traffic.refused_connections == 1


class Connection:
    def __init__(self, *, is_logged_in: bool = False, is_busy: bool = False) -> None:
        self.is_logged_in = is_logged_in
        self.is_busy = is_busy


def test_end_oldest_passes_over_a_login_under_way_and_comes_back_to_it_when_it_has_failed() -> None:
    ended: list[Connection] = []
    connections = UnauthenticatedConnections[Connection](ended.append)
    user, busy, idle, gone = Connection(is_logged_in=True), Connection(is_busy=True), Connection(), Connection()
    for each in (gone, user, busy, idle):
        connections.add(each)
    connections.discard(gone)
    assert (connections.end_oldest(), ended) == (True, [idle])
    assert (connections.end_oldest(), ended) == (False, [idle])
    busy.is_busy = False
    assert (connections.end_oldest(), ended) == (True, [idle, busy])
    assert not connections.end_oldest()
