"""Sessions, users and tokens by their commands: what is answered, and every status by which it is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headstream.broker.accounts.passwords import Passwords
from headstream.broker.broker import Broker
from headstream.broker.commands.table import make_dispatcher
from headstream.broker.settings import ServerSettings
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions
from headstream.core.wire.commands.sessions import LoggedIn, Login
from headstream.core.wire.commands.tokens import CreateToken, ListTokens, LoginWithToken
from headstream.core.wire.commands.topics import NEVER
from headstream.core.wire.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    ListUsers,
    UpdatePermissions,
    UpdateUser,
    User,
    UserDetails,
    UserStatus,
)
from headstream.core.wire.records import Command
from headstream.errors import InvalidInputError
from headstream.log.opening import open_directory
from tests.support.server.servers import Peer, Server

ACTIVE, INACTIVE = UserStatus.ACTIVE, UserStatus.INACTIVE
EVERYTHING = Permissions(GlobalPermissions.all())
MANAGES_USERS = Permissions(GlobalPermissions(manage_users=True))
READS_USERS = Permissions(GlobalPermissions(read_users=True))
CREATED_US = 1_700_000_000_000_000


# -- users -----------------------------------------------------------------------------------------------------


def test_users_are_created_found_changed_and_deleted(server: Server) -> None:
    root = server.root()
    rights = Permissions(GlobalPermissions(read_users=True), {4: StreamPermissions(read_stream=True)})
    alice = UserDetails(2, CREATED_US, ACTIVE, "alice", rights)
    assert root.ask(CreateUser("alice", "secret", ACTIVE, rights)) == alice
    assert root.ask(GetUser("alice")) == alice == root.ask(GetUser(2))
    assert root.ask(GetUser(1)) == UserDetails(1, CREATED_US, ACTIVE, "iggy", EVERYTHING)
    assert root.ask(CreateUser("bob", "secret", INACTIVE)) == UserDetails(3, CREATED_US, INACTIVE, "bob", None)
    root.ask(UpdateUser("alice", "eve", INACTIVE))
    root.ask(UpdateUser(2, status=ACTIVE))
    root.ask(UpdateUser("eve", "eve"))  # its own name
    root.ask(UpdatePermissions("eve", None))
    assert root.ask(GetUser(2)) == UserDetails(2, CREATED_US, ACTIVE, "eve", None)
    root.ask(DeleteUser("eve"))
    assert root.ask(ListUsers()) == (User(1, CREATED_US, ACTIVE, "iggy"), User(3, CREATED_US, INACTIVE, "bob"))
    assert root.ask(CreateUser("alice", "secret", ACTIVE)).id == 4
    assert [root.ask(GetUser(named)) for named in (2, "eve")] == [None, None]


def test_a_name_that_is_a_number_is_a_name(server: Server) -> None:
    server.add_user("100")
    assert server.connect().ask(Login("100", "100100")) == LoggedIn(2)
    assert server.root().ask(GetUser("100")) is not None


REFUSED: list[tuple[Command[Any], int]] = [
    (CreateUser("alice", "secret", ACTIVE), 46),
    (UpdateUser("bob", "alice"), 46),
    (UpdateUser("nobody", "other"), 20),
    (UpdateUser(99, status=ACTIVE), 20),
    (DeleteUser("nobody"), 20),
    (DeleteUser("iggy"), 48),
    (DeleteUser(1), 48),
    (UpdatePermissions("nobody", None), 20),
    (UpdatePermissions(1, None), 49),
    (ChangePassword("nobody", "secret", "other"), 20),
    (ChangePassword("alice", "wrong", "other"), 42),
    (CreateUser("ab", "secret", ACTIVE), 43),
    (CreateUser("x" * 51, "secret", ACTIVE), 43),
    (CreateUser("other", "ab", ACTIVE), 44),
    (CreateUser("other", "x" * 101, ACTIVE), 44),
    (UpdateUser("alice", "ab"), 43),
    (ChangePassword("alice", "secret", "ab"), 44),
]


@pytest.mark.parametrize(("command", "status"), REFUSED)
def test_user_command_is_refused_for_what_it_asks(server: Server, command: Command[Any], status: int) -> None:
    server.add_user("alice")
    server.add_user("bob")
    peer = server.root()
    before = peer.ask(ListUsers())
    assert peer.status(command) == status
    assert peer.ask(ListUsers()) == before


@pytest.mark.parametrize(("command", "status"), [each for each in REFUSED if each[1] not in (43, 44)])
def test_user_command_is_refused_for_who_asks_before_users_are_looked_for(
    server: Server, command: Command[Any], status: int
) -> None:
    server.add_user("alice")
    server.add_user("bob")
    for permissions in (None, READS_USERS):
        assert server.connect_as(f"asks{permissions is None}", permissions).status(command) == 41
    assert server.connect().status(command) == 40


def test_validation_comes_before_the_login(server: Server) -> None:
    assert server.connect().status(CreateUser("ab", "secret", ACTIVE)) == 43


@pytest.mark.parametrize(
    ("permissions", "sees_others", "lists"), [(None, False, 41), (READS_USERS, True, 0), (MANAGES_USERS, True, 0)]
)
def test_looking_at_users_needs_a_right_except_at_oneself(
    server: Server, permissions: Permissions | None, sees_others: bool, lists: int
) -> None:
    peer = server.connect_as("alice", permissions)
    assert [peer.ask(GetUser(named)) is not None for named in ("alice", 2)] == [True, True]
    assert [peer.ask(GetUser(named)) is not None for named in ("iggy", 1)] == [sees_others] * 2
    assert [peer.ask(GetUser(named)) for named in ("nobody", 9)] == [None, None]
    assert peer.status(ListUsers()) == lists
    assert server.connect().ask(GetUser(1)) is None


def test_a_password_is_changed_by_its_user_and_by_who_manages_users(server: Server) -> None:
    peer = server.connect_as("alice")
    peer.ask(ChangePassword("alice", "alicealice", "second"))
    server.root().ask(ChangePassword(2, "second", "third"))
    assert [server.connect().status(Login("alice", password)) for password in ("alicealice", "second", "third")] == [42, 42, 0]


def test_deleting_a_user_ends_its_sessions_and_tokens(server: Server) -> None:
    peer = server.connect_as("alice", MANAGES_USERS)
    token = peer.ask(CreateToken("own", NEVER)).token
    ended: list[Any] = []
    server.dispatcher.sessions.on_close(ended.append)
    server.root().ask(DeleteUser("alice"))
    assert ended == [peer.session]
    assert peer.session.is_ended
    assert peer.session not in server.dispatcher.sessions.list()
    assert [peer.status(ListUsers()), peer.status(CreateToken("new", NEVER))] == [40, 40]
    assert server.connect().status(LoginWithToken(token)) == 20


def test_create_user_is_refused_when_all_user_ids_are_taken(server: Server) -> None:
    with server.broker.backing.log.changing() as catalog, catalog.transaction(()):
        catalog.change("UPDATE sqlite_sequence SET seq = 4294967294 WHERE name = 'users'")
    root = server.root()
    assert root.ask(CreateUser("last", "secret", ACTIVE)).id == (1 << 32) - 1
    assert root.status(CreateUser("more", "secret", ACTIVE)) == 55


@pytest.mark.parametrize("noun", ["user", "token"])
def test_create_succeeds_once_when_many_create_the_same_user_or_token_concurrently(server: Server, noun: str) -> None:
    command: Command[Any] = CreateUser("alice", "secret", ACTIVE) if noun == "user" else CreateToken("own", NEVER)
    peers = [server.root() for _ in range(8)]
    with ThreadPoolExecutor(len(peers)) as pool:
        statuses = sorted(pool.map(lambda peer: peer.status(command), peers))
    assert statuses == [0] + [46 if noun == "user" else 51] * 7
    server.add_user("bob")
    assert [user.id for user in peers[0].ask(ListUsers())] == ([1, 2, 3] if noun == "user" else [1, 2])


def test_a_password_is_changed_once_by_those_who_change_it_at_once(server: Server) -> None:
    server.add_user("alice")
    passwords = [f"new {number}" for number in range(4)]
    peers = [server.root() for _ in passwords]
    with ThreadPoolExecutor(len(peers)) as pool:
        changes = [ChangePassword("alice", "alicealice", password) for password in passwords]
        statuses = list(pool.map(lambda peer, change: peer.status(change), peers, changes))
    assert sorted(statuses) == [0, 42, 42, 42]
    assert [server.connect().status(Login("alice", password)) for password in passwords] == statuses


def test_login_gives_no_rights_when_its_user_is_deleted_during_the_password_check(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add_user("alice", EVERYTHING)
    root, peer = server.root(), server.connect()
    check = Passwords.check

    def check_late(self: Passwords, password: str, kept: str | None) -> bool:
        root.ask(DeleteUser("alice"))
        return check(self, password, kept)

    monkeypatch.setattr(Passwords, "check", check_late)
    peer.status(Login("alice", "alicealice"))
    assert [peer.status(command) for command in (ListUsers(), CreateToken("own", NEVER), ListTokens())] == [40, 40, 40]


# -- root and what a restart leaves -------------------------------------------------------------------------------


def test_root_is_who_the_first_server_says_and_users_outlive_a_restart(tmp_path: Path) -> None:
    def start(**settings: Any) -> tuple[Broker, Peer]:
        broker = Broker(open_directory(str(tmp_path)))
        dispatcher = make_dispatcher(broker, ServerSettings(password_rounds=4, **settings))
        return broker, Peer(dispatcher, dispatcher.sessions.open("127.0.0.1:1"))

    broker, peer = start(root_username="admin", root_password="choose one")
    assert peer.status(Login("iggy", "iggy")) == 42
    peer.log_in("admin", "choose one").ask(CreateUser("alice", "secret", ACTIVE, READS_USERS))
    peer.ask(UpdateUser("admin", "boss"))
    token = peer.ask(CreateToken("own", NEVER)).token
    peer.dispatcher.tokens.revoke("a", 1 << 60)
    broker.close()
    broker, peer = start(root_username="ignored", root_password="ignored")
    assert peer.ask(LoginWithToken(token)) == LoggedIn(1)
    assert [peer.dispatcher.tokens.is_revoked(each) for each in "ab"] == [True, False]
    assert [user.username for user in peer.ask(ListUsers())] == ["boss", "alice"]
    assert peer.log_in("alice", "secret").status(ListUsers()) == 0
    broker.close()


@pytest.mark.parametrize(
    ("settings", "status"), [({"root_username": "ab"}, 43), ({"root_password": "ab"}, 44), ({"root_password": "x" * 101}, 44)]
)
def test_a_server_does_not_start_with_a_root_that_cannot_log_in(settings: dict[str, str], status: int) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Server(**settings)
    assert caught.value.status == status
