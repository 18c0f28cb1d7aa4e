"""Admission: the quota of unauthenticated clients in a round of the event loop, and when an address may connect."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.frames import encode_request, encode_response
from headstream.server.network.addresses import Address
from headstream.server.network.admission import AddressRates, Admission, UnauthenticatedQuota
from tests.support.server.kafka_listeners import kafka_listener
from tests.support.server.served import Running, config_of, serving
from tests.support.waiting import wait_until

MakeLoop = Callable[[], asyncio.AbstractEventLoop]

PING = encode_request(Code.PING)
PONG = encode_response(0)
ADDRESS = "10.0.0.1"


def in_loop(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(check())


def test_turns_of_a_round_are_few_and_those_that_wait_come_in_order_in_the_next_ones() -> None:
    async def check() -> None:
        quota, served = UnauthenticatedQuota(), list[int]()

        def serve(number: int) -> None:
            assert quota.spend()
            served.append(number)

        assert [quota.spend() for _ in range(6)] == [True] * 4 + [False] * 2
        for number in range(10):
            quota.later(lambda number=number: serve(number))  # type: ignore[misc]
        rounds = list[list[int]]()
        while quota.waiting_count:
            await asyncio.sleep(0)
            rounds.append(list(served))
        assert rounds == [list(range(4)), list(range(8)), list(range(10))]

    in_loop(check)


def test_turn_is_not_given_to_a_newcomer_while_others_wait() -> None:
    async def check() -> None:
        quota = UnauthenticatedQuota()
        quota.later(lambda: None)
        assert not quota.spend()
        assert quota.take(3) == 0
        await asyncio.sleep(0)
        assert quota.take(3) == 3
        assert quota.take(3) == 1

    in_loop(check)


def test_handshake_takes_all_turns_that_are_left() -> None:
    async def check() -> None:
        quota = UnauthenticatedQuota()
        assert quota.spend()
        assert quota.spend(4)
        assert not quota.has_capacity
        await asyncio.sleep(0)
        assert quota.take(10) == 4

    in_loop(check)


def test_turn_of_a_client_that_has_gone_is_free_for_the_next_one() -> None:
    async def check() -> None:
        quota = UnauthenticatedQuota()
        assert quota.take(4) == 4
        waiting = [asyncio.ensure_future(quota.wait()) for _ in range(6)]
        await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        await asyncio.gather(*waiting[2:])
        assert not quota.waiting_count

    in_loop(check)


def test_turns_go_on_when_serving_one_client_fails() -> None:
    async def check() -> None:
        quota, served, failures = UnauthenticatedQuota(), list[int](), list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        quota.later(lambda: served.append(1 // 0))
        quota.later(lambda: served.append(1))
        await asyncio.sleep(0)
        assert served == [1]
        assert [type(failure["exception"]) for failure in failures] == [ZeroDivisionError]

    in_loop(check)


def test_connections_of_an_address_wait_when_they_come_faster_than_its_rate() -> None:
    rates = AddressRates(10)
    at_once = [rates.delay_s(ADDRESS, 100.0) for _ in range(50)]
    assert all(delay_s is not None and delay_s < 1e-9 for delay_s in at_once)
    later = [rates.delay_s(ADDRESS, 100.0) for _ in range(60)]
    assert later[:50] == pytest.approx([number / 10 for number in range(1, 51)])
    assert later[50:] == [None] * 10  # refused, and not counted
    assert rates.delay_s(ADDRESS, 101.0) == pytest.approx(4.1)
    other = rates.delay_s("10.0.0.2", 100.0)
    assert other is not None
    assert other <= 0


def test_connections_never_wait_when_there_is_no_rate() -> None:
    rates = AddressRates(None)
    assert {rates.delay_s(ADDRESS, 0.0) for _ in range(10_000)} == {0.0}


def test_addresses_beyond_the_most_are_forgotten_when_they_are_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.server.network.admission._MOST_ADDRESSES", 2)
    rates = AddressRates(1)
    delays = [[rates.delay_s(address, 0.0) for _ in range(6)][-1] for address in ("a", "b", "c", "b", "a")]
    assert delays == pytest.approx([1.0, 1.0, 1.0, None, 1.0])


# -- on a running server ------------------------------------------------------------------------------------------


@contextmanager
def no_turns(running: Running, quota: UnauthenticatedQuota) -> Iterator[None]:
    """Have no round of quota begin while the body runs."""

    async def stop() -> None:
        quota._left, quota._is_scheduled = 0, True

    async def go_on() -> None:
        quota._begin_round()

    running.run(stop())
    try:
        yield
    finally:
        running.run(go_on())


def turns_of(running: Running) -> UnauthenticatedQuota:
    assert running.server._tcp is not None
    return running.server._tcp.quota


def test_tcp_answers_users_when_unauthenticated_clients_have_no_turn(make_loop: MakeLoop) -> None:
    with serving(make_loop=make_loop) as running, running.peer() as user, ExitStack() as stack:
        strangers = [stack.enter_context(running.peer(is_logged_in=False)) for _ in range(10)]
        assert all(stranger.request(Code.PING) == (0, b"") for stranger in strangers)
        quota = turns_of(running)
        with no_turns(running, quota):
            for stranger in strangers:
                stranger.send(PING * 3)
            wait_until(lambda: quota.waiting_count == len(strangers))
            assert [user.request(Code.PING) for _ in range(5)] == [(0, b"")] * 5
            assert quota.waiting_count == len(strangers)
        for stranger in strangers:
            assert [stranger.receive() for _ in range(3)] == [(0, b"")] * 3


def test_tcp_accepts_nobody_when_unauthenticated_clients_have_no_turn(make_loop: MakeLoop) -> None:
    with serving(make_loop=make_loop) as running, running.peer() as user:
        assert running.server._tcp is not None
        connections = running.server._tcp._connections
        with no_turns(running, turns_of(running)):
            newcomer = running.peer(is_logged_in=False)
            newcomer.send(PING)
            assert [user.request(Code.PING) for _ in range(20)] == [(0, b"")] * 20
            assert len(connections) == 1
        assert newcomer.receive() == (0, b"")


def test_tcp_answers_or_forgets_clients_that_leave_while_they_wait_for_a_turn(make_loop: MakeLoop) -> None:
    with serving(make_loop=make_loop) as running, running.peer() as user:
        assert running.server._tcp is not None
        quota, connections = turns_of(running), running.server._tcp._connections
        leaving, staying = running.peer(is_logged_in=False), running.peer(is_logged_in=False)
        assert leaving.request(Code.PING) == staying.request(Code.PING) == (0, b"")
        with no_turns(running, quota):
            leaving.send(PING)
            staying.send(PING)
            wait_until(lambda: quota.waiting_count == 2)
            leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaving.close()
        assert staying.receive() == (0, b"")
        wait_until(lambda: len(connections) == 2)
        assert user.request(Code.PING) == (0, b"")


def test_http_answers_users_when_unauthenticated_clients_have_no_turn(make_loop: MakeLoop) -> None:
    config = config_of(http_address=Address("127.0.0.1", 0))
    with serving(config, make_loop) as running:
        address = running.server.http_address
        assert address is not None
        user, stranger = (http.client.HTTPConnection(address.host, address.port, timeout=30) for _ in range(2))
        user.request("POST", "/users/login", json.dumps({"username": "iggy", "password": "iggy"}), JSON)
        token = json.load(user.getresponse())["access_token"]["token"]
        head = {"authorization": f"Bearer {token}"}
        user.request("GET", "/streams", headers=head)
        assert user.getresponse().read() == b"[]"
        stranger.request("GET", "/health")
        assert stranger.getresponse().read()
        quota = turns_of(running)
        with no_turns(running, quota):
            stranger.request("GET", "/health")
            wait_until(lambda: quota.waiting_count == 1)
            for _ in range(3):
                user.request("GET", "/streams", headers=head)
                assert user.getresponse().read() == b"[]"
            assert quota.waiting_count == 1
        response = stranger.getresponse()
        assert (response.status, bool(response.read())) == (200, True)
        user.close()
        stranger.close()


JSON = {"content-type": "application/json"}


def test_kafka_answers_unauthenticated_clients_when_they_have_a_turn() -> None:
    with kafka_listener() as listener:
        running = listener.running
        kafka = running.server._kafka
        assert kafka is not None
        assert running.server.kafka_address is not None
        with socket.create_connection(running.server.kafka_address, 30) as stranger:
            stranger.sendall(struct.pack(">i", 10) + struct.pack(">hhih", 18, 0, 7, -1))
            (size,) = struct.unpack(">i", stranger.recv(4, socket.MSG_WAITALL))
            assert len(stranger.recv(size, socket.MSG_WAITALL)) == size
            with no_turns(running, kafka.quota):
                stranger.sendall(struct.pack(">i", 10) + struct.pack(">hhih", 18, 0, 8, -1))
                wait_until(lambda: kafka.quota.waiting_count == 1)
            (size,) = struct.unpack(">i", stranger.recv(4, socket.MSG_WAITALL))
            assert stranger.recv(size, socket.MSG_WAITALL)[:4] == struct.pack(">i", 8)


def test_server_has_one_admission_for_all_listeners() -> None:
    with kafka_listener(http_address=Address("127.0.0.1", 0), connection_rate=7) as listener:
        server = listener.running.server
        assert server._tcp is not None
        assert server._http is not None
        assert server._kafka is not None
        shared: Admission = server._http._admission
        assert server._tcp.quota is server._kafka.quota is shared.quota
        assert shared.rates._rate == 7
