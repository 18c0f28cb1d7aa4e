"""Access tokens (JWT), which authenticate HTTP requests as a login authenticates a connection.

    login -> issue -> "Authorization: Bearer TOKEN" -> verify -> the user's number
    refresh: verify, revoke, issue      logout: revoke

Revoked ids (`jti`) are stored until the token expires.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headstream.core.wire.commands.sessions import AccessToken
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError
from headstream.server.config.http_settings import TokenSettings

if TYPE_CHECKING:
    from jwt.types import Options

_CHECKS: Final[Options] = {"require": ["exp", "nbf", "iat", "iss", "aud", "sub", "jti"], "verify_sub": False}
"""Existing clients expect a number in `sub`, although the standard requires a string."""

_TODAY: Final = "0.11"


class Claims(NamedTuple):
    """The claims of a token: user, token id, times (seconds since 1970 UTC), the user's generation, and the JSON format.

    `is_today` selects the JSON format of Iggy servers from version 0.9 (core/wire/vsr/http.py), for SDKs of these versions.
    """

    user_id: int
    token_id: str
    issued_s: int
    expires_s: int
    generation: int = 0
    is_today: bool = False


class Revocations(Protocol):
    """The revoked tokens."""

    def revoke(self, token_id: str, expires_s: int) -> bool:
        """Revoke a token until it expires; return whether the token was valid before."""

    def is_revoked(self, token_id: str) -> bool:
        """Return whether a token is revoked."""


class KnownUsers(Protocol):
    """The existing users."""

    def generation_of(self, user_id: int, generation: int, token_id: str) -> int | None:
        """Return the user's current generation if a token issued for `generation` is still valid, else None."""


class AccessTokens:
    """Issues and verifies access tokens; thread-safe.

    Args:
        users: The existing users; ids of deleted users are never reused.
        clock_s: Returns the time, seconds since 1970 UTC.
    """

    def __init__(
        self, settings: TokenSettings, revocations: Revocations, users: KnownUsers, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._revocations = revocations
        self._users = users
        self._clock_s = clock_s
        self._issuers = settings.valid_issuers or (settings.issuer,)
        self._audiences = settings.valid_audiences or (settings.audience,)

    @property
    def expiry_s(self) -> int:
        """Lifetime of a token, seconds."""
        return self._settings.expiry_s

    def issue(self, user_id: int, generation: int, *, is_today: bool = False) -> AccessToken:
        """Return a new token for a user, bound to the user's generation at login; for `is_today` see Claims."""
        import jwt  # imported late: a sixth of an idle server's memory and startup time

        settings, now = self._settings, self._clock_s()
        expires_s = int(now) + settings.expiry_s
        claims = {
            "jti": _make_id(now),
            "iss": settings.issuer,
            "aud": settings.audience,
            "sub": user_id,
            "iat": int(now),
            "nbf": int(now) + settings.not_before_s,
            "exp": expires_s,
            "gen": generation,
        } | ({"form": _TODAY} if is_today else {})
        return AccessToken(jwt.encode(claims, settings.secret, settings.algorithm), expires_s)

    def verify(self, token: str) -> Claims:
        """Return the claims of a token.

        Raises:
            AuthenticationError: the token is empty (77), has a different algorithm (73), or is malformed, from another issuer,
                not yet valid, expired or revoked, or the user was deleted (78).
        """
        import jwt

        settings = self._settings
        if not token:
            raise _refused("no access token", Status.ACCESS_TOKEN_MISSING)
        try:
            found: dict[str, Any] = jwt.decode(
                token,
                settings.secret,
                [settings.algorithm],
                options=_CHECKS,
                audience=self._audiences,
                issuer=self._issuers,
                leeway=settings.clock_skew_s,
            )
        except jwt.InvalidAlgorithmError:
            raise _refused("an access token with another algorithm", Status.INVALID_JWT_ALGORITHM) from None
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise _refused(f"an invalid access token: {error}") from None
        claims = Claims(found["sub"], found["jti"], found["iat"], found["exp"], found.get("gen", 0), found.get("form") == _TODAY)
        if not all(type(number) is int for number in (claims.user_id, claims.issued_s, claims.expires_s, claims.generation)):
            raise _refused("an access token with claims that are not numbers")
        if type(claims.token_id) is not str or self._revocations.is_revoked(claims.token_id):
            raise _refused("a revoked access token")
        generation = self._users.generation_of(claims.user_id, claims.generation, claims.token_id)
        if generation is None:
            raise _refused("an access token of a user who was deleted, is inactive or has changed the password")
        return claims._replace(generation=generation)

    def revoke(self, claims: Claims) -> None:
        """Revoke a token; AuthenticationError (78) if another request has already revoked the token."""
        if not self._revocations.revoke(claims.token_id, claims.expires_s + self._settings.clock_skew_s):
            raise _refused("a revoked access token")


def _refused(what: str, status: Status = Status.INVALID_ACCESS_TOKEN) -> HeadstreamError:
    return refusal(status, what, advice="Log in again")


def _make_id(now: float) -> str:
    """Return a version 7 UUID: milliseconds, then random bits."""
    number = int.from_bytes(int(now * 1000).to_bytes(6, "big") + os.urandom(10), "big")
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62))
