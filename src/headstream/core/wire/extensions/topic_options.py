"""Commands for topics with Headstream's own options: limits, syncing, retention, compaction, deduplication, summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.core.model.topology import DEFAULT_DELETION_GRACE_US, Fsync, Limits
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes, check_count
from headstream.core.wire.extensions.shapes import Changes, Choice, LimitedTime, MaybeText, MaybeU64, TrailingFlag, TrailingLimit
from headstream.core.wire.records import Command, Record, Records, TopicCommand, many, maybe, one
from headstream.core.wire.shapes import IDENTIFIER, U32, U64, Default, Flag, Identifier, Json, OptionalShape, Text8, Text32
from headstream.core.wire.statuses import Status


@dataclass(frozen=True, slots=True)
class OpenPartition(Record):
    """One partition, with members as in core/model/topology.py."""

    number: U32
    first_offset: U64
    end_offset: U64
    size_bytes: U64
    compacted_count: U64
    generation: U64


@dataclass(frozen=True, slots=True)
class OpenTopic(Record):
    """One topic, with members as in core/model/topology.py."""

    stream: Text8
    name: Text8
    id: U32
    created_us: U64
    limits: Annotated[Limits, Choice(Limits)]
    fsync: Annotated[Fsync, Choice(Fsync)]
    retention_us: MaybeU64
    retention_bytes: MaybeU64
    compaction_delay_us: MaybeU64
    deduplication_count: MaybeU64
    identity: Text8
    partitions: Annotated[tuple[OpenPartition, ...], Records(OpenPartition, is_counted=True)]
    summary_headers: MaybeText = None
    deletion_grace_us: Annotated[int | None, TrailingLimit()] = None
    legal_hold: Annotated[bool, TrailingFlag(), Default(False)] = False
    kafka_headers: MaybeText = None


@dataclass(frozen=True, slots=True)
class CreateOpenTopic(Command[OpenTopic]):
    """Create a topic, and its stream if the stream does not exist."""

    code = Code.CREATE_OPEN_TOPIC
    reply = one(OpenTopic)
    stream: Text8
    name: Text8
    partitions_count: U32
    limits: Annotated[Limits, Choice(Limits), Default(Limits.IGGY)] = Limits.IGGY
    fsync: Annotated[Fsync, Choice(Fsync), Default(Fsync.INTERVAL)] = Fsync.INTERVAL
    retention_us: MaybeU64 = None
    retention_bytes: MaybeU64 = None
    compaction_delay_us: MaybeU64 = None
    deduplication_count: MaybeU64 = None
    if_not_exists: Annotated[Flag, Default(False)] = False
    summary_headers: MaybeText = None
    deletion_grace_us: Annotated[LimitedTime, Default(DEFAULT_DELETION_GRACE_US)] = DEFAULT_DELETION_GRACE_US
    legal_hold: Annotated[bool, TrailingFlag(), Default(False)] = False
    kafka_headers: MaybeText = None

    def validate(self) -> None:
        check_bytes(self.stream, 1, 255, Status.INVALID_STREAM_NAME, "a stream name")
        check_bytes(self.name, 1, 255, Status.INVALID_TOPIC_NAME, "a topic name")
        check_count(self.partitions_count, 0, 1000, Status.TOO_MANY_PARTITIONS, "the partition count")


@dataclass(frozen=True, slots=True)
class GetOpenTopic(TopicCommand[OpenTopic | None]):
    """Return a topic, or None."""

    code = Code.GET_OPEN_TOPIC
    reply = maybe(OpenTopic)


@dataclass(frozen=True, slots=True)
class ListOpenTopics(Command[tuple[OpenTopic, ...]]):
    """Return the topics of a stream, or of all streams."""

    code = Code.LIST_OPEN_TOPICS
    reply = many(OpenTopic)
    stream: Annotated[Identifier | None, OptionalShape(IDENTIFIER), Json("stream_id")] = None


@dataclass(frozen=True, slots=True)
class ChangeTopicOptions(TopicCommand[OpenTopic]):
    """Change topic options, given by the field names of model.topology.TopicOptions; None unsets an option."""

    code = Code.CHANGE_TOPIC_OPTIONS
    reply = one(OpenTopic)
    changes: Changes


@dataclass(frozen=True, slots=True)
class RenameTopic(TopicCommand[None]):
    """Change only a topic's name."""

    code = Code.RENAME_TOPIC
    name: Text8

    def validate(self) -> None:
        check_bytes(self.name, 1, 255, Status.INVALID_TOPIC_NAME, "a topic name")


@dataclass(frozen=True, slots=True)
class Identity(Record):
    """The UUID of a log; empty before its first write."""

    uuid: Text32


@dataclass(frozen=True, slots=True)
class GetIdentity(Command[Identity]):
    """Return the UUID of this log."""

    code = Code.GET_IDENTITY
    reply = one(Identity)
