"""LoginLimits by itself: the second at which an attempt is taken again, and how much is remembered."""

from __future__ import annotations

import pytest

from headstream.broker.accounts import login_limits
from headstream.broker.accounts.login_limits import LoginLimits
from headstream.errors import AuthenticationError


class Attempts:
    """Attempts at a clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.limits = LoginLimits(lambda: self.now_s)

    def fail(self, times: int, address: str, user: str) -> None:
        for _ in range(times):
            self.limits.failed(address, user)

    def wait_s(self, address: str, user: str) -> int | None:
        """Return what a refused attempt is told, None for one that is taken."""
        try:
            self.limits.check(address, user)
        except AuthenticationError as error:
            return int(str(error).partition("Log in again in ")[2].partition(" s")[0])
        return None


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


@pytest.mark.parametrize(("failures", "wait_s"), [(9, None), (10, 1), (11, 2), (15, 32), (16, 60), (1000, 60)])
def test_address_waits_after_ten_failures_and_a_minute_at_most(attempts: Attempts, failures: int, wait_s: int | None) -> None:
    attempts.fail(failures, "10.0.0.1", "")
    assert attempts.wait_s("10.0.0.1", "ann") == wait_s
    assert attempts.wait_s("10.0.0.2", "ann") is None


@pytest.mark.parametrize(("failures", "wait_s"), [(4, None), (5, 1), (6, 2)])
def test_user_waits_after_five_failures_whatever_the_address(attempts: Attempts, failures: int, wait_s: int | None) -> None:
    for number in range(failures):
        attempts.fail(1, f"10.0.0.{number}", "ann")
    assert attempts.wait_s("10.0.1.1", "ann") == wait_s
    assert attempts.wait_s("10.0.1.1", "bob") is None


def test_attempt_is_taken_at_the_very_second_that_was_told(attempts: Attempts) -> None:
    attempts.fail(6, "10.0.0.1", "ann")
    attempts.now_s += 1.999
    with pytest.raises(AuthenticationError):
        attempts.limits.check("10.0.0.1", "ann")
    attempts.now_s += 0.001
    attempts.limits.check("10.0.0.1", "ann")


def test_longer_of_two_waits_holds(attempts: Attempts) -> None:
    attempts.fail(13, "10.0.0.1", "")
    attempts.fail(5, "10.0.0.2", "ann")
    assert attempts.wait_s("10.0.0.1", "ann") == 8
    assert attempts.wait_s("10.0.0.3", "ann") == 1


def test_failures_are_forgotten_only_after_ten_minutes(attempts: Attempts) -> None:
    attempts.fail(4, "10.0.0.1", "ann")
    attempts.now_s += 600.0
    attempts.fail(1, "10.0.0.1", "ann")
    assert attempts.wait_s("10.0.0.2", "ann") == 1
    attempts.now_s += 600.5
    attempts.fail(4, "10.0.0.1", "ann")
    assert attempts.wait_s("10.0.0.2", "ann") is None
    attempts.fail(1, "10.0.0.1", "ann")
    assert attempts.wait_s("10.0.0.2", "ann") == 1


def test_user_that_has_logged_in_from_an_address_is_limited_by_its_own_failures_there(attempts: Attempts) -> None:
    attempts.limits.succeeded("10.0.0.1", "ann")
    attempts.fail(5, "10.0.0.1", "ann")
    assert attempts.wait_s("10.0.0.1", "ann") == 1
    assert attempts.wait_s("10.0.0.2", "ann") is None
    assert attempts.wait_s("10.0.0.1", "bob") is None
    attempts.limits.succeeded("10.0.0.1", "ann")
    assert attempts.wait_s("10.0.0.1", "ann") is None


def test_oldest_failures_are_forgotten_first_when_there_are_too_many(attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "_MOST_KEYS", 3)
    for user in ("ann", "bob", "cem"):
        attempts.fail(5, f"of {user}", user)
    assert [attempts.wait_s("elsewhere", user) for user in ("ann", "bob", "cem")] == [1, 1, 1]
    attempts.fail(1, "of ann", "ann")  # the newest now
    attempts.fail(5, "of dan", "dan")
    assert [attempts.wait_s("elsewhere", user) for user in ("ann", "bob", "cem", "dan")] == [2, None, 1, 1]


def test_oldest_successes_are_forgotten_first_when_there_are_too_many(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as few:
        few.setattr(login_limits, "_MOST_KEYS", 2)
        for user in ("ann", "bob", "ann", "cem"):
            attempts.limits.succeeded("10.0.0.1", user)
    for number in range(5):
        for user in ("ann", "bob", "cem"):
            attempts.fail(1, f"10.0.1.{number}", user)
    assert [attempts.wait_s("10.0.0.1", user) for user in ("ann", "bob", "cem")] == [None, 1, None]


def test_so_many_are_remembered_of_each() -> None:
    attempts = Attempts()
    attempts.fail(10, "10.0.0.1", "")
    for number in range(9_999):
        attempts.fail(1, f"address {number}", "")
    assert attempts.wait_s("10.0.0.1", "") == 1
    attempts.fail(1, "one more", "")
    assert attempts.wait_s("10.0.0.1", "") is None
