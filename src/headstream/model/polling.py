"""Where a poll begins, who polls, what it brings, and which partition a keyed message goes to."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import xxhash

from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.model.identifiers import check_name

__all__ = ["Consumer", "ConsumerKind", "Polled", "PollingKind", "PollingStrategy", "check_poll", "partition_of"]

_MAX_VALUE: Final = (1 << 64) - 1


class PollingKind(enum.IntEnum):
    """The five ways a poll can begin; the codes are Iggy's."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5


@dataclass(frozen=True, slots=True)
class PollingStrategy:
    """Where a poll begins.

    Args:
        kind: One of PollingKind.
        value: The offset, or the time in microseconds since 1970 UTC; 0 for the other kinds.

    Raises:
        InvalidInputError: the value is not an unsigned 64-bit number.
    """

    kind: PollingKind
    value: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.value <= _MAX_VALUE:
            raise InvalidInputError(f"{self.kind.name.lower()} {self.value} is not an unsigned 64-bit number")

    @classmethod
    def offset(cls, value: int) -> PollingStrategy:
        """From this offset on."""
        return cls(PollingKind.OFFSET, value)

    @classmethod
    def timestamp(cls, value_us: int) -> PollingStrategy:
        """From the first message appended at or after this time, microseconds since 1970 UTC."""
        return cls(PollingKind.TIMESTAMP, value_us)

    @classmethod
    def first(cls) -> PollingStrategy:
        """From the oldest message that is there."""
        return cls(PollingKind.FIRST)

    @classmethod
    def last(cls) -> PollingStrategy:
        """The newest messages, as many as asked for."""
        return cls(PollingKind.LAST)

    @classmethod
    def next(cls) -> PollingStrategy:
        """From where this consumer or group has committed to."""
        return cls(PollingKind.NEXT)

    @classmethod
    def parse(cls, spec: int | Literal["first", "last", "next"] | str) -> PollingStrategy:
        """Return the strategy that a number (an offset) or one of `first`, `last`, `next` spells.

        Raises:
            InvalidInputError: it is neither.
        """
        if isinstance(spec, int):
            return cls.offset(spec)
        text = spec.strip().lower()
        if text.isdecimal():
            return cls.offset(int(text))
        if text in ("first", "last", "next"):
            return cls(PollingKind[text.upper()])
        raise InvalidInputError(f"{spec!r} is not a place to poll from", advice="Use an offset, first, last or next")


class ConsumerKind(enum.IntEnum):
    """Who commits offsets; the codes are Iggy's."""

    CONSUMER = 1
    GROUP = 2


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who commits offsets: one consumer by its name, or a group whose members share theirs.

    Args:
        kind: One of ConsumerKind.
        name: 1 to 255 bytes of UTF-8.

    Raises:
        InvalidInputError: the name cannot be one.
    """

    kind: ConsumerKind
    name: str

    def __post_init__(self) -> None:
        check_name(self.name, self.kind.name.lower())

    def __hash__(self) -> int:
        return hash(self.name)  # which a string remembers: each commit looks its consumer up

    @classmethod
    @lru_cache(maxsize=1024)
    def group(cls, name: str) -> Consumer:
        """Return the group of this name."""
        return cls(ConsumerKind.GROUP, name)

    @classmethod
    @lru_cache(maxsize=1024)
    def named(cls, name: str) -> Consumer:
        """Return the single consumer of this name."""
        return cls(ConsumerKind.CONSUMER, name)

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll brings: stored messages as bytes.

    Args:
        partition: The partition they are from.
        end_offset: One past the newest offset of the partition at the time of the poll.
        next_offset: Where to poll on: past what is here, and past what was stepped over.
        count: How many messages are here.
        chunks: Whole stored messages back to back, in order, in one or more pieces.
        generation: Tells the partition from what had its name before a purge or a deletion; 0 where that is not known.
    """

    partition: int
    end_offset: int
    next_offset: int
    count: int
    chunks: tuple[memoryview, ...]
    generation: int = 0


def check_poll(
    topic: object, strategy: PollingStrategy, count: int, size_bytes: int, consumer: Consumer | None, auto_commit: bool
) -> None:
    """Refuse a poll for nothing, and one for somebody who is not named.

    Args:
        topic: Its name.
        strategy: Where to begin.
        count: The most messages.
        size_bytes: The most bytes.
        consumer: Who polls, or None.
        auto_commit: Whether what is delivered is committed.

    Raises:
        InvalidInputError: a number is not 1 or more.
        InvalidOptionError: the consumer is missing.
    """
    if count < 1 or size_bytes < 1:
        raise InvalidInputError("a poll asks for one message and one byte or more", where=str(topic))
    if consumer is None and (auto_commit or strategy.kind is PollingKind.NEXT):
        raise InvalidOptionError("who polls is not said", where=str(topic), advice="Name the consumer or group")


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key: xxHash32 modulo the count, where 0 stands for the last, as in Iggy.

    Args:
        key: The key's bytes.
        partitions: How many partitions the topic has, 1 or more.
    """
    return xxhash.xxh32_intdigest(key) % partitions or partitions
