"""The original suite's user scenario: users, passwords, rights, personal access tokens and sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headstream.core.wire.commands import sessions, streams, system, topics, users
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.commands.tokens import CreateToken, DeleteToken, ListTokens, LoginWithToken
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import build, poll, send
from tests.support.server.peers import HttpPeer, Peer, RefusedError, TcpPeer, refused

EVERYTHING = Permissions(GlobalPermissions.all())
ACTIVE, INACTIVE = users.UserStatus.ACTIVE, users.UserStatus.INACTIVE


def make_user(root: TcpPeer, permissions: Permissions | None = None) -> users.UserDetails:
    return root.ask(users.CreateUser("user", "secret", ACTIVE, permissions))


def test_nothing_but_what_is_public_is_answered_before_the_login(guest: Peer) -> None:
    guest.ask(sessions.Ping())
    assert refused(guest, system.GetStats()) == Status.UNAUTHENTICATED  # Iggy's server answers it: it answers without a login
    assert refused(guest, users.ListUsers()) == Status.UNAUTHENTICATED
    assert refused(guest, streams.CreateStream(1, "orders")) == Status.UNAUTHENTICATED
    if isinstance(guest, TcpPeer):
        assert guest.ask(streams.GetStream(1)) is None
        assert refused(guest, system.GetMe()) == Status.UNAUTHENTICATED


def test_the_root_user_logs_in_and_is_the_only_one(guest: Peer) -> None:
    assert guest.login("iggy", "iggy") == 1
    [listed] = guest.ask(users.ListUsers())
    assert (listed.id, listed.username, listed.status) == (1, "iggy", ACTIVE)
    found = guest.ask(users.GetUser(1))
    assert found == guest.ask(users.GetUser("iggy"))
    assert found is not None
    assert found.created_us > 0
    assert found.permissions is not None
    assert found.permissions.everywhere == GlobalPermissions.all()


@pytest.mark.parametrize(
    ("username", "password", "status"),
    [
        ("nobody", "secret", Status.INVALID_CREDENTIALS),
        ("iggy", "wrong", Status.INVALID_CREDENTIALS),
        ("iggy", "no", Status.INVALID_PASSWORD),
        ("ig", "iggy", Status.INVALID_USERNAME),
        ("i" * 51, "iggy", Status.INVALID_USERNAME),
        ("iggy", "p" * 101, Status.INVALID_PASSWORD),
    ],
)
def test_a_wrong_login_is_refused(guest: Peer, username: str, password: str, status: Status) -> None:
    assert refused(guest, sessions.Login(username, password)) == status


def test_a_user_without_rights_changes_its_own_password_and_nothing_else(root: TcpPeer, guest: Peer) -> None:
    made = make_user(root)
    assert made.id >= 2
    assert made.permissions is None
    assert guest.login("user", "secret") == made.id
    assert refused(guest, users.CreateUser("other", "secret", ACTIVE)) == Status.UNAUTHORIZED
    assert refused(guest, streams.ListStreams()) == Status.UNAUTHORIZED
    assert refused(guest, users.DeleteUser(999)) == Status.UNAUTHORIZED
    assert guest.ask(users.GetUser(made.id)) == made
    guest.ask(users.ChangePassword(made.id, "secret", "new-secret"))
    assert refused(guest, users.ChangePassword("user", "secret", "newer-secret")) == Status.INVALID_CREDENTIALS
    assert refused(guest, sessions.Login("user", "secret")) == Status.INVALID_CREDENTIALS
    assert guest.login("user", "new-secret") == made.id


def test_personal_access_tokens_log_in_until_they_are_deleted(root: TcpPeer, guest: Peer) -> None:
    user_id = make_user(root).id
    guest.login("user", "secret")
    tokens = {
        name: guest.ask(CreateToken(name, expiry)).token for name, expiry in (("hour", 3_600_000_000), ("ever", topics.NEVER))
    }
    assert all(tokens.values())
    assert len(set(tokens.values())) == 2
    assert refused(guest, CreateToken("hour", 0)) == Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS
    listed = {token.name: token.expires_us for token in guest.ask(ListTokens())}
    assert listed.keys() == {"hour", "ever"}
    assert not listed["ever"]
    assert listed["hour"]
    guest.ask(sessions.Logout())
    for token in tokens.values():
        reply = guest.ask(LoginWithToken(token))
        assert reply.user_id == user_id
        if isinstance(guest, HttpPeer):
            assert reply.access_token is not None
            guest.token = reply.access_token.token
    for name in tokens:
        guest.ask(DeleteToken(name))
    assert guest.ask(ListTokens()) == ()
    assert refused(guest, DeleteToken("hour")) == Status.RESOURCE_NOT_FOUND
    for token in tokens.values():
        assert refused(guest, LoginWithToken(token)) == Status.RESOURCE_NOT_FOUND


def test_a_user_is_renamed_made_inactive_given_rights_and_deleted(root: TcpPeer, peer: Peer) -> None:
    made = make_user(root)
    assert refused(peer, users.CreateUser("user", "secret", ACTIVE)) == Status.USER_ALREADY_EXISTS
    peer.ask(users.UpdateUser("user", "renamed", INACTIVE))
    found = peer.ask(users.GetUser("renamed"))
    assert found is not None
    assert (found.id, found.status) == (made.id, INACTIVE)
    assert refused(peer, sessions.Login("renamed", "secret")) == Status.USER_INACTIVE
    assert refused(peer, users.UpdateUser("renamed", "iggy")) == Status.USER_ALREADY_EXISTS
    some = Permissions(
        GlobalPermissions(read_servers=True),
        {3: StreamPermissions(read_stream=True, topics={5: TopicPermissions(poll_messages=True), 6: TopicPermissions()})},
    )
    peer.ask(users.UpdatePermissions(made.id, some))
    found = peer.ask(users.GetUser(made.id))
    assert found is not None
    assert found.permissions == some
    peer.ask(users.UpdatePermissions(made.id, None))
    found = peer.ask(users.GetUser(made.id))
    assert found is not None
    assert found.permissions is None
    peer.ask(users.DeleteUser(made.id))
    assert peer.ask(users.GetUser(made.id)) is None
    for command in (users.DeleteUser("renamed"), users.UpdateUser(made.id, "again"), users.UpdatePermissions(made.id)):
        assert refused(peer, command) == Status.RESOURCE_NOT_FOUND


def test_nothing_is_answered_after_the_logout(guest: Peer) -> None:
    guest.login()
    guest.ask(sessions.Logout())
    assert refused(guest, users.ListUsers()) == Status.UNAUTHENTICATED
    guest.ask(sessions.Ping())


def test_rights_on_one_topic_open_that_topic_alone(root: TcpPeer, guest: Peer) -> None:
    build(root)
    root.ask(streams.CreateStream(2, "other"))
    send(root, [b"hello"])
    make_user(
        root, Permissions(streams={1: StreamPermissions(topics={1: TopicPermissions(read_topic=True, send_messages=True)})})
    )
    guest.login("user", "secret")
    send(guest, [b"from the user"])
    assert poll(guest).count == 2
    assert refused(guest, streams.ListStreams()) == Status.UNAUTHORIZED
    assert guest.ask(streams.GetStream(2)) is None
    assert refused(guest, streams.CreateStream(3, "third")) == Status.UNAUTHORIZED


def test_changed_rights_count_from_the_next_command_on(root: TcpPeer, guest: Peer) -> None:
    user_id = make_user(root).id
    guest.login("user", "secret")
    assert refused(guest, streams.ListStreams()) == Status.UNAUTHORIZED
    root.ask(users.UpdatePermissions(user_id, EVERYTHING))
    assert guest.ask(streams.ListStreams()) == ()
    root.ask(users.UpdatePermissions(user_id, None))
    assert refused(guest, streams.ListStreams()) == Status.UNAUTHORIZED


def test_a_deleted_user_is_not_served_any_more(root: TcpPeer, connect: Callable[..., TcpPeer]) -> None:
    user_id = make_user(root, EVERYTHING).id
    user = connect("user")
    client_id = user.ask(system.GetMe()).client_id
    assert root.ask(system.GetClient(client_id)) is not None
    root.ask(users.DeleteUser(user_id))
    with pytest.raises((RefusedError, ConnectionError)):
        user.ask(streams.ListStreams())
    assert root.ask(system.GetClient(client_id)) is None
