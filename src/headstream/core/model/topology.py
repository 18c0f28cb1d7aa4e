"""Streams, topics and partitions, as returned by clients."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from headstream.core.model.identifiers import TopicName, check_name
from headstream.errors import InvalidOptionError, LegalHoldError

MAX_BATCH_BYTES: Final = 64 << 20
"""Maximum size of a send or a poll, bytes, which fits into a frame of the binary transport."""

MAX_PARTITIONS: Final = 1000
"""Maximum number of partitions of a new topic, as in Iggy."""


class Limits(enum.StrEnum):
    """The messages that a topic accepts.

    `iggy`: messages that every existing Iggy client can read. Header keys and values have 1 to 255 bytes. A send has at most
    100,000 bytes of header values and 10,000,000 bytes of payload. Empty and null payloads, and null and char headers, are
    rejected.
    `wide`: also header values of 0 to 65,536 bytes, the kinds null and char, and empty and null payloads.
    """

    IGGY = "iggy"
    WIDE = "wide"


class Fsync(enum.StrEnum):
    """When messages are synced to the disk. The policy determines which acknowledged messages a power failure can destroy.

    A crash of the process loses no acknowledged message under any policy.
    `always`: before the acknowledgement, so nothing is lost; concurrent senders share one sync.
    `interval`: within one second, and when the log is closed.
    `never`: when the operating system writes its cache; only a full segment is synced, before the next segment begins.
    """

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"


KafkaHeaders: TypeAlias = Literal["headstream", "spring", "connect", "connect-json", "cloudevents", "raw"]
"""The convention of typed headers in Kafka's records (core/codec/kafka/conventions.py)."""

DEFAULT_DELETION_GRACE_US: Final = 7 * 86_400 * 1_000_000
"""Default time for which a message marked for deletion can be restored: one week."""

_OPTION_RANGES: Final = {
    "retention_us": (1, (1 << 63) - 1, "for unlimited retention"),
    "retention_bytes": (1, (1 << 63) - 1, "for unlimited retention"),
    "compaction_delay_us": (0, (1 << 63) - 1, "to disable compaction"),
    "deduplication_count": (1, 10_000_000, "to disable deduplication"),
    "deletion_grace_us": (0, (1 << 63) - 1, "to keep marked messages on the disk"),
}


_MAX_SUMMARY_HEADERS: Final = 8
"""Maximum number of headers that a topic summarizes; a header can need 1 MiB per segment."""
_MAX_HEADER_NAME_BYTES: Final = 255


