"""Numbered batches. A log recognizes a repeated batch by its number, so any send can be retried.

A producer has a unique id and an epoch. A producer numbers its messages in each partition: a batch carries the sequence of its
first message, and the next batch continues the sequence. If a producer abandons a batch whose outcome is unknown, the
producer ends the epoch: batches of that epoch still in flight are rejected, and the next epoch begins at sequence 0.

The fields and their ranges are as in Kafka's InitProducerId and Produce: ids are positive signed 64-bit numbers, epochs
signed 16-bit, sequences signed 32-bit. The sequence after the greatest sequence is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_PRODUCER_ID: Final = (1 << 63) - 1
MAX_EPOCH: Final = (1 << 15) - 1
SEQUENCES: Final = 1 << 31
"""Number of sequences; sequence 0 follows the greatest sequence."""

_COUNTER_BITS: Final = 43
"""The low bits of an id: a unique number, about the milliseconds since 1970 (until the year 2248)."""

_OWNER_MASK: Final = (1 << 20) - 1
"""The high bits are the id of the user who owns the producer; user ids are unique too."""


class ProducerId(NamedTuple):
    """A producer: its id and current epoch."""

    producer_id: int
    epoch: int


class BatchNumber(NamedTuple):
    """The number of a batch: its producer with epoch, and the sequence of its first message in the partition."""

    producer_id: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The stored position of a batch.

    Args:
        offset: Offset of the batch's first message; if all its messages are repeats, the partition's next offset.
        timestamp_us: Time of the append, microseconds since 1970 UTC; None if the server does not report it.
        count: Number of stored messages of the batch: all, unless the topic drops repeated ids; -1 if not reported by the server.
        is_repeat: Whether an earlier send had already stored the batch.
        positions: Offset and time of each message if offsets are not consecutive: in Kafka, batches of other producers can lie
            between the messages. None: offsets are consecutive from `offset`, and all messages have the time `timestamp_us`.
    """

    offset: int
    timestamp_us: int | None
    count: int
    is_repeat: bool = False
    positions: tuple[tuple[int, int], ...] | None = None


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence that follows `count` messages."""
    return (sequence + count) % SEQUENCES


def producer_id_of(number: int, user_id: int) -> int:
    """Return a producer's id from a unique number below 2^43."""
    return (user_id & _OWNER_MASK) << _COUNTER_BITS | number


def is_owned_by(producer_id: int, user_id: int) -> bool:
    """Return whether a user owns a producer id."""
    return producer_id >> _COUNTER_BITS == user_id & _OWNER_MASK
