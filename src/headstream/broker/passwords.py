"""Passwords: what is kept of them, and how one is checked.

    kept    bcrypt(base64(sha256(password)))

bcrypt takes 72 bytes and no NUL, a password has up to 100 of any: so its digest is hashed in its place. Hashing and
checking cost tens of milliseconds, by intention, and run without the interpreter's lock: they belong on a worker thread.
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
        # Of no password: checking against it takes as long as against one of these rounds.
        self._nobodys = f"$2b${rounds:02d}${'.' * 53}"

    def hash(self, password: str) -> str:
        """Return what is to be kept of a password."""
        import bcrypt

        return bcrypt.hashpw(_digest(password), bcrypt.gensalt(self._rounds)).decode()

    def check(self, password: str, kept: str | None) -> bool:
        """Return whether a password is the one that something was kept of.

        Args:
            password: The password.
            kept: As hash() returns it; None, where there is no such user, takes as long and is never right.
        """
        import bcrypt

        return bcrypt.checkpw(_digest(password), (kept or self._nobodys).encode()) and kept is not None


def _digest(password: str) -> bytes:
    return base64.b64encode(hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest())
