"""Unauthenticated clients: which are closed when all places of a server are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.frames import encode_request
from tests.support.server.served import serving

MOST = 8


def test_tcp_answers_a_long_request_behind_a_login_and_a_logout_that_came_with_it(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    login = encode_request(Code.LOGIN, Login(DEFAULT_USERNAME, DEFAULT_PASSWORD, "0.6.210").encode())
    with serving(make_loop=make_loop) as running, running.peer(is_logged_in=False) as peer:
        peer.send(login + encode_request(Code.LOGOUT, b"") + encode_request(Code.PING, bytes(60_000)))
        assert [peer.receive()[0] for _ in range(3)] == [0, 0, 0]
        assert peer.request(Code.PING) == (0, b"")
