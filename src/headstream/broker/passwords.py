"""Passwords: hashed for storage, and verified.

    kept    bcrypt(base64(sha256(password)))

bcrypt takes 72 bytes without NUL, a password has up to 100 arbitrary bytes: so its digest is hashed instead. Hashing and
checking intentionally cost tens of milliseconds and release the interpreter's lock: run them on a worker thread.
"""

from __future__ import annotations

import base64
import hashlib

__all__ = ["Passwords"]


class Passwords:
    """Hashes and checks passwords.

    Args:
        rounds: The logarithm of bcrypt's rounds, 4 to 31.
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        # Matches no password; checking it takes as long as a real hash of these rounds.
        self._nobodys = f"$2b${rounds:02d}${'.' * 53}"

    def hash(self, password: str) -> str:
        """Return a password's hash."""
        import bcrypt

        return bcrypt.hashpw(_digest(password), bcrypt.gensalt(self._rounds)).decode()

    def check(self, password: str, kept: str | None) -> bool:
        """Return whether a password matches a hash.

        Args:
            password: The password.
            kept: The result of hash(); None, for an unknown user, takes as long and never matches.
        """
        import bcrypt

        return bcrypt.checkpw(_digest(password), (kept or self._nobodys).encode()) and kept is not None


def _digest(password: str) -> bytes:
    return base64.b64encode(hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest())
