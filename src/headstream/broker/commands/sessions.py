"""Sessions: pings, logins with passwords and tokens, and logouts."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.accounts.users import User
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.core.wire.commands.sessions import LoggedIn, Login, Logout, Ping
from headstream.core.wire.commands.tokens import LoginWithToken
from headstream.core.wire.records import Command
from headstream.errors import AuthenticationError, NotFoundError


def ping(server: Dispatcher, session: Session, command: Ping) -> None:
    """Record a client's heartbeat."""
    server.sessions.ping(session)


def log_in(server: Dispatcher, session: Session, command: Login) -> LoggedIn:
    """Log a session in by name and password (47, 42); replaces an earlier login."""
    address = session.address.rpartition(":")[0]
    server.login_limits.check(address, command.username)
    try:
        user = server.users.verify(command.username, command.password)
    except AuthenticationError:
        server.login_limits.failed(address, command.username)
        raise
    server.login_limits.succeeded(address, command.username)
    become(session, user, is_extended=command.is_extended)
    return LoggedIn(user.id)


def log_in_with_token(server: Dispatcher, session: Session, command: LoginWithToken) -> LoggedIn:
    """Log a session in by token (20, 54, 47); replaces an earlier login."""
    address = session.address.rpartition(":")[0]
    server.login_limits.check(address, "")
    try:
        user = server.users.get(server.tokens.verify(command.token))
    except (AuthenticationError, NotFoundError):
        server.login_limits.failed(address, "")
        raise
    server.users.check_active(user)
    become(session, user, is_extended=command.is_extended)
    return LoggedIn(user.id)


def log_out(server: Dispatcher, session: Session, command: Logout) -> None:
    """Log a session out and remove it from its groups. The connection stays open, but its polls are refused."""
    session.user_id = 0
    server.leave_groups(session)


def become(session: Session, user: User, *, is_extended: bool) -> None:
    """Set the user of a session after a checked login; `is_extended`: the client supports Headstream's own commands."""
    session.user_id, session.generation = user.id, user.record.generation
    session.last_user_id = user.id
    if session.transport is not None:  # HTTP clients always support extensions
        session.is_extended = is_extended


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    Ping: CommandRow(ping, is_quick=True),
    Login: CommandRow(log_in, is_slow=True, threads="passwords"),
    LoginWithToken: CommandRow(log_in_with_token, is_slow=True),
    Logout: CommandRow(log_out),
}
