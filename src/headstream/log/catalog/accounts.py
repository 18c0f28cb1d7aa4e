"""The catalog's tables of users, personal access tokens and revoked access tokens.

    users      id | name | password_hash | is_active | permissions | created_us | generation | scram
    tokens     user | name | hash | expires_us
    revoked    id | expires_us

A user's id is never reused, so that data left by a deleted user never belongs to a new user. Permissions are stored as in
wire.commands.permissions. A log has no users until a server has opened it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headstream.log.catalog.catalog import Catalog

_SINCE: Final = 6
_TOKEN: Final = "user, name, hash, expires_us"


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user of the catalog.

    Args:
        id: From 1; 1 is root.
        password_hash: Created by broker.accounts.passwords.
        permissions: The user's permissions; None grants only the rights that all users have.
        generation: Increases when earlier logins become invalid, because the password is changed or the user is deactivated.
        scram: Verifiers of the password, created by broker.accounts.scram; None until the next password login
            or password change at a server with a Kafka listener.
    """

    id: int
    name: str
    password_hash: str = field(repr=False)
    is_active: bool
    permissions: bytes | None
    created_us: int
    generation: int = 0
    scram: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A personal access token; token names are unique per user. An expiry of None means that the token never expires."""

    user_id: int
    name: str
    hash: bytes = field(repr=False)
    expires_us: int | None


def list_users(catalog: Catalog) -> list[UserRecord]:
    """Return all users, by id."""
    query = "SELECT id, name, password_hash, is_active, permissions, created_us, generation, scram FROM users ORDER BY id"
    rows = catalog.select(query, since=10)
    return [UserRecord(id_, name, hashed, bool(active), *rest) for id_, name, hashed, active, *rest in rows]


def last_user_id(catalog: Catalog) -> int:
    """Return the last assigned user id; 0 if no user was created."""
    rows = catalog.select("SELECT seq FROM sqlite_sequence WHERE name = 'users'", since=_SINCE)
    return int(rows[0][0]) if rows else 0


def insert_user(
    catalog: Catalog,
    name: str,
    password_hash: str,
    is_active: bool,
    permissions: bytes | None,
    created_us: int,
    scram: bytes | None = None,
) -> int:
    """Add a user and return the new id, which is one more than the last assigned id. The name must be free."""
    with catalog.transaction(()):
        catalog.change(
            "INSERT INTO users (name, password_hash, is_active, permissions, created_us, scram) VALUES (?, ?, ?, ?, ?, ?)",
            name, password_hash, is_active, permissions, created_us, scram,
        )  # fmt: skip
        return last_user_id(catalog)


def update_user(catalog: Catalog, user: UserRecord, *, without_tokens: bool = False) -> None:
    """Replace a user's row; `without_tokens` also deletes the user's tokens."""
    with catalog.transaction(()):
        catalog.change(
            "UPDATE users SET name = ?, password_hash = ?, is_active = ?, permissions = ?, generation = ?, scram = ? "
            "WHERE id = ?",
            user.name, user.password_hash, user.is_active, user.permissions, user.generation, user.scram, user.id,
        )  # fmt: skip
        if without_tokens:
            catalog.change("DELETE FROM tokens WHERE user = ?", user.id)


def delete_user(catalog: Catalog, user_id: int) -> None:
    """Delete a user with its tokens."""
    with catalog.transaction(()):
        catalog.change("DELETE FROM users WHERE id = ?", user_id)


def list_tokens(catalog: Catalog, user_id: int) -> list[TokenRecord]:
    """Return a user's tokens, by name."""
    rows = catalog.select(f"SELECT {_TOKEN} FROM tokens WHERE user = ? ORDER BY name", user_id, since=_SINCE)
    return [TokenRecord(*row) for row in rows]


def find_token(catalog: Catalog, hashed: bytes) -> TokenRecord | None:
    """Return the token with a hash, or None."""
    rows = catalog.select(f"SELECT {_TOKEN} FROM tokens WHERE hash = ?", hashed, since=_SINCE)
    return TokenRecord(*rows[0]) if rows else None


def insert_token(catalog: Catalog, token: TokenRecord) -> None:
    """Add a token; its name must be free for the user. No effect if the user was deleted meanwhile."""
    with catalog.transaction(()):
        catalog.change(
            f"INSERT INTO tokens ({_TOKEN}) SELECT id, ?, ?, ? FROM users WHERE id = ?",
            token.name, token.hash, token.expires_us, token.user_id,
        )  # fmt: skip


def delete_token(catalog: Catalog, user_id: int, name: str) -> None:
    """Delete a token."""
    with catalog.transaction(()):
        catalog.change("DELETE FROM tokens WHERE user = ? AND name = ?", user_id, name)


def revoke(catalog: Catalog, access_token_id: str, expires_us: int) -> None:
    """Revoke an access token; the entry is kept until the token expires."""
    with catalog.transaction(()):
        catalog.change("INSERT OR REPLACE INTO revoked (id, expires_us) VALUES (?, ?)", access_token_id, expires_us)


def list_revoked(catalog: Catalog) -> dict[str, int]:
    """Return the expiry times of revoked access tokens, by token id."""
    return dict(catalog.select("SELECT id, expires_us FROM revoked", since=_SINCE))


def forget_expired(catalog: Catalog, now_us: int) -> None:
    """Delete all tokens that expired before a time."""
    if not any(
        catalog.select(f"SELECT 1 FROM {table} WHERE expires_us <= ? LIMIT 1", now_us, since=_SINCE)
        for table in ("tokens", "revoked")
    ):
        return  # saves a transaction and its sync
    with catalog.transaction(()):
        for table in ("tokens", "revoked"):
            catalog.change(f"DELETE FROM {table} WHERE expires_us <= ?", now_us)
