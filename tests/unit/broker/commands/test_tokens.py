"""Unit tests of headstream.broker.commands.tokens."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.wire.commands.sessions import LoggedIn
from headstream.core.wire.commands.tokens import CreateToken, DeleteToken, ListTokens, LoginWithToken, Token
from headstream.core.wire.commands.topics import NEVER
from headstream.core.wire.records import Command
from tests.support.server.servers import Server
from tests.unit.broker.commands.test_users import CREATED_US


def test_tokens_are_made_listed_used_and_deleted_by_their_own_user(server: Server) -> None:
    alice, root = server.connect_as("alice"), server.root()
    hour_us = 3_600_000_000
    tokens = {name: alice.ask(CreateToken(name, expiry)).token for name, expiry in (("hour", hour_us), ("ever", NEVER))}
    root.ask(CreateToken("hour", 0))
    assert [len(token) for token in tokens.values()] == [68, 68]
    assert alice.ask(ListTokens()) == (Token("ever", 0), Token("hour", CREATED_US + hour_us))
    assert root.ask(ListTokens()) == (Token("hour", 0),)
    assert [server.connect().ask(LoginWithToken(token)) for token in tokens.values()] == [LoggedIn(2)] * 2
    alice.ask(DeleteToken("hour"))
    assert server.connect().status(LoginWithToken(tokens["hour"])) == 20
    assert (alice.ask(ListTokens()), root.ask(ListTokens())) == ((Token("ever", 0),), (Token("hour", 0),))


def test_token_is_refused_from_its_expiry_on_and_forgotten_by_a_sweep(server: Server) -> None:
    root, peer = server.root(), server.connect()
    token = root.ask(CreateToken("second", 1_000_000)).token
    longest = root.ask(CreateToken("longest", NEVER - 1)).token
    server.clock.now_s += 0.5
    assert peer.status(LoginWithToken(token)) == 0
    server.clock.now_s += 0.5
    assert peer.status(LoginWithToken(token)) == 54
    server.dispatcher.sweep()
    assert [peer.status(LoginWithToken(each)) for each in (token, longest)] == [20, 0]
    assert [token.name for token in root.ask(ListTokens())] == ["longest"]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (CreateToken("own", 0), 51),
        (DeleteToken("other"), 20),
        (CreateToken("ab", 0), 50),
        (CreateToken("x" * 31, 0), 50),
        (DeleteToken("ab"), 50),
    ],
)
def test_a_command_on_tokens_is_refused_with_its_status_and_changes_nothing(
    server: Server, command: Command[Any], status: int
) -> None:
    root = server.root()
    root.ask(CreateToken("own", 0))
    assert root.status(command) == status
    assert [token.name for token in root.ask(ListTokens())] == ["own"]


def test_create_token_is_refused_beyond_the_limit_per_user() -> None:
    server = Server(most_tokens=2)
    root, alice = server.root(), server.connect_as("alice")
    for name in ("one", "two"):
        root.ask(CreateToken(name, 0))
    assert [root.status(CreateToken(name, 0)) for name in ("three", "two")] == [52, 52]
    assert alice.status(CreateToken("three", 0)) == 0
    root.ask(DeleteToken("one"))
    assert root.status(CreateToken("three", 0)) == 0
    server.broker.close()


def test_access_tokens_of_http_are_withdrawn_until_they_expire(server: Server) -> None:
    tokens = server.dispatcher.tokens
    now_s = int(server.clock.now_s)
    tokens.revoke("a", now_s + 10)
    tokens.revoke("a", now_s + 10)
    assert [tokens.is_revoked(token) for token in "ab"] == [True, False]
    server.clock.now_s += 10
    server.dispatcher.sweep()
    assert not tokens.is_revoked("a")
