"""Settings of the Kafka listener."""

from __future__ import annotations

from dataclasses import dataclass, field

from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.network.addresses import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Settings of the Kafka listener.

    Args:
        default_stream: The stream of topics whose names have no dot.
        default_partitions: Partitions of a topic created without a number.
        advertised: The address reported to clients in metadata; None for the address to which each client connected.
        anonymous_user: The name of the user that clients without SASL act as; None refuses such clients.
        max_connections: Limit of connections; further connections are closed immediately.
        limits: Limits of each connection.
    """

    default_stream: str = "kafka"
    default_partitions: int = 1
    advertised: Address | None = None
    anonymous_user: str | None = None
    max_connections: int = 10_000
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
