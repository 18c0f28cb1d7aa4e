"""Shared: what the connections of one server over TCP share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.traffic import Traffic
from headstream.server.intake import Intake
from headstream.server.memory_budget import MemoryBudget
from headstream.server.tcp_settings import ConnectionLimits
from headstream.server.workers import Workers
from headstream.wire.frames import BufferPool

if TYPE_CHECKING:
    from headstream.server.connection import Connection

__all__ = ["Shared"]


class Shared(Protocol):
    """What the connections of one server share."""

    dispatcher: Dispatcher
    limits: ConnectionLimits
    budget: MemoryBudget
    pool: BufferPool
    scratch: memoryview
    intake: Intake | None
    traffic: Traffic
    workers: Workers

    def joined(self, connection: Connection) -> bool:
        """Take note of a new connection; return whether there is room for it."""

    def left(self, connection: Connection) -> None:
        """Take note that a connection has ended, and that nothing of it is under way."""

    def adapt_polls(self) -> None:
        """Have a poll bring as much as there is memory for now."""
