"""Tokens: what a program logs in with in place of a password, and which access tokens of HTTP are withdrawn.

A personal access token is shown once, when it is made. Kept is its SHA-256: of 50 random bytes that is enough, nobody
finds them by trying.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import threading
from collections.abc import Callable
from typing import Final

from headstream.broker.settings import ServerSettings
from headstream.log import accounts
from headstream.log.accounts import TokenRecord
from headstream.log.catalog import Catalog
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["Tokens"]

_RANDOM_BYTES: Final = 50
_LAST_US: Final = (1 << 63) - 1


class Tokens:
    """The tokens of all users; any thread.

    Args:
        catalog: The log's; this process is its writer.
        settings: How many tokens a user may have.
        clock_us: Returns the time, microseconds since 1970 UTC.
        entropy: Returns so many random bytes.
    """

    def __init__(
        self, catalog: Catalog, settings: ServerSettings, clock_us: Callable[[], int], entropy: Callable[[int], bytes]
    ) -> None:
        self._catalog = catalog
        self._most = settings.most_tokens
        self._clock_us = clock_us
        self._entropy = entropy
        self._lock = threading.Lock()
        self._revoked = accounts.list_revoked(catalog)  # here too: each request over HTTP asks

    def create(self, user_id: int, name: str, lifetime_us: int | None = None) -> str:
        """Make a token and return it: 68 characters, which nobody can be shown again.

        Args:
            user_id: Whose it is.
            name: 3 to 30 bytes.
            lifetime_us: How long it is good, microseconds; None is for ever.

        Raises:
            LimitError: the user has as many as it may have (52).
            AlreadyExistsError: the user has one of that name (51).
        """
        token = base64.b64encode(self._entropy(_RANDOM_BYTES)).decode()
        expires_us = None if lifetime_us is None else min(self._clock_us() + lifetime_us, _LAST_US)
        with self._lock:
            known = self.list(user_id)
            if len(known) >= self._most:
                raise refusal(
                    Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED,
                    f"a user has {self._most} tokens at most",
                    advice="Delete one first",
                )
            if any(each.name == name for each in known):
                raise refusal(
                    Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS, f"there is a token {name!r} already", advice="Use another name"
                )
            accounts.insert_token(self._catalog, TokenRecord(user_id, name, _hash(token), expires_us))
        return token

    def list(self, user_id: int) -> builtins.list[TokenRecord]:
        """Return a user's tokens, by name."""
        return accounts.list_tokens(self._catalog, user_id)

    def delete(self, user_id: int, name: str) -> None:
        """Delete a user's token; NotFoundError (20) where it has none of that name."""
        with self._lock:
            if not any(each.name == name for each in self.list(user_id)):
                raise refusal(Status.RESOURCE_NOT_FOUND, f"there is no token {name!r}")
            accounts.delete_token(self._catalog, user_id, name)

    def verify(self, token: str) -> int:
        """Return the id of the user whose token it is.

        Raises:
            NotFoundError: there is no such token (20).
            AuthenticationError: it has expired (54).
        """
        record = accounts.find_token(self._catalog, _hash(token))
        if record is None:
            raise refusal(Status.RESOURCE_NOT_FOUND, "there is no such token", advice="Make one, or use another")
        if record.expires_us is not None and record.expires_us <= self._clock_us():
            raise refusal(
                Status.PERSONAL_ACCESS_TOKEN_EXPIRED, f"the token {record.name!r} has expired", advice="Make another one"
            )
        return record.user_id

    def revoke(self, token_id: str, expires_s: int) -> bool:
        """Withdraw an access token of HTTP, durably, and return whether it was good until now.

        Args:
            token_id: Its own id.
            expires_s: When it expires by itself, seconds since 1970 UTC.
        """
        expires_us = min(expires_s * 1_000_000, _LAST_US)
        with self._lock:
            if token_id in self._revoked:
                return False
            accounts.revoke(self._catalog, token_id, expires_us)
            self._revoked[token_id] = expires_us
            return True

    def is_revoked(self, token_id: str) -> bool:
        """Return whether an access token of HTTP was withdrawn."""
        return token_id in self._revoked

    def forget_expired(self) -> None:
        """Forget all tokens that are void by themselves by now."""
        now_us = self._clock_us()
        with self._lock:
            accounts.forget_expired(self._catalog, now_us)
            self._revoked = {token_id: expires_us for token_id, expires_us in self._revoked.items() if expires_us > now_us}


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
