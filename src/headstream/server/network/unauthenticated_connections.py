"""UnauthenticatedConnections: chooses the connection that is closed when a listener is full.

Clients can open connections at no cost, and only a login identifies users. At the limit, the oldest connection without a login
and without a running request is therefore closed. If all clients have logged in, the new connection is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class _Connection(Protocol):
    @property
    def is_logged_in(self) -> bool: ...

    @property
    def is_busy(self) -> bool: ...


_C = TypeVar("_C", bound=_Connection)


class UnauthenticatedConnections(Generic[_C]):
    """The connections of one listener without a login, oldest first; used in the event loop.

    A connection that logs in is not removed immediately, but when end_oldest() reaches it.

    Args:
        abort: Closes a connection immediately.
    """

    def __init__(self, abort: Callable[[_C], None]) -> None:
        self._abort = abort
        self._connections: dict[_C, None] = {}

    def add(self, connection: _C) -> None:
        """Record a new connection."""
        self._connections[connection] = None

    def discard(self, connection: _C) -> None:
        """Remove a connection that has ended."""
        self._connections.pop(connection, None)

    def end_oldest(self) -> bool:
        """Close the oldest connection without a running request; return whether a connection was closed."""
        for _ in range(len(self._connections)):
            connection = next(iter(self._connections))
            del self._connections[connection]
            if connection.is_logged_in:
                continue
            if not connection.is_busy:
                self._abort(connection)
                return True
            self._connections[connection] = None  # the client may be logging in; the connection is checked again later
        return False
