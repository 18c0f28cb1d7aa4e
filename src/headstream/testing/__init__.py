"""Tools for users' own tests.

A simulated source database (`source_database`) generates a history from a seed, its Replicate messages in any order of delivery,
and the true final state for comparison. Real servers, also available as pytest fixtures (`fixtures`): a Kafka broker
(`kafka_broker`) or cluster (`kafka_cluster`), PostgreSQL (`postgresql`), Debezium (`debezium_engine`), and a Headstream server on
free ports (`server`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headstream.testing.debezium_engine import DebeziumEngine
from headstream.testing.delivery import delay, repeat, shuffle, split
from headstream.testing.digests import canonical_value, digest_rows
from headstream.testing.kafka_broker import KafkaBroker
from headstream.testing.kafka_cluster import KafkaCluster
from headstream.testing.postgresql import PostgresServer
from headstream.testing.shop_tables import SHOP_TABLES
from headstream.testing.source_capture import CaptureOptions, SourceMessage
from headstream.testing.source_database import SourceDatabase
from headstream.testing.source_history import SourceChange
from headstream.testing.source_tables import LOB_TYPES, REPLICATE_TYPES, SourceColumn, SourceTable
from headstream.testing.source_versions import RowVersion

if TYPE_CHECKING:
    from headstream.testing.local_server import LocalServer, server

__all__ = [
    "LOB_TYPES",
    "REPLICATE_TYPES",
    "SHOP_TABLES",
    "CaptureOptions",
    "DebeziumEngine",
    "KafkaBroker",
    "KafkaCluster",
    "LocalServer",
    "PostgresServer",
    "RowVersion",
    "SourceChange",
    "SourceColumn",
    "SourceDatabase",
    "SourceMessage",
    "SourceTable",
    "canonical_value",
    "delay",
    "digest_rows",
    "repeat",
    "server",
    "shuffle",
    "split",
]


def __getattr__(name: str) -> Any:
    """Import names that need the libraries of headstream[server] on first access."""
    if name in ("LocalServer", "server"):
        from headstream.testing import local_server

        return getattr(local_server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