def split_header_names(text: str) -> tuple[str, ...]:
    """Split a list such as `tenant,user_id` into 1 to 8 distinct names; spaces around the names are removed."""
    names = tuple(name.strip() for name in text.split(","))
    if len(names) > _MAX_SUMMARY_HEADERS or len(set(names)) < len(names):
        raise InvalidOptionError(
            f"summary_headers has {len(names)} names, of which {len(set(names))} are distinct",
            advice=f"Specify at most {_MAX_SUMMARY_HEADERS} distinct names",
        )
    for name in names:
        if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= _MAX_HEADER_NAME_BYTES or not name.isprintable():
            raise InvalidOptionError(
                f"{name!r} in summary_headers is not a header name", advice="Use names of 1 to 255 bytes, such as tenant,user_id"
            )
    return names


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """Retention, compaction and deduplication of a topic. The options can be changed while the topic is in use.

    Args:
        retention_us: Messages older than this can be dropped, microseconds, 1 or more; None retains messages of any age.
        retention_bytes: Size above which the oldest messages can be dropped, bytes, 1 or more; None sets no limit.
        compaction_delay_us: Compaction retains the last message of each key. A null payload deletes its key, and is itself
            removed after this time, microseconds, 0 or more. None disables compaction.
        deduplication_count: Number of newest ids per partition, 1 to 10,000,000; a message with one of these ids is dropped. None
            disables deduplication.
        summary_headers: Names of at most 8 headers, separated by commas, whose values are summarized for each closed segment, so
            that filters can skip segments without matching values. None disables summaries.
        deletion_grace_us: Messages marked for deletion are removed from the disk within this time, microseconds, 0 or more, and
            can be restored until they are removed. None keeps them.
        legal_hold: Whether to keep all messages: retention, compaction, marks, erasure, purge and deletion remove nothing.
        kafka_headers: The convention by which Kafka clients write and read headers: `headstream` (or None), `spring`, `connect`,
            `connect-json`, `cloudevents` or `raw`.

    Raises:
        InvalidOptionError: a number is out of range, or the value of `summary_headers` or `kafka_headers` is invalid.
    """

    retention_us: int | None = None
    retention_bytes: int | None = None
    compaction_delay_us: int | None = None
    deduplication_count: int | None = None
    summary_headers: str | None = None
    deletion_grace_us: int | None = DEFAULT_DELETION_GRACE_US
    legal_hold: bool = False
    kafka_headers: KafkaHeaders | None = None

    def __post_init__(self) -> None:
        if self.legal_hold not in (None, 0, 1):
            raise InvalidOptionError(f"legal_hold must be True or False, not {self.legal_hold}")
        object.__setattr__(self, "legal_hold", bool(self.legal_hold))  # options are sent as numbers
        if self.summary_headers is not None:
            if not isinstance(self.summary_headers, str):
                raise InvalidOptionError("summary_headers must be a string", advice="Use header names, such as tenant,user_id")
            object.__setattr__(self, "summary_headers", ",".join(split_header_names(self.summary_headers)))
        check_kafka_headers(self.kafka_headers)
        if self.kafka_headers == "headstream":
            object.__setattr__(self, "kafka_headers", None)
        for name, (least, most, none) in _OPTION_RANGES.items():
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and least <= value <= most):
                upper = f"{least} to {most}" if most < 1 << 62 else f"{least} or more"
                raise InvalidOptionError(f"{name} must be {upper}, or None {none}, not {value}")

    @property
    def inspects_messages(self) -> bool:
        """Whether an append inspects the key or id of each message."""
        return self.compaction_delay_us is not None or self.deduplication_count is not None

    @property
    def summarized(self) -> tuple[str, ...]:
        """The names of the headers that are summarized."""
        return () if self.summary_headers is None else tuple(self.summary_headers.split(","))


def check_kafka_headers(name: object) -> None:
    """Check a convention's name; InvalidOptionError if it is unknown."""
    if name is not None and name not in get_args(KafkaHeaders):
        raise InvalidOptionError(f"kafka_headers must be one of {', '.join(get_args(KafkaHeaders))}, not {name!r}")


def check_dead_letter_options(name: str, options: TopicOptions) -> None:
    """Raise InvalidOptionError if a topic would drop a dead letter that has the same id or key as another dead letter."""
    if options.inspects_messages:
        what = "compacts" if options.compaction_delay_us is not None else "deduplicates"
        raise InvalidOptionError(
            f"the dead-letter topic {name!r} {what} messages, and would drop dead letters",
            advice="Use another topic, or disable the option",
        )


