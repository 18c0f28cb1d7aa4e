"""Unauthenticated clients: which are closed when all places of a server are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.frames import encode_request
from headstream.server.config.tcp_settings import TcpSettings
from tests.support.server.served import config_of, serving
from tests.support.waiting import wait_until

MOST = 8


def test_tcp_ends_the_oldest_unauthenticated_clients_when_all_places_are_taken(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    config = config_of(tcp=TcpSettings(max_connections=MOST))
    with serving(config, make_loop=make_loop) as running, running.peer() as known, ExitStack() as stack:
        tcp = running.server._tcp
        assert tcp is not None
        unauthenticated_clients = [stack.enter_context(running.peer(is_logged_in=False)) for _ in range(MOST - 1)]
        for unauthenticated in unauthenticated_clients:
            assert unauthenticated.request(Code.PING) == (0, b"")
        users = [stack.enter_context(running.peer()) for _ in range(MOST - 2)]
        assert all(unauthenticated.is_closed() for unauthenticated in unauthenticated_clients[:-1])
        assert unauthenticated_clients[-1].request(Code.PING) == (0, b"")
        assert all(user.request(Code.PING) == (0, b"") for user in (known, *users))
        wait_until(lambda: len(tcp._connections) == MOST)
        assert tcp.traffic.refused_connections == 0


def test_tcp_refuses_a_connection_when_users_have_all_places(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    config = config_of(tcp=TcpSettings(max_connections=2))
    with serving(config, make_loop=make_loop) as running, running.peer() as one, running.peer() as two:
        with running.peer(is_logged_in=False) as unauthenticated:
            assert unauthenticated.is_closed()
        assert [peer.request(Code.PING) for peer in (one, two)] == [(0, b"")] * 2
        assert running.server._tcp is not None
        assert running.server._tcp.traffic.refused_connections == 1


def test_tcp_answers_a_long_request_behind_a_login_and_a_logout_that_came_with_it(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    login = encode_request(Code.LOGIN, Login(DEFAULT_USERNAME, DEFAULT_PASSWORD, "0.6.210").encode())
    with serving(make_loop=make_loop) as running, running.peer(is_logged_in=False) as peer:
        peer.send(login + encode_request(Code.LOGOUT, b"") + encode_request(Code.PING, bytes(60_000)))
        assert [peer.receive()[0] for _ in range(3)] == [0, 0, 0]
        assert peer.request(Code.PING) == (0, b"")
