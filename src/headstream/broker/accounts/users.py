"""Users: names, passwords and permissions.

User 1 is root, which is created by the log's first server, has every permission and cannot be deleted. All users are cached,
because this process is the log's writer; each change is stored in the catalog before it takes effect.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from dataclasses import dataclass, replace
from typing import Final

from headstream.broker.accounts.passwords import Passwords
from headstream.broker.accounts.permissions import Rights
from headstream.broker.accounts.scram import ITERATIONS, SALT_BYTES, SCRAM_HASHES, Verifier, find_verifier, make_verifiers
from headstream.broker.settings import ServerSettings
from headstream.core.codec.buffer import Reader, Writer
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.users import check_password, check_username
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import Identifier
from headstream.core.wire.statuses import Status
from headstream.log.catalog import accounts
from headstream.log.catalog.accounts import UserRecord
from headstream.log.catalog.catalog import Catalog

ROOT: Final = 1
"""The id of root, which always exists."""

_MAX_ID: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    Args:
        permissions: The user's permissions; None grants only the rights that all users have.
        rights: The user's rights; replaced after each change of the permissions.
        kept_token_id: Id of the HTTP access token with which the password was last changed; empty if there is none.
    """

    record: UserRecord
    permissions: Permissions | None
    rights: Rights
    kept_token_id: str = ""

    @property
    def id(self) -> int:
        """The user's id."""
        return self.record.id


