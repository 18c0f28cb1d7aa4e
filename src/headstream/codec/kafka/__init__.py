"""Messages as Kafka's records: how typed headers travel there (kinds.py), and other people's ways (conventions.py)."""

from __future__ import annotations

from headstream.codec.kafka.conventions import Convention
from headstream.codec.kafka.messages import decode_record, encode_record, find_losses
from headstream.codec.kafka.record import KafkaHeader, KafkaRecord, read_record
from headstream.codec.kafka.topics import from_kafka_topic, to_kafka_topic

__all__ = [
    "Convention",
    "KafkaHeader",
    "KafkaRecord",
    "decode_record",
    "encode_record",
    "find_losses",
    "from_kafka_topic",
    "read_record",
    "to_kafka_topic",
]
