"""OwnClient: a client whose commands are answered by this process, without a socket, with the rights of one user.

Views that change data use an OwnClient, so that they run the same code as clients and the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from headstream.core.wire.records import Command

if TYPE_CHECKING:
    from headstream.client.client import Client

_R = TypeVar("_R")
Ask: TypeAlias = Callable[[Command[Any]], Any]
"""Runs a validated command with the rights of a user, and returns the reply."""

_PLACE: Final = "headstream"
"""The scheme and host that errors name."""


class _OwnConnection:
    """A connection that runs a command when its reply is requested; see client.transports.remote.connection.Connection."""

    is_usable = True

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def send(self, command: Command[Any], wait_ms: float = 0) -> None:
        """Validate a command; receive() runs the command."""
        command.validate()

    def has_reply(self, wait_ms: int) -> bool:
        """Return whether a reply has started to arrive; a cancelled command is not run."""
        return False

    def receive(self, command: Command[_R]) -> _R:
        """Run a command, and return its reply."""
        reply: _R = self._ask(command)
        return reply

    def interrupt(self) -> None:
        """Do nothing, because there is no connection to break."""

    def close(self) -> None:
        """Do nothing."""


class _OwnConnector:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def connect(self, begin: Callable[[Any], None]) -> _OwnConnection:
        """Return a connection."""
        connection = _OwnConnection(self._ask)
        begin(connection)
        return connection


@contextmanager
def own_client(ask: Ask) -> Iterator[Client]:
    """Return a context with a client, without interceptors, whose commands are run by `ask`; thread-safe."""
    from headstream.client.client import Client
    from headstream.client.transports.remote.address import RemoteOptions, ServerUrl
    from headstream.client.transports.remote.caller import Caller
    from headstream.client.transports.remote.transport import RemoteTransport

    address = ServerUrl(_PLACE, _PLACE, 0, options=RemoteOptions(retry_timeout_ms=0))
    with Client(RemoteTransport(Caller(address, _OwnConnector(ask)))) as client:
        yield client
