"""TcpServer: the door for existing clients and for our own: it listens, and keeps its connections within their limits."""

from __future__ import annotations

import asyncio
import logging
import select
import ssl
from typing import Final

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.traffic import Traffic
from headstream.model.topology import MAX_BATCH_BYTES
from headstream.server.addresses import Address
from headstream.server.connection import Connection
from headstream.server.intake import Intake
from headstream.server.logs import note
from headstream.server.memory import give_back_memory
from headstream.server.memory_budget import MemoryBudget
from headstream.server.sockets import listen
from headstream.server.tcp_settings import TcpSettings
from headstream.server.tls_listener import TlsListener
from headstream.server.workers import Workers
from headstream.wire.frames import BufferPool

__all__ = ["TcpServer"]

_GIVE_BACK_S: Final = 3.0
"""While much of the memory budget is taken, what the C library keeps besides is given back so often."""
_CHECK_S: Final = 1.0
"""How often connections are looked at, at least; more often where a limit is short."""
_HANDSHAKES_SHARE: Final = 4
"""The part of the connections that may be without a finished handshake."""
_SCRATCH_BYTES: Final = 64 << 10
"""Where bytes are received first, of one connection after the other."""
_SMALL_POLL_BYTES: Final = 256 << 10
_POLL_SHARE: Final = 4
"""A poll brings such a part of the memory that is left."""


class TcpServer:
    """All connections over TCP.

    Args:
        dispatcher: What answers.
        workers: The threads for what is slow.
        settings: What is decided.
        budget: The memory for what clients send and are sent.
    """

    def __init__(self, dispatcher: Dispatcher, workers: Workers, settings: TcpSettings, budget: MemoryBudget) -> None:
        self.dispatcher = dispatcher
        self.budget = budget
        self.workers = workers
        self.limits = settings.limits
        self.pool = BufferPool()
        self.traffic = Traffic("tcp")
        self.intake: Intake | None = None
        self._room = bytearray(_SCRATCH_BYTES)
        self.scratch = memoryview(self._room)
        self._settings = settings
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | TlsListener | None = None
        self._checking: asyncio.Task[None] | None = None
        self._is_empty = asyncio.Event()

    async def start(self, address: Address, tls: ssl.SSLContext | None = None) -> Address:
        """Accept connections, and return where.

        Args:
            address: Where to listen; port 0 is any that is free.
            tls: Whether and how connections are encrypted.

        Raises:
            StorageError, EnvironmentSetupError: the system does not let us listen there.
        """
        loop = asyncio.get_running_loop()
        sock, bound = listen(address, self._settings.socket)
        if tls is None and hasattr(select, "epoll"):
            self.intake = Intake(loop, self._room, self.traffic)
        if tls is None:
            self._server = await loop.create_server(lambda: Connection(self, loop), sock=sock, backlog=1024)
        else:
            most = self._settings.max_connections
            self._server = TlsListener(
                sock,
                tls,
                lambda: Connection(self, loop),
                lambda: most - len(self._connections),
                self._refuse,
                max(most // _HANDSHAKES_SHARE, 1),
            )
        self._checking = loop.create_task(self._check_often())
        return bound

    def joined(self, connection: Connection) -> bool:
        """Take note of a new connection; return whether there is room for it."""
        if len(self._connections) >= self._settings.max_connections:
            self._refuse()
            return False
        self._connections.add(connection)
        self.traffic.connections = len(self._connections)
        return True

    def _refuse(self) -> None:
        if not self.traffic.refused_connections % 1000:
            note(logging.WARNING, "connections refused", most=self._settings.max_connections)
        self.traffic.refused_connections += 1

    def left(self, connection: Connection) -> None:
        """Take note that a connection has ended, and that nothing of it is under way."""
        self._connections.discard(connection)
        self.traffic.connections = len(self._connections)
        self.adapt_polls()
        if not self._connections:
            self._is_empty.set()

    def adapt_polls(self) -> None:
        """Have a poll bring as much as there is memory for now: the more is held, the less."""
        budget = self.budget
        room_bytes = min(self._settings.unsent_bytes - budget.held_bytes, budget.room_bytes // _POLL_SHARE)
        self.dispatcher.poll_bytes = max(_SMALL_POLL_BYTES, min(MAX_BATCH_BYTES, room_bytes))

    async def stop(self, drain_s: float) -> None:
        """Accept no more, answer what has been received, and close every connection.

        Args:
            drain_s: How long that may take, seconds; what is not done then is closed as it is.
        """
        if self._server is None:
            return
        self._server.close()
        if self._checking is not None:
            self._checking.cancel()
        self._is_empty.clear()
        for connection in tuple(self._connections):
            connection.leave()
        if self._connections:
            try:
                await asyncio.wait_for(self._is_empty.wait(), drain_s)
            except TimeoutError:
                note(logging.WARNING, "connections closed before they were done", count=len(self._connections))
                for connection in tuple(self._connections):
                    connection.abort()
                await asyncio.sleep(0)
        if self.intake is not None:
            self.intake.close()
            self.intake = None
        self._server = None

    async def _check_often(self) -> None:
        loop = asyncio.get_running_loop()
        given_s = loop.time()
        every_s = min(_CHECK_S, self.limits.frame_s / 4, self.limits.stall_s / 4, self.limits.login_s / 4)
        while True:
            await asyncio.sleep(every_s)
            for connection in tuple(self._connections):
                connection.check(loop.time())
            if self.budget.take_relief() or (self.budget.is_in_use and loop.time() - given_s > _GIVE_BACK_S):
                await asyncio.to_thread(give_back_memory)
                given_s = loop.time()
