"""One server, in a process of its own, and clients that speak plain frames; what a test made is gone before the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headstream.core.wire.commands import streams, system, tokens, users
from tests.support.server.peers import HttpPeer, Peer, TcpPeer
from tests.support.server.server_process import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server, which is still there when the tests are over, and ends well."""
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server
        assert server.is_running, server.output
        assert server.stop() == 0, server.output


@pytest.fixture(scope="module")
def admins(server: ServerProcess) -> Iterator[dict[str, Peer]]:
    """User 1 over each transport."""
    with TcpPeer(server.tcp) as tcp, HttpPeer(server.http) as http:
        tcp.login()
        http.login()
        yield {"tcp": tcp, "http": http}


@pytest.fixture
def connect(server: ServerProcess) -> Iterator[Callable[..., TcpPeer]]:
    """Return a function that connects over TCP, and logs in where it is told a name."""
    with ExitStack() as open_peers:

        def connect(username: str | None = None, password: str = "secret") -> TcpPeer:
            peer = open_peers.enter_context(TcpPeer(server.tcp))
            if username is not None:
                peer.login(username, password)
            return peer

        yield connect


@pytest.fixture
def root(admins: dict[str, Peer]) -> TcpPeer:
    """User 1 over TCP, on a server with nothing on it and nobody else connected."""
    return clear(admins["tcp"])


@pytest.fixture(params=["tcp", "http"])
def peer(request: pytest.FixtureRequest, root: TcpPeer, admins: dict[str, Peer]) -> Peer:
    """User 1 over each transport, on a server with nothing on it."""
    return admins[request.param]


@pytest.fixture(params=["tcp", "http"])
def guest(request: pytest.FixtureRequest, server: ServerProcess, root: TcpPeer) -> Iterator[Peer]:
    """Nobody yet, over each transport, on a server with nothing on it."""
    with TcpPeer(server.tcp) if request.param == "tcp" else HttpPeer(server.http) as peer:
        yield peer


def clear(root: Peer) -> TcpPeer:
    """Delete all that tests made, wait until the server knows that their connections have ended, and return user 1."""
    assert isinstance(root, TcpPeer)
    for stream in root.ask(streams.ListStreams()):
        root.ask(streams.DeleteStream(stream.id))
    for user in root.ask(users.ListUsers()):
        if user.id != 1:
            root.ask(users.DeleteUser(user.id))
    for token in root.ask(tokens.ListTokens()):
        root.ask(tokens.DeleteToken(token.name))
    give_up_s = time.monotonic() + 60
    while len(root.ask(system.ListClients())) > 1 and time.monotonic() < give_up_s:
        time.sleep(0.001)
    return root
