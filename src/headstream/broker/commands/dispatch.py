"""Dispatcher: a session's command in, its reply out.

    stale (30) -> one of our own to a client that does not know them (3) -> not logged in (40) -> the noun's answer

Decoding (3) and validation come before, where the command is made; existence and permission are the noun's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from headstream.broker.broker import Broker
from headstream.broker.sessions import Session, Sessions
from headstream.broker.settings import ServerSettings
from headstream.errors import AuthenticationError, NotFoundError, PermissionDeniedError
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["Dispatcher", "Handler"]

_R = TypeVar("_R")
Handler: TypeAlias = Callable[["Dispatcher", Session, Any], Any]
"""Answers one kind of command: its reply, or a HeadstreamError."""


class Dispatcher:
    """What answers commands; any thread, one command of a session at a time.

    Args:
        broker: What the commands are about; whoever made it closes it.
        settings: What the server decides for everybody.
        handlers: Who answers what.
    """

    def __init__(self, broker: Broker, settings: ServerSettings, handlers: dict[type[Command[Any]], Handler]) -> None:
        self.broker = broker
        self.settings = settings
        self.sessions = Sessions(broker.monotonic)
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
        if entry.needs_login:
            session.check_alive()
        handler = self._handlers.get(type(command))
        if handler is None or (entry.is_extension and not session.is_extended):
            raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not served here")
        try:
            if entry.needs_login and not session.user_id:
                raise refusal(entry.refusal, f"{entry.name} needs a login", advice="Log in first")
            reply: _R = handler(self, session, command)
        except (NotFoundError, AuthenticationError, PermissionDeniedError):
            if not entry.is_lookup:
                raise
            return None  # type: ignore[return-value]  # a lookup's reply may be nothing
        return reply
