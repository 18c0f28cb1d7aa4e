"""Commands for users and their passwords.

user   id u32 | created_at u64 | status u8 | name text8
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from headstream.core.codec.buffer import Reader
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.commands.permissions import Permissions, SizedPermissions, UserPermissions
from headstream.core.wire.records import Command, Record, many, maybe, one
from headstream.core.wire.shapes import TEXT8, U32, U64, Json, OptionalShape, Text8, TextCode, UserId
from headstream.core.wire.statuses import Status


class UserStatus(enum.IntEnum):
    """Whether a user is allowed to log in."""

    ACTIVE = 1
    INACTIVE = 2


_STATUS: Final = TextCode(UserStatus)


class _LenientOptional(OptionalShape):
    """One byte, followed by a value if the byte is exactly 1; None for any other byte."""

    def pull(self, reader: Reader, what: str) -> Any:
        return self.shape.pull(reader, what) if reader.pull_u8(f"the presence flag of {what}") == 1 else None


def check_username(username: str) -> None:
    """Raise an error if a user name is invalid."""
    check_bytes(username, 3, 50, Status.INVALID_USERNAME, "a user name")


def check_password(password: str) -> None:
    """Raise an error if a password is invalid."""
    check_bytes(password, 3, 100, Status.INVALID_PASSWORD, "a password")


@dataclass(frozen=True, slots=True)
class User(Record):
    """One user."""

    id: U32
    created_us: Annotated[U64, Json("created_at")]
    status: Annotated[UserStatus, _STATUS]
    username: Text8


@dataclass(frozen=True, slots=True)
class UserDetails(User):
    """One user and its permissions; None means that the user has only the permissions that every user has."""

    permissions: Annotated[Permissions | None, UserPermissions()] = None


@dataclass(frozen=True, slots=True)
class GetUser(Command[UserDetails | None]):
    """Return a user, or None."""

    code = Code.GET_USER
    reply = maybe(UserDetails)
    user: UserId


@dataclass(frozen=True, slots=True)
class ListUsers(Command[tuple[User, ...]]):
    """Return all users."""

    code = Code.LIST_USERS
    reply = many(User)


@dataclass(frozen=True, slots=True)
class CreateUser(Command[UserDetails]):
    """Create a user."""

    code = Code.CREATE_USER
    reply = one(UserDetails)
    username: Text8
    password: Text8 = field(repr=False)
    status: Annotated[UserStatus, _STATUS]
    permissions: Annotated[Permissions | None, _LenientOptional(SizedPermissions())] = None

    def validate(self) -> None:
        check_username(self.username)
        check_password(self.password)


@dataclass(frozen=True, slots=True)
class DeleteUser(Command[None]):
    """Delete a user."""

    code = Code.DELETE_USER
    user: UserId


@dataclass(frozen=True, slots=True)
class UpdateUser(Command[None]):
    """Change a user's name or status; None leaves a value unchanged."""

    code = Code.UPDATE_USER
    user: UserId
    username: Annotated[str | None, OptionalShape(TEXT8)] = None
    status: Annotated[UserStatus | None, OptionalShape(_STATUS)] = None

    def validate(self) -> None:
        if self.username is not None:
            check_username(self.username)


@dataclass(frozen=True, slots=True)
class UpdatePermissions(Command[None]):
    """Replace the permissions of a user; None removes all permissions."""

    code = Code.UPDATE_PERMISSIONS
    user: UserId
    permissions: Annotated[Permissions | None, OptionalShape(SizedPermissions())] = None


@dataclass(frozen=True, slots=True)
class ChangePassword(Command[None]):
    """Change the password of a user."""

    code = Code.CHANGE_PASSWORD
    user: UserId
    current_password: Text8 = field(repr=False)
    new_password: Text8 = field(repr=False)

    def validate(self) -> None:
        check_password(self.current_password)
        check_password(self.new_password)
