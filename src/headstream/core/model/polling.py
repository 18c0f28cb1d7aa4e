"""Polls: where they start, whose offsets they use, and the polled messages."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from headstream.core.model.identifiers import check_name
from headstream.core.model.message import ReceivedMessage
from headstream.errors import InvalidInputError

_MAX_VALUE: Final = (1 << 64) - 1


class PollingKind(enum.IntEnum):
    """The five starting points of a poll, with Iggy's codes."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5


@dataclass(frozen=True, slots=True)
class PollingStrategy:
    """Where a poll begins.

    Args:
        kind: The kind of starting point.
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
        """Poll from an offset."""
        return cls(PollingKind.OFFSET, value)

    @classmethod
    def timestamp(cls, value_us: int) -> PollingStrategy:
        """Poll from the first message appended at or after this time, microseconds since 1970 UTC."""
        return cls(PollingKind.TIMESTAMP, value_us)

    @classmethod
    def first(cls) -> PollingStrategy:
        """Poll from the oldest existing message."""
        return cls(PollingKind.FIRST)

    @classmethod
    def last(cls) -> PollingStrategy:
        """Poll the newest messages, up to the requested count."""
        return cls(PollingKind.LAST)

    @classmethod
    def next(cls) -> PollingStrategy:
        """Poll from the offset that this consumer or group has committed."""
        return cls(PollingKind.NEXT)

    @classmethod
    def parse(cls, spec: int | Literal["first", "last", "next"] | str) -> PollingStrategy:
        """Parse a number (an offset), `first`, `last` or `next`.

        Raises:
            InvalidInputError: the value is not a number, `first`, `last` or `next`.
        """
        if isinstance(spec, int):
            return cls.offset(spec)
        text = spec.strip().lower()
        if text.isdecimal():
            return cls.offset(int(text))
        if text in ("first", "last", "next"):
            return cls(PollingKind[text.upper()])
        raise InvalidInputError(f"{spec!r} is not a polling strategy", advice="Use an offset, first, last or next")


class ConsumerKind(enum.IntEnum):
    """Kinds of offset owners, with Iggy's codes."""

    CONSUMER = 1
    GROUP = 2


@dataclass(frozen=True, slots=True)
class OffsetOwner:
    """The owner of committed offsets: a single consumer, or a group whose members share the offsets."""

    kind: ConsumerKind
    name: str

    def __post_init__(self) -> None:
        check_name(self.name, self.kind.name.lower())

    def __hash__(self) -> int:
        return hash(self.name)  # a str caches its hash, and each commit looks up a consumer

    @classmethod
    @lru_cache(maxsize=1024)
    def group(cls, name: str) -> OffsetOwner:
        """Return the owner for the group with this name."""
        return cls(ConsumerKind.GROUP, name)

    @classmethod
    @lru_cache(maxsize=1024)
    def named(cls, name: str) -> OffsetOwner:
        """Return the owner for the single consumer with this name."""
        return cls(ConsumerKind.CONSUMER, name)

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of a poll: stored messages as bytes.

    Args:
        end_offset: One past the newest offset of the partition at the time of the poll.
        next_offset: The offset to poll next, after the returned and the skipped messages.
        chunks: Complete stored messages, contiguous and in order, in one or more pieces.
        generation: Distinguishes the partition from partitions of the same name before a purge or deletion; 0 if unknown.
        scanned_count: With a filter: number of examined messages, including all messages of skipped segments.
        failed_count: Number of messages to which the filter could not be applied.
    """

    partition: int
    end_offset: int
    next_offset: int
    count: int
    chunks: tuple[memoryview, ...]
    generation: int = 0
    scanned_count: int = 0
    failed_count: int = 0


@dataclass(frozen=True, slots=True)
class SegmentCounts:
    """Counts of the segments that a filter reads, and of the segments that it skips by times and header summaries."""

    segments_count: int
    skipped_count: int
    size_bytes: int
    skipped_bytes: int


@dataclass(frozen=True, slots=True)
class PolledMessages(Polled):
    """The result of a poll whose messages are already values, because Kafka does not store Headstream's format."""

    messages: tuple[ReceivedMessage, ...] = ()
