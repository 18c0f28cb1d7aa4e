"""What users get for tests of their own.

A simulated source database (`source_database` tells how to use it): seeded history, Replicate's messages of it, hostile
delivery, and the true final state to compare with. A real Kafka broker, started from its jars (`kafka_broker`), also as a
pytest fixture (`fixtures`).
"""

from headstream.testing.delivery import delay, repeat, shuffle, split
from headstream.testing.digests import canonical_value, digest_rows
from headstream.testing.kafka_broker import KafkaBroker
from headstream.testing.shop_tables import SHOP_TABLES
from headstream.testing.source_capture import CaptureOptions, SourceMessage
from headstream.testing.source_database import SourceDatabase
from headstream.testing.source_history import SourceChange
from headstream.testing.source_tables import LOB_TYPES, REPLICATE_TYPES, SourceColumn, SourceTable
from headstream.testing.source_versions import RowVersion

__all__ = [
    "LOB_TYPES",
    "REPLICATE_TYPES",
    "SHOP_TABLES",
    "CaptureOptions",
    "KafkaBroker",
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
    "shuffle",
    "split",
]
