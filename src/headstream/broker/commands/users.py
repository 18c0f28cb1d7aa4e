"""Users. Sessions without the right to manage users are refused (41) before the lookup, so that they cannot probe names."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.accounts.users import User
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.core.wire.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    ListUsers,
    UpdatePermissions,
    UpdateUser,
    UserDetails,
    UserStatus,
)
from headstream.core.wire.commands.users import User as UserReply
from headstream.core.wire.records import Command


def get_user(server: Dispatcher, session: Session, command: GetUser) -> UserDetails:
    """Return a user; all users can read themselves."""
    user = server.users.find(command.user)
    server.rights(session).read_users(_id_of(user))
    return _details(server.users.get(command.user))


def list_users(server: Dispatcher, session: Session, command: ListUsers) -> tuple[UserReply, ...]:
    """Return all users."""
    server.rights(session).read_users()
    return tuple(UserReply(*_fields(user)) for user in server.users.list())


def create_user(server: Dispatcher, session: Session, command: CreateUser) -> UserDetails:
    """Create a user (46, 55)."""
    server.rights(session).manage_users()
    is_active = command.status is UserStatus.ACTIVE
    now_us = server.broker.backing.clock_us()
    return _details(
        server.users.create(
            command.username, command.password, is_active=is_active, permissions=command.permissions, now_us=now_us
        )
    )


def delete_user(server: Dispatcher, session: Session, command: DeleteUser) -> None:
    """Delete a user (20, 48) and end its sessions."""
    server.rights(session).manage_users()
    server.end_sessions(server.users.delete(command.user).id)


def update_user(server: Dispatcher, session: Session, command: UpdateUser) -> None:
    """Change a user's name or status (20, 46); deactivation invalidates the user's sessions and tokens."""
    server.rights(session).manage_users()
    is_active = None if command.status is None else command.status is UserStatus.ACTIVE
    user = server.users.get(command.user)
    server.users.update(user.id, name=command.username, is_active=is_active)
    if is_active is False:
        server.end_sessions(user.id)


def update_permissions(server: Dispatcher, session: Session, command: UpdatePermissions) -> None:
    """Set a user's permissions (20, 49), effective from the user's next command."""
    server.rights(session).manage_users()
    server.users.set_permissions(command.user, command.permissions)


def change_password(server: Dispatcher, session: Session, command: ChangePassword) -> None:
    """Change a password (20, 42); all users can change their own passwords.

    The user's personal access tokens, other sessions and other HTTP access tokens become invalid, because they may belong to a
    person who knew the old password. The session or access token of the request stays valid if it belongs to the user.
    """
    server.rights(session).manage_users(_id_of(server.users.find(command.user)))
    user = server.users.change_password(command.user, command.current_password, command.new_password, session.token_id)
    if session.user_id == user.id:
        session.generation = user.record.generation
    server.end_sessions(user.id, but=session)


def _id_of(user: User | None) -> int:
    return 0 if user is None else user.id


def _fields(user: User) -> tuple[int, int, UserStatus, str]:
    record = user.record
    return record.id, record.created_us, UserStatus.ACTIVE if record.is_active else UserStatus.INACTIVE, record.name


def _details(user: User) -> UserDetails:
    return UserDetails(*_fields(user), user.permissions)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetUser: CommandRow(get_user),
    ListUsers: CommandRow(list_users),
    CreateUser: CommandRow(create_user, is_slow=True, threads="passwords"),
    DeleteUser: CommandRow(delete_user, is_slow=True),
    UpdateUser: CommandRow(update_user, is_slow=True),
    UpdatePermissions: CommandRow(update_permissions, is_slow=True),
    ChangePassword: CommandRow(change_password, is_slow=True, threads="passwords"),
}
