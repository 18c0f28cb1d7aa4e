"""Offsets: partitions, ranges, and how far each partition has been read; the words that planning is said in.

A streaming query's checkpoint holds offsets as JSON that a person can read and mend; `identity` tells when a log or a
topic of that name was deleted and made again, so that its old offsets mean nothing:

    {"shop/orders": {"1": 123, "2": 118},                          where to read on: one past the last one read
     "identity": {"log": "3b1f...", "shop/orders": "1/4"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headstream.errors import InvalidOptionError, LogError

__all__ = ["Available", "OffsetRange", "Offsets", "Place", "read_positions"]

_IDENTITY: Final = "identity"  # not a topic: it has no slash


class Place(NamedTuple):
    """A partition of a topic.

    Args:
        topic: `stream/topic`.
        partition: Its number.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}"


class Available(NamedTuple):
    """What a partition holds: offsets from the first to before the end."""

    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Messages of one partition, half-open; some of its offsets may have no message (any more)."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def count(self) -> int:
        """How many offsets it spans."""
        return self.until_offset - self.from_offset

    @property
    def place(self) -> Place:
        """The partition."""
        return Place(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.place}, offsets {self.from_offset} to {self.until_offset}"


def read_positions(value: Mapping[str, Any]) -> dict[Place, int]:
    """Return the number that JSON's values have for each partition.

    Args:
        value: Topic -> partition, as text -> number.

    Raises:
        ValueError: it is not of that form.
    """
    positions = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"{topic!r} has no partitions")
        for number, position in partitions.items():
            if type(position) is not int:
                raise ValueError(f"{position!r} of {topic!r} is not a whole number")
            positions[Place(topic, int(number))] = position
    return positions


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far each partition has been read.

    Args:
        positions: One past the last offset read.
        log: The log's identity.
        topics: Topic -> what tells it from an earlier one of the same name.
    """

    positions: Mapping[Place, int]
    log: str
    topics: Mapping[str, str]

    def encode(self) -> dict[str, Any]:
        """Return it as JSON's values; equal offsets give equal text, member by member."""
        value: dict[str, Any] = {}
        for place in sorted(self.positions):
            value.setdefault(place.topic, {})[str(place.partition)] = self.positions[place]
        value[_IDENTITY] = {"log": self.log, **{topic: self.topics[topic] for topic in sorted(self.topics)}}
        return value

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> Offsets:
        """Return what encode() has written, or a person has mended.

        Raises:
            InvalidOptionError: it is not of that form.
        """
        try:
            identity = dict(value[_IDENTITY])
            log = str(identity.pop("log"))
            positions = read_positions({topic: places for topic, places in value.items() if topic != _IDENTITY})
        except (KeyError, ValueError, TypeError, AttributeError):
            raise InvalidOptionError(
                f"the checkpoint's offsets cannot be read: {value}",
                advice='They look like {"shop/orders": {"1": 123}, "identity": {"log": "...", "shop/orders": "1/1"}}',
            ) from None
        return cls(positions, log, {topic: str(number) for topic, number in identity.items()})

    def check_same_log(self, now: Offsets) -> None:
        """Check that what these offsets were counted in is what is there now.

        Args:
            now: The offsets as they would be written now.

        Raises:
            LogError: the log, or a topic, has been deleted and made again since.
        """
        changed = [topic for topic, number in self.topics.items() if now.topics.get(topic, number) != number]
        if self.log == now.log and not changed:
            return
        if self.log != now.log:
            what, where = "the log", f"log {now.log}, was {self.log}"
        else:
            topic = changed[0]
            what, where = f"topic {topic}", f"its number is {now.topics[topic]}, was {self.topics[topic]}"
        raise LogError(
            f"{what} has been deleted and made again since this query last read it; its offsets now count other messages",
            where=where,
            advice="Start the query with a new checkpointLocation; it then reads from startingOffsets",
        )
