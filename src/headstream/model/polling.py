"""Where a poll begins, and which partition a message goes to."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal

from headstream.errors import InvalidInputError

__all__ = ["PollingKind", "PollingStrategy"]

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