def check_legal_hold(name: object, legal_hold: bool) -> None:
    """Raise LegalHoldError if a topic is under legal hold."""
    if legal_hold:
        raise LegalHoldError(
            f"the topic {str(name)!r} is under legal hold: its messages cannot be removed",
            advice=f"If you have permission, lift the hold first: headstream topic update {name} --legal-hold off",
        )


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Only Iggy clients can create a topic without partitions: check() requires 1 to 1000."""

    name: TopicName
    partitions: int
    limits: Limits
    fsync: Fsync = Fsync.INTERVAL
    options: TopicOptions = field(default_factory=TopicOptions)

    def check(self) -> None:
        """Check the names and the partition count; InvalidInputError or InvalidOptionError if a value is invalid."""
        check_name(self.name.stream, "stream")
        check_name(self.name.topic, "topic")
        check_partition_count(self.name, self.partitions)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic.

    Args:
        number: From 1.
        first_offset: The oldest existing offset.
        end_offset: One past the newest offset, which is the offset of the next message.
        size_bytes: Total size of the partition's segments.
        compacted_count: Number of messages from first_offset on that compaction has removed.
        generation: Distinguishes the partition from partitions of the same name before a purge or deletion.
    """

    number: int
    first_offset: int
    end_offset: int
    size_bytes: int
    compacted_count: int = 0
    generation: int = 0

    @property
    def messages_count(self) -> int:
        """Number of existing messages in any state."""
        return self.end_offset - self.first_offset - self.compacted_count


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Args:
        id: Number of the topic within its stream, from 1.
        created_us: Time of creation, microseconds since 1970 UTC.
        limits: Which messages the topic accepts.
        partitions: The topic's partitions, in order of number.
        fsync: When acknowledged messages are synced to the disk.
        retention_us: Messages older than this can be dropped, microseconds; None retains messages of any age.
        retention_bytes: Size above which the oldest messages can be dropped, bytes; None sets no limit.
        compaction_delay_us: Compaction retains the last message of each key. A null payload deletes its key, and is itself
            removed after this time, microseconds. None: no compaction.
        deduplication_count: A message is dropped if its id is among this number of newest ids of its partition; None: not
            dropped.
        summary_headers: Names of the headers that are summarized for filters, separated by commas; None if there are none.
        deletion_grace_us: Messages marked for deletion are removed from the disk within this time, microseconds; None keeps them.
        legal_hold: Whether all messages are kept.
        kafka_headers: The convention by which Kafka clients write and read headers; None is `headstream`.
        identity: Distinguishes the topic from topics of the same name before a purge or deletion.
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
    summary_headers: str | None = None
    deletion_grace_us: int | None = None
    legal_hold: bool = False
    kafka_headers: KafkaHeaders | None = None
    identity: str = ""

    @property
    def full_name(self) -> str:
        """`stream/topic`."""
        return f"{self.stream}/{self.name}"

    @property
    def messages_count(self) -> int:
        """Number of existing messages in any state."""
        return sum(partition.messages_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        """Size of all segments of all partitions."""
        return sum(partition.size_bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class ClusterStats:
    """Statistics of a Kafka cluster.

    Args:
        controller_id: Id of the broker that is the cluster's controller; None while there is no controller.
        messages_count: Number of offsets in all partitions, including compacted messages and transaction markers.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers_count: int
    streams_count: int
    topics_count: int
    partitions_count: int
    messages_count: int
    groups_count: int


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: a namespace of topics.

    Args:
        name: Without dot or slash.
        id: From 1.
        created_us: Time of creation, microseconds since 1970 UTC.
        topics: Names of the stream's topics, sorted.
    """

    name: str
    id: int
    created_us: int
    topics: tuple[str, ...] = field(default=())


def check_partition_count(topic: object, count: int) -> None:
    """Check the partition count of a new topic; InvalidOptionError if it is 0 or too large."""
    if not 1 <= count <= MAX_PARTITIONS:
        raise InvalidOptionError(f"a topic must have 1 to {MAX_PARTITIONS} partitions, not {count}", where=str(topic))


def check_added_partitions(topic: object, have: int, count: int) -> None:
    """Check a number of partitions to add; InvalidOptionError if it is 0, or if the topic would have too many partitions."""
    most = MAX_PARTITIONS - have
    if not 1 <= count <= most:
        raise InvalidOptionError(f"cannot add {count} partitions to {have}", where=str(topic), advice=f"Add between 1 and {most}")


def check_deleted_partitions(topic: object, have: int, count: int, *, least: int = 1) -> None:
    """Check a number of partitions to delete; InvalidOptionError if it is 0, or if fewer than `least` partitions would remain."""
    most = have - least
    if not 1 <= count <= most:
        raise InvalidOptionError(
            f"cannot delete {count} of {have} partitions",
            where=str(topic),
            advice=f"Delete 1 to {most}" if most else "A topic needs at least one partition: purge or delete the topic",
        )
