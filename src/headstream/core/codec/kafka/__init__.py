"""Converts messages to Kafka records and back, with typed headers in Headstream's form (kinds.py) or in other conventions."""

from __future__ import annotations

from headstream.core.codec.kafka.conventions import Convention
from headstream.core.codec.kafka.messages import decode_record, encode_record, find_losses
from headstream.core.codec.kafka.record import KafkaHeader, KafkaRecord, read_record
from headstream.core.codec.kafka.topic_names import KafkaTopicNames, from_kafka_topic, to_kafka_topic

__all__ = [
    "Convention",
    "KafkaHeader",
    "KafkaRecord",
    "KafkaTopicNames",
    "decode_record",
    "encode_record",
    "find_losses",
    "from_kafka_topic",
    "read_record",
    "to_kafka_topic",
]
