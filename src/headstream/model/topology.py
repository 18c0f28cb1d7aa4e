"""Streams, topics and partitions, as a user sees them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from headstream.errors import InvalidOptionError

__all__ = [
    "MAX_BATCH_BYTES",
    "MAX_PARTITIONS",
    "Fsync",
    "Limits",
    "Partition",
    "Stream",
    "Topic",
    "TopicOptions",
    "check_added_partitions",
    "check_deleted_partitions",
    "check_partition_count",
]

MAX_BATCH_BYTES: Final = 64 << 20
"""One send, and one poll: what a frame of the binary transport carries."""

MAX_PARTITIONS: Final = 1000
"""Partitions that one topic may be created with; Iggy's limit."""


class Limits(enum.StrEnum):
    """What a topic takes.

    `iggy`: whatever is stored, any existing Iggy client can read: header keys and values of 1 to 255
    bytes, at most 100,000 bytes of header values and 10,000,000 bytes of payload a send, no empty
    payload, no null payload, no null or char header.
    `wide`: header values of 0 to 65,536 bytes, the kinds null and char, empty and null payloads.
    """

    IGGY = "iggy"
    WIDE = "wide"


class Fsync(enum.StrEnum):
    """When what was acknowledged is on the disk itself, and so what a power cut may cost.

    A process that dies costs nothing acknowledged, whatever the policy.
    `always`: before it is acknowledged; nothing is lost. Senders at the same time share one sync.
    `interval`: within a second, and when the log is closed.
    `never`: when the operating system pleases; only a full segment is synced, before the next one begins.
    """

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"


_OPTION_RANGES: Final = {
    "retention_us": (1, (1 << 63) - 1, "for ever"),
    "retention_bytes": (1, (1 << 63) - 1, "for ever"),
    "compaction_delay_us": (0, (1 << 63) - 1, "to compact nothing"),
    "deduplication_count": (1, 10_000_000, "to look for no repeats"),
}


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What a topic keeps, and what it takes: what may be changed while it is used.

    Args:
        retention_us: Messages older than so many microseconds may be dropped, 1 or more; None keeps them.
        retention_bytes: With more than so many bytes the oldest messages may be dropped, 1 or more; None keeps them.
        compaction_delay_us: Of each key the last message is kept; a null payload removes its key, and goes itself after so
            many microseconds, 0 or more. None compacts nothing.
        deduplication_count: A message is dropped whose id one of so many newest messages of its partition has, 1 to
            10,000,000. None looks for no repeats.

    Raises:
        InvalidOptionError: a number is out of range.
    """

    retention_us: int | None = None
    retention_bytes: int | None = None
    compaction_delay_us: int | None = None
    deduplication_count: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most, none) in _OPTION_RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                upper = f"{least} to {most}" if most < 1 << 62 else f"{least} or more"
                raise InvalidOptionError(f"{name} is {value}", advice=f"Use {upper}, or None {none}")

    @property
    def looks_into_messages(self) -> bool:
        """Whether something is looked for in each message that is appended: its key, or whether it repeats."""
        return self.compaction_delay_us is not None or self.deduplication_count is not None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic.

    Args:
        number: From 1.
        first_offset: The oldest offset still there.
        end_offset: One past the newest offset: what the next message gets.
        size_bytes: Bytes of its segments.
        compacted_count: How many offsets from first_offset on have no message any more, since compaction took it.
        generation: Tells it from what had its name before a purge or a deletion.
    """

    number: int
    first_offset: int
    end_offset: int
    size_bytes: int
    compacted_count: int = 0
    generation: int = 0

    @property
    def messages_count(self) -> int:
        """How many messages are there, whatever their state."""
        return self.end_offset - self.first_offset - self.compacted_count


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Args:
        stream: Its stream's name.
        name: Its own name.
        id: Number within the stream, from 1.
        created_us: Microseconds since 1970 UTC.
        limits: What it takes.
        partitions: In order of their number.
        fsync: When what was acknowledged is on the disk itself.
        retention_us: Messages older than so many microseconds may be dropped; None keeps them.
        retention_bytes: With more than so many bytes the oldest messages may be dropped; None keeps them.
        compaction_delay_us: Of each key the last message is kept, and a null payload, which removes its key, for so many
            microseconds; None keeps all.
        deduplication_count: A message is dropped whose id one of so many newest of its partition has; None drops none.
        identity: Tells it from what had its name before a purge or a deletion.
    """

    stream: str
    name: str
    id: int
    created_us: int
    limits: Limits
    partitions: tuple[Partition, ...] = field(default=())
    fsync: Fsync = Fsync.INTERVAL
    retention_us: int | None = None
    retention_bytes: int | None = None
    compaction_delay_us: int | None = None
    deduplication_count: int | None = None
    identity: str = ""

    @property
    def full_name(self) -> str:
        """`stream/topic`."""
        return f"{self.stream}/{self.name}"

    @property
    def messages_count(self) -> int:
        """How many messages are there, whatever their state."""
        return sum(partition.messages_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(partition.size_bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: a namespace of topics.

    Args:
        name: Without dot or slash.
        id: From 1.
        created_us: Microseconds since 1970 UTC.
        topics: Names of its topics, sorted.
    """

    name: str
    id: int
    created_us: int
    topics: tuple[str, ...] = field(default=())


def check_partition_count(topic: object, count: int) -> None:
    """Refuse (InvalidOptionError) to make a topic of too many partitions, or of none.

    Args:
        topic: Its name.
        count: How many it is to have.
    """
    if not 1 <= count <= MAX_PARTITIONS:
        raise InvalidOptionError(f"a topic has 1 to {MAX_PARTITIONS} partitions, not {count}", where=str(topic))


def check_added_partitions(topic: object, have: int, count: int) -> None:
    """Refuse (InvalidOptionError) to add partitions to a topic that would have too many, or none to be added.

    Args:
        topic: Its name.
        have: How many it has.
        count: How many more.
    """
    most = MAX_PARTITIONS - have
    if not 1 <= count <= most:
        raise InvalidOptionError(f"{count} partitions cannot be added to {have}", where=str(topic), advice=f"Add 1 to {most}")


def check_deleted_partitions(topic: object, have: int, count: int, *, least: int = 1) -> None:
    """Refuse (InvalidOptionError) to delete partitions of a topic that would have too few, or none to be deleted.

    Args:
        topic: Its name.
        have: How many it has.
        count: How many less.
        least: How many stay at least.
    """
    most = have - least
    if not 1 <= count <= most:
        raise InvalidOptionError(
            f"{count} of {have} partitions cannot be deleted",
            where=str(topic),
            advice=f"Delete 1 to {most}" if most else "A topic keeps one: purge it, or delete the topic",
        )
