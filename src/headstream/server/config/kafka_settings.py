"""Kafka listener settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.network.addresses import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Kafka listener settings.

    Args:
        default_stream: The stream of topics whose names have no dot.
        default_partitions: Number of partitions of a topic that is created without a partition count.
        advertised: The address that metadata reports to clients; None: the address to which each client connected.
        anonymous_user: Name of the user for clients without SASL; None refuses clients without SASL.
        max_connections: Maximum number of connections; additional connections are closed immediately.
        limits: Limits of each connection.
    """

    default_stream: str = "kafka"
    default_partitions: int = 1
    advertised: Address | None = None
    anonymous_user: str | None = None
    max_connections: int = 10_000
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
