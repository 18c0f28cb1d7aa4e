"""A server whose files are damaged, or take no more, while it runs: the right status, and everybody else is served."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import PollingKind
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands import sessions, streams, system
from tests.behaviour.conformance.scenes import build, poll, polled, send
from tests.support.server.peers import HttpPeer, Peer, RefusedError, TcpPeer
from tests.support.server.server_process import ServerProcess

SENDS = 20
PAYLOAD = b"payload %02d" + b"." * 90


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with sends of five messages in partition 1, and one message in partition 2."""
    with ServerProcess(tmp_path / "log") as server:
        with TcpPeer(server.tcp) as peer:
            peer.login()
            build(peer)
            for number in range(SENDS):
                send(peer, [Message(payload=PAYLOAD % number) for _ in range(5)])
            send(peer, [b"elsewhere"], Partitioning.partition(2))
        yield server
        assert server.stop() == 0, server.output


@pytest.fixture(params=["tcp", "http"])
def peer(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Peer]:
    with TcpPeer(server.tcp) if request.param == "tcp" else HttpPeer(server.http) as peer:
        peer.login()
        yield peer


def messages_file(server: ServerProcess, partition: int) -> Path:
    (found,) = server.data.glob(f"streams/*/*/{partition}/*.log")
    return found


def refusal_of_poll(peer: Peer, offset: int) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        poll(peer, value=offset, count=1)
    return caught.value


def check_others(peer: Peer) -> None:
    """See that everything goes on that is not about the damage."""
    assert [message.payload for message in polled(poll(peer, partition=2))][:1] == [b"elsewhere"]
    send(peer, [b"more"], Partitioning.partition(2))
    assert peer.ask(system.GetStats()).messages_count > SENDS * 5


@pytest.mark.parametrize("back", [1, 10, 14, 30], ids=["payload", "payload's length", "headers' length", "id"])
def test_a_damaged_send_is_told_and_what_is_around_it_is_served(server: ServerProcess, peer: Peer, back: int) -> None:
    path = messages_file(server, 1)
    with path.open("r+b") as file:
        at = path.read_bytes().index(PAYLOAD % 10) + 8 - back
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))
    assert [message.offset for message in polled(poll(peer))] == list(range(50))
    refusal = refusal_of_poll(peer, 50)
    assert (refusal.status, refusal.http_status) == ((4011, None) if peer.transport == "tcp" else (20007, 400))
    assert refusal_of_poll(peer, 52).status == refusal.status
    assert [message.offset for message in polled(poll(peer, value=55))] == list(range(55, 100))
    assert [message.offset for message in polled(poll(peer, PollingKind.LAST, count=3))] == [97, 98, 99]
    send(peer, [b"behind it"])
    assert polled(poll(peer, PollingKind.LAST, count=1))[0].payload == b"behind it"
    check_others(peer)
    assert server.output.count("damaged log") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")
def test_a_disk_that_takes_no_more_is_told_until_it_does_again(server: ServerProcess, peer: Peer) -> None:
    big, size = [bytes(100_000)] * 5, messages_file(server, 1).stat().st_size
    limit = (size + 4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    usual = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limit)
    for _ in range(3):
        with pytest.raises(RefusedError) as caught:
            send(peer, big)
        assert caught.value.status == 4006
    assert polled(poll(peer))[-1].offset == 99
    check_others(peer)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, usual)
    send(peer, big)
    peer.ask(streams.CreateStream(0, "another"))
    assert [message.offset for message in polled(poll(peer))] == list(range(105))
    assert server.output.count("storage error") == 1


def fill_the_catalog(peer: Peer) -> None:
    for number in range(50):
        peer.ask(streams.CreateStream(0, f"stream {number} {'x' * 100}"))


def told_of(ask: Callable[[], object]) -> str:
    """Return what a client is told, in words, of what is refused."""
    with pytest.raises(RefusedError) as caught:
        ask()
    return caught.value.body.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")
def test_a_client_is_told_which_topic_fails_and_not_where_its_files_are(server: ServerProcess, peer: Peer) -> None:
    if peer.transport == "tcp":
        peer.ask(sessions.Login("iggy", "iggy", "0.6.210", EXTENSION_CONTEXT))  # only to such clients it says more than a number
    path = messages_file(server, 1)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 1)
        file.write(b"?")
    damaged = told_of(lambda: poll(peer, value=SENDS * 5 - 1, count=1))
    usual = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (32_768, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    full = told_of(lambda: send(peer, [bytes(100_000)]))
    catalog = told_of(lambda: fill_the_catalog(peer))
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, usual)
    for text in damaged, full:
        assert "test-stream/test-topic, partition 1" in text
    for text in damaged, full, catalog:
        assert server.data.parent.name not in text
        assert ".log" not in text
        assert "catalog.sqlite" not in text
    assert f"{path.resolve()}, byte" in server.output
