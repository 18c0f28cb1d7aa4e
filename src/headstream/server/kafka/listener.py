"""KafkaServer: the listener for Kafka clients, and the shared state of its connections."""

from __future__ import annotations

import asyncio
from typing import Final

from headstream.broker.commands.dispatch import Dispatcher
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.server.kafka.calls import ListenerContext
from headstream.server.kafka.connection import KafkaConnection
from headstream.server.kafka.groups.coordinator import Coordinator
from headstream.server.kafka.traffic import KafkaTraffic
from headstream.server.network.admission import Admission
from headstream.server.network.stream_listener import StreamListener
from headstream.server.reporting.logs import Recently
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.server.resources.workers import Workers

_TICK_S: Final = 0.1
"""Interval of checking groups that have members, seconds; a rebalance can end later by one interval."""


class KafkaServer(StreamListener[KafkaConnection]):
    """All connections of Kafka clients."""

    def __init__(
        self, dispatcher: Dispatcher, settings: KafkaSettings, workers: Workers, budget: MemoryBudget, admission: Admission
    ) -> None:
        coordinator = Coordinator(dispatcher.broker.monotonic)
        self.context = ListenerContext(dispatcher=dispatcher, settings=settings, budget=budget, coordinator=coordinator)
        self.workers = workers
        self.traffic = KafkaTraffic()
        self.quota = admission.quota
        self.refused_recently = Recently(dispatcher.broker.monotonic)
        self._coordinator = coordinator
        self._checked_s = 0.0
        super().__init__(self.traffic, settings.max_connections, settings.limits, admission)

    def _make_connection(self) -> KafkaConnection:
        return KafkaConnection(self, asyncio.get_running_loop())

    def _interval_s(self) -> float:
        return _TICK_S if self._coordinator.groups else super()._interval_s()

    async def _check(self, now_s: float) -> None:
        self._coordinator.tick()
        if now_s - self._checked_s >= super()._interval_s():
            self._checked_s = now_s
            await super()._check(now_s)
