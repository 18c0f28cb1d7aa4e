"""The murmur2 hash with which Java producers choose the partition of a key; librdkafka's `murmur2_random` uses the same hash."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash of bytes, as org.apache.kafka.common.utils.Utils.murmur2 computes it."""
    size = len(data)
    value = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        value = (value * _FACTOR & _MASK) ^ word
    if size > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    value = (value ^ value >> 13) * _FACTOR & _MASK
    return value ^ value >> 15


def kafka_partition_of(key: bytes, partitions: int) -> int:
    """Return the partition, from 0, that Kafka's default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
