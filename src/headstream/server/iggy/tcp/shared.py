"""SharedTcp: what the connections of one server over TCP share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headstream.broker.commands.dispatch import Dispatcher
from headstream.core.wire.frames import FrameBufferPool
from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.iggy.fast_path.intake import Intake
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.network.admission import UnauthenticatedTurns
from headstream.server.resources.loop_rounds import LoopRounds
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.server.resources.wakeups import Wakeups
from headstream.server.resources.workers import Workers

if TYPE_CHECKING:
    from headstream.server.iggy.tcp.connection import TcpServerConnection

__all__ = ["SharedTcp"]


class SharedTcp(Protocol):
    """What the connections of one server share."""

    dispatcher: Dispatcher
    limits: ConnectionLimits
    budget: MemoryBudget
    pool: FrameBufferPool
    scratch: memoryview
    has_fast_path: bool
    intake: Intake | None
    traffic: Traffic
    rounds: LoopRounds
    turns: UnauthenticatedTurns
    wakeups: Wakeups
    workers: Workers

    def joined(self, connection: TcpServerConnection) -> bool:
        """Register a new connection; return False beyond the limit of connections."""

    def left(self, connection: TcpServerConnection) -> None:
        """Unregister a closed connection that has no running request."""

    def adapt_polls(self) -> None:
        """Lower the size limit of polls by the bytes of unread responses."""
