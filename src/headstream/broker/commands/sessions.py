"""Coming and going: pings, logins by password and by token, and logging out."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.sessions import Session
from headstream.broker.users import User
from headstream.errors import AuthenticationError, NotFoundError
from headstream.wire.commands.sessions import LoggedIn, Login, Logout, Ping
from headstream.wire.commands.tokens import LoginWithToken
from headstream.wire.records import Command

__all__ = ["HANDLERS"]


def ping(server: Dispatcher, session: Session, command: Ping) -> None:
    """Take note that a client is alive."""
    server.sessions.ping(session)


def log_in(server: Dispatcher, session: Session, command: Login) -> LoggedIn:
    """Make a session one of the user's whose name and password it knows (47, 42), whoever it was before."""
    address = session.address.rpartition(":")[0]
    server.login_limits.check(address, command.username)
    try:
        user = server.users.verify(command.username, command.password)
    except AuthenticationError:
        server.login_limits.failed(address, command.username)
        raise
    server.login_limits.succeeded(address, command.username)
    return _become(session, user, is_extended=command.is_extended)


def log_in_with_token(server: Dispatcher, session: Session, command: LoginWithToken) -> LoggedIn:
    """Make a session one of the user's whose token it knows (20, 54, 47), whoever it was before."""
    address = session.address.rpartition(":")[0]
    server.login_limits.check(address, "")
    try:
        user = server.users.get(server.tokens.verify(command.token))
    except (AuthenticationError, NotFoundError):
        server.login_limits.failed(address, "")
        raise
    server.users.check_active(user)
    return _become(session, user, is_extended=command.is_extended)


def log_out(server: Dispatcher, session: Session, command: Logout) -> None:
    """Make a session nobody's; the connection stays."""
    session.user_id = 0


def _become(session: Session, user: User, *, is_extended: bool) -> LoggedIn:
    session.user_id, session.generation = user.id, user.record.generation
    if session.transport is not None:  # over HTTP everybody is told everything
        session.is_extended = is_extended
    return LoggedIn(user.id)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    Ping: ping,
    Login: log_in,
    LoginWithToken: log_in_with_token,
    Logout: log_out,
}
