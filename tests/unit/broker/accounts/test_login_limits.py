"""Login limits: a guesser waits, others do not, and no password is looked at meanwhile."""

from __future__ import annotations

import pytest

from headstream.broker.accounts.passwords import Passwords
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.tokens import LoginWithToken
from headstream.errors import AuthenticationError
from tests.support.server.servers import Peer, Server


def connect_from(server: Server, host: str, port: int = 1) -> Peer:
    return Peer(server.dispatcher, server.dispatcher.sessions.open(f"{host}:{port}"))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were looked at."""
    looked: list[str] = []
    check = Passwords.check

    def note(self: Passwords, password: str, kept: str | None) -> bool:
        looked.append(password)
        return check(self, password, kept)

    monkeypatch.setattr(Passwords, "check", note)
    return looked


def test_400_wrong_logins_cost_ten_checks_and_a_right_one_of_another_address_none_of_its_time(
    server: Server, checks: list[str]
) -> None:
    guesser = connect_from(server, "10.0.0.1")
    assert {guesser.status(Login(f"guess{number}", "wrong")) for number in range(400)} == {42}
    assert len(checks) == 10
    assert connect_from(server, "10.0.0.2").status(Login("iggy", "iggy")) == 0


def test_login_of_a_user_waits_longer_after_each_failure_up_to_a_minute(server: Server, checks: list[str]) -> None:
    waits = []
    for number in range(5):
        assert connect_from(server, f"10.0.0.{number}").status(Login("iggy", "wrong")) == 42
    for number in range(8):
        began_s = server.clock.now_s
        while connect_from(server, f"10.0.1.{number}").status(Login("iggy", "wrong")) == 42 and len(checks) == 5 + number:
            server.clock.now_s += 0.5
        waits.append(server.clock.now_s - began_s)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    server.clock.now_s += 60
    assert connect_from(server, "10.0.2.1").status(Login("iggy", "iggy")) == 0


def test_user_is_not_locked_out_by_unauthenticated_clients_where_it_has_logged_in_before(server: Server) -> None:
    assert connect_from(server, "10.0.0.1").status(Login("iggy", "iggy")) == 0
    for number in range(20):
        connect_from(server, f"10.0.1.{number}").status(Login("iggy", "wrong"))
        connect_from(server, "10.0.0.1").status(Login("other", "wrong"))
    with pytest.raises(AuthenticationError, match="too many logins have failed"):
        connect_from(server, "10.0.3.1").ask(Login("iggy", "iggy"))
    assert connect_from(server, "10.0.0.1").status(Login("iggy", "iggy")) == 0
    for _ in range(5):
        assert connect_from(server, "10.0.0.1").status(Login("iggy", "wrong")) == 42
    assert connect_from(server, "10.0.0.1").status(Login("iggy", "iggy")) == 42
    server.clock.now_s += 1
    assert connect_from(server, "10.0.0.1").status(Login("iggy", "iggy")) == 0


def test_tokens_that_are_tried_are_limited_by_address(server: Server) -> None:
    guesser = connect_from(server, "10.0.0.1")
    assert [guesser.status(LoginWithToken("x" * 68)) for _ in range(12)] == [20] * 10 + [42] * 2


def test_failures_are_forgotten_after_ten_minutes(server: Server, checks: list[str]) -> None:
    guesser = connect_from(server, "10.0.0.1")
    for _ in range(30):
        guesser.status(Login("nobody", "wrong"))
    assert len(checks) == 5
    server.clock.now_s += 601
    assert guesser.status(Login("nobody", "wrong")) == 42
    assert len(checks) == 6
