"""SharedKafka: what all connections of the Kafka listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headstream.server.kafka.calls import ListenerContext
from headstream.server.kafka.traffic import KafkaTraffic
from headstream.server.network.admission import UnauthenticatedTurns
from headstream.server.resources.workers import Workers

if TYPE_CHECKING:
    from headstream.server.kafka.connection import KafkaConnection

__all__ = ["SharedKafka"]


class SharedKafka(Protocol):
    """What all connections of the listener share."""

    context: ListenerContext
    workers: Workers
    traffic: KafkaTraffic
    turns: UnauthenticatedTurns

    def joined(self, connection: KafkaConnection) -> bool:
        """Register a new connection; return False beyond the limit of connections."""

    def left(self, connection: KafkaConnection) -> None:
        """Unregister a closed connection."""
