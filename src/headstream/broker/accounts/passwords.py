"""Passwords: hashes passwords for storage, and verifies them.

    stored    bcrypt(base64(sha256(password)))

bcrypt accepts 72 bytes without NUL, but a password can have 100 arbitrary bytes, so the password's digest is hashed. Hashing and
checking intentionally take tens of milliseconds and release the interpreter's lock; run both on a worker thread.

Kafka clients log in on every connection, and each client opens several connections. A password that bcrypt has matched is
therefore recognized for ten minutes by its HMAC, whose key never leaves this process. A password change also changes the hash, so
the old password is not recognized. Checking a wrong password always requires a bcrypt computation.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MATCHED_FOR_S: Final = 600.0
_MOST_MATCHED: Final = 10_000


class Passwords:
    """Hashes and checks passwords; thread-safe.

    Args:
        rounds: Base-2 logarithm of bcrypt's rounds, 4 to 31.
    """

    def __init__(self, rounds: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._rounds = rounds
        self._clock_s = clock_s
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        self._matched: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # hash -> HMAC of its password, valid until
        # Matches no password; checking it takes as long as for a real hash with these rounds.
        self._dummy_hash = f"$2b${rounds:02d}${'.' * 53}"

    def hash(self, password: str) -> str:
        """Return the hash of a password."""
        import bcrypt

        return bcrypt.hashpw(_digest(password), bcrypt.gensalt(self._rounds)).decode()

    def check(self, password: str, kept: str | None) -> bool:
        """Return whether a password matches a hash.

        Args:
            kept: The result of hash(). None (unknown user) never matches, and takes as long as a wrong password.
        """
        import bcrypt

        digest = _digest(password)
        tag = hmac.digest(self._key, digest, "sha256")
        if kept is not None and self._is_matched(kept, tag):
            return True
        is_right = bcrypt.checkpw(digest, (kept or self._dummy_hash).encode()) and kept is not None
        if is_right and kept is not None:
            self._note_match(kept, tag)
        return is_right

    def _is_matched(self, kept: str, tag: bytes) -> bool:
        """Return whether bcrypt has recently matched this password and hash."""
        with self._lock:
            known, until_s = self._matched.get(kept, (b"", 0.0))
        return hmac.compare_digest(known, tag) and self._clock_s() < until_s

    def _note_match(self, kept: str, tag: bytes) -> None:
        with self._lock:
            self._matched[kept] = tag, self._clock_s() + _MATCHED_FOR_S
            self._matched.move_to_end(kept)
            if len(self._matched) > _MOST_MATCHED:
                self._matched.popitem(last=False)


def _digest(password: str) -> bytes:
    return base64.b64encode(hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest())
