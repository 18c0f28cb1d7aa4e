"""Intake: what many idle connections say is answered in one turn, and what it cannot answer goes to each connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.frames import encode_request, encode_response
from headstream.server.iggy.fast_path.small_requests import SmallRequests
from headstream.server.iggy.fast_path.switch import FAST_PATH_VARIABLE
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.resources.wakeups import Wakeups
from tests.support import kernels
from tests.support.server.served import Running, serving
from tests.support.server.servers import Server
from tests.support.waiting import wait_until

PING: Final = encode_request(Code.PING)
LIST: Final = encode_request(Code.LIST_STREAMS)
OK: Final = encode_response(0)
SCRATCH_BYTES: Final = 64 << 10


class Transport:
    """What an intake asks of a transport, over a real socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.unsent = 0
        self.is_aborted = False

    def get_extra_info(self, name: str) -> Any:
        assert name == "socket"
        return self._socket

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.is_aborted = True


class Client:
    """A idle connection and the client at its other end; notes what it is handed."""

    def __init__(self, module: ModuleType, server: Server) -> None:
        ours, self.socket = socket.socketpair()
        ours.setblocking(False)
        self.socket.settimeout(10)
        self.ours = ours
        self.transport = Transport(ours)
        self.taken: list[bytes] = []
        self.written = b""
        self.fault: Exception | None = None
        traffic = getattr(module, "Traffic", Traffic)("tcp")
        short = getattr(module, "SmallRequests", SmallRequests)(server.dispatcher, server.root().session, traffic)
        self.idle = module.IdleConnection(self, self.transport, short)

    def respond(self, response: memoryview) -> None:
        self.written += bytes(response)
        if self.fault is not None:
            raise self.fault

    def take(self, received: memoryview) -> None:
        self.taken.append(bytes(received))
        if self.fault is not None:
            raise self.fault

    def close(self) -> None:
        self.ours.close()
        self.socket.close()


