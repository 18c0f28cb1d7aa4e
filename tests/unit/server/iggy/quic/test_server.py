"""QUIC: requests on streams, what is no request, unauthenticated clients, floods, and the end."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.wire.codes import EXTENSION_CONTEXT, Code
from headstream.core.wire.commands import streams, system, topics
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.users import CreateUser, UpdateUser, UserStatus
from headstream.core.wire.extensions.producers import AppendNumbered, InitProducer
from headstream.core.wire.frames import encode_request, request_head
from headstream.core.wire.statuses import Status
from headstream.server.config.tcp_settings import TcpSettings
from headstream.server.iggy.quic.server import QuicServer
from headstream.server.network.addresses import Address
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES
from tests.support.server.served import Running, config_of, serving
from tests.support.waiting import wait_until

PING = encode_request(Code.PING)
LOGIN = encode_request(Code.LOGIN, Login("iggy", "iggy").encode())
EXTENDED_LOGIN = encode_request(Code.LOGIN, Login("iggy", "iggy", "", EXTENSION_CONTEXT).encode())
_TIMEOUT_S = 20.0

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


class RawQuic:
    """A client that knows the protocol and nothing else, driven by hand; as existing clients it checks no certificate.

    Args:
        address: The server.
    """

    def __init__(self, address: Address) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(0.02)
        self._quic = QuicConnection(configuration=QuicConfiguration(is_client=True, verify_mode=ssl.CERT_NONE))
        self._quic.connect((address.host, address.port), now=time.monotonic())
        self.is_connected = self.is_closed = self.was_retried = False
        self.bodies: dict[int, bytes] = {}
        self.whole: set[int] = set()
        self.reset: set[int] = set()

    def __enter__(self) -> RawQuic:
        self.wait(lambda: self.is_connected)
        return self

    def __exit__(self, *_: object) -> None:
        self._quic.close()
        self.send()
        self._socket.close()

    def send(self) -> None:
        """Send what there is to send."""
        for datagram, place in self._quic.datagrams_to_send(now=time.monotonic()):
            self._socket.sendto(datagram, place)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Go on until something is the case."""
        until_s = time.monotonic() + _TIMEOUT_S
        while not condition():
            assert time.monotonic() < until_s
            self.send()
            try:
                datagram, place = self._socket.recvfrom(65_536)
            except TimeoutError:
                self._quic.handle_timer(now=time.monotonic())
            else:
                self.was_retried |= datagram[0] & 0xF0 == 0xF0
                self._quic.receive_datagram(datagram, place, now=time.monotonic())
            event = self._quic.next_event()
            while event is not None:
                self._take(event)
                event = self._quic.next_event()

    def _take(self, event: events.QuicEvent) -> None:
        if isinstance(event, events.HandshakeCompleted):
            self.is_connected = True
        elif isinstance(event, events.ConnectionTerminated):
            self.is_closed = True
        elif isinstance(event, events.StreamReset):
            self.reset.add(event.stream_id)
        elif isinstance(event, events.StreamDataReceived):
            self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
            if event.end_stream:
                self.whole.add(event.stream_id)

    def begin(self, data: bytes, *, is_end: bool = True) -> int:
        """Send bytes on a stream of their own, and return its number."""
        stream = self._quic.get_next_available_stream_id()
        self._quic.send_stream_data(stream, data, end_stream=is_end)
        self.send()
        return stream

    def request(self, data: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the response to a request."""
        stream = self.begin(data)
        self.wait(lambda: stream in self.whole)
        body = self.bodies[stream]
        assert int.from_bytes(body[4:8], "little") == len(body) - 8
        return int.from_bytes(body[:4], "little"), body[8:]


@pytest.fixture
def running(make_loop: MakeLoop) -> Iterator[Running]:
    """A server over QUIC."""
    with serving(config_of(quic_address=Address("127.0.0.1", 0)), make_loop) as running:
        yield running


def quic_of(running: Running) -> QuicServer:
    server: Any = running.server
    assert isinstance(server._quic, QuicServer)
    return server._quic


def address_of(running: Running) -> Address:
    assert running.server.quic_address is not None
    return running.server.quic_address


def test_quic_answers_a_stream_a_request_when_a_client_has_logged_in(running: Running) -> None:
    with RawQuic(address_of(running)) as client:
        assert client.request(PING) == (0, b"")
        assert client.request(encode_request(Code.LIST_STREAMS)) == (Status.UNAUTHENTICATED, b"")
        assert client.request(LOGIN) == (0, b"\x01\0\0\0")
        me = system.GetMe.decode_reply(client.request(encode_request(Code.ME))[1])
        assert (me.user_id, me.transport) == (1, system.TransportKind.QUIC)
        assert quic_of(running).traffic.commands[Code.PING].done == 1


def test_quic_answers_what_it_does_not_understand_and_resets_what_is_no_request(running: Running) -> None:
    with RawQuic(address_of(running)) as client:
        assert client.request(encode_request(9999, b"payload"))[0] == Status.INVALID_COMMAND
        stream = client.begin(b"abc")
        client.wait(lambda: stream in client.reset)
        assert client.request(PING) == (0, b"")


def test_quic_answers_other_streams_when_the_request_on_one_is_half_there(running: Running) -> None:
    with RawQuic(address_of(running)) as client:
        client.request(LOGIN)
        client.begin(request_head(Code.SEND_MESSAGES, 100_000) + bytes(50_000), is_end=False)
        assert client.request(PING) == (0, b"")


def test_quic_refuses_more_than_a_login_has_before_the_login(running: Running) -> None:
    with RawQuic(address_of(running)) as client:
        stream = client.begin(request_head(Code.LOGIN, 100_000) + bytes(UNAUTHENTICATED_BYTES), is_end=False)
        client.wait(lambda: stream in client.whole)
        assert int.from_bytes(client.bodies[stream][:4], "little") == Status.UNAUTHENTICATED


def test_quic_answers_users_when_unauthenticated_clients_have_no_turn(running: Running) -> None:
    quic = quic_of(running)

    async def stop_rounds() -> None:
        quic._quota._left, quic._quota._is_scheduled = 0, True

    async def go_on() -> None:
        quic._quota._begin_round()

    with RawQuic(address_of(running)) as user, RawQuic(address_of(running)) as stranger:
        assert user.request(LOGIN)[0] == stranger.request(PING)[0] == 0
        running.run(stop_rounds())
        stream = stranger.begin(PING)
        newcomer = RawQuic(address_of(running))
        newcomer.send()
        wait_until(lambda: quic._waiting >= 2)
        assert [user.request(PING) for _ in range(5)] == [(0, b"")] * 5
        assert stream not in stranger.whole
        assert len(quic._clients) == 2
        running.run(go_on())
        stranger.wait(lambda: stream in stranger.whole)
        newcomer.wait(lambda: newcomer.is_connected)
        newcomer._socket.close()
        assert quic._waiting == 0


def test_quic_ends_handshakes_that_do_not_end_themselves(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.server.iggy.quic.connection.HANDSHAKE_S", 0.1)
    silent = RawQuic(address_of(running))
    silent.send()
    wait_until(lambda: quic_of(running).handshakes_count == 1)
    wait_until(lambda: quic_of(running).handshakes_count == 0)
    silent._socket.close()


def test_quic_serves_a_client_when_many_handshakes_are_half_open_and_has_it_prove_its_address(running: Running) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            silent = RawQuic(address_of(running))
            stack.callback(silent._socket.close)
            silent.send()
        with RawQuic(address_of(running)) as client:
            assert client.was_retried
            assert client.request(PING) == (0, b"")
            assert quic_of(running).handshakes_count <= 32


def test_quic_ends_the_oldest_connections_without_a_login_when_all_places_are_taken(make_loop: MakeLoop) -> None:
    config = config_of(quic_address=Address("127.0.0.1", 0), tcp=TcpSettings(max_connections=2))
    with serving(config, make_loop) as running, ExitStack() as stack:
        strangers = [stack.enter_context(RawQuic(address_of(running))) for _ in range(2)]
        assert strangers[1].request(PING) == (0, b"")
        half_open = RawQuic(address_of(running))  # its first packet alone takes a place, and so does the next one's
        half_open.send()
        strangers[0].wait(lambda: strangers[0].is_closed)
        users = []
        for _ in range(2):
            users.append(stack.enter_context(RawQuic(address_of(running))))
            assert users[-1].request(LOGIN) == (0, b"\x01\0\0\0")
        strangers[1].wait(lambda: strangers[1].is_closed)
        assert [user.request(PING) for user in users] == [(0, b"")] * 2
        assert quic_of(running).traffic.refused_connections == 0
        late = RawQuic(address_of(running))
        late.send()
        wait_until(lambda: quic_of(running).traffic.refused_connections == 1)
        assert [user.request(PING) for user in users] == [(0, b"")] * 2
        for each in (half_open, late):
            each.__exit__()


def test_quic_answers_after_a_flood_of_datagrams_and_tcp_during_it(running: Running) -> None:
    """The kernel drops datagrams during a flood, a handshake's too, so QUIC is asked after the flood."""
    stop, is_flooding = threading.Event(), threading.Event()

    def flood() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while not stop.is_set():
                sock.sendto(os.urandom(64) + bytes(1200), address_of(running))
                is_flooding.set()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert is_flooding.wait(_TIMEOUT_S)
        with running.peer() as peer:
            assert [peer.request(Code.PING) for _ in range(100)] == [(0, b"")] * 100
    finally:
        stop.set()
        thread.join()
    with RawQuic(address_of(running)) as client:
        assert client.request(PING) == (0, b"")


def test_quic_ends_the_session_when_the_client_leaves(running: Running) -> None:
    sessions = running.server.dispatcher.sessions
    with RawQuic(address_of(running)) as client:
        client.request(LOGIN)
        assert [session.transport for session in sessions.list()] == [system.TransportKind.QUIC]
    wait_until(lambda: not sessions.list())
    assert quic_of(running).budget.held_bytes == 0
    assert not quic_of(running)._by_id


def test_quic_closes_the_connection_and_answers_nothing_more_when_its_user_is_deactivated(running: Running) -> None:
    with running.peer() as root, RawQuic(address_of(running)) as client:
        root.ask(CreateUser("alice", "alicealice", UserStatus.ACTIVE))
        assert client.request(encode_request(Code.LOGIN, Login("alice", "alicealice").encode()))[0] == 0
        assert client.request(encode_request(Code.ME))[0] == Status.UNAUTHORIZED
        root.ask(UpdateUser("alice", status=UserStatus.INACTIVE))
        stream = client.begin(encode_request(Code.ME))
        client.wait(lambda: client.is_closed)
        assert stream not in client.whole
        sessions = running.server.dispatcher.sessions
        assert not [session for session in sessions.list() if session.transport is system.TransportKind.QUIC]


def test_quic_answers_where_a_numbered_batch_is_when_it_comes_again(running: Running) -> None:
    with running.peer() as root, RawQuic(address_of(running)) as client:
        root.ask(streams.CreateStream(0, "shop"))
        root.ask(topics.CreateTopic("shop", 0, 1, topics.Compression.NONE, topics.NEVER, topics.SERVER_DEFAULT, 0, "orders"))
        client.request(EXTENDED_LOGIN)
        init = InitProducer()
        producer = init.decode_reply(memoryview(client.request(encode_request(init.code, init.encode()))[1]))
        sent = encode_sent([hs.Message(payload=bytes(100_000))])
        append = AppendNumbered("shop", "orders", 1, producer.producer_id, producer.epoch, 0, sent)
        bodies = [client.request(encode_request(append.code, append.encode()))[1] for _ in range(2)]
        stored = [append.decode_reply(memoryview(body)) for body in bodies]
        assert [(each.offset, each.is_repeat) for each in stored] == [(0, False), (0, True)]


def test_quic_client_says_that_nothing_listens_there() -> None:
    with pytest.raises(hs.ServerUnreachableError):
        hs.connect("quic://iggy:iggy@127.0.0.1:1", connect_timeout_ms=500, retry_timeout_ms=0)
