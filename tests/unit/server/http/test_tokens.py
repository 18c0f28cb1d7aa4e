"""Access tokens: what they say, and each way in which one is not taken."""

from __future__ import annotations

import time
import uuid
from typing import Any

import jwt
import pytest

from headstream.errors import AuthenticationError
from headstream.server.config.http_settings import TokenSettings
from headstream.server.http.tokens import AccessTokens, Claims

SECRET = b"0123456789abcdef" * 4


class Users:
    """Users 1 to 9, whose generation is 3."""

    def generation_of(self, user_id: int, generation: int, token_id: str) -> int | None:
        return 3 if user_id in range(1, 10) and generation == 3 else None


USERS = Users()
UNSIGNED = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0."
"""The first part of a token that says that it needs no signature."""


class Remembered:
    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def revoke(self, token_id: str, expires_s: int) -> bool:
        if token_id in self.ids:
            return False
        self.ids[token_id] = expires_s
        return True

    def is_revoked(self, token_id: str) -> bool:
        return token_id in self.ids


def make(ago_s: float = 0.0, **settings: Any) -> AccessTokens:
    return AccessTokens(TokenSettings(secret=SECRET, **settings), Remembered(), USERS, lambda: time.time() - ago_s)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_token_says_whose_it_is_and_for_how_long(algorithm: Any) -> None:
    before = int(time.time())
    tokens = make(algorithm=algorithm, expiry_s=60)
    issued = tokens.issue(7, 3)
    claims = tokens.verify(issued.token)
    assert claims == Claims(7, claims.token_id, claims.issued_s, issued.expiry, 3)
    assert 60 <= issued.expiry - before <= 62
    assert uuid.UUID(claims.token_id).version == 7
    said = jwt.decode(issued.token, options={"verify_signature": False})
    assert said == {
        "jti": claims.token_id, "iss": "iggy.apache.org", "aud": "iggy.apache.org", "sub": 7, "iat": claims.issued_s,
        "nbf": claims.issued_s, "exp": issued.expiry, "gen": 3,
    }  # fmt: skip
    assert jwt.get_unverified_header(issued.token)["alg"] == algorithm


def test_ids_of_tokens_differ_and_grow_with_time() -> None:
    ids = [make(ago_s).verify(make(ago_s).issue(1, 3).token).token_id for ago_s in (3000.0, 2000.0, 1000.0, 0.0)]
    assert ids == sorted(set(ids))


def forge(claims: dict[str, Any], key: bytes = SECRET, algorithm: str = "HS256") -> str:
    now = int(time.time())
    whole = {
        "jti": "x",
        "iss": "iggy.apache.org",
        "aud": "iggy.apache.org",
        "sub": 1,
        "iat": now,
        "nbf": now,
        "exp": now + 60,
        "gen": 3,
    }
    kept = {name: value for name, value in (whole | claims).items() if value is not None}
    return jwt.encode(kept, key, algorithm)


def test_a_forged_token_is_taken_where_it_is_right() -> None:
    assert make().verify(forge({})).user_id == 1
    assert make(valid_issuers=("a", "b"), valid_audiences=("c",)).verify(forge({"iss": "b", "aud": "c"})).user_id == 1


@pytest.mark.parametrize(
    ("token", "status"), [("", 77), (forge({}, algorithm="HS512"), 73), (UNSIGNED + forge({}).split(".")[1] + ".", 73)]
)
def test_a_token_that_is_missing_or_signed_in_another_way_has_a_status_of_its_own(token: str, status: int) -> None:
    with pytest.raises(AuthenticationError) as caught:
        make().verify(token)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "a.b.c",
        "é" * 10,
        "eyJhbGciOiJIUzI1NiJ9.e30.",
        forge({}, key=b"another secret, as long as it is needed to be"),
        forge({"exp": int(time.time()) - 60}),
        forge({"nbf": int(time.time()) + 600}),
        forge({"iss": "somebody"}),
        forge({"aud": "somebody"}),
        forge({"sub": "1"}),
        forge({"sub": True}),
        forge({"sub": [1]}),
        forge({"sub": 10}),
        forge({"jti": 5}),
        *(forge({name: None}) for name in ("jti", "iss", "aud", "sub", "iat", "nbf", "exp")),
        forge({})[:-2],
    ],
)
def test_a_token_that_is_not_right_is_refused(token: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        make().verify(token)
    assert caught.value.status == 78
    assert token not in str(caught.value) or len(token) < 6


def test_a_token_is_good_until_it_expires_and_clocks_may_be_a_little_wrong() -> None:
    assert make(expiry_s=100).verify(make(102, expiry_s=100).issue(1, 3).token).user_id == 1
    with pytest.raises(AuthenticationError, match="expired"):
        make(expiry_s=100).verify(make(110, expiry_s=100).issue(1, 3).token)
    assert make().verify(make(not_before_s=3).issue(1, 3).token).user_id == 1
    with pytest.raises(AuthenticationError, match="not yet"):
        make().verify(make(not_before_s=30).issue(1, 3).token)


def test_a_revoked_token_is_refused_and_remembered_for_as_long_as_it_could_be_shown() -> None:
    revocations = Remembered()
    tokens = AccessTokens(TokenSettings(secret=SECRET), revocations, USERS)
    kept, token = tokens.issue(1, 3), tokens.issue(1, 3).token
    claims = tokens.verify(token)
    tokens.revoke(claims)
    assert revocations.ids == {claims.token_id: claims.expires_s + 5}
    with pytest.raises(AuthenticationError, match="revoked"):
        tokens.verify(token)
    with pytest.raises(AuthenticationError, match="revoked"):
        tokens.revoke(claims)
    assert tokens.verify(kept.token).user_id == 1


def test_a_token_of_an_earlier_generation_of_its_user_is_refused() -> None:
    for generation in (2, 4):
        with pytest.raises(AuthenticationError, match="deleted, is inactive or has changed the password"):
            make().verify(make().issue(1, generation).token)
