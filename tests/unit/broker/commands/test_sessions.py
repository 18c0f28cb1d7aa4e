"""Unit tests of headstream.broker.commands.sessions."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.broker.settings import ServerSettings
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands import groups, streams, tokens, topics, users
from headstream.core.wire.commands.sessions import LoggedIn, Login, Logout, Ping
from headstream.core.wire.records import Command
from tests.support.server.servers import Server
from tests.unit.broker.commands.test_users import EVERYTHING, INACTIVE


def test_ping_needs_no_login_and_keeps_a_session_alive(server: Server) -> None:
    server.dispatcher.settings = ServerSettings(heartbeat_us=5_000_000)
    silent, alive = server.root(), server.root()
    for _ in range(2):
        server.clock.now_s += 4
        alive.ask(Ping())
        server.dispatcher.sweep()
    assert [silent.session.is_stale, alive.session.is_stale] == [True, False]
    assert [silent.status(users.ListUsers()), alive.status(users.ListUsers()), silent.status(Ping())] == [30, 0, 0]
    assert server.dispatcher.sessions.list() == [alive.session]


def test_sweep_leaves_silent_sessions_where_no_heartbeat_is_asked_for(server: Server) -> None:
    peer = server.root()
    server.clock.now_s += 1e6
    server.dispatcher.sweep()
    assert peer.status(users.ListUsers()) == 0


def test_login_says_who_one_is_and_replaces_who_one_was(server: Server) -> None:
    server.add_user("alice")
    peer = server.connect()
    assert peer.ask(Login("iggy", "iggy", "0.6.203", "")) == LoggedIn(1)
    assert peer.ask(Login("alice", "alicealice")) == LoggedIn(2)
    assert peer.session.user_id == 2
    assert peer.status(users.ListUsers()) == 41


@pytest.mark.parametrize("context", [None, "", EXTENSION_CONTEXT])
def test_login_says_whether_the_client_knows_our_own_commands(server: Server, context: str | None) -> None:
    peer = server.connect()
    token = server.root().ask(tokens.CreateToken("own", 0)).token
    for login in (Login("iggy", "iggy", "1.0.0", context), tokens.LoginWithToken(token, "1.0.0", context)):
        peer.ask(login)
        assert peer.session.is_extended == (context == EXTENSION_CONTEXT)


def test_logout_leaves_the_connection_to_ping_and_log_in(server: Server) -> None:
    peer = server.root()
    peer.ask(streams.CreateStream(0, "shop"))
    peer.ask(topics.CreateTopic("shop", 0, 1, topics.Compression.NONE, 0, 0, 0, "eu"))
    peer.ask(groups.CreateGroup("shop", "eu", 0, "g"))
    peer.ask(groups.JoinGroup("shop", "eu", "g"))
    peer.ask(Logout())
    group = server.root().ask(groups.GetGroup("shop", "eu", "g"))
    assert group is not None
    assert group.members_count == 0
    assert [peer.status(command) for command in (Logout(), users.ListUsers(), tokens.ListTokens(), Ping())] == [40, 40, 40, 0]
    assert peer.log_in().status(users.ListUsers()) == 0


@pytest.mark.parametrize(
    ("login", "status"),
    [
        (Login("iggy", "wrong"), 42),
        (Login("nobody", "iggy"), 42),
        (Login("inactive", "inactiveinactive"), 47),
        (Login("inactive", "wrong"), 47),  # before the password is looked at
        (Login("ab", "iggy"), 43),
        (Login("iggy", "ab"), 44),
        (Login("iggy", "iggy", "0.7.0"), 7),
        (tokens.LoginWithToken("no such token"), 20),
        (tokens.LoginWithToken(""), 53),
        (tokens.LoginWithToken("x" * 101), 53),
    ],
)
def test_login_is_refused_with_its_status_when_its_user_password_or_token_is_not_valid(
    server: Server, login: Command[Any], status: int
) -> None:
    server.add_user("inactive", EVERYTHING, INACTIVE)
    peer = server.connect()
    assert peer.status(login) == status
    assert peer.session.user_id == 0
