"""What the catalog remembers of a server's users, their tokens, and the access tokens that were withdrawn.

    users      id | name | password_hash | is_active | permissions | created_us | generation
    tokens     user | name | hash | expires_us
    revoked    id | expires_us

An id of a user is never given again, so that nothing that outlives a user falls to another one. Permissions are bytes as
in wire.commands.permissions. A log that no server has opened has no users.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headstream.log.catalog import Catalog

__all__ = [
    "TokenRecord",
    "UserRecord",
    "delete_token",
    "delete_user",
    "find_token",
    "forget_expired",
    "insert_token",
    "insert_user",
    "last_user_id",
    "list_revoked",
    "list_tokens",
    "list_users",
    "revoke",
    "update_user",
]

_SINCE: Final = 6
_TOKEN: Final = "user, name, hash, expires_us"


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user as the catalog has it.

    Args:
        id: From 1, which is root.
        name: What it logs in with.
        password_hash: As broker.passwords makes it.
        is_active: Whether it may log in.
        permissions: What it may do; None is nothing but what everybody may.
        created_us: Microseconds since 1970 UTC.
        generation: Grows when what it has logged in with is not good any more: its password was changed, or it deactivated.
    """

    id: int
    name: str
    password_hash: str = field(repr=False)
    is_active: bool
    permissions: bytes | None
    created_us: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A personal access token.

    Args:
        user_id: Whose it is.
        name: Its name, one of this user's.
        hash: What is kept of the token itself.
        expires_us: From when on it is void, microseconds since 1970 UTC; None is never.
    """

    user_id: int
    name: str
    hash: bytes = field(repr=False)
    expires_us: int | None


def list_users(catalog: Catalog) -> list[UserRecord]:
    """Return all users, by id."""
    query = "SELECT id, name, password_hash, is_active, permissions, created_us, generation FROM users ORDER BY id"
    rows = catalog.select(query, since=7)
    return [UserRecord(id_, name, hashed, bool(active), *rest) for id_, name, hashed, active, *rest in rows]


def last_user_id(catalog: Catalog) -> int:
    """Return the last id that a user was given, 0 before the first."""
    rows = catalog.select("SELECT seq FROM sqlite_sequence WHERE name = 'users'", since=_SINCE)
    return int(rows[0][0]) if rows else 0


def insert_user(
    catalog: Catalog, name: str, password_hash: str, is_active: bool, permissions: bytes | None, created_us: int
) -> int:
    """Add a user, of whose name there is none, and return its id: one more than the last that was given."""
    with catalog.transaction(()):
        catalog.change(
            "INSERT INTO users (name, password_hash, is_active, permissions, created_us) VALUES (?, ?, ?, ?, ?)",
            name, password_hash, is_active, permissions, created_us,
        )  # fmt: skip
        return last_user_id(catalog)


def update_user(catalog: Catalog, user: UserRecord, *, without_tokens: bool = False) -> None:
    """Replace what is known of a user, by its id; without tokens, those that it has are deleted with it."""
    with catalog.transaction(()):
        catalog.change(
            "UPDATE users SET name = ?, password_hash = ?, is_active = ?, permissions = ?, generation = ? WHERE id = ?",
            user.name, user.password_hash, user.is_active, user.permissions, user.generation, user.id,
        )  # fmt: skip
        if without_tokens:
            catalog.change("DELETE FROM tokens WHERE user = ?", user.id)


def delete_user(catalog: Catalog, user_id: int) -> None:
    """Take a user out, with its tokens."""
    with catalog.transaction(()):
        catalog.change("DELETE FROM users WHERE id = ?", user_id)


def list_tokens(catalog: Catalog, user_id: int) -> list[TokenRecord]:
    """Return a user's tokens, by name."""
    rows = catalog.select(f"SELECT {_TOKEN} FROM tokens WHERE user = ? ORDER BY name", user_id, since=_SINCE)
    return [TokenRecord(*row) for row in rows]


def find_token(catalog: Catalog, hashed: bytes) -> TokenRecord | None:
    """Return the token of a hash."""
    rows = catalog.select(f"SELECT {_TOKEN} FROM tokens WHERE hash = ?", hashed, since=_SINCE)
    return TokenRecord(*rows[0]) if rows else None


def insert_token(catalog: Catalog, token: TokenRecord) -> None:
    """Add a token; its user has none of that name. Of a user who was deleted just now nothing is kept."""
    with catalog.transaction(()):
        catalog.change(
            f"INSERT INTO tokens ({_TOKEN}) SELECT id, ?, ?, ? FROM users WHERE id = ?",
            token.name, token.hash, token.expires_us, token.user_id,
        )  # fmt: skip


def delete_token(catalog: Catalog, user_id: int, name: str) -> None:
    """Take a token out."""
    with catalog.transaction(()):
        catalog.change("DELETE FROM tokens WHERE user = ? AND name = ?", user_id, name)


def revoke(catalog: Catalog, access_token_id: str, expires_us: int) -> None:
    """Withdraw an access token; it is remembered until it expires by itself."""
    with catalog.transaction(()):
        catalog.change("INSERT OR REPLACE INTO revoked (id, expires_us) VALUES (?, ?)", access_token_id, expires_us)


def list_revoked(catalog: Catalog) -> dict[str, int]:
    """Return the access tokens that were withdrawn: when each expires by itself, by its own id."""
    return dict(catalog.select("SELECT id, expires_us FROM revoked", since=_SINCE))


def forget_expired(catalog: Catalog, now_us: int) -> None:
    """Forget all tokens that are void by themselves at a time."""
    if not any(
        catalog.select(f"SELECT 1 FROM {table} WHERE expires_us <= ? LIMIT 1", now_us, since=_SINCE)
        for table in ("tokens", "revoked")
    ):
        return  # without a transaction, and the sync that it costs
    with catalog.transaction(()):
        for table in ("tokens", "revoked"):
            catalog.change(f"DELETE FROM {table} WHERE expires_us <= ?", now_us)
