"""Dispatcher: a session's command in, its reply out.

    stale (30) -> one of our own to a client that does not know them (3) -> not logged in (40) -> the noun's answer

Decoding (3) and validation come before, where the command is made; existence and permission are the noun's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from headstream.broker.broker import Broker
from headstream.broker.commands.balance import Balance
from headstream.broker.commands.counts import Counts
from headstream.broker.commands.places import Places
from headstream.broker.connection_groups import ConnectionGroups
from headstream.broker.login_limits import LoginLimits
from headstream.broker.members import Members
from headstream.broker.permissions import Rights
from headstream.broker.sessions import Session, Sessions
from headstream.broker.settings import ServerSettings
from headstream.broker.tokens import Tokens
from headstream.broker.users import Users
from headstream.errors import (
    AuthenticationError,
    HeadstreamError,
    NotFoundError,
    PermissionDeniedError,
    StreamNotFoundError,
    TopicNotFoundError,
)
from headstream.model.topology import MAX_BATCH_BYTES
from headstream.wire.codes import Entry
from headstream.wire.commands.system import TransportKind
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["Dispatcher", "Handler"]

_PATIENCE: Final = 1.2
"""How many heartbeats a client may take for one."""

QUIC_POLL_BYTES: Final = 1_000_000
"""Existing command lines take no longer response over QUIC than 1 MiB."""

_R = TypeVar("_R")
Handler: TypeAlias = Callable[["Dispatcher", Session, Any], Any]
"""Answers one kind of command: its reply, or a HeadstreamError."""


class Dispatcher:
    """What answers commands; any thread, one command of a session at a time.

    It makes this process the log's writer, and the log and its root user where there are none.

    Args:
        broker: What the commands are about; whoever made it closes it.
        settings: What the server decides for everybody.
        handlers: Who answers what.

    Attributes:
        poll_bytes: About the most bytes that one poll brings. Who writes the answers lowers it while too many of them wait for
            clients that do not take them: then all get less at a time.

    Raises:
        LogLockedError: another process is the writer.
        InvalidInputError: root's name or password cannot be one, and there is no root yet.
    """

    def __init__(self, broker: Broker, settings: ServerSettings, handlers: dict[type[Command[Any]], Handler]) -> None:
        self.broker = broker
        self.settings = settings
        self.poll_bytes = MAX_BATCH_BYTES
        self.sessions = Sessions(broker.monotonic)
        self.login_limits = LoginLimits(broker.monotonic)
        self.places = Places(broker.backing.log)
        self.balance = Balance()
        self.counts = Counts(broker.backing.log)
        self.connection_groups = ConnectionGroups()
        self.members = Members(broker.groups, broker.monotonic)
        self.sessions.on_close(lambda session: self.connection_groups.end(session.client_id))
        self.sessions.on_close(self.members.end)
        backing = broker.backing
        with backing.writable_log().changing() as catalog:
            self.catalog = catalog
            self.users = Users(catalog, settings, backing.clock_us())
            self.tokens = Tokens(catalog, settings, backing.clock_us, backing.entropy)
        self._handlers = handlers

    def answer(self, session: Session, command: Command[_R]) -> _R:
        """Return the reply to a command that has been validated.

        Args:
            session: Whose command it is.
            command: The command.

        Raises:
            HeadstreamError: why there is none; wire.refusals.status_of() has its status.
        """
        entry = command.entry()
        handler = self._handlers.get(type(command))
        if handler is None:
            raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not served here")
        try:
            self.admit(session, entry)
            reply: _R = handler(self, session, command)
        except (NotFoundError, AuthenticationError, PermissionDeniedError) as error:
            if session.is_stale or session.is_ended or not entry.is_lookup:
                raise self.disclosed(session, command, error) from None
            return None  # type: ignore[return-value]  # a lookup's reply may be nothing
        return reply

    def admit(self, session: Session, entry: Entry) -> None:
        """Refuse a session a command that it may not even ask for.

        Args:
            session: Whose command it is.
            entry: What the table says of the command.

        Raises:
            HeadstreamError: with 30, 3, or 40 (or what the table has instead).
        """
        if not entry.needs_login:
            return
        session.check_alive()
        if not session.is_extended and entry.is_extension:
            raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not served here")
        if session.is_ended or not self.users.is_good(session.user_id, session.generation):
            raise refusal(entry.refusal, f"{entry.name} needs a login", advice="Log in first")

    def disclosed(self, session: Session, command: Command[Any], error: HeadstreamError) -> HeadstreamError:
        """Return the error that a session is answered with.

        "There is no such stream" and "no such topic" are for those who have a right to all of them. To others what is
        missing looks like what is there and not theirs, or every name could be tried.

        Args:
            session: Who asks.
            command: What it asked.
            error: Why there is no reply.
        """
        if not session.user_id or not isinstance(error, (StreamNotFoundError, TopicNotFoundError)):
            return error
        stream = 0
        if isinstance(error, TopicNotFoundError):
            named = getattr(command, "stream", None)
            stream = 0 if named is None else self.places.stream(named).id
        rights = self.rights(session)
        return error if rights.knows_of(stream) else rights.unknown()

    def most_polled_bytes(self, session: Session) -> int:
        """Return about the most bytes that one poll of a session brings."""
        if session.transport is TransportKind.QUIC and not session.is_extended:
            return min(self.poll_bytes, QUIC_POLL_BYTES)
        return self.poll_bytes

    def rights(self, session: Session) -> Rights:
        """Return what the user of a session may do, the same object until that changes."""
        return self.users.rights(session.user_id)

    def end_sessions(self, user_id: int, *, but: Session | None = None) -> None:
        """End all sessions of a user, but one."""
        for session in self.sessions.list():
            if session.user_id == user_id and session is not but:
                session.is_ended = True
                self.sessions.close(session)

    def sweep(self) -> None:
        """End what has been silent for too long, and forget the tokens that have expired; to be called often."""
        heartbeat_us = self.settings.heartbeat_us
        if heartbeat_us is not None:
            self.sessions.sweep(heartbeat_us * _PATIENCE / 1e6)
        self.tokens.forget_expired()
        self.members.sweep()
