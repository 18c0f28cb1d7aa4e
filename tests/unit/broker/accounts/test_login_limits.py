"""Login limits: a guesser waits, others do not, and no password is looked at meanwhile."""

from __future__ import annotations

import pytest

from headstream.broker.accounts.passwords import Passwords
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.tokens import LoginWithToken
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


def test_tokens_that_are_tried_are_limited_by_address(server: Server) -> None:
    guesser = connect_from(server, "10.0.0.1")
    assert [guesser.status(LoginWithToken("x" * 68)) for _ in range(12)] == [20] * 10 + [42] * 2
