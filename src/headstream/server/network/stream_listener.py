"""StreamListener: accepts TCP connections, limits their number, checks timeouts, and drains connections when the server stops."""

from __future__ import annotations

import asyncio
import logging
import ssl
from abc import abstractmethod
from typing import Final, Generic, Protocol, TypeVar

from headstream.server.network.acceptor import Acceptor
from headstream.server.network.addresses import Address
from headstream.server.network.admission import Admission
from headstream.server.network.sockets import SocketOptions, listen
from headstream.server.network.unauthenticated_connections import UnauthenticatedConnections
from headstream.server.reporting.logs import note

_CHECK_S: Final = 1.0
"""Maximum interval of checking timeouts, seconds; the interval is shorter if a timeout is short."""
_PENDING_SHARE: Final = 4
"""1/n of the connections can be in a TLS handshake or wait to be accepted."""


class _Timeouts(Protocol):
    @property
    def frame_s(self) -> float: ...

    @property
    def stall_s(self) -> float: ...

    @property
    def login_s(self) -> float: ...


class _Counters(Protocol):
    transport: str
    connections: int
    refused_connections: int


class _Connection(Protocol):
    @property
    def is_logged_in(self) -> bool: ...

    @property
    def is_busy(self) -> bool: ...

    def leave(self) -> None: ...

    def abort(self) -> None: ...

    def check(self, now_s: float) -> None: ...


_C = TypeVar("_C", bound=_Connection)


class StreamListener(Generic[_C]):
    """The connections of one TCP listener, up to a maximum; runs in the event loop.

    Args:
        max_connections: Maximum number of connections; above it, the oldest unauthenticated or the new connection is closed.
        timeouts: Timeouts of each connection, seconds, which also determine the interval of checks.
    """

    def __init__(
        self,
        counters: _Counters,
        max_connections: int,
        timeouts: _Timeouts,
        admission: Admission,
        options: SocketOptions | None = None,
    ) -> None:
        self._counters = counters
        self._max_connections = max_connections
        self._admission = admission
        self._options = options
        self._check_s = min(_CHECK_S, timeouts.frame_s / 4, timeouts.stall_s / 4, timeouts.login_s / 4)
        self._connections: set[_C] = set()
        self._unauthenticated = UnauthenticatedConnections[_C](lambda connection: connection.abort())
        self._server: Acceptor | None = None
        self._checking: asyncio.Task[None] | None = None
        self._is_empty = asyncio.Event()

    @abstractmethod
    def _make_connection(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""

    async def start(self, address: Address, tls: ssl.SSLContext | None = None) -> Address:
        """Listen; return the bound address. Port 0 means any free port. EnvironmentSetupError if the address is unavailable."""
        loop = asyncio.get_running_loop()
        sock, bound = listen(address, self._options)
        self._server = Acceptor(
            sock,
            tls,
            self._make_connection,
            lambda: self._max_connections - len(self._connections),
            self._unauthenticated.end_oldest,
            self._refuse,
            max(self._max_connections // _PENDING_SHARE, 1),
            self._admission,
        )
        self._checking = loop.create_task(self._check_often())
        return bound

    def joined(self, connection: _C) -> bool:
        """Register a new connection; return False if the connection limit is reached."""
        if len(self._connections) >= self._max_connections and not self._unauthenticated.end_oldest():
            self._refuse()
            return False
        self._connections.add(connection)
        self._unauthenticated.add(connection)
        self._counters.connections = len(self._connections)
        return True

    def _refuse(self) -> None:
        if not self._counters.refused_connections % 1000:
            note(logging.WARNING, "connections refused", most=self._max_connections, transport=self._counters.transport)
        self._counters.refused_connections += 1

    def left(self, connection: _C) -> None:
        """Unregister a closed connection that has no running request."""
        self._connections.discard(connection)
        self._unauthenticated.discard(connection)
        self._counters.connections = len(self._connections)
        if not self._connections:
            self._is_empty.set()

    async def stop(self, drain_s: float) -> None:
        """Stop listening, answer received requests, and close all connections (busy connections after `drain_s`); idempotent."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if self._checking is not None:
            self._checking.cancel()
        self._is_empty.clear()
        for connection in tuple(self._connections):
            connection.leave()
        if self._connections:
            try:
                await asyncio.wait_for(self._is_empty.wait(), drain_s)
            except TimeoutError:
                transport, count = self._counters.transport, len(self._connections)
                note(logging.WARNING, "connections aborted at the end of the drain timeout", count=count, transport=transport)
                for connection in tuple(self._connections):
                    connection.abort()
                await asyncio.sleep(0)

    def _interval_s(self) -> float:
        """Return the time until the next call to _check(), seconds."""
        return self._check_s

    async def _check(self, now_s: float) -> None:
        """Close connections that have timed out, by the event loop's clock."""
        for connection in tuple(self._connections):
            connection.check(now_s)

    async def _check_often(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._interval_s())
            await self._check(loop.time())
