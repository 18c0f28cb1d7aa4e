"""Partitioning: how the partition for the messages of a send is chosen."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import xxhash

from headstream.errors import InvalidInputError

_MAX_PARTITION = (1 << 32) - 1


class PartitioningKind(enum.IntEnum):
    """The three ways to choose a partition, with Iggy's codes."""

    BALANCED = 1
    PARTITION_ID = 2
    MESSAGES_KEY = 3


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partition to which the messages of a send are appended.

    Args:
        kind: How the partition is chosen.
        value: Empty for balanced, 4 little-endian bytes for a partition's number, 1 to 255 bytes for a key.

    Raises:
        InvalidInputError: the value is invalid for that kind.
    """

    kind: PartitioningKind
    value: bytes = b""

    def __post_init__(self) -> None:
        if not isinstance(self.value, (bytes, bytearray, memoryview)):
            raise InvalidInputError(f"a key must be bytes, not {type(self.value).__name__}", advice='Encode it, as in key(b"42")')
        allowed = {1: range(1), 2: range(4, 5), 3: range(1, 256)}[self.kind]
        if len(self.value) not in allowed:
            raise InvalidInputError(
                f"{self.kind.name.lower()} must have {allowed[0]} to {allowed[-1]} bytes, not {len(self.value)}"
                if len(allowed) > 1
                else f"{self.kind.name.lower()} must have {allowed[0]} bytes, not {len(self.value)}"
            )

    @classmethod
    def balanced(cls) -> Partitioning:
        """All partitions, round-robin."""
        return cls(PartitioningKind.BALANCED)

    @classmethod
    def partition(cls, number: int) -> Partitioning:
        """One partition, given by its number, from 1."""
        if not isinstance(number, int) or not 0 <= number <= _MAX_PARTITION:
            raise InvalidInputError(f"partition {number!r} is not an unsigned 32-bit number")
        return cls(PartitioningKind.PARTITION_ID, number.to_bytes(4, "little"))

    @classmethod
    def key(cls, key: bytes) -> Partitioning:
        """The partition of a key."""
        return cls(PartitioningKind.MESSAGES_KEY, key)


def partition_of(key: bytes, partitions: int, *, is_from_zero: bool = False) -> int:
    """Return the partition of a key: xxHash32 modulo the partition count. Remainder 0 is the last partition, as in Iggy.

    Iggy clients of protocol 0.11 number partitions from 0 (`is_from_zero`): remainder 0 is then the first partition.
    """
    found = xxhash.xxh32_intdigest(key) % partitions
    return found + 1 if is_from_zero else found or partitions
