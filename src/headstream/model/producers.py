"""Numbered batches: how a log knows a batch that it has, so that any send can be repeated.

A producer has an id, which no other gets, and an epoch. In each partition it numbers its messages: a batch carries the
sequence of its first one. The next batch begins where the one before it ends. A batch whose outcome is given up ends the
epoch: what is left of that epoch on its way is refused, and the next epoch begins at sequence 0.

The fields and their ranges are those of Kafka's InitProducerId and Produce: ids are positive signed 64-bit numbers, epochs
signed 16-bit, sequences signed 32-bit ones that go on with 0 after the greatest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = [
    "MAX_EPOCH",
    "MAX_PRODUCER_ID",
    "SEQUENCES",
    "Appended",
    "BatchNumber",
    "ProducerId",
    "next_sequence",
    "owner_of",
    "producer_id_of",
]

MAX_PRODUCER_ID: Final = (1 << 63) - 1
MAX_EPOCH: Final = (1 << 15) - 1
SEQUENCES: Final = 1 << 31
"""How many sequences there are: after the greatest comes 0."""

_COUNTER_BITS: Final = 43
"""The low bits of an id: a number that is never given again, about the milliseconds since 1970 (until the year 2248)."""

_OWNER_MASK: Final = (1 << 20) - 1
"""The bits above are those of the user whom the id was given: ids of users are not given again either."""


class ProducerId(NamedTuple):
    """A producer: its id, and the epoch it is in."""

    producer_id: int
    epoch: int


class BatchNumber(NamedTuple):
    """The number of a batch: its producer, the epoch, and the sequence of its first message in the partition."""

    producer_id: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch is.

    Args:
        offset: Of its first message; where nothing of it is new, that of the next message of the partition.
        timestamp_us: When it was appended, microseconds since 1970 UTC; None where the server does not tell.
        count: How many of its messages were stored: all of them, unless the topic passes over repeated ids; -1 where the server
            does not tell.
        is_repeat: Whether it was there already: the batch had come before.
    """

    offset: int
    timestamp_us: int | None
    count: int
    is_repeat: bool = False


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence behind so many messages.

    Args:
        sequence: That of the first one.
        count: How many they are.
    """
    return (sequence + count) % SEQUENCES


def producer_id_of(number: int, user_id: int) -> int:
    """Return the id of a producer.

    Args:
        number: One that was given to no other, below 2^43.
        user_id: Whose producer it is.
    """
    return (user_id & _OWNER_MASK) << _COUNTER_BITS | number


def owner_of(producer_id: int, user_id: int) -> bool:
    """Return whether an id was given to a user."""
    return producer_id >> _COUNTER_BITS == user_id & _OWNER_MASK