intake_module = kernels.fixture("headstream.server.iggy.fast_path.intake")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class IntakeRounds:
    """An intake, its clients, and turns of its event loop."""

    def __init__(self, module: ModuleType, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self.loop = loop
        self.traffic = getattr(module, "Traffic", Traffic)("tcp")  # compiled code does not show what it imports
        self.faults: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: self.faults.append(context))
        server = Server()
        self.clients = [Client(module, server) for _ in range(count)]
        self.intake = module.Intake(loop, bytearray(SCRATCH_BYTES), self.traffic, Wakeups(loop))
        for client in self.clients:
            self.intake.begin(client.idle)

    def run_round(self) -> None:
        """Have the loop look once at what is there."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def close(self) -> None:
        self.intake.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def rounds(intake_module: ModuleType, loop: asyncio.AbstractEventLoop) -> Iterator[Callable[[int], IntakeRounds]]:
    made: list[IntakeRounds] = []

    def make(count: int) -> IntakeRounds:
        made.append(IntakeRounds(intake_module, loop, count))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_intake_answers_all_readable_connections_in_one_call(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(5)
    for client in them.clients[:4]:
        client.socket.sendall(PING * 3)
    them.run_round()
    for client in them.clients[:4]:
        assert client.socket.recv(1000) == OK * 3
    assert [client.taken for client in them.clients] == [[]] * 5
    assert them.traffic.received_bytes == 4 * 3 * len(PING)
    assert them.traffic.sent_bytes == 4 * 3 * len(OK)


def test_intake_hands_over_what_it_cannot_answer_behind_what_it_can(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(2)
    first, second = them.clients
    first.socket.sendall(PING + LIST + PING)
    second.socket.sendall(PING[:5])
    them.run_round()
    assert first.socket.recv(1000) == OK
    assert first.taken == [LIST + PING]
    assert second.taken == [PING[:5]]


def test_intake_tells_a_connection_that_its_client_has_gone(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(2)
    them.clients[0].socket.sendall(PING)
    them.clients[0].socket.shutdown(socket.SHUT_WR)
    them.run_round()
    assert them.clients[0].socket.recv(1000) == OK
    them.run_round()
    assert set(them.clients[0].taken) == {b""}  # again and again, until it ends that
    assert them.clients[1].taken == []


def test_intake_reads_no_more_for_who_has_ended_it(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(2)
    gone, there = them.clients
    them.intake.end(gone.idle)
    them.intake.end(gone.idle)
    gone.socket.sendall(PING)
    there.socket.sendall(PING)
    them.run_round()
    assert there.socket.recv(1000) == OK
    gone.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        gone.socket.recv(1)


def test_intake_forgets_a_socket_that_its_transport_has_closed(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(2)
    broken, there = them.clients
    broken.ours.close()
    there.socket.sendall(PING)
    them.run_round()
    assert there.socket.recv(1000) == OK
    them.intake.end(broken.idle)


def test_intake_leaves_to_the_transport_what_the_system_does_not_take(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(2)
    waiting, full = them.clients
    waiting.transport.unsent = 10  # so that nothing overtakes it
    waiting.socket.sendall(PING)
    full.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    count = 0
    while not full.written:
        full.socket.sendall(PING * 1000)
        count += 1000
        them.run_round()
    assert waiting.written == OK
    received = b""
    while len(received) + len(full.written) < count * len(OK):
        received += full.socket.recv(1 << 20)
    assert received + full.written == OK * count


def test_intake_ends_a_connection_whose_request_fails_by_a_fault_and_no_other(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(3)
    first, failing, last = them.clients
    failing.fault = RuntimeError("a bug")
    first.socket.sendall(PING)
    failing.socket.sendall(PING + LIST)
    last.socket.sendall(PING)
    them.run_round()
    assert [first.socket.recv(1000), last.socket.recv(1000)] == [OK, OK]
    assert [client.transport.is_aborted for client in them.clients] == [False, True, False]
    assert [context["exception"] for context in them.faults] == [failing.fault]
    failing.socket.sendall(PING)
    them.run_round()
    assert failing.taken == [LIST]


def test_intake_ends_a_connection_that_cannot_be_answered_and_no_other(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(3)
    first, failing, last = them.clients
    failing.transport.unsent = 1
    failing.fault = RuntimeError("a bug")
    for client in them.clients:
        client.socket.sendall(PING)
    them.run_round()
    assert [first.socket.recv(1000), last.socket.recv(1000)] == [OK, OK]
    assert [client.transport.is_aborted for client in them.clients] == [False, True, False]
    assert [context["exception"] for context in them.faults] == [failing.fault]


def test_intake_lets_others_have_their_turn_when_clients_never_stop(rounds: Callable[[int], IntakeRounds]) -> None:
    them = rounds(200)
    for client in them.clients:
        client.socket.sendall(PING)
    answered: list[bytes] = []
    while len(answered) < 200:
        them.run_round()
        before = len(answered)
        for client in them.clients:
            client.socket.setblocking(False)
            try:
                answered.append(client.socket.recv(1000))
            except BlockingIOError:
                continue
        assert 0 < len(answered) - before <= 64
    assert set(answered) == {OK}


def test_tcp_reads_by_its_intake_between_small_requests_and_by_the_transport_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(FAST_PATH_VARIABLE, raising=False)  # it is about the fast path itself
    with serving() as running, running.peer() as peer:
        for _ in range(20):
            assert peer.request(Code.PING) == (0, b"")
        assert is_idle(running)
        assert peer.request(Code.ME)[0] == 0
        assert is_idle(running)  # answered at once, it needs no transport
        peer.send(PING[:6])
        wait_until(lambda: not is_idle(running))
        peer.send(PING[6:])
        assert peer.receive() == (0, b"")
        assert not is_idle(running)
        for _ in range(20):
            assert peer.request(Code.PING) == (0, b"")
        assert is_idle(running)


def is_idle(running: Running) -> bool:
    tcp = running.server._tcp
    assert tcp is not None
    (connection,) = tcp._connections
    return connection._switch._idle is not None
