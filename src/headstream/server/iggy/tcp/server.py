"""TcpServer: the listener for Iggy's binary protocol over TCP, and the shared state of its connections."""

from __future__ import annotations

import asyncio
import select
import ssl
from typing import Final

from headstream.broker.commands.dispatch import Dispatcher
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.core.wire.frames import FrameBufferPool
from headstream.log.system.malloc import trim_malloc
from headstream.server.config.tcp_settings import TcpSettings
from headstream.server.iggy.fast_path.intake import Intake
from headstream.server.iggy.fast_path.switch import has_fast_path
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.iggy.tcp.connection import TcpServerConnection
from headstream.server.network.addresses import Address
from headstream.server.network.admission import Admission
from headstream.server.network.stream_listener import StreamListener
from headstream.server.resources.loop_rounds import LoopRounds
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.server.resources.wakeups import Wakeups
from headstream.server.resources.workers import Workers

_TRIM_S: Final = 3.0
"""Interval at which freed memory is returned to the system while much of the memory budget is held, seconds."""
_SCRATCH_BYTES: Final = 64 << 10
"""Size of the receive buffer that connections share, one after another."""
_SMALL_POLL_BYTES: Final = 256 << 10


class TcpServer(StreamListener[TcpServerConnection]):
    """All connections over TCP."""

    def __init__(
        self, dispatcher: Dispatcher, workers: Workers, settings: TcpSettings, budget: MemoryBudget, admission: Admission
    ) -> None:
        self.dispatcher = dispatcher
        self.budget = budget
        self.workers = workers
        self.limits = settings.limits
        self.pool = FrameBufferPool()
        self.traffic = Traffic("tcp")
        self.rounds = LoopRounds()
        self.quota = admission.quota
        self.wakeups = Wakeups(asyncio.get_running_loop())
        self.intake: Intake | None = None
        self.has_fast_path = has_fast_path()
        self._scratch_bytes = bytearray(_SCRATCH_BYTES)
        self.scratch = memoryview(self._scratch_bytes)
        self._settings = settings
        self._memory_returned_s = 0.0
        super().__init__(self.traffic, settings.max_connections, settings.limits, admission, settings.socket)

    async def start(self, address: Address, tls: ssl.SSLContext | None = None) -> Address:
        """Listen; return the bound address. See StreamListener.start()."""
        if self.has_fast_path and tls is None and hasattr(select, "epoll"):
            self.intake = Intake(asyncio.get_running_loop(), self._scratch_bytes, self.traffic, self.wakeups)
        self._memory_returned_s = asyncio.get_running_loop().time()
        try:
            return await super().start(address, tls)
        except BaseException:
            self._close_intake()
            raise

    def _make_connection(self) -> TcpServerConnection:
        return TcpServerConnection(self, asyncio.get_running_loop())

    def left(self, connection: TcpServerConnection) -> None:
        """Unregister a closed connection that has no running request."""
        super().left(connection)
        self.adapt_polls()

    def adapt_polls(self) -> None:
        """Lower the poll size limit according to the size of unread responses."""
        free_bytes = self._settings.unsent_bytes - self.budget.held_bytes
        self.dispatcher.poll_bytes = max(_SMALL_POLL_BYTES, min(MAX_BATCH_BYTES, free_bytes))

    async def stop(self, drain_s: float) -> None:
        """Stop listening, answer received requests, and close all connections; see StreamListener.stop()."""
        await super().stop(drain_s)
        self._close_intake()

    def _close_intake(self) -> None:
        if self.intake is not None:
            self.intake.close()
            self.intake = None

    async def _check(self, now_s: float) -> None:
        await super()._check(now_s)
        if self.budget.take_relief() or (self.budget.is_in_use and now_s - self._memory_returned_s > _TRIM_S):
            await asyncio.to_thread(trim_malloc)
            self._memory_returned_s = asyncio.get_running_loop().time()
