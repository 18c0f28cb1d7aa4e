"""Commands that poll only the messages that match a filter.

filtered   partition u32 | end_offset u64 | next_offset u64 | generation u64 | scanned_count u64 | failed_count u64
           | count u32 | stored messages
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from headstream.core.model.polling import PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.shapes import ANY_CONSUMER, States, Stored, TrailingU64
from headstream.core.wire.records import Record, TopicCommand, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import U32, U64, Default, Flag, Json, OptionalShape, PartitionId, Text32, TextCode
from headstream.core.wire.statuses import Status


class FailurePolicy(enum.IntEnum):
    """The handling of a message to which a filter cannot be applied."""

    SKIP = 0
    DELIVER = 1
    RAISE = 2


@dataclass(frozen=True, slots=True)
class FilteredMessages(Record):
    """The reply to FilterMessages: the matching messages, and the offset up to which the partition was examined.

    Args:
        partition: Number of the partition that was read.
        end_offset: One past the newest offset of the partition.
        next_offset: The offset to poll next; earlier messages have been examined, even if no message matches.
        generation: Distinguishes the partition from partitions of the same name before a purge or deletion.
        scanned_count: Number of messages that were examined or skipped with their segment.
        failed_count: Number of messages to which the filter could not be applied.
    """

    partition: Annotated[U32, Json("partition_id")]
    end_offset: U64
    next_offset: U64
    generation: U64
    scanned_count: U64
    failed_count: U64
    count: U32
    messages: Stored


@dataclass(frozen=True, slots=True)
class FilterMessages(TopicCommand[FilteredMessages]):
    """Return messages of a partition that match a filter, without waiting; one request examines a limited number of messages.

    Args:
        kind: The kind of the start position; must not be `last`.
        value: The offset or time of the start position.
        size_bytes: Maximum size of the messages; 0 uses the server's limit. At least one matching message is returned.
        states: The states of the messages to examine; empty for available messages only.
        consumer: The consumer or group; required for `next` and for auto_commit.
        until_offset: One past the last offset to examine; 0 for the partition's end. Older servers examine up to the end.
    """

    code = Code.FILTER_MESSAGES
    reply = one(FilteredMessages)
    has_messages = True
    partition: PartitionId
    where: Text32
    kind: Annotated[PollingKind, TextCode(PollingKind, short=True), Default(PollingKind.OFFSET)] = PollingKind.OFFSET
    value: Annotated[U64, Default(0)] = 0
    count: Annotated[U32, Default(10)] = 10
    size_bytes: Annotated[U32, Default(0)] = 0
    states: States = ()
    on_filter_error: Annotated[FailurePolicy, TextCode(FailurePolicy, short=True), Default(FailurePolicy.SKIP)] = (
        FailurePolicy.SKIP
    )
    consumer: Annotated[ConsumerRef | None, OptionalShape(ANY_CONSUMER)] = None
    auto_commit: Annotated[Flag, Default(False)] = False
    until_offset: TrailingU64 = 0

    def validate(self) -> None:
        if not self.count:
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a filter must request at least 1 message")
        if self.consumer is None and (self.auto_commit or self.kind == PollingKind.NEXT):
            raise refusal(Status.INVALID_FORMAT, "next and auto_commit require a consumer")


@dataclass(frozen=True, slots=True)
class CountedSegments(Record):
    """Counts of a topic's segments that a filter reads and skips, with the members of model.polling.SegmentCounts."""

    segments_count: U64
    skipped_count: U64
    size_bytes: U64
    skipped_bytes: U64


@dataclass(frozen=True, slots=True)
class CountSegments(TopicCommand[CountedSegments]):
    """Return how much of a topic a filter reads, and how much it skips because of the segments' times and summaries."""

    code = Code.COUNT_SEGMENTS
    reply = one(CountedSegments)
    where: Text32
