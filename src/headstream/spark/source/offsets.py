"""Partitions, offset ranges and read positions, for planning.

A streaming query's checkpoint stores offsets as JSON that a person can read and edit. `identity` reveals a log or topic that was
deleted and recreated with the same name, for which the old offsets are invalid:

    {"shop/orders": {"1": 123, "2": 118},                          the next offsets to read
     "identity": {"log": "3b1f...", "shop/orders": "1/4"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headstream.errors import InvalidOptionError, LogError

_IDENTITY: Final = "identity"  # not a topic, because there is no slash


class TopicPartition(NamedTuple):
    """A partition of a topic, `stream/topic`."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic} partition {self.number}"


class Available(NamedTuple):
    """The offsets of a partition, half-open."""

    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A half-open range of offsets in one partition. An offset in the range may have no message."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def count(self) -> int:
        """Number of offsets in the range."""
        return self.until_offset - self.from_offset

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic_partition}, offsets {self.from_offset} to {self.until_offset}"


def read_positions(value: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return each partition's number in {topic: {partition as a string: number}}; ValueError for another form."""
    positions = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"{topic!r} has no partitions")
        for number, position in partitions.items():
            if type(position) is not int:
                raise ValueError(f"{position!r} of {topic!r} is not a whole number")
            positions[TopicPartition(topic, int(number))] = position
    return positions


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The next offset to read in each partition, and the identity of each topic among topics with the same name."""

    positions: Mapping[TopicPartition, int]
    log: str
    topics: Mapping[str, str]

    def encode(self) -> dict[str, Any]:
        """Return the offsets as JSON values; equal offsets have equal JSON, including the order of members."""
        value: dict[str, Any] = {}
        for partition in sorted(self.positions):
            value.setdefault(partition.topic, {})[str(partition.number)] = self.positions[partition]
        value[_IDENTITY] = {"log": self.log, **{topic: self.topics[topic] for topic in sorted(self.topics)}}
        return value

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> SourceOffsets:
        """Return the offsets from the JSON values of encode(), which a person can have edited."""
        try:
            identity = dict(value[_IDENTITY])
            log = str(identity.pop("log"))
            positions = read_positions({topic: partitions for topic, partitions in value.items() if topic != _IDENTITY})
        except (KeyError, ValueError, TypeError, AttributeError):
            raise InvalidOptionError(
                f"the checkpoint's offsets cannot be read: {value}",
                advice='Offsets must look like {"shop/orders": {"1": 123}, "identity": {"log": "...", "shop/orders": "1/1"}}',
            ) from None
        return cls(positions, log, {topic: str(number) for topic, number in identity.items()})

    def check_same_log(self, now: SourceOffsets) -> None:
        """Raise LogError if the log or a topic was deleted and recreated after these offsets were stored."""
        changed = [topic for topic, number in self.topics.items() if now.topics.get(topic, number) != number]
        if self.log == now.log and not changed:
            return
        if self.log != now.log:
            what, where = "the log", f"log {now.log}, previously {self.log}"
        else:
            topic = changed[0]
            what, where = f"topic {topic}", f"the topic's id is {now.topics[topic]}, previously {self.topics[topic]}"
        raise LogError(
            f"{what} was deleted and recreated after this query last read it; the offsets now refer to other messages",
            where=where,
            advice="Start the query with a new checkpointLocation; it then reads from startingOffsets",
        )
