"""Users: who there is, with what password, and what each may do.

User 1 is root: it is made with the log's first server, may do everything and stays. This process is the log's writer, so
all users are known here; each change is in the catalog before it is in effect.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Final

from headstream.broker.passwords import Passwords
from headstream.broker.permissions import Rights
from headstream.broker.settings import ServerSettings
from headstream.codec.buffer import Reader, Writer
from headstream.log import accounts
from headstream.log.accounts import UserRecord
from headstream.log.catalog import Catalog
from headstream.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.wire.commands.users import check_password, check_username
from headstream.wire.refusals import refusal
from headstream.wire.shapes import Identifier
from headstream.wire.statuses import Status

__all__ = ["ROOT", "User", "Users"]

ROOT: Final = 1
"""The id of the user who is always there."""

_MAX_ID: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    Args:
        record: What is kept of it.
        permissions: What it may do; None is nothing but what everybody may.
        rights: The same, to ask: another object after each change.
    """

    record: UserRecord
    permissions: Permissions | None
    rights: Rights

    @property
    def id(self) -> int:
        """Its number."""
        return self.record.id


class Users:
    """All users of a server; any thread. What hashes or checks a password takes its time, see passwords.py.

    Args:
        catalog: The log's; this process is its writer.
        settings: Root's name and password, should there be no users yet, and the cost of a password.
        now_us: The time, microseconds since 1970 UTC.

    Attributes:
        known: All by id, in the order of their ids; another object after each change.

    Raises:
        InvalidInputError: there are no users yet, and root's name (43) or password (44) cannot be one.
    """

    def __init__(self, catalog: Catalog, settings: ServerSettings, now_us: int) -> None:
        self._catalog = catalog
        self._passwords = Passwords(settings.password_rounds)
        self._lock = threading.Lock()
        self._know({record.id: _user(record) for record in accounts.list_users(catalog)})
        if not self.known:
            check_username(settings.root_username)
            check_password(settings.root_password)
            everything = Permissions(GlobalPermissions.all())
            self.create(settings.root_username, settings.root_password, is_active=True, permissions=everything, now_us=now_us)

    def _know(self, users: dict[int, User]) -> None:
        """Take note of all users, by id: who looks for one meanwhile, finds what there was or what there is."""
        self.known = users
        self._named = {user.record.name: user for user in users.values()}

    def __contains__(self, user_id: int) -> bool:
        return user_id in self.known

    def is_good(self, user_id: int, generation: int) -> bool:
        """Return whether what a user has logged in with is still good: a session or token of a generation of it."""
        user = self.known.get(user_id)
        return user is not None and user.record.is_active and user.record.generation == generation

    def list(self) -> list[User]:
        """Return all users, in the order of their ids."""
        return list(self.known.values())

    def find(self, named: Identifier) -> User | None:
        """Return a user by id or name, or None."""
        return self.known.get(named) if isinstance(named, int) else self._named.get(named)

    def get(self, named: Identifier) -> User:
        """Return a user by id or name; NotFoundError (20) where there is none."""
        user = self.find(named)
        if user is None:
            raise refusal(Status.RESOURCE_NOT_FOUND, f"there is no user {named!r}", advice="list users says who there is")
        return user

    def rights(self, user_id: int) -> Rights:
        """Return what a user may do, the same object until that changes; AuthenticationError (40) where it is no more."""
        user = self.known.get(user_id)
        if user is None:
            raise refusal(Status.UNAUTHENTICATED, "the user was deleted", advice="Log in as another one")
        return user.rights

    def create(self, name: str, password: str, *, is_active: bool, permissions: Permissions | None, now_us: int) -> User:
        """Make a user.

        Args:
            name: 3 to 50 bytes.
            password: 3 to 100 bytes.
            is_active: Whether it may log in.
            permissions: What it may do; None is nothing but what everybody may.
            now_us: The time, microseconds since 1970 UTC.

        Raises:
            AlreadyExistsError: there is one of that name (46).
            LimitError: there have been 4,294,967,295 users (55).
        """
        self._check_free(name)
        password_hash = self._passwords.hash(password)
        with self._lock:
            self._check_free(name)  # again: hashing took its time
            if accounts.last_user_id(self._catalog) >= _MAX_ID:
                raise refusal(Status.USERS_LIMIT_REACHED, "there can be no more users", advice="Start a new log")
            kept = _to_bytes(permissions)
            id_ = accounts.insert_user(self._catalog, name, password_hash, is_active, kept, now_us)
            user = _user(UserRecord(id_, name, password_hash, is_active, kept, now_us))
            self._know({**self.known, id_: user})
        return user

    def update(self, named: Identifier, *, name: str | None = None, is_active: bool | None = None) -> None:
        """Give a user another name or status; None leaves it. What one that is deactivated has logged in with is void.

        Raises:
            NotFoundError: there is no such user (20).
            AlreadyExistsError: another user has that name (46).
        """
        with self._lock:
            record = self.get(named).record
            if name is not None and name != record.name:
                self._check_free(name)
                record = replace(record, name=name)
            if is_active is not None:
                ended = int(record.is_active and not is_active)
                record = replace(record, is_active=is_active, generation=record.generation + ended)
            self._put(record)

    def set_permissions(self, named: Identifier, permissions: Permissions | None) -> None:
        """Say what a user may do; None takes everything.

        Raises:
            NotFoundError: there is no such user (20).
            PermissionDeniedError: it is root (49).
        """
        with self._lock:
            record = self.get(named).record
            if record.id == ROOT:
                raise refusal(
                    Status.CANNOT_CHANGE_PERMISSIONS, "root's permissions cannot be changed", advice="Make another user for less"
                )
            self._put(replace(record, permissions=_to_bytes(permissions)))

    def change_password(self, named: Identifier, current: str, new: str) -> User:
        """Give a user another password, and return it: its tokens are deleted, and what it has logged in with is void.

        Raises:
            NotFoundError: there is no such user (20).
            AuthenticationError: the current password is another one (42).
        """
        user = self.get(named)
        if not self._passwords.check(current, user.record.password_hash):
            raise refusal(Status.INVALID_CREDENTIALS, "the current password is another one")
        password_hash = self._passwords.hash(new)
        with self._lock:
            record = self.get(user.id).record
            if record.password_hash != user.record.password_hash:
                raise refusal(Status.INVALID_CREDENTIALS, "the password was changed at this moment")
            changed = replace(record, password_hash=password_hash, generation=record.generation + 1)
            return self._put(changed, without_tokens=True)

    def delete(self, named: Identifier) -> User:
        """Delete a user with its tokens, and return what it was.

        Raises:
            NotFoundError: there is no such user (20).
            PermissionDeniedError: it is root (48).
        """
        with self._lock:
            user = self.get(named)
            if user.id == ROOT:
                raise refusal(Status.CANNOT_DELETE_USER, "root cannot be deleted", advice="Rename it, or change its password")
            accounts.delete_user(self._catalog, user.id)
            self._know({id_: other for id_, other in self.known.items() if id_ != user.id})
        return user

    def verify(self, name: str, password: str) -> User:
        """Return the user who has a name and a password; it takes as long for a name that nobody has.

        Raises:
            AuthenticationError: the user may not log in (47), or there is none of that name and password (42).
        """
        user = self.find(name)
        if user is not None:
            self.check_active(user)
        if self._passwords.check(password, None if user is None else user.record.password_hash) and user is not None:
            return user  # should it have been changed meanwhile, its generation is one that is not good
        raise refusal(Status.INVALID_CREDENTIALS, "there is no user of that name and password", advice="See that both are right")

    def check_active(self, user: User) -> None:
        """Refuse (47) a user who may not log in."""
        if not user.record.is_active:
            raise refusal(Status.USER_INACTIVE, f"user {user.record.name!r} is inactive", advice="Have it made active")

    def _check_free(self, name: str) -> None:
        if self.find(name) is not None:
            raise refusal(Status.USER_ALREADY_EXISTS, f"there is a user {name!r} already", advice="Use another name")

    def _put(self, record: UserRecord, *, without_tokens: bool = False) -> User:
        accounts.update_user(self._catalog, record, without_tokens=without_tokens)
        user = _user(record)
        self._know({**self.known, record.id: user})
        return user


def _user(record: UserRecord) -> User:
    permissions = None if record.permissions is None else Permissions.pull(Reader(record.permissions))
    return User(record, permissions, Rights(record.id, permissions))


def _to_bytes(permissions: Permissions | None) -> bytes | None:
    if permissions is None:
        return None
    writer = Writer()
    permissions.push(writer)
    return writer.to_bytes()
