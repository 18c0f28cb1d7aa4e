"""What ends with a deactivation or a changed password: sessions and tokens, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.broker.accounts.passwords import Passwords
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.tokens import CreateToken, LoginWithToken
from headstream.core.wire.commands.topics import NEVER
from headstream.core.wire.commands.users import ChangePassword, GetUser, ListUsers, UpdateUser, UserStatus
from tests.support.server.servers import Server

ACTIVE, INACTIVE = UserStatus.ACTIVE, UserStatus.INACTIVE
EVERYTHING = Permissions(GlobalPermissions.all())


def test_deactivation_ends_sessions_and_tokens_at_once_and_for_ever(server: Server) -> None:
    root = server.root()
    peer = server.connect_as("alice", EVERYTHING)
    token = peer.ask(CreateToken("laptop", NEVER)).token
    alice = server.dispatcher.users.get("alice")
    root.ask(UpdateUser("alice", status=INACTIVE))
    assert [server.connect().status(login) for login in (Login("alice", "alicealice"), LoginWithToken(token))] == [47, 47]
    assert [peer.status(command) for command in (ListUsers(), GetUser("iggy"), CreateToken("other", NEVER))] == [40, 40, 40]
    assert not server.dispatcher.users.is_good(alice.id, alice.record.generation)  # as access tokens over HTTP are checked
    assert peer.session not in server.dispatcher.sessions.list()
    root.ask(UpdateUser("alice", status=ACTIVE))
    assert peer.status(ListUsers()) == 40
    assert not server.dispatcher.users.is_good(alice.id, alice.record.generation)
    again = server.connect()
    again.ask(LoginWithToken(token))
    assert again.status(ListUsers()) == 0


def test_changed_password_ends_all_sessions_and_tokens_but_the_session_that_changed_it(server: Server) -> None:
    peer = server.connect_as("alice", EVERYTHING)
    others = [server.connect().log_in("alice", "alicealice") for _ in range(2)]
    token = peer.ask(CreateToken("laptop", NEVER)).token
    before = server.dispatcher.users.get("alice").record.generation
    peer.ask(ChangePassword("alice", "alicealice", "second"))
    assert [each.status(ListUsers()) for each in (peer, *others)] == [0, 40, 40]
    assert server.connect().status(LoginWithToken(token)) == 20
    assert not server.dispatcher.users.is_good(2, before)
    server.root().ask(ChangePassword("alice", "second", "third"))
    assert peer.status(ListUsers()) == 40


def test_generation_of_a_user_is_kept_when_the_log_is_opened_again(tmp_path: Path) -> None:
    server = Server(directory=tmp_path)
    server.connect_as("alice").ask(ChangePassword("alice", "alicealice", "second"))
    server.broker.close()
    server = Server(directory=tmp_path)
    assert server.dispatcher.users.get("alice").record.generation == 1
    server.broker.close()


def test_login_that_a_deactivation_overtakes_may_do_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.add_user("alice", EVERYTHING)
    root, peer, check = server.root(), server.connect(), Passwords.check

    def check_late(self: Passwords, password: str, kept: str | None) -> bool:
        root.ask(UpdateUser("alice", status=INACTIVE))
        return check(self, password, kept)

    monkeypatch.setattr(Passwords, "check", check_late)
    peer.ask(Login("alice", "alicealice"))
    assert peer.status(ListUsers()) == 40
