"""A server without sockets, over a log in memory or in a directory, and sessions that ask it by the bytes of their commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from headstream.broker.accounts.sessions import Session
from headstream.broker.broker import Broker
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.table import make_dispatcher
from headstream.broker.settings import ServerSettings
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands.permissions import Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.users import CreateUser, UserDetails, UserStatus
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import status_of
from headstream.errors import HeadstreamError
from headstream.log.opening import open_directory, open_memory

_R = TypeVar("_R")


class Clock:
    """A clock that goes on when it is told to, and by `step_us` per reading in microseconds; seconds."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0
        self.step_us = 0

    def now_us(self) -> int:
        self.now_s += self.step_us / 1e6
        return int(self.now_s * 1e6)

    def monotonic(self) -> float:
        return self.now_s


class Peer:
    """One client: a session, and what it asks."""

    def __init__(self, dispatcher: Dispatcher, session: Session) -> None:
        self.dispatcher = dispatcher
        self.session = session

    def ask(self, command: Command[_R]) -> _R:
        """Return the reply to a command; command and reply travel as bytes."""
        arrived = type(command).decode(command.encode())
        arrived.validate()
        kind: Any = type(command)
        reply: _R = kind.decode_reply(kind.encode_reply(self.dispatcher.answer(self.session, arrived)))
        return reply

    def status(self, command: Command[Any]) -> int:
        """Return the status by which a command is refused, 0 where it is not."""
        try:
            self.ask(command)
        except HeadstreamError as error:
            return status_of(error)
        return 0

    def log_in(self, name: str = "iggy", password: str = "iggy") -> Peer:
        self.ask(Login(name, password))
        return self


class Server:
    """A server whose clock the test moves, over a log in `directory`, or in memory where there is none; and other settings."""

    def __init__(self, **settings: Any) -> None:
        directory: Path | None = settings.pop("directory", None)
        log = open_memory() if directory is None else open_directory(str(directory))
        self.clock = Clock()
        self.broker = Broker(log, clock_us=self.clock.now_us, monotonic=self.clock.monotonic)
        self.dispatcher = make_dispatcher(self.broker, ServerSettings(password_rounds=4, **settings))
        self._ports = 50_000

    def connect(self) -> Peer:
        """Return a client that nobody has logged in."""
        self._ports += 1
        return Peer(self.dispatcher, self.dispatcher.sessions.open(f"127.0.0.1:{self._ports}"))

    def root(self) -> Peer:
        return self.connect().log_in()

    def ours(self, name: str = "iggy") -> Peer:
        """Return a client of a user that sends Headstream's own commands as well."""
        peer = self.connect()
        peer.ask(Login(name, "iggy" if name == "iggy" else name * 2, "1.0.0", EXTENSION_CONTEXT))
        return peer

    def add_user(self, name: str, permissions: Permissions | None = None, status: UserStatus = UserStatus.ACTIVE) -> UserDetails:
        """Make a user whose password is its name twice."""
        return self.root().ask(CreateUser(name, name * 2, status, permissions))

    def users_of_two_topics(self) -> dict[str, Peer]:
        """Return clients of new users: `nobody` may send to topic 1, `reader` poll it, `worker` poll it and send to topic 2."""
        polls, sends = TopicPermissions(poll_messages=True), TopicPermissions(send_messages=True)
        rights = {"nobody": {1: sends}, "reader": {1: polls}, "worker": {1: polls, 2: sends}}
        for name, topics in rights.items():
            self.add_user(name, Permissions(streams={1: StreamPermissions(topics=topics)}))
        return {name: self.ours(name) for name in rights}

    def connect_as(self, name: str, permissions: Permissions | None = None) -> Peer:
        """Return a client of a new user."""
        self.add_user(name, permissions)
        return self.connect().log_in(name, name * 2)
