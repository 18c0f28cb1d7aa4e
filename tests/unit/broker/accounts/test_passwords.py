"""Passwords: what is kept, and what is right."""

from __future__ import annotations

import bcrypt
import pytest

from headstream.broker.accounts.passwords import Passwords

PASSWORDS = Passwords(4)


@pytest.mark.parametrize("password", ["secret", "pässwörd", "a\0b", "x" * 72, "x" * 100, "\udcff lone"])
def test_a_password_is_right_and_others_are_wrong(password: str) -> None:
    kept = PASSWORDS.hash(password)
    assert password not in kept
    assert PASSWORDS.check(password, kept)
    assert [PASSWORDS.check(other, kept) for other in (password + "x", password[:-1], "")] == [False] * 3


def test_one_password_is_kept_differently_each_time_at_the_cost_that_was_asked_for() -> None:
    one, other = PASSWORDS.hash("secret"), PASSWORDS.hash("secret")
    assert one != other
    assert Passwords(5).hash("secret").startswith("$2b$05$")
    assert Passwords(5).check("secret", one)


def test_nobodys_password_is_never_right_and_costs_a_hash() -> None:
    assert not PASSWORDS.check("secret", None)
    with pytest.raises(ValueError, match="salt"):  # as bcrypt sees it, it is looked at
        Passwords(99).check("secret", None)


def test_a_password_that_matched_is_recognized_without_bcrypt_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, checks = 0.0, 0
    real = bcrypt.checkpw

    def count(password: bytes, kept: bytes) -> bool:
        nonlocal checks
        checks += 1
        return real(password, kept)

    monkeypatch.setattr(bcrypt, "checkpw", count)
    passwords = Passwords(4, lambda: now_s)
    one, other = passwords.hash("secret"), passwords.hash("secret")
    assert [passwords.check("secret", one) for _ in range(3)] == [True] * 3
    assert checks == 1
    assert not passwords.check("wrong", one)  # always costs a bcrypt, before and after
    assert not passwords.check("wrong", one)
    assert checks == 3
    assert passwords.check("secret", other)  # as after a change of the password: the hash is another
    assert checks == 4
    now_s = 600.0
    assert passwords.check("secret", one)
    assert checks == 5
    assert not passwords.check("secret", None)
    assert checks == 6
