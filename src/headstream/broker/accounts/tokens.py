"""Tokens: personal access tokens (used by programs instead of passwords) and revoked HTTP access tokens.

A personal access token is shown once, when it is created. Only its SHA-256 is stored, because 50 random bytes cannot be guessed.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import threading
from collections.abc import Callable
from typing import Final

from headstream.broker.settings import ServerSettings
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.log.catalog import accounts
from headstream.log.catalog.accounts import TokenRecord
from headstream.log.catalog.catalog import Catalog

_RANDOM_BYTES: Final = 50
_LAST_US: Final = (1 << 63) - 1


class Tokens:
    """The tokens of all users; thread-safe.

    Args:
        catalog: The log's catalog; this process must be its writer.
        clock_us: Returns the time, microseconds since 1970 UTC.
    """

    def __init__(
        self, catalog: Catalog, settings: ServerSettings, clock_us: Callable[[], int], entropy: Callable[[int], bytes]
    ) -> None:
        self._catalog = catalog
        self._most = settings.most_tokens
        self._clock_us = clock_us
        self._entropy = entropy
        self._lock = threading.Lock()
        self._revoked = accounts.list_revoked(catalog)  # cached here: each HTTP request checks it

    def create(self, user_id: int, name: str, lifetime_us: int | None = None) -> str:
        """Create a token and return it: 68 characters, which cannot be retrieved later.

        Args:
            name: 3 to 30 bytes.
            lifetime_us: Lifetime, microseconds; None: unlimited.

        Raises:
            LimitError: the user has the maximum number of tokens (52).
            AlreadyExistsError: the user has a token with this name (51).
        """
        token = base64.b64encode(self._entropy(_RANDOM_BYTES)).decode()
        expires_us = None if lifetime_us is None else min(self._clock_us() + lifetime_us, _LAST_US)
        with self._lock:
            known = self.list(user_id)
            if len(known) >= self._most:
                raise refusal(
                    Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED,
                    f"the limit of {self._most} tokens per user is reached",
                    advice="Delete a token first",
                )
            if any(each.name == name for each in known):
                raise refusal(
                    Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS, f"the token {name!r} already exists", advice="Use another name"
                )
            accounts.insert_token(self._catalog, TokenRecord(user_id, name, _hash(token), expires_us))
        return token

    def list(self, user_id: int) -> builtins.list[TokenRecord]:
        """Return a user's tokens, by name."""
        return accounts.list_tokens(self._catalog, user_id)

    def delete(self, user_id: int, name: str) -> None:
        """Delete a user's token; NotFoundError (20) if the name is unknown."""
        with self._lock:
            if not any(each.name == name for each in self.list(user_id)):
                raise refusal(Status.RESOURCE_NOT_FOUND, f"there is no token {name!r}")
            accounts.delete_token(self._catalog, user_id, name)

    def verify(self, token: str) -> int:
        """Return the user id of a token; NotFoundError (20) if it is unknown, AuthenticationError (54) if it has expired."""
        record = accounts.find_token(self._catalog, _hash(token))
        if record is None:
            raise refusal(Status.RESOURCE_NOT_FOUND, "the token does not exist", advice="Create a token, or use another")
        if record.expires_us is not None and record.expires_us <= self._clock_us():
            raise refusal(
                Status.PERSONAL_ACCESS_TOKEN_EXPIRED, f"the token {record.name!r} has expired", advice="Create another token"
            )
        return record.user_id

    def revoke(self, token_id: str, expires_s: int) -> bool:
        """Durably revoke an HTTP access token; return whether it was valid. `expires_s`: expiry, seconds since 1970 UTC."""
        expires_us = min(expires_s * 1_000_000, _LAST_US)
        with self._lock:
            if token_id in self._revoked:
                return False
            accounts.revoke(self._catalog, token_id, expires_us)
            self._revoked[token_id] = expires_us
            return True

    def is_revoked(self, token_id: str) -> bool:
        """Return whether an HTTP access token was revoked."""
        return token_id in self._revoked

    def forget_expired(self) -> None:
        """Drop all expired tokens."""
        now_us = self._clock_us()
        with self._lock:
            accounts.forget_expired(self._catalog, now_us)
            self._revoked = {token_id: expires_us for token_id, expires_us in self._revoked.items() if expires_us > now_us}


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
