"""A server inside a test: in a thread with an event loop of its own, and a peer that speaks in plain frames."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME, ServerSettings
from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands import streams, topics
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.frames import encode_request
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import decode_refusal
from headstream.server.app import ServerApp
from headstream.server.config.config import ServerConfig
from headstream.server.network.addresses import Address
from tests.support.server.peers import TcpPeer

_T = TypeVar("_T")
_TIMEOUT_S = 30.0

CHEAP = ServerSettings(password_rounds=4)
"""Passwords that are hashed quickly."""


def config_of(**given: Any) -> ServerConfig:
    """Return a configuration for tests: in memory, TCP on a free port, nothing else."""
    return ServerConfig(
        **{"tcp_address": Address("127.0.0.1", 0), "http_address": None, "settings": CHEAP, "drain_s": 5.0} | given
    )


@dataclass
class Running:
    """A server that runs in a thread of its own."""

    server: ServerApp
    loop: asyncio.AbstractEventLoop
    is_stopped: bool = False
    peers: list[Peer] = field(default_factory=list)

    @property
    def address(self) -> Address:
        """Where it listens for TCP."""
        assert self.server.tcp_address is not None
        return self.server.tcp_address

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Return what a coroutine does in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(_TIMEOUT_S)

    def begin_to_stop(self) -> Callable[[], None]:
        """Have the server stop, and return what waits until it has."""
        self.is_stopped = True
        stopping = asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop)
        return lambda: stopping.result(_TIMEOUT_S)

    def peer(self, *, is_logged_in: bool = True, is_extended: bool = False) -> Peer:
        """Return a new connection."""
        peer = Peer(socket.create_connection(self.address, _TIMEOUT_S))
        self.peers.append(peer)
        if is_logged_in:
            peer.log_in(is_extended=is_extended)
        return peer


@contextmanager
def serving(
    config: ServerConfig | None = None,
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    **options: Any,
) -> Iterator[Running]:
    """Run a server as long as the body does."""
    loop = make_loop()
    thread = threading.Thread(target=loop.run_forever, name="server")
    thread.start()
    running = Running(ServerApp(config or config_of(), **options), loop)
    try:
        running.run(running.server.start())
        try:
            yield running
        finally:
            for peer in running.peers:
                peer.close()
            if not running.is_stopped:
                running.begin_to_stop()()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_TIMEOUT_S)
        loop.close()


def make_topic(peer: TcpPeer) -> None:
    """Make the topic shop/orders of one partition."""
    peer.ask(streams.CreateStream(0, "shop"))
    peer.ask(topics.CreateTopic("shop", 0, 1, topics.Compression.NONE, topics.NEVER, topics.SERVER_DEFAULT, 0, "orders"))


@contextmanager
def server_process(data: Path, *arguments: str, **environment: str) -> Iterator[ServerProcess]:
    """Run `headstream server` as a program, on free ports, until it answers; whatever is left of it is killed at the end."""
    command = [sys.executable, "-m", "headstream.cli", "server", "--data", str(data)]
    command += ["--tcp", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments]
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield ServerProcess(process)
        finally:
            if process.poll() is None:
                process.kill()


@dataclass
class ServerProcess:
    """A server that is a program of its own."""

    process: subprocess.Popen[str]
    addresses: dict[str, Address] = field(default_factory=dict)

    def wait_until_ready(self) -> None:
        """Read the addresses that it prints once it answers."""
        assert self.process.stdout is not None
        for _ in range(2):
            name, _, address = self.process.stdout.readline().strip().partition(" ")
            self.addresses[name] = Address.parse(address, name)

    def peer(self) -> Peer:
        """Return a connection that is logged in."""
        peer = Peer(socket.create_connection(self.addresses["tcp"], _TIMEOUT_S))
        peer.log_in()
        return peer

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal, and return with what code it has ended, and what it has logged."""
        self.process.send_signal(number)
        _, logged = self.process.communicate(timeout=_TIMEOUT_S)
        return self.process.returncode, logged


class Peer(TcpPeer):
    """One that sends whatever it is told to, and raises what our own clients do.

    Args:
        socket: Connected.
    """

    def __init__(self, socket: socket.socket) -> None:
        self.socket = socket

    def send(self, data: BytesLike) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def request(self, code: int, payload: BytesLike = b"") -> tuple[int, bytes]:
        """Return the response to a request."""
        return self.exchange(encode_request(code, payload))

    def ask(self, command: Command[_T]) -> _T:
        """Return the reply to a command.

        Raises:
            HeadstreamError: it is refused.
        """
        status, body = self.request(command.code, command.encode())
        if status:
            raise decode_refusal(status, body)
        return type(command).decode_reply(body)

    def log_in(self, username: str = DEFAULT_USERNAME, password: str = DEFAULT_PASSWORD, *, is_extended: bool = False) -> None:
        """Log in."""
        self.ask(Login(username, password, "0.6.210", EXTENSION_CONTEXT if is_extended else ""))
