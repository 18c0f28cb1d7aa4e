"""Accounts: users, tokens and withdrawn access tokens, as the catalog keeps them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headstream.log.catalog import accounts
from headstream.log.catalog.accounts import TokenRecord, UserRecord
from headstream.log.catalog.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "catalog.sqlite"), is_writer=True)


def add(catalog: Catalog, name: str) -> UserRecord:
    id_ = accounts.insert_user(catalog, name, f"hash of {name}", True, b"all", 7)
    (user,) = [user for user in accounts.list_users(catalog) if user.id == id_]
    return user


def test_users_are_what_was_said_last(catalog: Catalog, tmp_path: Path) -> None:
    root, alice = add(catalog, "root"), add(catalog, "alice")
    assert alice == UserRecord(2, "alice", "hash of alice", True, b"all", 7)
    changed = dataclasses.replace(alice, name="eve", password_hash="other", is_active=False, permissions=None)
    accounts.update_user(catalog, changed)
    assert accounts.list_users(catalog) == [root, changed]
    assert accounts.list_users(Catalog(str(tmp_path / "catalog.sqlite"), is_writer=False)) == [root, changed]


def test_id_of_a_deleted_user_is_not_given_again_and_its_tokens_are_gone(catalog: Catalog) -> None:
    add(catalog, "root")
    alice = add(catalog, "alice")
    accounts.insert_token(catalog, TokenRecord(alice.id, "ci", b"hash", None))
    accounts.delete_user(catalog, alice.id)
    assert accounts.find_token(catalog, b"hash") is None
    accounts.insert_token(catalog, TokenRecord(alice.id, "late", b"late", None))  # by who did not know yet
    assert accounts.find_token(catalog, b"late") is None
    assert add(catalog, "alice").id == 3


def test_tokens_are_found_by_hash_and_listed_by_user(catalog: Catalog) -> None:
    root, alice = add(catalog, "root"), add(catalog, "alice")
    tokens = [TokenRecord(root.id, "b", b"1", None), TokenRecord(root.id, "a", b"2", 9), TokenRecord(alice.id, "a", b"3", 4)]
    for token in tokens:
        accounts.insert_token(catalog, token)
    assert accounts.list_tokens(catalog, root.id) == [tokens[1], tokens[0]]
    assert [accounts.find_token(catalog, hashed) for hashed in (b"3", b"4")] == [tokens[2], None]
    accounts.delete_token(catalog, root.id, "a")
    assert accounts.list_tokens(catalog, root.id) == [tokens[0]]
    assert accounts.list_tokens(catalog, alice.id) == [tokens[2]]


def test_forget_expired_removes_tokens_at_their_time(catalog: Catalog) -> None:
    root = add(catalog, "root")
    for name, expires_us in (("past", 9), ("now", 10), ("later", 11), ("never", None)):
        accounts.insert_token(catalog, TokenRecord(root.id, name, name.encode(), expires_us))
    accounts.revoke(catalog, "jwt 1", 10)
    accounts.revoke(catalog, "jwt 2", 11)
    accounts.forget_expired(catalog, 10)
    assert [token.name for token in accounts.list_tokens(catalog, root.id)] == ["later", "never"]
    assert accounts.list_revoked(catalog) == {"jwt 2": 11}


def test_catalog_of_an_older_version_has_no_users(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer = Catalog(path, is_writer=True)
    reader = Catalog(path, is_writer=False)
    with writer.transaction():
        writer.change("DROP TABLE users")
        writer.change("PRAGMA user_version = 5")
    assert accounts.list_users(reader) == []
