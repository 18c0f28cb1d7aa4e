"""Revocations: the access tokens (of HTTP) that are not good any more although they have not expired."""

from __future__ import annotations

import threading
from typing import Final

from headstream.broker.backing import Backing
from headstream.log.accounts import is_revoked, revoke

__all__ = ["Revocations"]

_MOST_KNOWN: Final = 10_000


class Revocations:
    """Access tokens that were withdrawn, in the catalog; any thread.

    Args:
        backing: The log.
    """

    def __init__(self, backing: Backing) -> None:
        self._backing = backing
        self._lock = threading.Lock()
        self._known: dict[str, bool] = {}  # asked for with each request, and changed by nobody else

    def revoke(self, token_id: str, expires_s: int) -> None:
        """Withdraw a token.

        Args:
            token_id: Its id.
            expires_s: When it expires by itself, seconds since 1970 UTC: until then it is remembered.
        """
        log = self._backing.writable_log()
        with self._lock:
            catalog = log.catalog()
            assert catalog is not None  # its writer has one
            revoke(catalog, token_id, expires_s * 1_000_000)
            self._know(token_id, True)

    def is_revoked(self, token_id: str) -> bool:
        """Return whether a token was withdrawn."""
        known = self._known.get(token_id)
        if known is not None:
            return known
        with self._lock:
            catalog = self._backing.log.catalog()
            known = catalog is not None and is_revoked(catalog, token_id)
            self._know(token_id, known)
            return known

    def _know(self, token_id: str, is_withdrawn: bool) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[token_id] = is_withdrawn
