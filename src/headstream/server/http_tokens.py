"""Access tokens (JWT): what a client over HTTP shows with each request, in place of a connection that is logged in.

    login -> issue -> "Authorization: Bearer TOKEN" -> verify -> the user's number
    refresh: verify, revoke, issue      logout: revoke

A token is revoked by its id (`jti`) until it expires by itself.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headstream.errors import HeadstreamError
from headstream.server.http_settings import TokenSettings
from headstream.wire.commands.sessions import AccessToken
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

if TYPE_CHECKING:
    from jwt.types import Options

__all__ = ["AccessTokens", "Claims", "KnownUsers", "Revocations"]

_CHECKS: Final[Options] = {"require": ["exp", "nbf", "iat", "iss", "aud", "sub", "jti"], "verify_sub": False}
"""`sub` is a number here, as clients of the protocol have it, where the standard wants a text."""


class Claims(NamedTuple):
    """What a token says: whose it is, its own id, seconds since 1970 UTC, and the user's generation that it was issued to."""

    user_id: int
    token_id: str
    issued_s: int
    expires_s: int
    generation: int = 0


class Revocations(Protocol):
    """The tokens that are not good any more."""

    def revoke(self, token_id: str, expires_s: int) -> bool:
        """Remember a token until it expires, and return whether it was good until now."""

    def is_revoked(self, token_id: str) -> bool:
        """Return whether a token is not good any more."""


class KnownUsers(Protocol):
    """The users that there are."""

    def is_good(self, user_id: int, generation: int) -> bool:
        """Return whether what was issued to a user's generation is still good."""


class AccessTokens:
    """Makes access tokens and checks them; any thread.

    Args:
        settings: How.
        revocations: Those that are not good any more.
        users: The numbers of the users that there are; one that was deleted never comes again.
        clock_s: Returns the time, seconds since 1970 UTC.
    """

    def __init__(
        self,
        settings: TokenSettings,
        revocations: Revocations,
        users: KnownUsers,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._revocations = revocations
        self._users = users
        self._clock_s = clock_s
        self._issuers = settings.valid_issuers or (settings.issuer,)
        self._audiences = settings.valid_audiences or (settings.audience,)

    def issue(self, user_id: int, generation: int) -> AccessToken:
        """Return a new token of a user.

        Args:
            user_id: The user.
            generation: The user's generation that has logged in.
        """
        import jwt  # a sixth of an idle server's memory, and of its start, for whoever has nobody over HTTP

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
        }
        return AccessToken(jwt.encode(claims, settings.secret, settings.algorithm), expires_s)

    def verify(self, token: str) -> Claims:
        """Return what a token says.

        Args:
            token: The token.

        Raises:
            AuthenticationError: there is none (77), it is signed in another way than ours are (73), or it is not one, not ours,
                not good yet or any more, or its user is gone (78).
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
            raise _refused("an access token of another algorithm", Status.INVALID_JWT_ALGORITHM) from None
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise _refused(f"an access token that is not taken: {error}") from None
        claims = Claims(found["sub"], found["jti"], found["iat"], found["exp"], found.get("gen", 0))
        if not all(type(number) is int for number in (claims.user_id, claims.issued_s, claims.expires_s, claims.generation)):
            raise _refused("an access token whose numbers are none")
        if type(claims.token_id) is not str or self._revocations.is_revoked(claims.token_id):
            raise _refused("an access token that was revoked")
        if not self._users.is_good(claims.user_id, claims.generation):
            raise _refused("an access token of a user that is gone or inactive, or has another password by now")
        return claims

    def revoke(self, claims: Claims) -> None:
        """Take a token no more.

        Raises:
            AuthenticationError: somebody else has revoked it just now (78).
        """
        if not self._revocations.revoke(claims.token_id, claims.expires_s + self._settings.clock_skew_s):
            raise _refused("an access token that was revoked")


def _refused(what: str, status: Status = Status.INVALID_ACCESS_TOKEN) -> HeadstreamError:
    return refusal(status, what, advice="Log in again")


def _make_id(now: float) -> str:
    """Return a UUID of version 7: milliseconds first, random behind."""
    number = int.from_bytes(int(now * 1000).to_bytes(6, "big") + os.urandom(10), "big")
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62))