class Users:
    """All users of a server; thread-safe. Calls that hash or check a password are slow; see passwords.py.

    Args:
        catalog: The log's catalog; this process must be its writer.
        settings: Provides root's initial name and password, and the password hash cost.

    Attributes:
        known: All users by id, ordered by id; replaced after each change.

    Raises:
        InvalidInputError: there are no users yet and root's name (43) or password (44) is invalid.
    """

    def __init__(self, catalog: Catalog, settings: ServerSettings, now_us: int) -> None:
        self._catalog = catalog
        self._passwords = Passwords(settings.password_rounds)
        self._stores_scram = settings.stores_scram
        self._lock = threading.Lock()
        self._know({record.id: _user(record) for record in accounts.list_users(catalog)})
        if not self.known:
            check_username(settings.root_username)
            check_password(settings.root_password)
            everything = Permissions(GlobalPermissions.all())
            self.create(settings.root_username, settings.root_password, is_active=True, permissions=everything, now_us=now_us)

    def _know(self, users: dict[int, User]) -> None:
        """Replace the cached users; concurrent readers see either the old or the new users."""
        self.known = users
        self._named = {user.record.name: user for user in users.values()}

    def __contains__(self, user_id: int) -> bool:
        return user_id in self.known

    def is_good(self, user_id: int, generation: int, token_id: str = "") -> bool:
        """Return whether a session or token from a user's generation is still valid; `token_id` is empty for a connection."""
        return self.generation_of(user_id, generation, token_id) is not None

    def generation_of(self, user_id: int, generation: int, token_id: str = "") -> int | None:
        """Return the user's generation if a session or token is still valid, else None; for the arguments, see is_good()."""
        user = self.known.get(user_id)
        if user is None or not user.record.is_active:
            return None
        is_kept = token_id and user.kept_token_id == token_id
        return user.record.generation if is_kept or user.record.generation == generation else None

    def list(self) -> list[User]:
        """Return all users, ordered by id."""
        return list(self.known.values())

    def find(self, named: Identifier) -> User | None:
        """Return a user by id or name, or None."""
        return self.known.get(named) if isinstance(named, int) else self._named.get(named)

    def get(self, named: Identifier) -> User:
        """Return a user by id or name; NotFoundError (20) if it does not exist."""
        user = self.find(named)
        if user is None:
            raise refusal(Status.RESOURCE_NOT_FOUND, f"there is no user {named!r}", advice="List the users to see their names")
        return user

    def rights(self, user_id: int) -> Rights:
        """Return a user's rights, the same object until they change; AuthenticationError (40) if the user was deleted."""
        user = self.known.get(user_id)
        if user is None:
            raise refusal(Status.UNAUTHENTICATED, "the user was deleted", advice="Log in as another user")
        return user.rights

    def create(self, name: str, password: str, *, is_active: bool, permissions: Permissions | None, now_us: int) -> User:
        """Create a user.

        Args:
            name: 3 to 50 bytes.
            password: 3 to 100 bytes.
            permissions: The user's permissions; None grants only the rights that all users have.

        Raises:
            AlreadyExistsError: the name is taken (46).
            LimitError: all 4,294,967,295 user ids are used (55).
        """
        self._check_free(name)
        password_hash, scram = self._passwords.hash(password), self._verifiers(password)
        with self._lock:
            self._check_free(name)  # checked again: the name may have been taken during the hashing
            if accounts.last_user_id(self._catalog) >= _MAX_ID:
                raise refusal(Status.USERS_LIMIT_REACHED, f"all {_MAX_ID} user ids are used", advice="Start a new log")
            kept = _to_bytes(permissions)
            id_ = accounts.insert_user(self._catalog, name, password_hash, is_active, kept, now_us, scram)
            user = _user(UserRecord(id_, name, password_hash, is_active, kept, now_us, scram=scram))
            self._know({**self.known, id_: user})
        return user

    def update(self, named: Identifier, *, name: str | None = None, is_active: bool | None = None) -> None:
        """Change a user's name or status; None leaves it unchanged. Deactivation invalidates the user's sessions and tokens.

        Raises:
            NotFoundError: the user does not exist (20).
            AlreadyExistsError: another user has this name (46).
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
        """Set a user's permissions; None revokes all permissions.

        Raises:
            NotFoundError: the user does not exist (20).
            PermissionDeniedError: the user is root (49).
        """
        with self._lock:
            record = self.get(named).record
            if record.id == ROOT:
                raise refusal(
                    Status.CANNOT_CHANGE_PERMISSIONS,
                    "root's permissions cannot be changed",
                    advice="Create another user with fewer permissions",
                )
            self._put(replace(record, permissions=_to_bytes(permissions)))

    def change_password(self, named: Identifier, current: str, new: str, kept_token_id: str = "") -> User:
        """Change a user's password, delete the user's tokens and invalidate the user's sessions; return the user.

        Args:
            named: The user, by id or name.
            kept_token_id: Id of the request's HTTP access token, or empty; it stays valid if it belongs to the user.

        Raises:
            NotFoundError: the user does not exist (20).
            AuthenticationError: the current password is wrong (42).
        """
        user = self.get(named)
        if not self._passwords.check(current, user.record.password_hash):
            raise refusal(Status.INVALID_CREDENTIALS, "the current password is wrong")
        password_hash, scram = self._passwords.hash(new), self._verifiers(new)
        with self._lock:
            record = self.get(user.id).record
            if record.password_hash != user.record.password_hash:
                raise refusal(Status.INVALID_CREDENTIALS, "the password was changed concurrently")
            changed = replace(record, password_hash=password_hash, generation=record.generation + 1, scram=scram)
            return self._put(changed, without_tokens=True, kept_token_id=kept_token_id)

    def delete(self, named: Identifier) -> User:
        """Delete a user and its tokens; return the deleted user.

        Raises:
            NotFoundError: the user does not exist (20).
            PermissionDeniedError: the user is root (48).
        """
        with self._lock:
            user = self.get(named)
            if user.id == ROOT:
                raise refusal(Status.CANNOT_DELETE_USER, "root cannot be deleted", advice="Rename the user instead")
            accounts.delete_user(self._catalog, user.id)
            self._know({id_: other for id_, other in self.known.items() if id_ != user.id})
        return user

    def verify(self, name: str, password: str) -> User:
        """Return the user; AuthenticationError: user inactive (47), name or password wrong (42). Equally slow for any name."""
        user = self.find(name)
        if user is not None:
            self.check_active(user)
        if self._passwords.check(password, None if user is None else user.record.password_hash) and user is not None:
            if self._stores_scram and user.record.scram is None:
                self._add_verifiers(user, password)
            return user  # after a concurrent change, the generation is outdated and therefore invalid
        raise refusal(Status.INVALID_CREDENTIALS, "wrong user name or password", advice="Check both")

    def _verifiers(self, password: str) -> bytes | None:
        return make_verifiers(password) if self._stores_scram else None

    def _add_verifiers(self, user: User, password: str) -> None:
        """Store the verifiers of a user's password unless the password was changed meanwhile."""
        scram = make_verifiers(password)
        with self._lock:
            now = self.known.get(user.id)
            if now is not None and now.record.password_hash == user.record.password_hash:
                self._put(replace(now.record, scram=scram))

    def verifier(self, name: str, mechanism: str) -> Verifier:
        """Return a user's verifier; if there is none, a verifier that no password matches."""
        user = self.find(name)
        if user is not None and user.record.scram is not None:
            return find_verifier(user.record.scram, mechanism)
        seed = self.known[ROOT].record.password_hash.encode()  # a secret that keeps the salts of unknown users stable
        salt = hmac.digest(seed, f"{mechanism} {name}".encode("utf-8", "surrogatepass"), "sha256")[:SALT_BYTES]
        nothing = bytes(hashlib.new(SCRAM_HASHES[mechanism]).digest_size)
        return Verifier(ITERATIONS, salt, nothing, nothing)

    def check_active(self, user: User) -> None:
        """Raise the error (47) for an inactive user."""
        if not user.record.is_active:
            raise refusal(
                Status.USER_INACTIVE, f"user {user.record.name!r} is inactive", advice="Ask an administrator to activate the user"
            )

    def _check_free(self, name: str) -> None:
        if self.find(name) is not None:
            raise refusal(Status.USER_ALREADY_EXISTS, f"the user {name!r} already exists", advice="Use another name")

    def _put(self, record: UserRecord, *, without_tokens: bool = False, kept_token_id: str = "") -> User:
        accounts.update_user(self._catalog, record, without_tokens=without_tokens)
        before = self.known[record.id]
        if record.generation == before.record.generation:
            kept_token_id = before.kept_token_id
        user = replace(_user(record), kept_token_id=kept_token_id)
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
