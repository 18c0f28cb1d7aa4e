"""TCP: frames in pieces and in heaps, what is no frame, clients that vanish, dawdle or do not listen, and the end."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headstream.broker.accounts.sessions import client_id_of
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.sessions import Login, Logout
from headstream.core.wire.commands.system import GetMe, ListClients
from headstream.core.wire.extensions.messages import WaitMessages, WaitResult
from headstream.core.wire.frames import MAX_FRAME_BYTES, encode_request, encode_response
from headstream.core.wire.statuses import Status
from headstream.server.config.tcp_settings import ConnectionLimits, TcpSettings
from headstream.server.network.sockets import SocketOptions
from tests.support.crashes import fail_with
from tests.support.server.served import Peer, Running, config_of, make_topic, serving
from tests.support.waiting import wait_until

PING = encode_request(Code.PING)
OK = encode_response(0)
SLOW_MESSAGE_BYTES = 1 << 20

pytestmark = pytest.mark.usefixtures("read_by")


@pytest.fixture(scope="module")
def running(read_by: None, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[Running]:
    """A server with one topic, shop/orders."""
    with serving(make_loop=make_loop) as running:
        with running.peer() as peer:
            make_topic(peer)
        yield running


@pytest.fixture
def peer(running: Running) -> Iterator[Peer]:
    """A connection that is logged in."""
    with running.peer() as peer:
        yield peer


def send_of(*payloads: bytes) -> SendMessages:
    return SendMessages("shop", "orders", Partitioning.partition(1), encode_sent([Message(payload=each) for each in payloads]))


def poll_of(offset: int, count: int) -> PollMessages:
    return PollMessages(ConsumerRef(ConsumerKind.CONSUMER, 1), "shop", "orders", 1, PollingKind.OFFSET, offset, count, False)


def wait_at_the_end(peer: Peer, timeout_ms: int) -> WaitMessages:
    """Return the request to wait for the next message of the topic."""
    peer.ask(send_of(b"the last one"))
    return WaitMessages("shop", "orders", {1: peer.ask(poll_of(0, 1)).current_offset + 1}, timeout_ms)


def is_refused(peer: Peer, data: bytes) -> bool:
    """Send a little, and return whether the connection is gone."""
    try:
        peer.send(data)
    except OSError:
        return True
    return False


def test_tcp_answers_the_same_however_the_bytes_are_split(running: Running) -> None:
    data = PING + encode_request(Code.LIST_STREAMS) + encode_request(9999, b"payload") + PING
    expected = [(0, b""), (Status.UNAUTHENTICATED, b""), (Status.INVALID_COMMAND, b""), (0, b"")]
    for at in range(1, len(data), 3):
        with running.peer(is_logged_in=False) as peer:
            peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.send(data[:at])
            peer.send(data[at:])
            assert [peer.receive() for _ in expected] == expected


def test_tcp_answers_byte_by_byte(peer: Peer) -> None:
    for byte in PING + encode_request(Code.ME):
        peer.send(bytes([byte]))
    assert peer.receive() == (0, b"")
    assert GetMe.decode_reply(peer.receive()[1]).user_id == 1


def test_tcp_answers_in_order_when_slow_requests_come_between_quick_ones(peer: Peer) -> None:
    wrong = encode_request(Code.LOGIN, Login("iggy", "wrong", None, None).encode())
    peer.send(PING + wrong + PING + encode_request(Code.LIST_STREAMS) + wrong + encode_request(7777) + PING)
    found = [peer.receive()[0] for _ in range(7)]
    assert found == [0, Status.INVALID_CREDENTIALS, 0, 0, Status.INVALID_CREDENTIALS, Status.INVALID_COMMAND, 0]


def test_tcp_answers_each_of_many_requests_that_come_together(peer: Peer) -> None:
    count = 5000
    threading.Thread(target=peer.send, args=[PING * count]).start()
    assert all(peer.receive() == (0, b"") for _ in range(count))


def test_tcp_answers_3_and_goes_on_when_a_request_is_too_short_for_a_code(peer: Peer) -> None:
    for length in range(4):
        peer.send(struct.pack("<I", length) + b"x" * length)
        assert peer.receive() == (Status.INVALID_COMMAND, b"")
    assert peer.request(Code.PING) == (0, b"")


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES, 0xFFFF_FFFF])
def test_tcp_answers_3_and_closes_when_a_request_claims_to_be_longer_than_is_allowed(
    running: Running, peer: Peer, length: int
) -> None:
    peer.send(struct.pack("<II", length, Code.SEND_MESSAGES) + b"x" * 1000)
    assert peer.receive() == (Status.INVALID_COMMAND, b"")
    assert peer.is_closed()


def test_tcp_takes_no_big_request_before_the_login(running: Running, peer: Peer) -> None:
    with running.peer(is_logged_in=False) as unauthenticated:
        unauthenticated.send(encode_request(Code.SEND_MESSAGES, bytes(2 << 20))[:1000])
        assert unauthenticated.receive() == (Status.UNAUTHENTICATED, b"")
        assert unauthenticated.is_closed()
    assert peer.request(Code.SEND_MESSAGES, bytes(2 << 20))[0] == Status.INVALID_COMMAND


def test_tcp_survives_garbage(running: Running, peer: Peer) -> None:
    random_bytes = random.Random(8)
    for _ in range(50):
        with running.peer(is_logged_in=False) as other:
            other.socket.settimeout(60)
            try:
                other.send(random_bytes.randbytes(random_bytes.randrange(1, 300)))
                other.socket.shutdown(socket.SHUT_WR)
                while other.receive():
                    pass
            except OSError:
                pass
        assert peer.request(Code.PING) == (0, b"")


def test_tcp_forgets_a_client_that_vanishes_in_the_middle_of_a_request(running: Running, peer: Peer) -> None:
    before = len(peer.ask(ListClients()))
    other = running.peer()
    assert len(peer.ask(ListClients())) == before + 1
    other.send(encode_request(Code.SEND_MESSAGES, b"x" * 5000)[:1000])
    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    wait_until(lambda: len(peer.ask(ListClients())) == before)


def test_tcp_forgets_a_client_that_vanishes_while_a_worker_answers_it(running: Running, peer: Peer) -> None:
    before = len(peer.ask(ListClients()))
    with running.peer() as other:
        other.send(encode_request(Code.LOGIN, Login("iggy", "wrong", None, None).encode()) * 3)
    wait_until(lambda: len(peer.ask(ListClients())) == before)


def test_tcp_names_a_client_by_its_address(peer: Peer) -> None:
    host, port = peer.socket.getsockname()
    me = peer.ask(GetMe())
    assert me.address == f"{host}:{port}"
    assert me.client_id == client_id_of(f"{host}:{port}")


def test_tcp_closes_behind_a_session_that_is_gone(running: Running, peer: Peer) -> None:
    sessions = running.server.dispatcher.sessions
    found = sessions.find(peer.ask(GetMe()).client_id)
    assert found is not None
    sessions.close(found)
    assert peer.request(Code.ME) == (Status.CLIENT_NOT_FOUND, b"")
    assert peer.is_closed()


def test_tcp_refuses_each_of_a_thousand_wrong_passwords_and_serves_others_meanwhile() -> None:
    with serving() as running, running.peer() as peer:
        guess_a_thousand_times(running, peer)


def guess_a_thousand_times(running: Running, peer: Peer) -> None:
    refused = []

    def guess() -> None:
        with running.peer(is_logged_in=False) as other:
            for number in range(1000):
                refused.append(other.request(Code.LOGIN, Login("iggy", f"guess {number}", None, None).encode()))

    guessing = threading.Thread(target=guess)
    guessing.start()
    pings = 0
    while guessing.is_alive():
        assert peer.request(Code.PING) == (0, b"")
        pings += 1
    guessing.join()
    assert refused == [(Status.INVALID_CREDENTIALS, b"")] * 1000
    assert pings > 1000


def test_tcp_waits_for_messages_without_a_thread_and_is_woken(running: Running) -> None:
    count = 200  # more than there are threads
    waiting = [running.peer(is_extended=True) for _ in range(count)]
    wait = wait_at_the_end(waiting[0], 30_000)
    for each in waiting:
        each.send(encode_request(wait.code, wait.encode()))
    tcp = running.server._tcp
    assert tcp is not None
    wait_until(lambda: sum(each._wait is not None for each in tcp._connections) == count)
    with running.peer() as sender:
        sender.ask(send_of(b"x"))
    assert all(WaitMessages.decode_reply(each.receive()[1]) == WaitResult(True) for each in waiting)
    for each in waiting:
        each.close()


def test_tcp_ends_a_wait_when_its_time_is_up(running: Running) -> None:
    with running.peer(is_extended=True) as peer:
        wait = wait_at_the_end(peer, 10)
        assert peer.ask(wait) == WaitResult(False)


def test_tcp_ends_a_wait_when_its_client_says_more(running: Running) -> None:
    with running.peer(is_extended=True) as peer:
        wait = wait_at_the_end(peer, 1 << 31)
        peer.send(encode_request(wait.code, wait.encode()))
        tcp = running.server._tcp
        assert tcp is not None
        wait_until(lambda: any(each._wait is not None for each in tcp._connections))
        peer.send(PING)
        assert WaitMessages.decode_reply(peer.receive()[1]) == WaitResult(False)
        assert peer.receive() == (0, b"")
        peer.send(encode_request(wait.code, wait.encode()) * 20 + PING)
        assert [peer.receive()[0] for _ in range(21)] == [0] * 21


def test_tcp_refuses_a_wait_like_any_other_request(running: Running, peer: Peer) -> None:
    wait = WaitMessages("shop", "nothing", {1: 0}, 10)
    assert peer.request(wait.code, wait.encode()) == (Status.INVALID_COMMAND, b"")
    with running.peer(is_extended=True) as extended:
        assert extended.request(wait.code, wait.encode())[0] == Status.TOPIC_NAME_NOT_FOUND
        assert extended.request(wait.code, b"\0")[0] == Status.INVALID_COMMAND
        assert extended.request(Code.PING) == (0, b"")


def test_tcp_stops_reading_when_its_answers_are_not_taken(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with serving(make_loop=make_loop) as running, running.peer() as peer, running.peer() as other:
        make_topic(peer)
        peer.ask(send_of(*[b"x" * SLOW_MESSAGE_BYTES] * 4))
        poll = encode_request(Code.POLL_MESSAGES, poll_of(0, 4).encode())
        count = 60
        sending = threading.Thread(target=peer.send, args=[poll * count])
        sending.start()
        tcp = running.server._tcp
        assert tcp is not None
        wait_until(lambda: any(each._is_full for each in tcp._connections))
        held = max(each._transport.get_write_buffer_size() for each in tcp._connections)
        assert held < 4 * 4 * SLOW_MESSAGE_BYTES  # of 240 MB that were asked for
        assert other.request(Code.PING) == (0, b"")
        for _ in range(count):
            status, body = peer.receive()
            assert (status, len(body)) == (0, 16 + 45 + SLOW_MESSAGE_BYTES)  # a turn's: there is another client
        sending.join()


def test_tcp_brings_less_at_a_time_while_too_much_is_not_taken(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    # The system's own buffers could hold whole responses.
    small = SocketOptions(receive_bytes=64 << 10, send_bytes=64 << 10, keepalive=False, linger_s=0)
    config = config_of(tcp=TcpSettings(unsent_bytes=4 * SLOW_MESSAGE_BYTES, socket=small))
    with serving(config, make_loop=make_loop) as running, running.peer() as other:
        make_topic(other)
        for _ in range(4):
            other.ask(send_of(*[b"x" * SLOW_MESSAGE_BYTES] * 8))
        dispatcher = running.server.dispatcher
        tcp = running.server._tcp
        assert tcp is not None
        with ExitStack() as stack:
            slow = [stack.enter_context(running.peer()) for _ in range(8)]
            for peer in slow:
                peer.send(encode_request(Code.POLL_MESSAGES, poll_of(0, 32).encode()) * 20)
            wait_until(lambda: dispatcher.poll_bytes < SLOW_MESSAGE_BYTES)
            assert other.ask(poll_of(0, 32)).count == 1
            assert [peer.receive()[0] for peer in slow] == [0] * 8
        wait_until(lambda: dispatcher.poll_bytes >= 4 * SLOW_MESSAGE_BYTES and tcp.traffic.connections == 1)
        assert other.ask(poll_of(0, 32)).count == 3  # 4 MiB and the four heads are more than 4 MiB


def test_tcp_closes_a_client_that_takes_nothing_for_too_long() -> None:
    limits = ConnectionLimits(stall_s=0.2)
    with serving(config_of(tcp=TcpSettings(limits=limits))) as running, running.peer() as peer, running.peer() as other:
        make_topic(other)
        other.ask(send_of(*[b"x" * SLOW_MESSAGE_BYTES] * 4))
        peer.send(encode_request(Code.POLL_MESSAGES, poll_of(0, 4).encode()) * 20)
        wait_until(lambda: len(other.ask(ListClients())) == 1)


def test_tcp_closes_a_client_whose_request_does_not_come_to_its_end() -> None:
    limits = ConnectionLimits(frame_s=0.2)
    with serving(config_of(tcp=TcpSettings(limits=limits))) as running, running.peer() as idle:
        with running.peer(is_logged_in=False) as slow:
            wait_until(lambda: is_refused(slow, b"\1"))  # of a request of 16 MB, one byte at a time
        assert idle.request(Code.PING) == (0, b"")  # silence between requests is no offence


def test_tcp_closes_who_does_not_log_in_for_too_long() -> None:
    limits = ConnectionLimits(login_s=0.2)
    with serving(config_of(tcp=TcpSettings(limits=limits))) as running, running.peer() as known, running.peer() as gone:
        with running.peer(is_logged_in=False) as silent:
            assert silent.is_closed()
        with running.peer(is_logged_in=False) as talking:
            wait_until(lambda: is_refused(talking, PING))  # answers to pings are no login
        gone.ask(Logout())
        assert gone.is_closed()
        assert known.request(Code.PING) == (0, b"")  # it has been silent all the time
        assert len(known.ask(ListClients())) == 1


def test_tcp_closes_connections_beyond_the_limit() -> None:
    with serving(config_of(tcp=TcpSettings(max_connections=2))) as running, running.peer() as one, running.peer() as two:
        with running.peer(is_logged_in=False) as three:
            assert three.is_closed()
        two.close()

        def has_capacity() -> bool:
            with running.peer(is_logged_in=False) as three:
                try:
                    return three.request(Code.PING) == (0, b"")
                except OSError:
                    return False

        wait_until(has_capacity)
        assert one.request(Code.PING) == (0, b"")


def test_tcp_finishes_what_is_in_flight_when_it_stops(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with serving(make_loop=make_loop) as running:
        half, slow, waiting, idle = running.peer(), running.peer(), running.peer(is_extended=True), running.peer()
        make_topic(idle)
        request = encode_request(Code.SEND_MESSAGES, send_of(b"x" * 10_000).encode())
        half.send(request[:5000])
        slow.send(encode_request(Code.LOGIN, Login("iggy", "iggy", None, None).encode()))
        wait = wait_at_the_end(waiting, 1 << 31)
        waiting.send(encode_request(wait.code, wait.encode()))
        tcp = running.server._tcp
        assert tcp is not None
        wait_until(lambda: any(each._frames.pending_bytes == 5000 for each in tcp._connections))
        wait_until(lambda: any(each._wait is not None for each in tcp._connections))
        until_stopped = running.begin_to_stop()
        assert idle.is_closed()
        assert slow.receive()[0] == 0
        assert WaitMessages.decode_reply(waiting.receive()[1]) == WaitResult(False)
        half.send(request[5000:])
        assert half.receive() == (0, b"")
        assert all(peer.is_closed() for peer in (half, slow, waiting))
        until_stopped()
        with pytest.raises(OSError):  # noqa: PT011
            running.peer(is_logged_in=False)


def test_tcp_stops_in_time_when_a_client_does_not_finish() -> None:
    with serving(config_of(drain_s=0.2)) as running:
        peer = running.peer()
        peer.send(encode_request(Code.SEND_MESSAGES, b"x" * 10_000)[:100])
        tcp = running.server._tcp
        assert tcp is not None
        wait_until(lambda: any(each._frames.pending_bytes == 100 for each in tcp._connections))
        running.begin_to_stop()()
        assert peer.is_closed()


def test_tcp_answers_1_and_goes_on_when_a_handler_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as running:
        dispatcher = running.server.dispatcher
        monkeypatch.setitem(dispatcher._handlers, Logout, fail_with(RuntimeError("a bug")))
        with running.peer() as peer:
            assert peer.request(Code.LOGOUT) == (Status.ERROR, b"")
            assert peer.request(Code.PING) == (0, b"")
    assert "internal error" in caplog.text
